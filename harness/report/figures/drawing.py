"""Shared by all figures: style, colors, sizes, legends, and reproducible files."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from openended.harness.core import open_for_replacement

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMN, PAGE = 3.4, 7.0  # inches: one column, both columns of a two-column paper
# Okabe and Ito's palette (safe for color-blind readers), black kept for the human side. Neighboring systems also differ
# in marker and dash, so that they can be told apart in grayscale and where their curves coincide.
COLORS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#8C6D00")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES = ("-", "--", "-.")
STYLES = len(COLORS) * len(DASHES)  # different styles; the two counts have no common divisor
HUMAN_COLOR = "#222222"
RESOLUTION = 200  # dots an inch of the PNG
LINE, LETTER, HANDLE = 0.14, 0.066, 0.42  # inches of a legend: a line, a letter, the mark with its spaces
CHARACTERS = 42  # of a label in a legend: what one column of a paper holds
MARKERS_PER_CURVE = 6
MOST = 20  # systems that one figure can show distinctly
STYLE: dict[str, Any] = {
    "font.family": "sans-serif", "font.sans-serif": ["DejaVu Sans"], "font.size": 7.5, "axes.titlesize": 8,
    "axes.labelsize": 7.5, "xtick.labelsize": 7, "ytick.labelsize": 7, "legend.fontsize": 6.5, "legend.frameon": False,
    "axes.spines.top": False, "axes.spines.right": False, "axes.linewidth": 0.6, "lines.linewidth": 1.2,
    "lines.markersize": 3.5, "grid.linewidth": 0.4, "grid.color": "#dddddd", "axes.grid": True, "axes.axisbelow": True,
    "xtick.major.width": 0.6, "ytick.major.width": 0.6, "xtick.major.size": 2.5, "ytick.major.size": 2.5,
    "pdf.fonttype": 42, "svg.hashsalt": "openended", "errorbar.capsize": 1.5,
    "axes.formatter.useoffset": False,
}  # fmt: skip


def create_figure(
    width: float, height: float, rows: int = 1, columns: int = 1, *, sharey: bool = False
) -> tuple[Figure, list[Axes]]:
    """Return a figure of a size in inches and its axes, row by row; no global state is touched."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, sharey=sharey)
    return figure, list(axes.flat)


@contextmanager
def apply_style() -> Iterator[None]:
    """Use the report's style independent of the user's matplotlib settings."""
    import matplotlib as mpl

    with mpl.rc_context():
        mpl.rcdefaults()
        cast("Any", mpl.rcParams).update(STYLE)
        yield


def space_markers(points: int, index: int, count: int) -> tuple[int, int]:
    """Return `markevery` of the n-th of several curves: few markers, staggered so that coinciding curves show."""
    step = max(1, points // MARKERS_PER_CURVE)
    return min(points - 1, step * index // max(count, 1)), step


def choose_style(index: int) -> dict[str, Any]:
    """Return color, marker and dash of the n-th system."""
    return {
        "color": COLORS[index % len(COLORS)],
        "marker": MARKERS[index % len(MARKERS)],
        "linestyle": DASHES[index % len(DASHES)],
    }


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


def count_legend_columns(labels: Sequence[str], width: float, most: int) -> int:
    """Return how many columns of a legend fit a width in inches."""
    longest = max((min(len(label), CHARACTERS) for label in labels), default=1)
    return max(1, min(most, len(labels), int(width / (HANDLE + LETTER * longest))))


def compute_legend_height(labels: Sequence[str], width: float, most: int) -> float:
    """Return the inches that `draw_legend_below` takes."""
    return LINE * math.ceil(len(labels) / count_legend_columns(labels, width, most)) if labels else 0.0


def shorten_labels(labels: Sequence[str], most: int) -> list[str]:
    """Shorten labels to a maximum number of characters."""
    return [label if len(label) <= most else f"{label[: most - 1]}…" for label in labels]


def draw_legend_below(figure: Figure, axes: Axes, columns: int = 3) -> None:
    """Put one legend under the whole figure, in as many columns as fit."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        fitting = count_legend_columns(labels, figure.get_figwidth(), columns)
        figure.legend(handles, shorten_labels(labels, CHARACTERS), loc="outside lower center", ncols=fitting)


def hide_unused_axes(axes: Sequence[Axes], used: int) -> None:
    """Hide the axes without a panel."""
    for empty in axes[used:]:
        empty.set_visible(False)
