"""Best-of-N curves: the expected best value against the number of settings tried."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from openended.harness.core import escape_mathtext
from openended.harness.report.analysis.decoder_sweeps import compute_curves, describe_printed_value, group_sweeps
from openended.harness.report.figures.drawing import MOST, SystemStyles, create_panels, draw_legend_below, facet
from openended.harness.report.tables.selection import select_pairs
from openended.harness.report.tables.table import arrow
from openended.harness.results import Layout, Results, SystemValue, group_by_data, select_values

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def best_of_n(results: Results, styles: SystemStyles, metrics: Sequence[str] = ()) -> Mapping[str, Figure]:
    """Draw the expected best of N settings of every decoder; dotted: chosen and scored on the same seeds."""
    from matplotlib.ticker import MaxNLocator

    def draw(part: Sequence[SystemValue]) -> Figure | None:
        by_pair = {pair: compute_curves(part, pair)[0] for pair in select_pairs(part, Layout(metrics=tuple(metrics)))}
        by_pair = {pair: curves for pair, curves in by_pair.items() if curves}
        if not by_pair:
            return None
        names = list(dict.fromkeys(curve.name for curves in by_pair.values() for curve in curves))[:MOST]
        first = {sweep.name: sweep.systems[0].items[0] for sweep in group_sweeps(part)}
        chosen = dict(zip(names, styles.choose([first[name] for name in names]), strict=True))
        figure, axes = create_panels(len(by_pair), 2.0, legend=names, most=4)
        for panel, (pair, curves) in zip(axes, by_pair.items(), strict=True):
            most = min(c.settings for c in curves)
            for curve in (c for c in curves if c.name in names):
                style, x = chosen[curve.name], list(range(1, most + 1))
                has_fresh = math.isfinite(curve.fresh[0])
                if has_fresh:
                    low = [v - h for v, h in zip(curve.fresh[:most], curve.half, strict=False)]
                    high = [v + h for v, h in zip(curve.fresh[:most], curve.half, strict=False)]
                    panel.fill_between(x, low, high, color=style["color"], alpha=0.12, linewidth=0)
                    panel.plot(x, curve.seen[:most], color=style["color"], linestyle=":", linewidth=0.7)
                values = curve.fresh if has_fresh else curve.seen
                panel.plot(x, values[:most], label=escape_mathtext(curve.name), **style)
            title, direction = describe_printed_value(select_values(part, *pair)[0])
            panel.set_title(escape_mathtext(f"{title} {arrow(direction)}"))
            panel.set_xlabel("settings tried (N)")
            panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        draw_legend_below(figure, axes[0], 4)
        return figure

    return facet("best_of_n", group_by_data(results.values), draw)
