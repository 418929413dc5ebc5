"""A figure as plain data, which the page draws as an interactive one: its points and bands are those of the plot.

A figure with anything else than points, lines and ellipses (bars, cells, areas) stays a picture.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.colors import to_hex
from matplotlib.ticker import LogLocator, MaxNLocator

from openended.harness.core import F64
from openended.harness.report.figures.drawing import FEW_DECADES, fit_ellipse
from openended.harness.report.figures.plot import Declaration, Panel, Plot, Series, style_panels
from openended.harness.report.tables.pictures import SystemStyles

MARKS = ("line", "curve", "path", "dots", "step", "cross", "ellipse")
TICKS = 6
MARGIN = 0.05  # of the range of an axis, on each side
_RAISED = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
Extent = dict[str, list[float]]
"""Axis → the values that it shows."""


def describe_plot(plot: Plot, declaration: Declaration, styles: SystemStyles) -> dict[str, Any] | None:
    """Return the panels of a plot and its note as a page draws them; None if it contains more than points and lines."""
    panels = style_panels(plot, declaration.change(plot.changes), styles)
    if any(series.mark not in MARKS for panel in panels for series in panel.series):
        return None
    return {"panels": list(map(_describe_panel, panels))} | ({"note": plot.note} if plot.note else {})


def _describe_panel(panel: Panel) -> dict[str, Any]:
    parts: dict[str, list[Any]] = {"series": [], "rules": [], "bands": [], "ellipses": []}
    extent: Extent = {"x": [], "y": []}
    for series in panel.series:
        color = to_hex(series.look["color"])
        x, y = (np.asarray(values, dtype=np.float64) for values in (series.x, series.y))
        if series.mark == "cross":
            line = {"color": color, "line": series.look.get("linestyle", "-")}
            parts["rules"] += [{axis: _round(v)} | line for axis, of in (("x", x), ("y", y)) for v in of]
        elif series.mark == "ellipse":
            center, width, height, angle = fit_ellipse(np.column_stack([x, y]))
            sizes = {"x": center[0], "y": center[1], "width": width, "height": height, "angle": angle}
            parts["ellipses"].append({**sizes, "color": color})
        else:
            if series.mark in ("line", "curve") and series.below is not None and np.any([series.below, series.above]):
                ends = np.array([np.stack([x, y - series.below]), np.stack([x, y + series.above])])
                ends = ends[:, :, np.isfinite(ends).all(axis=(0, 1))]
                outline = np.concatenate([ends[0].T, ends[1].T[::-1]])
                parts["bands"].append({"points": _round(outline), "color": color})
                extent["y"] += outline[:, 1].tolist()
            parts["series"].append(_describe_series(series, x, y, extent))
    return parts | {
        "title": str(panel.options.get("title", "")),
        **{axis: _describe_axis(axis, panel.options, np.array(extent[axis])) for axis in ("x", "y")},
    }


def _describe_series(series: Series, x: F64, y: F64, extent: Extent) -> dict[str, Any]:
    look, is_finite = series.look, np.isfinite(x) & np.isfinite(y)
    described: dict[str, Any] = {"label": series.label, "points": _round(np.column_stack([x, y])[is_finite])}
    described |= {"color": to_hex(look["color"]), "marker": look.get("marker", "")}
    described |= {"every": list(look.get("markevery", "")) or "", "hollow": look.get("markerfacecolor") == "none"}
    described |= {"line": "" if series.mark == "dots" else look.get("linestyle", "-")}
    described["width"] = look.get("linewidth", 1.2)
    extent["x"] += x[is_finite].tolist()
    extent["y"] += y[is_finite].tolist()
    bars = {"across": ("x", x, series.left, series.right), "up": ("y", y, series.below, series.above)}
    for name, (axis, values, less, more) in bars.items():
        if series.mark in ("path", "dots") and less is not None and np.any((less, more)):
            ends = np.column_stack([values - np.asarray(less), values + np.asarray(more)])[is_finite]
            described[name] = _round(ends)
            extent[axis] += ends.ravel().tolist()
    return {name: value for name, value in described.items() if name == "label" or value not in ("", False)}


def _describe_axis(name: str, options: Mapping[str, Any], values: F64) -> dict[str, Any]:
    """Return limits, scale, label and ticks of an axis."""
    scale, labels = str(options.get(f"{name}scale", "linear")), options.get(f"{name}ticklabels", ())
    is_log = scale != "linear"
    values = np.log10(values[values > 0]) if is_log else values[np.isfinite(values)]
    low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)
    margin = options.get("margins", {}).get(name, MARGIN) * (high - low)
    if high - low <= 1e-9 * max(abs(low), abs(high)) + 1e-12:  # equal values are in the middle of a range
        margin = 0.1 * max(abs(low), abs(high)) if max(abs(low), abs(high)) > 1e-9 else 0.5
    limits = [10**end if is_log else end for end in (low - margin, high + margin)]
    limits = list(options.get(f"{name}lim", limits))
    limits[1] = min(limits[1], options.get("most", {}).get(name, math.inf))
    low, high = sorted(limits)
    ticks: list[tuple[float, str]]
    if labels:
        ticks = list(enumerate(map(str, labels)))
    elif f"{name}ticks" in options:
        ticks = [(float(tick), f"{tick:g}") for tick in options[f"{name}ticks"]]
    elif is_log:
        is_plain = name in options.get("plain", ())
        subs = (1.0, 2.0, 5.0) if is_plain and high < FEW_DECADES * low else (1.0,)
        powers = LogLocator(base=2 if scale == "log2" else 10, subs=subs).tick_values(low, high)
        ticks = [(tick, _format_power(tick, is_plain)) for tick in map(float, powers)]
    else:
        locator = MaxNLocator(TICKS, steps=[1, 2, 2.5, 5, 10], integer=name in options.get("integers", ()))
        ticks = [(tick, f"{tick:.6g}") for tick in map(float, locator.tick_values(low, high))]
    visible = [[_round(tick), text] for tick, text in ticks if low <= tick <= high]
    described = {"limits": _round(np.array(limits)), "kind": "log" if is_log else "linear", "ticks": visible}
    return described | {"label": str(options.get(f"{name}label", ""))}


def _format_power(tick: float, is_plain: bool) -> str:
    """Write a tick of a logarithmic axis: 10⁻¹, or as a plain number."""
    power = math.log10(tick)
    return f"{tick:g}" if is_plain or power % 1 else f"10{str(round(power)).translate(_RAISED)}"


def _round(values: Any) -> Any:  # noqa: ANN401 - a number, or an array of any shape
    """Return plain numbers of six digits."""
    return float(f"{values:.6g}") if np.ndim(values) == 0 else [_round(value) for value in values]
