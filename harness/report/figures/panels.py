"""One panel per metric: each system's mean with its interval, and the human value as a line."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from openended.harness.core import escape_mathtext
from openended.harness.report.figures.drawing import HUMAN_COLOR, MOST, PAGE, SystemStyles, create_figure, facet
from openended.harness.report.tables.selection import select_pairs
from openended.harness.report.tables.table import arrow
from openended.harness.results import (
    Layout,
    Results,
    System,
    SystemValue,
    find_human_value,
    group_by_data,
    group_by_options,
    group_systems,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PER_ROW = 4
_WIDE, _SMALL = 22, 6.5  # letters beyond which a title touches the next one, and the size that it has then


def metric_panels(results: Results, styles: SystemStyles) -> Mapping[str, Figure]:
    """Draw all primary values, one figure per task."""
    return facet("metrics", group_by_data(results.values), lambda part: _draw(part, styles))


def _draw(items: Sequence[SystemValue], styles: SystemStyles) -> Figure | None:
    panels = []
    for metric, key in select_pairs(items, Layout()):
        for options, part in group_by_options(items, metric).items():
            values = [i for i in part if i.system == "model" and i.key == key and math.isfinite(i.mean)]
            if values:
                panels.append((values, part, options))
    systems = [s for s in group_systems(items) if any(math.isfinite(i.mean) for i in s.items)]
    if not panels or not systems:
        return None
    visible = systems[:MOST]
    columns = min(PER_ROW, len(panels))
    rows = math.ceil(len(panels) / columns)
    height = rows * (0.5 + 0.17 * len(visible)) + (0.2 if len(systems) > MOST else 0) + 0.15
    figure, axes = create_figure(PAGE, height, rows, columns, sharey=True)
    styled = list(zip(visible, styles.choose([s.items[0] for s in visible]), strict=True))
    lined = [_draw_panel(panel, styled, *values) for panel, values in zip(axes, panels, strict=False)]
    if any(lined):
        figure.supxlabel("dashed line: the human text", fontsize=7)
    for unused in axes[len(panels) :]:
        unused.set_visible(False)
    for panel in axes[::columns]:
        panel.set_yticks(range(len(visible)), [escape_mathtext(s.name) for s in visible])
    axes[0].set_ylim(len(visible) - 0.5, -0.5)
    if len(systems) > MOST:
        figure.suptitle(f"the first {MOST} of {len(systems)} systems", fontsize=7)
    return figure


def _draw_panel(
    panel: Axes,
    systems: Sequence[tuple[System, Mapping[str, Any]]],
    values: Sequence[SystemValue],
    part: Sequence[SystemValue],
    options: str,
) -> bool:
    """Draw the values of the systems in their styles; returns whether a human line was drawn."""
    from matplotlib.ticker import MaxNLocator

    rows = {tuple(system.items[0].axes.items()): row for row, (system, _) in enumerate(systems)}
    placed = [(rows[key], v) for v in values if (key := tuple(v.axes.items())) in rows]
    placed.sort(key=lambda entry: entry[0])
    for row, value in placed:
        system, style = systems[row]
        error = [[length] for length in value.reach] if any(value.reach) else None
        look = {**style, "linestyle": "", "label": escape_mathtext(system.name)}
        panel.errorbar([value.mean], [row], xerr=error, **look)
    humans = [find_human_value(part, value) for _, value in placed]
    means = dict.fromkeys(human.mean for human in humans if human is not None and math.isfinite(human.mean))
    for mean in means:
        panel.axvline(mean, color=HUMAN_COLOR, linestyle="--", linewidth=0.9)
    first = placed[0][1] if placed else None
    title = f"{first.title} {arrow(first.direction, first.target)}".rstrip() if first is not None else ""
    lines = list(filter(None, (title, *escape_mathtext(options).split(", "))))
    heading = panel.set_title("\n".join(lines))
    if max(map(len, lines), default=0) > _WIDE:
        heading.set_fontsize(_SMALL)
    panel.grid(visible=True, axis="both")
    panel.tick_params(axis="y", length=0)
    panel.margins(x=0.12)
    panel.xaxis.set_major_locator(MaxNLocator(nbins=4))
    return bool(means)
