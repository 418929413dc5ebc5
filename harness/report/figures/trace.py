"""Extract the content of a drawn figure as plain data, which the page redraws as an interactive figure.

Points, lines, bands, ellipses and the ticks are read off the figure itself, so that both show the same. A figure
with anything else (a shaded plane, words) stays a picture.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from openended.harness.core import unescape_mathtext

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

_POWER = re.compile(r"^\$\\mathdefault\{(.*?)(?:\^\{(.*?)\})?\}\$$")
_RAISED = str.maketrans("0123456789-−", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁻")


def trace_figure(figure: Figure) -> dict[str, Any] | None:
    """Return the panels of a figure that was drawn; None if it contains more than points and lines."""
    panels = [_trace_panel(axes) for axes in figure.axes if axes.get_visible()]
    traced = [panel for panel in panels if panel is not None]
    return {"panels": traced} if traced and len(traced) == len(panels) else None


def _trace_panel(axes: Axes) -> dict[str, Any] | None:
    from matplotlib.collections import LineCollection, PolyCollection
    from matplotlib.container import ErrorbarContainer
    from matplotlib.patches import Ellipse

    bars = [c for c in axes.containers if isinstance(c, ErrorbarContainer)]
    caps = {cap for bar in bars for cap in bar.lines[1]}
    bands: list[Any] = [
        c for c in axes.collections if type(c).__name__ in {"PolyCollection", "FillBetweenPolyCollection"}
    ]
    if axes.images or any(not isinstance(p, Ellipse) for p in axes.patches):
        return None
    if any(type(c) not in (LineCollection, PolyCollection) and c not in bands for c in axes.collections):
        return None
    errors = {bar.lines[0]: bar.lines[2] for bar in bars if bar.lines[0] is not None}
    lines = [line for line in axes.lines if line not in caps]
    is_rule = [line.get_transform() != axes.transData for line in lines]  # across the whole panel
    return {
        "series": [
            _trace_series(line) | _trace_error_bars(errors.get(line, ()))
            for line, rule in zip(lines, is_rule, strict=True) if not rule
        ],
        "rules": [_trace_rule(line) for line, rule in zip(lines, is_rule, strict=True) if rule],
        "bands": [
            {"points": _round_points(*c.get_paths()[0].vertices.T), "color": _to_hex(c.get_facecolor()[0])}
            for c in bands
        ],
        "ellipses": [
            {"x": e.center[0], "y": e.center[1], "width": e.width, "height": e.height, "angle": e.angle,
             "color": _to_hex(e.get_edgecolor())}
            for e in axes.patches if isinstance(e, Ellipse)
        ],
        "title": axes.get_title(),
        "x": _trace_axis(axes.xaxis, axes.get_xlim(), axes.get_xscale(), axes.get_xlabel()),
        "y": _trace_axis(axes.yaxis, axes.get_ylim(), axes.get_yscale(), axes.get_ylabel()),
    }  # fmt: skip


def _trace_series(line: Line2D) -> dict[str, Any]:
    label = str(line.get_label())
    x, y = (np.asarray(values, dtype=np.float64) for values in (line.get_xdata(), line.get_ydata()))
    finite = np.isfinite(x) & np.isfinite(y)
    every = line.get_markevery()
    series = {
        "label": "" if label.startswith("_") else unescape_mathtext(label),
        "points": _round_points(x[finite], y[finite]), "color": _to_hex(line.get_color()),
        "marker": str(line.get_marker()).replace("None", "").strip(),
        "every": list(every) if isinstance(every, tuple) and every[1] > 1 else "",
        "hollow": str(line.get_markerfacecolor()) == "none",
        "line": str(line.get_linestyle()).replace("None", "").strip(), "width": float(line.get_linewidth()),
    }  # fmt: skip
    return {name: value for name, value in series.items() if value not in ("", False)} | {"label": series["label"]}


def _trace_error_bars(collections: Any) -> dict[str, Any]:  # noqa: ANN401 - matplotlib's tuple of collections
    """Return the ends of each point's bar, across or up."""
    bars: dict[str, Any] = {}
    for collection in collections:
        ends = [np.asarray(segment) for segment in collection.get_segments()]
        across = all(len(e) == 2 and e[0, 1] == e[1, 1] for e in ends)
        bars["across" if across else "up"] = [[_round_value(v) for v in e[:, 0 if across else 1]] for e in ends]
    return bars


def _trace_rule(line: Line2D) -> dict[str, Any]:
    """Return a line across the whole panel."""
    x, y = (np.asarray(values, dtype=np.float64) for values in (line.get_xdata(), line.get_ydata()))
    where = {"x": _round_value(x[0])} if x[0] == x[-1] else {"y": _round_value(y[0])}
    return where | {"color": _to_hex(line.get_color()), "line": str(line.get_linestyle())}


def _trace_axis(axis: Axis, limits: tuple[float, float], kind: str, label: str) -> dict[str, Any]:
    low, high = sorted(limits)
    ticks = [
        [_round_value(position), _format_tick(tick.get_text())]
        for position, tick in zip(axis.get_majorticklocs(), axis.get_majorticklabels(), strict=False)
        if low <= position <= high
    ]
    return {
        "limits": [_round_value(v) for v in limits], "kind": kind, "label": unescape_mathtext(label), "ticks": ticks,
    }  # fmt: skip


def _format_tick(text: str) -> str:
    """Write a tick's formula as plain text: 10⁻¹."""
    match = _POWER.match(text)
    if match is None:
        return unescape_mathtext(text)
    return (match[1] + (match[2] or "").translate(_RAISED)).replace(r"\times", "×")


def _to_hex(color: Any) -> str:  # noqa: ANN401 - any matplotlib color
    from matplotlib.colors import to_hex

    return to_hex(color)


def _round_value(value: float) -> float:
    return float(f"{float(value):.6g}")


def _round_points(x: Any, y: Any) -> list[list[float]]:  # noqa: ANN401 - arrays
    return [[_round_value(a), _round_value(b)] for a, b in zip(x, y, strict=True)]
