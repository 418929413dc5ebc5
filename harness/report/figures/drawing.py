"""Draw plots with Matplotlib: panels, series, labels, legends, and reproducible files."""

import logging
import math
import re
import textwrap
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, cast

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.figure import Figure
from matplotlib.font_manager import get_font_names
from matplotlib.patches import Ellipse
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter
from matplotlib.transforms import Bbox

from openended.harness.core import F64, escape_mathtext, open_for_replacement
from openended.harness.report.figures.plot import Declaration, Plot, Series, style_panels
from openended.harness.report.tables.pictures import COLUMN, PAGE, RESOLUTION, SystemStyles

log = logging.getLogger(__name__)
LINE, LETTER, HANDLE = 0.14, 0.066, 0.42  # inches of a legend: a line, a letter, the mark with its spaces
CHARACTERS = 42  # of a label in a legend: what one column of a paper holds
DIGIT, GAP = 4.5, 4.0  # points of a digit of a tick's label, and between two labels
MOST_TICKS = 9
FEW_DECADES = 300  # times the smallest value: from there on a logarithmic axis has ticks at powers of 10 alone
SMALL = 6.5  # size of a title that would touch the next one
PANEL_OPTIONS = ("grid", "margins", "ticks", "integers", "plain", "turn", "most", "wide", "outer", "tick_params")
"""Options of a panel that `Axes.set` lacks: see `_set_options`."""
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
FALLBACKS = ("Noto Sans CJK SC", "Noto Sans SC", "WenQuanYi Zen Hei", "PingFang SC", "Microsoft YaHei", "Noto Emoji")

STEPS = 40  # sample points per line segment
PAD = 2.5  # points of free room around a label: a marker reaches as far
ALIGN = {-1: ("right", "top"), 0: ("center", "center"), 1: ("left", "bottom")}
DIRECTIONS = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1))
# Candidate positions, nearest first: points between the data point and the edge or middle of the label, direction.
OFFSETS = [(far, dx, dy) for far in (5, 9, 14, 20, 28, 38, 50) for dx, dy in DIRECTIONS]
LEADER = 9  # points from which a thin line leads from the data point to its label


@contextmanager
def apply_style() -> Iterator[None]:
    """Use the report's style independent of the user's matplotlib settings."""
    installed = set(get_font_names())
    fallbacks = [name for name in FALLBACKS if name in installed]
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


def draw_plot(plot: Plot, declaration: Declaration, styles: SystemStyles) -> Figure | None:
    """Draw the panels that a declaration chooses of a plot; None if nothing is left."""
    declaration = declaration.change(plot.changes)
    panels = style_panels(plot, declaration, styles)
    if not panels:
        return None
    figure, axes = create_panels(
        len(panels), declaration.height, declaration.per_row, declaration.width, sharey=declaration.sharey
    )
    for panel, where in zip(panels, axes, strict=True):
        for series in panel.series:
            look = dict(series.look)
            if end := look.pop("end", ""):  # the name of a line, outside the axes
                shift: dict[str, Any] = {"xytext": (3, 0), "textcoords": "offset points", "va": "center"}
                font: dict[str, Any] = {"annotation_clip": False, "fontsize": 5.5, "color": "#777777"}
                where.annotate(end, (series.x[-1], series.y[-1]), **shift, **font)
            if series.label:
                look["label"] = escape_mathtext(series.label)
            _draw_series(where, series, look)
        _set_options(where, panel.options)
    has_legend = declaration.legend > 0 and add_legend(figure, declaration.legend, plot.note)
    if plot.note and not has_legend:
        figure.supxlabel(plot.note, fontsize=7 if len(plot.note) < 200 else 5.5)
    for panel, where in zip(panels, axes, strict=True):
        named = ((s, at, text) for s in panel.series for at, text in s.texts)
        labels = [(text, float(s.x[at]), float(s.y[at]), str(s.look["color"])) for s, at, text in named]
        if labels:
            draw_labels(figure, where, labels)
    return figure


