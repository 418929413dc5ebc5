"""Shared by all figures: sizes, styles of systems, panels, legends, file names, and reproducible files."""

from __future__ import annotations

import logging
import math
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from openended.harness import results as measured
from openended.harness.core import F64, escape_mathtext, open_for_replacement
from openended.harness.report.tables.selection import DATA_AXES, name_files
from openended.harness.results import Layout, Results, SystemValue, get_parent_axis, group_by_data

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    Draw = Callable[..., Mapping[str, Figure]]
    DrawPart = Callable[["Part"], Figure | None]

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


def _identify_system(item: SystemValue) -> SystemKey:
    """Return what identifies a system on all tasks, text lengths and scoring models."""
    return tuple((name, value) for name, value in item.axes.items() if (get_parent_axis(name) or name) not in DATA_AXES)


class Part(NamedTuple):
    """What one figure is drawn from: values that it may show together, and what all figures of a report share."""

    results: Results
    styles: SystemStyles
    layout: Layout
    values: Sequence[SystemValue]


def draw_each_part(name: str, metric: str = "", *, legend: int = 3) -> Callable[[DrawPart], Draw]:
    """Let a function draw one figure per task, and per options of `metric`; `legend` as in `facet`."""

    def decorate(draw: DrawPart) -> Draw:
        @wraps(draw)
        def draw_parts(results: Results, styles: SystemStyles, layout: Layout = DEFAULT) -> Mapping[str, Figure]:
            parts: Mapping[Any, Sequence[SystemValue]] = (
                measured.group_by_task_and_options(results.values, metric) if metric else group_by_data(results.values)
            )
            figures = {key: draw(Part(results, styles, layout, values)) for key, values in parts.items()}
            return facet(name, figures, legend=legend)

        return draw_parts

    return decorate


def facet(
    name: str, figures: Mapping[Any, Figure | None], *, legend: int = 3, always: bool = False
) -> dict[str, Figure]:
    """Name the present figures by their subject and, if there are several, by what distinguishes them.

    The key of a figure is what it shows, as a word or a tuple of words; the last word is `always` part of its name.
    `legend` is the number of columns of each figure's legend; 0 for none.
    """
    present = {(key,) if isinstance(key, str) else key: figure for key, figure in figures.items() if figure is not None}
    differ = [at for at, words in enumerate(zip(*present, strict=True)) if len(set(words)) > 1]
    differ += [len(key) - 1 for key in list(present)[:1] if always and len(key) - 1 not in differ]
    for figure in present.values() if legend else ():
        add_legend(figure, legend)
    names = name_files(name, [[key[at] for at in differ] for key in present])
    return dict(zip(names, present.values(), strict=True))


def create_panels(
    count: int, height: float, *, per_row: int = 3, width: float | None = None, sharey: bool = False
) -> tuple[Figure, list[Axes]]:
    """Return a figure with a grid of panels, of a height in inches per row; no global state is touched.

    Panels in a single column have the width of a paper's column, others that of a page.
    """
    from matplotlib.figure import Figure

    columns = min(per_row, count)
    rows = math.ceil(count / columns)
    width = width or (COLUMN if columns == 1 else PAGE)
    figure = Figure(figsize=(width, rows * height + 0.1), layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False, sharey=sharey).flat)
    for unused in axes[count:]:
        unused.set_visible(False)
    return figure, axes[:count]


def add_legend(figure: Figure, most: int = 3) -> None:
    """Put the legend of the panel with most labels under the figure, in at most `most` columns; make room for it."""
    legends = [panel.get_legend_handles_labels() for panel in figure.axes]
    handles, labels = max(legends, key=lambda legend: len(legend[1]))
    if handles:
        labels = shorten_labels(labels, CHARACTERS)
        fitting = int(figure.get_figwidth() / (HANDLE + LETTER * max(map(len, labels))))
        columns = max(1, min(most, len(labels), fitting))
        figure.set_figheight(figure.get_figheight() + LINE * math.ceil(len(labels) / columns))
        figure.legend(handles, labels, loc="outside lower center", ncols=columns)


def draw_curves(
    panel: Axes, curves: Sequence[tuple[str, F64 | tuple[F64, F64] | None]], styles: Sequence[Mapping[str, Any]]
) -> None:
    """Draw labeled curves (x, y) with few markers each, staggered so that coinciding curves show."""
    for index, ((label, points), style) in enumerate(zip(curves, styles, strict=True)):
        if points is not None:
            count = len(points[0])
            step = max(1, count // MARKERS_PER_CURVE)
            start = min(count - 1, step * index // len(curves))
            panel.plot(*points, label=escape_mathtext(label), markevery=(start, step), **style)


def shorten_labels(labels: Sequence[str], most: int) -> list[str]:
    """Shorten labels to a maximum number of characters."""
    return [label if len(label) <= most else f"{label[: most - 1]}…" for label in labels]


def format_numbers_plainly(axis: Any) -> None:  # noqa: ANN401 - an axis of matplotlib
    """Label a logarithmic axis with plain numbers instead of powers."""
    from matplotlib.ticker import NullFormatter, StrMethodFormatter

    axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.set_minor_formatter(NullFormatter())


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
