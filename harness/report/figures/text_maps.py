"""Pictures of the texts themselves."""

import math

import numpy as np

from openended.harness.report.figures.plot import Panel, Part, Plot, Series, list_axes
from openended.harness.report.tables.pictures import COLORS, choose_style
from openended.harness.report.tables.selection import select_pairs
from openended.harness.results import read_embeddings, select_values

GRAY = {"color": "#999999", "marker": ".", "markersize": 4, "markeredgewidth": 0}


def show_texts(part: Part) -> Plot | None:
    """Show human texts and each system's in the plane of their embeddings, then the systems' values (P&R Fig. 2)."""
    pairs = select_pairs(part.values, part.metrics)
    if not pairs:
        return None
    systems, note = part.select_systems(pairs[0])
    sides = [(s, both) for s in systems if (both := read_embeddings(part.results, s.items[0])) is not None]
    if not sides:
        return None
    every = np.concatenate([sides[0][1][0], *(model for _, (_, model) in sides)]).astype(np.float64)
    center = every.mean(axis=0)
    plane = np.linalg.svd(every - center, full_matrices=False)[2][:2].T
    panels = []
    for index, (system, (human, model)) in enumerate(sides):
        name, style = part.name("label", system.name), choose_style(index + 3)
        (px, py), (qx, qy) = (((side - center) @ plane).T for side in (human, model))
        look = GRAY | {"color": style["color"]}
        series = [
            Series(mark="dots", x=px, y=py, label="P", look=GRAY),
            Series(mark="dots", x=qx, y=qy, label=name, look=look),
        ]
        panels.append(Panel(series, name, {"title": f"P (gray) and {name}", "xticks": [], "yticks": []}))
    width = 0.8 / len(pairs)
    bars = []
    for index, (metric, key) in enumerate(pairs):
        values = [s.value(metric, key) for s, _ in sides]
        x = [rank + (index + 0.5) * width - 0.4 for rank in range(len(sides))]
        y = [value.mean if value is not None else math.nan for value in values]
        title = select_values(part.values, metric, key)[0].title
        look = {"color": COLORS[index], "width": width}
        bars.append(Series(mark="columns", x=x, y=y, label=title, look=look, axes=list_axes(sides[0][0].items[0])))
    names = [part.name("label", system.name) for system, _ in sides]
    ticks = {"xticklabels": names, "yticks": np.linspace(0, 1, 6), "grid": "y"}
    return Plot([*panels, Panel(bars, "values", ticks)], note)