def _draw_series(panel: Axes, series: Series, look: dict[str, Any]) -> None:
    x, y, color = series.x, series.y, look.get("color")
    line = {name: value for name, value in look.items() if name != "alpha"}
    match series.mark:
        case "line" | "curve":
            if series.below is not None and (np.any(series.below) or np.any(series.above)):
                band = np.asarray(y) - series.below, np.asarray(y) + series.above
                panel.fill_between(x, *band, color=color, alpha=look.get("alpha", 0.18), linewidth=0)
            panel.plot(x, y, **line)
        case "path" | "dots":
            line |= {"linestyle": ""} if series.mark == "dots" else {}
            errors = [
                None if a is None or not np.any((a, b)) else np.array([a, b])
                for a, b in ((series.left, series.right), (series.below, series.above))
            ]
            if all(lengths is None for lengths in errors):
                panel.plot(x, y, **line)
            else:
                panel.errorbar(x, y, xerr=errors[0], yerr=errors[1], **line)
        case "step":
            panel.step(x, y, where="post", **line)
        case "bars":
            panel.barh(x, y, color=color, **{name: look[name] for name in ("label", "height") if name in look})
        case "columns":
            panel.bar(x, y, color=color, **{name: look[name] for name in ("label", "width") if name in look})
            if series.below is not None:
                panel.errorbar(x, y, yerr=np.array([series.below, series.above]), fmt="none", ecolor="#333333")
        case "cross":
            for draw, values in ((panel.axvline, x), (panel.axhline, y)):
                for index, value in enumerate(values):
                    draw(value, **{k: v for k, v in line.items() if k != "marker" and not (k == "label" and index)})
        case "span":
            panel.axhspan(y[0] - series.below[0], y[0] + series.above[0], color=color, alpha=0.15, linewidth=0)
            panel.axhline(y[0], **{key: value for key, value in line.items() if key != "marker"})
        case "ellipse":
            center, width, height, angle = fit_ellipse(np.column_stack([x, y]))
            edge: dict[str, Any] = {"facecolor": color, "alpha": 0.2, "edgecolor": color, "linewidth": 0.8}
            panel.add_patch(Ellipse(center, width, height, angle=angle, **edge))
        case "region":
            panel.fill(x, y, color=color, alpha=look.get("alpha", 0.15), linewidth=0)
        case "cells":
            _draw_cells(panel, series)
        case "plane":
            extent, z = (x[0], x[-1], y[0], y[-1]), series.z
            panel.imshow(z, extent=extent, origin="lower", aspect="auto", cmap="RdBu", vmin=-1, vmax=1, alpha=0.45)
            panel.contour(x, y, z, levels=[0.0], colors="#777777", linewidths=0.6)


def fit_ellipse(points: F64) -> tuple[tuple[float, float], float, float, float]:
    """Return center, width, height and angle of two standard deviations to both sides of the mean of points."""
    variances, directions = np.linalg.eigh(np.cov(points.T))
    width, height = map(float, 2 * 2 * np.sqrt(np.clip(variances[::-1], 0, None)))
    angle = math.degrees(math.atan2(directions[1, 1], directions[0, 1]))
    return (float(points[:, 0].mean()), float(points[:, 1].mean())), width, height, angle


def _draw_cells(panel: Axes, series: Series) -> None:
    """Draw a matrix with a text in each cell, white on dark cells; NaN cells have no color."""
    look = dict(series.look)
    size, bar = look.pop("fontsize", 5.5), dict(look.pop("bar"))
    image = panel.imshow(np.ma.masked_invalid(series.z), **look)
    texts, is_dark = series.cells
    for (row, column), dark in np.ndenumerate(is_dark):
        if text := texts[row][column]:
            color = "white" if dark else "black"
            panel.text(column, row, text, ha="center", va="center", fontsize=size, color=color)
    ticks = {name: bar.pop(name) for name in ("ticks", "ticklabels") if name in bar}
    figure = cast("Any", panel.figure)
    # A label longer than the matrix is high would be cut.
    label = textwrap.fill(bar.pop("label", ""), max(12, round(10 * float(figure.get_size_inches()[1]))))
    color_bar = figure.colorbar(image, ax=panel, label=label, **bar)
    if ticks:
        color_bar.set_ticks(ticks["ticks"], labels=ticks["ticklabels"])


