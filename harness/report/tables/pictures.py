"""What tables, page and figures share: the colors of systems, and the drawn figures with their titles."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from openended.harness import results as measured
from openended.harness.results import SystemValue, get_parent_axis

COLUMN, PAGE = 3.4, 7.0  # inches: one column, both columns of a two-column paper
RESOLUTION = 200  # dots per inch of the PNG
# Okabe and Ito's palette (safe for color-blind readers), black kept for the human side. Neighboring systems also differ
# in marker and dash, so that they can be told apart in grayscale and where their curves coincide. A color that comes
# again has another marker.
COLORS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#8C6D00")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES = ("-", "--", "-.")
STYLES = len(COLORS) * len(MARKERS)
SHARED = ("task", "num_examples", "scorer", "embedder")  # axes that a system's looks do not depend on
HUMAN_COLOR = "#222222"
HUMAN_STAR: dict[str, Any] = {"color": HUMAN_COLOR, "marker": "*", "markersize": 9, "linestyle": ""}

SystemKey = tuple[tuple[str, str], ...]


class Picture(NamedTuple):
    """A drawn figure of a report; next to its PNG is a PDF of the same name."""

    png: Path
    title: str
    caption: str
    content: Any = None  # as plain data, which the page makes interactive; None for a figure of other things


def choose_style(index: int) -> dict[str, Any]:
    """Return color, marker and dash of the n-th system."""
    again, at = divmod(index, len(COLORS))
    marker, dash = MARKERS[(at + again) % len(MARKERS)], DASHES[index % len(DASHES)]
    return {"color": COLORS[at], "marker": marker, "linestyle": dash}


class SystemStyles:
    """Color, marker and dash of every system of a report: the same in all figures and on the page."""

    def __init__(self, items: Sequence[SystemValue]) -> None:
        self._numbers: dict[SystemKey, int] = {}
        for system in measured.group_systems(items):
            self._numbers.setdefault(_identify_system(system.items[0]), len(self._numbers))

    def choose(self, items: Sequence[SystemValue]) -> list[dict[str, Any]]:
        """Return the styles of the systems of one figure, all different as far as there are enough."""
        numbers = [self._numbers.get(_identify_system(item), 0) % STYLES for item in items]
        free = [number for number in range(STYLES) if number not in numbers]
        used: set[int] = set()
        for at, number in enumerate(numbers):
            if number in used and free:
                numbers[at] = free.pop(0)
            used.add(numbers[at])
        return [choose_style(number) for number in numbers]


def _identify_system(item: SystemValue) -> SystemKey:
    """Return what identifies a system on all tasks, numbers of examples and scoring models.

    Axes without a value are those of other runs in the same results.
    """
    axes = ((name, value) for name, value in item.axes.items() if value)
    return tuple((name, value) for name, value in axes if (get_parent_axis(name) or name) not in SHARED)
