"""Best-of-N curves: the expected best value against the number of settings tried."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from openended.harness.core import escape_mathtext
from openended.harness.report.analysis.decoder_sweeps import compute_curves, describe_printed_value, group_sweeps
from openended.harness.report.figures.drawing import (
    COLUMN,
    MOST,
    PAGE,
    compute_legend_height,
    create_figure,
    draw_legend_below,
    hide_unused_axes,
)
from openended.harness.report.figures.naming import FigureKey, name_figures
from openended.harness.report.figures.styles import SystemStyles, read_styles
from openended.harness.report.tables.selection import select_pairs
from openended.harness.report.tables.table import arrow
from openended.harness.results import Layout, Results, SystemValue, group_by_data, select_values

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PER_ROW = 3


def best_of_n(results: Results, items: Sequence[SystemValue], metrics: Sequence[str] = ()) -> Mapping[str, Figure]:
    """Draw the expected best of N settings of every decoder; dotted: chosen and scored on the same seeds."""
    figures: dict[FigureKey, Figure | None] = {}
    for task, part in group_by_data(items).items():
        figures[task, ""] = _draw_figure(part, metrics, read_styles(results))
    return name_figures("best_of_n", {key: figure for key, figure in figures.items() if figure is not None})


def _draw_figure(items: Sequence[SystemValue], metrics: Sequence[str], system_styles: SystemStyles) -> Figure | None:
    from matplotlib.ticker import MaxNLocator

    pairs = [
        (pair, decoder_curves)
        for pair in select_pairs(items, Layout(metrics=tuple(metrics)))
        if (decoder_curves := compute_curves(items, pair)[0])
    ]
    if not pairs:
        return None
    names = list(dict.fromkeys(c.name for _, decoder_curves in pairs for c in decoder_curves))[:MOST]
    first_settings = {sweep.name: sweep.systems[0].items[0] for sweep in group_sweeps(items)}
    styles = dict(zip(names, system_styles.choose([first_settings[name] for name in names]), strict=True))
    columns = min(PER_ROW, len(pairs))
    rows = math.ceil(len(pairs) / columns)
    width = COLUMN if columns == 1 else PAGE
    figure, axes = create_figure(width, 2.0 * rows + 0.1 + compute_legend_height(names, width, 4), rows, columns)
    for panel, (pair, curves) in zip(axes, pairs, strict=False):
        most = min(c.settings for c in curves)
        for curve in (c for c in curves if c.name in names):
            style, x = styles[curve.name], list(range(1, most + 1))
            if math.isfinite(curve.fresh[0]):
                low = [v - h for v, h in zip(curve.fresh[:most], curve.half, strict=False)]
                high = [v + h for v, h in zip(curve.fresh[:most], curve.half, strict=False)]
                panel.fill_between(x, low, high, color=style["color"], alpha=0.12, linewidth=0)
                panel.plot(x, curve.seen[:most], color=style["color"], linestyle=":", linewidth=0.7)
            values = curve.fresh if math.isfinite(curve.fresh[0]) else curve.seen
            panel.plot(x, values[:most], label=escape_mathtext(curve.name), **style)
        first = select_values(items, *pair)[0]
        title, direction = describe_printed_value(first)
        panel.set_title(escape_mathtext(f"{title} {arrow(direction)}"))
        panel.set_xlabel("settings tried (N)")
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    hide_unused_axes(axes, len(pairs))
    draw_legend_below(figure, axes[0], columns=4)
    return figure