def _set_options(panel: Axes, options: Mapping[str, Any]) -> None:
    """Set the options of a panel: those of `Axes.set`, and our own.

    `grid`: whether or along which axis; `margins`; `ticks`: an axis → its most ticks; `integers`: axes of whole
    numbers; `plain`: logarithmic axes with plain numbers; `turn`: degrees of the names along x; `most`: an axis → its
    largest limit; `wide`: letters beyond which a title is small; `outer`: the label of y, left
    of a row; `tick_params`.
    """

    class TickLocator(MaxNLocator):
        """As many ticks along x as there is room for their labels."""

        def tick_values(self, vmin: float, vmax: float) -> Any:  # noqa: ANN401 - an array
            room = panel.get_window_extent().width / panel.figure.dpi * 72
            ticks: Sequence[float] = ()
            for most in range(extra.get("ticks", {}).get("x", MOST_TICKS), 0, -1):
                self.set_params(nbins=most)
                ticks = super().tick_values(vmin, vmax)
                longest = max(len(f"{tick:.6g}") for tick in ticks)
                if (ticks[1] - ticks[0]) / (vmax - vmin) * room > GAP + DIGIT * longest:
                    break
            return ticks

    extra = {name: value for name, value in options.items() if name in PANEL_OPTIONS}
    panel.margins(**extra.get("margins", {}))
    axes = {"x": panel.xaxis, "y": panel.yaxis}
    names = {f"{a}ticklabels": [escape_mathtext(t) for t in options.get(f"{a}ticklabels", ())] for a in axes}
    texts = {n: escape_mathtext(options[n]) for n in ("title", "xlabel", "ylabel") if n in options}
    rest = {n: v for n, v in options.items() if n not in extra and n not in names}
    ticks = {f"{a}ticks": range(len(labels)) for a in axes if (labels := names[f"{a}ticklabels"])}  # names at 0, 1, …
    for axis in "xy":  # a scale resets the ticks
        if scale := rest.pop(f"{axis}scale", ""):
            base = {"base": 2} if scale == "log2" else {}
            getattr(panel, f"set_{axis}scale")(scale.removesuffix("2"), **base)
    panel.set(**ticks | rest | texts | {n: labels for n, labels in names.items() if labels})
    if len(max(str(texts.get("title", "")).split("\n"), key=len)) > extra.get("wide", math.inf):
        panel.title.set_fontsize(SMALL)
    if not options.keys() & {"xticks", "xticklabels", "xscale"}:
        panel.xaxis.set_major_locator(TickLocator(steps=[1, 2, 2.5, 5, 10]))
    for name in extra.get("integers", ()):
        axes[name].set_major_locator(MaxNLocator(integer=True))
    for name in extra.get("plain", ()):
        if options.get(f"{name}scale") == "log":
            low, high = axes[name].get_view_interval()
            axes[name].set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < FEW_DECADES * low else (1.0,)))
        axes[name].set_major_formatter(StrMethodFormatter("{x:g}"))
        axes[name].set_minor_formatter(NullFormatter())
    panel.tick_params(**extra.get("tick_params", {}))
    if turn := extra.get("turn"):
        aligned = {"ha": "right", "rotation_mode": "anchor"} if turn < 90 else {}
        for tick in panel.get_xticklabels():
            tick.set(rotation=turn, **aligned)
    if "grid" in extra:
        panel.grid(visible=False)
        panel.grid(visible=bool(extra["grid"]), axis=extra["grid"] or "both")
    for name in axes:
        _widen_constant_axis(panel, name)
    for name, value in extra.get("most", {}).items():
        low, high = getattr(panel, f"get_{name}lim")()
        getattr(panel, f"set_{name}lim")(low, min(high, value))


def _widen_constant_axis(panel: Axes, name: str) -> None:
    """Show equal values, or values that differ in their last bits alone, in the middle of a range that has a scale."""
    low, high = getattr(panel.dataLim, f"interval{name}")
    size = max(abs(low), abs(high))
    if getattr(panel, f"get_{name}scale")() == "linear" and 0 <= high - low <= 1e-9 * size + 1e-12:
        half = 0.1 * size if size > 1e-9 else 0.5
        getattr(panel, f"set_{name}lim")((low + high) / 2 - half, (low + high) / 2 + half)


def create_panels(
    count: int, height: float, per_row: int = 3, width: float | None = None, *, sharey: bool = False
) -> tuple[Figure, list[Axes]]:
    """Return a figure with a grid of panels, of a height in inches per row; no global state is touched.

    Panels in a single column have the width of a paper's column, others that of a page.
    """
    columns = min(per_row, count)
    rows = math.ceil(count / columns)
    width = width or (COLUMN if columns == 1 else PAGE)
    figure = Figure(figsize=(width, rows * height + 0.1), layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False, sharey=sharey).flat)
    for unused in axes[count:]:
        unused.set_visible(False)
    return figure, axes[:count]


