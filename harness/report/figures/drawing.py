"""Shared by all figures: sizes, styles of systems, panels, legends, file names, and reproducible files."""

from __future__ import annotations

import logging
import math
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from openended.harness import results as measured
from openended.harness.core import F64, open_for_replacement
from openended.harness.report.tables.selection import DATA_AXES, name_files
from openended.harness.results import Layout, Results, System, SystemValue, get_parent_axis, group_by_data

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    Draw = Callable[..., Mapping[str, Figure]]
    DrawPart = Callable[[Results, "SystemStyles", Sequence[SystemValue]], Figure | None]

log = logging.getLogger(__name__)
COLUMN, PAGE = 3.4, 7.0  # inches: one column, both columns of a two-column paper
# Okabe and Ito's palette (safe for color-blind readers), black kept for the human side. Neighboring systems also differ
# in marker and dash, so that they can be told apart in grayscale and where their curves coincide.
COLORS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#8C6D00")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES = ("-", "--", "-.")
STYLES = len(COLORS) * len(DASHES)  # different styles; the two counts have no common divisor
HUMAN_COLOR = "#222222"
RESOLUTION = 200  # dots per inch of the PNG
LINE, LETTER, HANDLE = 0.14, 0.066, 0.42  # inches of a legend: a line, a letter, the mark with its spaces
CHARACTERS = 42  # of a label in a legend: what one column of a paper holds
MARKERS_PER_CURVE = 6
MOST = 20  # systems that one figure can show distinctly
DEFAULT = Layout()
HUMAN_STAR: dict[str, Any] = {"color": HUMAN_COLOR, "marker": "*", "markersize": 9, "linestyle": "", "label": "human"}
STYLE: dict[str, Any] = {
    "font.family": "sans-serif", "font.sans-serif": ["DejaVu Sans"], "font.size": 7.5, "axes.titlesize": 8,
    "axes.labelsize": 7.5, "xtick.labelsize": 7, "ytick.labelsize": 7, "legend.fontsize": 6.5, "legend.frameon": False,
    "axes.spines.top": False, "axes.spines.right": False, "axes.linewidth": 0.6, "lines.linewidth": 1.2,
    "lines.markersize": 3.5, "grid.linewidth": 0.4, "grid.color": "#dddddd", "axes.grid": True, "axes.axisbelow": True,
    "xtick.major.width": 0.6, "ytick.major.width": 0.6, "xtick.major.size": 2.5, "ytick.major.size": 2.5,
    "pdf.fonttype": 42, "svg.hashsalt": "openended", "errorbar.capsize": 1.5,
    "axes.formatter.useoffset": False,
}  # fmt: skip

# Fonts of other scripts, used where they are installed.
FALLBACK_FONTS = (
    "Noto Sans CJK SC", "Noto Sans SC", "WenQuanYi Zen Hei", "PingFang SC", "Microsoft YaHei", "Noto Emoji",
)  # fmt: skip

FigureKey = tuple[str, ...]
SystemKey = tuple[tuple[str, str], ...]


@contextmanager
def apply_style() -> Iterator[None]:
    """Use the report's style independent of the user's matplotlib settings."""
    import matplotlib as mpl
    from matplotlib.font_manager import get_font_names

    installed = set(get_font_names())
    fallbacks = [name for name in FALLBACK_FONTS if name in installed]
    with mpl.rc_context(), warnings.catch_warnings(record=True) as caught:
        warnings.filterwarnings("always", "Glyph .* missing from")
        mpl.rcdefaults()
        cast("Any", mpl.rcParams).update(STYLE | {"font.family": ["sans-serif", *fallbacks]})
        yield
    missing: set[str] = set()
    for warning in caught:
        if glyph := re.match(r"Glyph (\d+) ", str(warning.message)):
            missing.add(chr(int(glyph[1])))
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    if missing:
        _warn_of_missing_letters("".join(sorted(missing)))


@cache
def _warn_of_missing_letters(letters: str) -> None:
    log.warning("figures: no installed font has %s; install Noto Sans CJK or Noto Emoji, and report again", letters)


def choose_style(index: int) -> dict[str, Any]:
    """Return color, marker and dash of the n-th system."""
    color, marker, dash = (styles[index % len(styles)] for styles in (COLORS, MARKERS, DASHES))
    return {"color": color, "marker": marker, "linestyle": dash}


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


def read_mean(system: System, metric: str, key: str) -> float:
    """Return the mean of a value of a system, NaN if it has none."""
    value = system.value(metric, key)
    return math.nan if value is None else value.mean


def _identify_system(item: SystemValue) -> SystemKey:
    """Return what identifies a system on all tasks, text lengths and scoring models."""
    return tuple((name, value) for name, value in item.axes.items() if (get_parent_axis(name) or name) not in DATA_AXES)


def draw_each_part(name: str, metric: str = "") -> Callable[[DrawPart], Draw]:
    """Let a function draw one figure per task, and per options of `metric`: (results, styles, values) → figure."""

    def decorate(draw: DrawPart) -> Draw:
        @wraps(draw)
        def draw_parts(results: Results, styles: SystemStyles, _: Layout = DEFAULT) -> Mapping[str, Figure]:
            parts: Mapping[Any, Sequence[SystemValue]] = (
                measured.group_by_task_and_options(results.values, metric) if metric else group_by_data(results.values)
            )
            return facet(name, parts, partial(draw, results, styles))

        return draw_parts

    return decorate


