"""One panel per metric: each system's mean with its interval, and the human value as a line."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from openended.harness.core import escape_mathtext
from openended.harness.report.figures.drawing import HUMAN_COLOR, MOST, PAGE, create_figure, hide_unused_axes
from openended.harness.report.figures.naming import name_figures
from openended.harness.report.figures.styles import SystemStyles, read_styles
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


def metric_panels(results: Results, items: Sequence[SystemValue]) -> Mapping[str, Figure]:
    """Draw all primary values, one figure a task."""
    styles = read_styles(results)
    return name_figures("metrics", {(task,): _draw_panels(part, styles) for task, part in group_by_data(items).items()})


def _draw_panels(items: Sequence[SystemValue], system_styles: SystemStyles) -> Figure | None:
    panels = [
        (pair, options, part)
        for pair in select_pairs(items, Layout())
        for options, part in group_by_options(items, pair[0]).items()
        if any(_has_value(i, pair) for i in part)
    ]
    systems = [s for s in group_systems(items) if any(math.isfinite(i.mean) for i in s.items)]
    if not panels or not systems:
        return None
    systems_shown = systems[:MOST]
    columns = min(PER_ROW, len(panels))
    lines = math.ceil(len(panels) / columns)
    height = lines * (0.5 + 0.17 * len(systems_shown)) + (0.2 if len(systems) > MOST else 0) + 0.15
    figure, axes = create_figure(PAGE, height, lines, columns, sharey=True)
    styles = system_styles.choose([s.items[0] for s in systems_shown])
    lined = [
        _draw_panel(panel, pair, list(zip(systems_shown, styles, strict=True)), part, variant)
        for panel, (pair, variant, part) in zip(axes, panels, strict=False)
    ]
    if any(lined):
        figure.supxlabel("dashed line: the human text", fontsize=7)
    hide_unused_axes(axes, len(panels))
    for panel in axes[::columns]:
        panel.set_yticks(range(len(systems_shown)), [escape_mathtext(s.name) for s in systems_shown])
    axes[0].set_ylim(len(systems_shown) - 0.5, -0.5)
    if len(systems) > MOST:
        figure.suptitle(f"the first {MOST} of {len(systems)} systems", fontsize=7)
    return figure


def _has_value(item: SystemValue, pair: tuple[str, str]) -> bool:
    return item.system == "model" and (item.metric, item.key) == pair and math.isfinite(item.mean)


def _draw_panel(
    panel: Axes,
    pair: tuple[str, str],
    systems: Sequence[tuple[System, Mapping[str, Any]]],
    part: Sequence[SystemValue],
    options: str,
) -> bool:
    """Draw one value of all systems in their styles, under these options; returns whether a human line was drawn."""
    from matplotlib.ticker import MaxNLocator

    axes = [tuple(system.items[0].axes.items()) for system, _ in systems]
    values = [i for i in part if _has_value(i, pair) and tuple(i.axes.items()) in axes]
    placed = sorted(((axes.index(tuple(i.axes.items())), i) for i in values), key=lambda entry: entry[0])
    humans: dict[float, None] = {}
    for _, value in placed:
        human = find_human_value(part, value)
        if human is not None and math.isfinite(human.mean):
            humans[human.mean] = None
    for row, value in placed:
        system, style = systems[row]
        error = [[length] for length in value.reach] if any(value.reach) else None
        panel.errorbar(
            [value.mean], [row], xerr=error, **{**style, "linestyle": "", "label": escape_mathtext(system.name)}
        )
    for human_mean in humans:
        panel.axvline(human_mean, color=HUMAN_COLOR, linestyle="--", linewidth=0.9)
    first = next((v for _, v in placed), None)
    title = f"{first.title} {arrow(first.direction, first.target)}".rstrip() if first is not None else ""
    lines = list(filter(None, (title, *escape_mathtext(options).split(", "))))
    heading = panel.set_title("\n".join(lines))
    if max(map(len, lines), default=0) > _WIDE:
        heading.set_fontsize(_SMALL)
    panel.grid(visible=True, axis="both")
    panel.tick_params(axis="y", length=0)
    panel.margins(x=0.12)
    panel.xaxis.set_major_locator(MaxNLocator(nbins=4))
    return bool(humans)
