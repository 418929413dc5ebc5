"""Extract the content of a drawn figure as plain data, which the page redraws as an interactive figure.

Points, lines, bands, ellipses and the ticks are read off the figure itself, so that both show the same. A figure
with anything else (a shaded plane, words) stays a picture.
"""

import re
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import to_hex
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Ellipse

from openended.harness.core import unescape_mathtext

_POWER = re.compile(r"^\$\\mathdefault\{(.*?)(?:\^\{(.*?)\})?\}\$$")
_RAISED = str.maketrans("0123456789-−", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁻")


def trace_figure(figure: Figure) -> dict[str, Any] | None:
    """Return the panels of a figure that was drawn; None if it contains more than points and lines."""
    panels = [_trace_panel(axes) for axes in figure.axes if axes.get_visible()]
    traced = [panel for panel in panels if panel is not None]
    return {"panels": traced} if traced and len(traced) == len(panels) else None


def _trace_panel(axes: Axes) -> dict[str, Any] | None:
    bars = [c for c in axes.containers if isinstance(c, ErrorbarContainer)]
    caps = {cap for bar in bars for cap in bar.lines[1]}
    errors = {bar.lines[0]: bar.lines[2] for bar in bars}
    bands: list[Any] = [c for c in axes.collections if isinstance(c, PolyCollection)]
    others = [c for c in axes.collections if c not in bands and type(c) is not LineCollection]
    if axes.images or others or any(not isinstance(p, Ellipse) for p in axes.patches):
        return None
    lines = [line for line in axes.lines if line not in caps]
    return {
        "series": [
            _trace_series(line) | _trace_error_bars(errors.get(line, ()))
            for line in lines if line.get_transform() == axes.transData
        ],
        # Lines across the whole panel.
        "rules": [_trace_rule(line) for line in lines if line.get_transform() != axes.transData],
        "bands": [
            {"points": _round(path.vertices), "color": to_hex(band.get_facecolor()[0])}
            for band in bands for path in band.get_paths()[:1]  # none if no point has both ends
        ],
        "ellipses": [
            {"x": e.center[0], "y": e.center[1], "width": e.width, "height": e.height, "angle": e.angle,
             "color": to_hex(e.get_edgecolor())}
            for e in axes.patches if isinstance(e, Ellipse)
        ],
        "title": axes.get_title(),
        "x": _trace_axis(axes.xaxis, axes.get_xlim(), axes.get_xscale(), axes.get_xlabel()),
        "y": _trace_axis(axes.yaxis, axes.get_ylim(), axes.get_yscale(), axes.get_ylabel()),
    }  # fmt: skip


def _trace_series(line: Line2D) -> dict[str, Any]:
    label, points = str(line.get_label()), np.asarray(line.get_xydata(), dtype=np.float64)
    every = line.get_markevery()
    series = {
        "points": _round(points[np.isfinite(points).all(axis=1)]), "color": to_hex(line.get_color()),
        "marker": str(line.get_marker()).replace("None", "").strip(),
        "every": list(every) if isinstance(every, tuple) and every[1] > 1 else "",
        "hollow": str(line.get_markerfacecolor()) == "none",
        "line": str(line.get_linestyle()).replace("None", "").strip(), "width": float(line.get_linewidth()),
    }  # fmt: skip
    present = {name: value for name, value in series.items() if value not in ("", False)}
    return {"label": "" if label.startswith("_") else unescape_mathtext(label), **present}


def _trace_error_bars(collections: Any) -> dict[str, Any]:  # noqa: ANN401 - matplotlib's tuple of collections
    """Return the ends of each point's bar, across or up."""
    bars: dict[str, Any] = {}
    for collection in collections:
        ends = [np.asarray(segment) for segment in collection.get_segments()]
        across = all(len(e) == 2 and e[0, 1] == e[1, 1] for e in ends)
        bars["across" if across else "up"] = [_round(e[:, 0 if across else 1]) for e in ends]
    return bars


def _trace_rule(line: Line2D) -> dict[str, Any]:
    (x, y), end = np.asarray(line.get_xydata(), dtype=np.float64)
    position = {"x": _round(x)} if x == end[0] else {"y": _round(y)}
    return position | {"color": to_hex(line.get_color()), "line": str(line.get_linestyle())}


def _trace_axis(axis: Axis, limits: tuple[float, float], kind: str, label: str) -> dict[str, Any]:
    low, high = sorted(limits)
    ticks = [
        [_round(position), _format_tick(tick.get_text())]
        for position, tick in zip(axis.get_majorticklocs(), axis.get_majorticklabels(), strict=False)
        if low <= position <= high
    ]
    return {"limits": _round(limits), "kind": kind, "label": unescape_mathtext(label), "ticks": ticks}


def _format_tick(text: str) -> str:
    """Write a tick's formula as plain text: 10⁻¹."""
    match = _POWER.match(text)
    if match is None:
        return unescape_mathtext(text)
    return (match[1] + (match[2] or "").translate(_RAISED)).replace(r"\times", "×")


def _round(values: Any) -> Any:  # noqa: ANN401 - a number, or an array of any shape
    """Return plain numbers of six digits."""
    return float(f"{values:.6g}") if np.ndim(values) == 0 else [_round(value) for value in values]