def facet(
    name: str, parts: Mapping[Any, Sequence[SystemValue]], draw: Callable[[Sequence[SystemValue]], Figure | None]
) -> dict[str, Figure]:
    """Draw one figure for each part of the values, and name the figures by what distinguishes the parts."""
    return name_figures(name, {(key,) if isinstance(key, str) else key: draw(part) for key, part in parts.items()})


def name_figures(name: str, figures: Mapping[FigureKey, Figure | None], *, always: bool = False) -> dict[str, Figure]:
    """Name the present figures by their subject and, if there are several, by what distinguishes them."""
    present = {key: figure for key, figure in figures.items() if figure is not None}
    differ = [at for at, words in enumerate(zip(*present, strict=True)) if len(set(words)) > 1]
    differ += [len(key) - 1 for key in list(present)[:1] if always and len(key) - 1 not in differ]
    names = name_files(name, [[key[at] for at in differ] for key in present])
    return dict(zip(names, present.values(), strict=True))


def create_figure(
    width: float, height: float, rows: int = 1, columns: int = 1, *, sharey: bool = False, legend: Sequence[str] = (),
    most: int = 3,
) -> tuple[Figure, list[Axes]]:  # fmt: skip
    """Return a figure of a size in inches and its axes, row by row; no global state is touched.

    The figure is higher by what `draw_legend_below` needs for the labels `legend` in at most `most` columns.
    """
    from matplotlib.figure import Figure

    height += LINE * math.ceil(len(legend) / count_legend_columns(legend, width, most))
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, sharey=sharey)
    return figure, list(axes.flat)


def create_panels(
    count: int, height: float, *, per_row: int = 3, sharey: bool = False, legend: Sequence[str] = (), most: int = 3
) -> tuple[Figure, list[Axes]]:
    """Return a figure with a grid of panels of a height in inches; a single panel has the width of a column."""
    columns = min(per_row, count)
    rows = math.ceil(count / columns)
    width = COLUMN if columns == 1 else PAGE
    figure, axes = create_figure(width, rows * height + 0.1, rows, columns, sharey=sharey, legend=legend, most=most)
    for unused in axes[count:]:
        unused.set_visible(False)
    return figure, axes[:count]


def count_legend_columns(labels: Sequence[str], width: float, most: int) -> int:
    """Return how many columns of a legend fit a width in inches."""
    longest = max((min(len(label), CHARACTERS) for label in labels), default=1)
    return max(1, min(most, len(labels), int(width / (HANDLE + LETTER * longest))))


def draw_legend_below(figure: Figure, axes: Axes, most: int = 3) -> None:
    """Put one legend under the whole figure, in as many columns as fit."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        columns = count_legend_columns(labels, figure.get_figwidth(), most)
        figure.legend(handles, shorten_labels(labels, CHARACTERS), loc="outside lower center", ncols=columns)


def shorten_labels(labels: Sequence[str], most: int) -> list[str]:
    """Shorten labels to a maximum number of characters."""
    return [label if len(label) <= most else f"{label[: most - 1]}…" for label in labels]


def space_markers(points: int, index: int, count: int) -> tuple[int, int]:
    """Return `markevery` of the n-th of several curves: few markers, staggered so that coinciding curves show."""
    step = max(1, points // MARKERS_PER_CURVE)
    return min(points - 1, step * index // max(count, 1)), step


def format_numbers_plainly(axis: Any) -> None:  # noqa: ANN401 - an axis of matplotlib
    """Label a logarithmic axis with plain numbers instead of powers."""
    from matplotlib.ticker import NullFormatter, StrMethodFormatter

    axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.set_minor_formatter(NullFormatter())


def draw_matrix(
    figure: Figure, panel: Axes, matrix: F64, texts: Sequence[Sequence[str]], is_dark: Any,  # noqa: ANN401 - an array
    *, fontsize: float = 5.5, bar: Mapping[str, Any], **colors: Any,  # noqa: ANN401 - options of `imshow`
) -> Any:  # fmt: skip # noqa: ANN401 - the color bar
    """Draw a heat map with a text in each cell, white on dark cells, and a color bar; NaN cells have no color."""
    image = panel.imshow(np.ma.masked_invalid(matrix), **colors)
    panel.grid(visible=False)
    for (row, column), dark in np.ndenumerate(is_dark):
        if text := texts[row][column]:
            color = "white" if dark else "black"
            panel.text(column, row, text, ha="center", va="center", fontsize=fontsize, color=color)
    return figure.colorbar(image, ax=panel, **bar)


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write a figure as PNG and PDF, without dates or program versions.

    The canvases are called directly: `savefig` would draw everything once more for each format, and drawing is what a
    report spends its time on. The layout of the first drawing is kept for the second.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_pdf import FigureCanvasPdf

    png, pdf = folder / f"{name}.png", folder / f"{name}.pdf"
    figure.set_dpi(RESOLUTION)
    with open_for_replacement(png, "wb") as handle:
        cast("Any", FigureCanvasAgg(figure)).print_png(handle, metadata={"Software": None})
    figure.set_layout_engine("none")
    with open_for_replacement(pdf, "wb") as handle:
        quiet = {"CreationDate": None, "Producer": None, "Creator": None}
        cast("Any", FigureCanvasPdf(figure)).print_pdf(handle, metadata=quiet)
    return [png, pdf]
