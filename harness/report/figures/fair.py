"""Best-of-N curves: what a decoder gives for the number of settings that one tries."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from openended.harness.core import escape_mathtext
from openended.harness.report.analysis.decoder_sweeps import compute_curves, describe_printed_value
from openended.harness.report.figures.drawing import (
    COLUMN,
    MOST,
    PAGE,
    hide_rest,
    legend_below,
    legend_height,
    look,
    new_figure,
)
from openended.harness.report.figures.naming import Told, named
from openended.harness.report.tables.selection import select_pairs
from openended.harness.report.tables.table import arrow
from openended.harness.results import Layout, Results, SystemValue, group_by_data, select_values

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PER_ROW = 3


def best_of_n(results: Results, items: Sequence[SystemValue], metrics: Sequence[str] = ()) -> Mapping[str, Figure]:  # noqa: ARG001
    """Draw the expected best of N settings of every decoder; dotted: chosen and scored on the same seeds."""
    drawn: dict[Told, Figure | None] = {}
    for task, part in group_by_data(items).items():
        drawn[task, ""] = _figure(part, metrics)
    return named("best_of_n", {told: one for told, one in drawn.items() if one is not None})


def _figure(items: Sequence[SystemValue], metrics: Sequence[str]) -> Figure | None:
    from matplotlib.ticker import MaxNLocator

    pairs = [
        (pair, found)
        for pair in select_pairs(items, Layout(metrics=tuple(metrics)))
        if (found := compute_curves(items, pair)[0])
    ]
    if not pairs:
        return None
    names = list(dict.fromkeys(c.name for _, found in pairs for c in found))[:MOST]
    columns = min(PER_ROW, len(pairs))
    rows = math.ceil(len(pairs) / columns)
    width = COLUMN if columns == 1 else PAGE
    figure, axes = new_figure(width, 2.0 * rows + 0.1 + legend_height(names, width, 4), rows, columns)
    for panel, (pair, curves) in zip(axes, pairs, strict=False):
        most = min(c.settings for c in curves)
        for curve in (c for c in curves if c.name in names):
            style, x = look(names.index(curve.name)), list(range(1, most + 1))
            if math.isfinite(curve.fresh[0]):
                low = [v - h for v, h in zip(curve.fresh[:most], curve.half, strict=False)]
                high = [v + h for v, h in zip(curve.fresh[:most], curve.half, strict=False)]
                panel.fill_between(x, low, high, color=style["color"], alpha=0.12, linewidth=0)
                panel.plot(x, curve.seen[:most], color=style["color"], linestyle=":", linewidth=0.7)
            shown = curve.fresh if math.isfinite(curve.fresh[0]) else curve.seen
            panel.plot(x, shown[:most], label=escape_mathtext(curve.name), **style)
        first = select_values(items, *pair)[0]
        title, direction = describe_printed_value(first)
        panel.set_title(escape_mathtext(f"{title} {arrow(direction)}"))
        panel.set_xlabel("settings tried (N)")
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    hide_rest(axes, len(pairs))
    legend_below(figure, axes[0], columns=4)
    return figure
