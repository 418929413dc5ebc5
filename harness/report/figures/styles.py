"""Give a system the same color, marker and dash in every figure and on the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from openended.harness.report.figures.drawing import STYLES, choose_style
from openended.harness.report.tables.selection import DATA_AXES
from openended.harness.results import Results, SystemValue, get_parent_axis, group_systems

SystemKey = tuple[tuple[str, str], ...]


class SystemStyles:
    """The styles of all systems of a report."""

    def __init__(self, items: Sequence[SystemValue]) -> None:
        self._numbers: dict[SystemKey, int] = {}
        for system in group_systems(items):
            self._numbers.setdefault(_make_key(system.items[0].axes), len(self._numbers))

    def choose(self, items: Sequence[SystemValue]) -> list[dict[str, Any]]:
        """Return the styles of the systems of one figure, all different as far as there are enough."""
        numbers = [self._numbers.get(_make_key(item.axes), 0) % STYLES for item in items]
        free = [number for number in range(STYLES) if number not in numbers]
        used: set[int] = set()
        for at, number in enumerate(numbers):
            if number in used and free:
                numbers[at] = free.pop(0)
            used.add(numbers[at])
        return [choose_style(number) for number in numbers]


def read_styles(results: Results) -> SystemStyles:
    """Return the styles of the systems of a report."""
    return SystemStyles(results.values)


def _make_key(axes: Mapping[str, str]) -> SystemKey:
    """Return what identifies a system on all tasks, text lengths and scoring models."""
    return tuple((name, value) for name, value in axes.items() if (get_parent_axis(name) or name) not in DATA_AXES)