def add_legend(figure: Figure, most: int = 3, note: str = "") -> bool:
    """Put the legend of all panels under the figure, in at most `most` columns; return whether there is one."""
    entries: dict[str, Any] = {}
    for panel in figure.axes:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    handles, labels = list(entries.values()), list(entries)
    if handles:
        wrapped = [textwrap.wrap(label, CHARACTERS) for label in labels]
        fitting = int(figure.get_figwidth() / (HANDLE + LETTER * max(len(line) for lines in wrapped for line in lines)))
        columns = max(1, min(most, len(labels), fitting))
        rows = math.ceil(len(labels) / columns)
        lines = max(sum(map(len, wrapped[start : start + rows])) for start in range(0, len(labels), rows))
        figure.set_figheight(figure.get_figheight() + LINE * (lines + bool(note)))
        labels = list(map("\n".join, wrapped))
        figure.legend(
            handles, labels, loc="outside lower center", ncols=columns, title=note or None, title_fontsize=6.5
        )
    return bool(handles)


def draw_labels(figure: Figure, panel: Axes, labels: Sequence[tuple[str, float, float, str]]) -> None:
    """Draw labels (text, x, y, color), each at the first free position, or else at the one that covers least.

    To be called last: the axes, their limits and all that is drawn in them are known by then.
    """
    figure.draw_without_rendering()
    paths = [line.get_transform().transform_path(line.get_path()).interpolated(STEPS) for line in panel.get_lines()]
    occupied = np.concatenate([path.vertices for path in paths])
    inside, points = panel.get_window_extent(), figure.dpi / 72
    boxes: list[Bbox] = []

    def weigh(candidate: tuple[tuple[int, int, int], Bbox, F64]) -> float:
        """Another label or the edge of the axes weighs more than a leader through a label, and that than a line."""
        _, box, leader = candidate
        crossed = sum(other.count_contains(leader) > 0 for other in boxes)
        is_outside = inside.count_contains(box.corners()) < 4
        return float(box.count_contains(occupied) + 1000 * crossed + 100_000 * (box.count_overlaps(boxes) + is_outside))

    for label, x, y, color in labels:
        text = panel.annotate(label, (x, y), xytext=(0, 0), textcoords="offset points", fontsize=6, color=color)
        text.set_in_layout(False)  # the layout must not move after the position was chosen
        at, size = panel.transData.transform((x, y)), text.get_window_extent().size
        candidates = []
        for far, dx, dy in OFFSETS:
            side = np.array([dx, dy])
            edge = at + points * far * side
            box = Bbox([edge + (side - 1) / 2 * size, edge + (side + 1) / 2 * size]).padded(PAD * points)
            candidates.append(((far, dx, dy), box, np.linspace(at, edge, STEPS)))
        (far, dx, dy), box, leader = min(candidates, key=weigh)
        boxes.append(box)
        position: dict[str, Any] = {"xytext": (dx * far, dy * far), "textcoords": "offset points"}
        text.set(position=position["xytext"], ha=ALIGN[dx][0], va=ALIGN[dy][1])
        if far >= LEADER:
            line = {"arrowstyle": "-", "linewidth": 0.4, "color": color, "shrinkA": 0, "shrinkB": 0}
            panel.annotate("", (x, y), **position, arrowprops=line).set_in_layout(False)
            occupied = np.concatenate([occupied, leader])


def save(figure: Figure, folder: Path, name: str) -> Path:
    """Write a figure as PNG and PDF, without dates or program versions; return the path of the PNG.

    The canvases are called directly: `savefig` would draw everything once more for each format, and drawing is what a
    report spends its time on. The layout of the first drawing is kept for the second.
    """
    png, pdf = folder / f"{name}.png", folder / f"{name}.pdf"
    figure.set_dpi(RESOLUTION)
    with open_for_replacement(png, "wb") as handle:
        cast("Any", FigureCanvasAgg(figure)).print_png(handle, metadata={"Software": None})
    figure.set_layout_engine("none")
    with open_for_replacement(pdf, "wb") as handle:
        quiet = {"CreationDate": None, "Producer": None, "Creator": None}
        cast("Any", FigureCanvasPdf(figure)).print_pdf(handle, metadata=quiet)
    return png
