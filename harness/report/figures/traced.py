"""What a drawn figure shows, as plain data: the page draws it again, so that it answers to the pointer.

Points, lines, bands, ellipses and the ticks are read off the figure itself, so that both show the same. A figure that
holds anything else (a shaded plane, words) is left to its picture.
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


def traced(figure: Figure) -> dict[str, Any] | None:
    """Return the panels of a figure that was drawn; None where it holds what cannot be told as points and lines."""
    panels = [_panel(axes) for axes in figure.axes if axes.get_visible()]
    known = [panel for panel in panels if panel is not None]
    return {"panels": known} if known and len(known) == len(panels) else None


def _panel(axes: Axes) -> dict[str, Any] | None:
    from matplotlib.collections import LineCollection, PolyCollection
    from matplotlib.container import ErrorbarContainer
    from matplotlib.patches import Ellipse

    bars = [c for c in axes.containers if isinstance(c, ErrorbarContainer)]
    caps = {cap for bar in bars for cap in bar.lines[1]}
    if axes.images or any(not isinstance(p, Ellipse) for p in axes.patches):
        return None
    if any(type(c) not in (LineCollection, PolyCollection) and not _is_band(c) for c in axes.collections):
        return None
    errors = {bar.lines[0]: bar.lines[2] for bar in bars if bar.lines[0] is not None}
    made: dict[str, Any] = {"series": [], "rules": [], "bands": [], "ellipses": []}
    for line in axes.lines:
        if line in caps:
            continue
        if line.get_transform() != axes.transData:
            made["rules"].append(_rule(line))
        else:
            made["series"].append(_series(line) | _errors(errors.get(line, ())))
    made["bands"] = [_band(c) for c in axes.collections if _is_band(c)]
    made["ellipses"] = [
        {"x": e.center[0], "y": e.center[1], "width": e.width, "height": e.height, "angle": e.angle,
         "colour": _colour(e.get_edgecolor())}
        for e in axes.patches if isinstance(e, Ellipse)
    ]  # fmt: skip
    return made | {
        "title": axes.get_title(),
        "x": _scale(axes.xaxis, axes.get_xlim(), axes.get_xscale(), axes.get_xlabel()),
        "y": _scale(axes.yaxis, axes.get_ylim(), axes.get_yscale(), axes.get_ylabel()),
    }


def _is_band(collection: object) -> bool:
    return type(collection).__name__ in {"PolyCollection", "FillBetweenPolyCollection"}


def _series(line: Line2D) -> dict[str, Any]:
    label = str(line.get_label())
    x, y = (np.asarray(values, dtype=np.float64) for values in (line.get_xdata(), line.get_ydata()))
    known = np.isfinite(x) & np.isfinite(y)
    made = {
        "label": "" if label.startswith("_") else unescape_mathtext(label),
        "points": [[_short(a), _short(b)] for a, b in zip(x[known], y[known], strict=True)],
        "colour": _colour(line.get_color()),
        "marker": str(line.get_marker()).replace("None", "").strip(),
        "hollow": str(line.get_markerfacecolor()) == "none",
        "line": str(line.get_linestyle()).replace("None", "").strip(),
        "width": float(line.get_linewidth()),
    }
    return {name: value for name, value in made.items() if value not in ("", False)} | {"label": made["label"]}


def _errors(collections: Any) -> dict[str, Any]:  # noqa: ANN401 - matplotlib's tuple of collections
    """Return the ends of each point's bar, across or up."""
    found: dict[str, Any] = {}
    for collection in collections:
        ends = [np.asarray(segment) for segment in collection.get_segments()]
        across = all(len(e) == 2 and e[0, 1] == e[1, 1] for e in ends)
        found["across" if across else "up"] = [[_short(v) for v in e[:, 0 if across else 1]] for e in ends]
    return found


def _rule(line: Line2D) -> dict[str, Any]:
    """Return a line across the whole panel."""
    x, y = (np.asarray(values, dtype=np.float64) for values in (line.get_xdata(), line.get_ydata()))
    where = {"x": _short(x[0])} if x[0] == x[-1] else {"y": _short(y[0])}
    return where | {"colour": _colour(line.get_color()), "line": str(line.get_linestyle())}


def _band(collection: Any) -> dict[str, Any]:  # noqa: ANN401 - matplotlib's collection
    corners = collection.get_paths()[0].vertices
    return {"points": [[_short(a), _short(b)] for a, b in corners], "colour": _colour(collection.get_facecolor()[0])}


def _scale(axis: Axis, limits: tuple[float, float], kind: str, label: str) -> dict[str, Any]:
    low, high = sorted(limits)
    ticks = [
        [_short(place), _plain(tick.get_text())]
        for place, tick in zip(axis.get_majorticklocs(), axis.get_majorticklabels(), strict=False)
        if low <= place <= high
    ]
    return {"limits": [_short(v) for v in limits], "kind": kind, "label": unescape_mathtext(label), "ticks": ticks}


def _plain(text: str) -> str:
    """Write a tick's formula as letters: 10⁻¹."""
    found = _POWER.match(text)
    if found is None:
        return unescape_mathtext(text)
    return (found[1] + (found[2] or "").translate(_RAISED)).replace(r"\times", "×")


def _colour(colour: Any) -> str:  # noqa: ANN401 - whatever matplotlib takes for a colour
    from matplotlib.colors import to_hex

    return to_hex(colour)


def _short(value: float) -> float:
    return float(f"{float(value):.6g}")
