"""Gen-PPL at the entropy of human text against the number of steps of a sampler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from openended.harness.core import F64, UndefinedMetric, escape_mathtext
from openended.harness.report.analysis.operating_points import (
    SystemFrontier,
    estimate_at_human,
    find_frontiers,
    load_human_entropy,
)
from openended.harness.report.figures.drawing import (
    COLUMN,
    HUMAN_COLOR,
    MOST,
    choose_style,
    compute_legend_height,
    create_figure,
    draw_legend_below,
)
from openended.harness.report.figures.naming import FigureKey, name_figures
from openended.harness.results import Results, SystemValue, find_human_value, group_by_task_and_options

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Points = list[tuple[int | None, tuple[float, float, float]]]
"""Number of steps, and Gen-PPL with the ends of its interval."""


def steps_at_equal_entropy(results: Results, items: Sequence[SystemValue]) -> Mapping[str, Figure]:
    """Draw Gen-PPL at the human entropy for each number of steps; systems without steps are horizontal bands."""
    figures: dict[FigureKey, Figure | None] = {}
    for key, part in group_by_task_and_options(items, "gen_ppl").items():
        frontiers = find_frontiers(results, part)
        if not frontiers:
            continue
        like = frontiers[0].points[0]
        points = _estimate_points(frontiers, load_human_entropy(results, part, like[0]))
        if any(steps is not None for rows in points.values() for steps, _ in rows):
            human = find_human_value(part, like[1])
            figures[key] = _draw(points, human.mean if human is not None else None)
    return name_figures("steps", figures)


def _estimate_points(frontiers: Sequence[SystemFrontier], human: F64 | None) -> dict[str, Points]:
    """Return the points of each sampler; those whose frontier does not reach the human entropy are left out."""
    points: dict[str, Points] = {}
    for entry in frontiers:
        try:
            estimate = estimate_at_human(entry, human)
        except UndefinedMetric:
            continue
        interval = estimate.interval()
        low, middle, high = (float(np.exp(x)) for x in (interval.low, estimate.value, interval.high))
        points.setdefault(entry.sampler, []).append((entry.steps, (middle, low, high)))
    return dict(list(points.items())[:MOST])


def _draw(points: Mapping[str, Points], human: float | None) -> Figure:
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    labels = [*map(escape_mathtext, points), "human"]
    figure, (axes,) = create_figure(COLUMN, 2.4 + compute_legend_height(labels, COLUMN, 3))
    for index, (name, rows) in enumerate(points.items()):
        _draw_sampler(axes, rows, escape_mathtext(name), index)
    if human is not None:
        axes.axhline(human, color=HUMAN_COLOR, linewidth=0.8, linestyle=":", label="human")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_formatter(NullFormatter())
    axes.set(xlabel="steps", ylabel="Gen. PPL at the human entropy")
    draw_legend_below(figure, axes, columns=3)
    return figure


def _draw_sampler(axes: Axes, rows: Points, name: str, index: int) -> None:
    style = choose_style(index)
    by_steps = sorted((steps, estimate) for steps, estimate in rows if steps is not None)
    if not by_steps:
        middle, low, high = rows[0][1]
        axes.axhspan(low, high, color=style["color"], alpha=0.15, linewidth=0)
        axes.axhline(middle, color=style["color"], linestyle=style["linestyle"], linewidth=0.9, label=name)
        return
    middle, low, high = np.array([estimate for _, estimate in by_steps]).T
    errors = np.stack([middle - low, high - middle])
    axes.errorbar(
        [steps for steps, _ in by_steps],
        middle,
        yerr=errors,
        label=name,
        linewidth=0.9,
        **{key: value for key, value in style.items() if key != "linewidth"},
    )
