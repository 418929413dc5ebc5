"""Generative frontiers: Gen-PPL against entropy with bands, and diversity between texts under it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from openended.harness.core import escape_mathtext
from openended.harness.report.analysis.frontier import compute_bands
from openended.harness.report.analysis.operating_points import ENTROPY, SystemFrontier, find_frontiers
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

# Diversity between texts, which entropy inside a text says nothing about; drawn where it was measured.
DIVERSITY = (("self_bleu", "self_bleu_4"), ("vendi", "vendi"), ("entropy", "entropy_1"), ("distinct_n", "distinct_4"))
GRID = 60


def generative_frontier(results: Results, items: Sequence[SystemValue]) -> Mapping[str, Figure]:
    """Draw the frontier of every decoder with two settings or more; bands are 95 % intervals over prompts."""
    figures: dict[FigureKey, Figure | None] = {}
    for key, part in group_by_task_and_options(items, "gen_ppl").items():
        if frontiers := find_frontiers(results, part)[:MOST]:
            figures[key] = _draw(part, frontiers)
    return name_figures("frontier", figures)


def _draw(items: Sequence[SystemValue], frontiers: Sequence[SystemFrontier]) -> Figure:
    from matplotlib.ticker import NullFormatter, StrMethodFormatter

    below = [pair for pair in DIVERSITY if any(s.value(*pair) for f in frontiers for s in f.sweep.systems)]
    names = [escape_mathtext(f.sweep.name) for f in frontiers]
    height = 2.5 + 1.2 * len(below) + compute_legend_height([*names, "human"], COLUMN, 3)
    figure, panels = create_figure(COLUMN, height, 1 + len(below))
    for index, (entry, name) in enumerate(zip(frontiers, names, strict=True)):
        style, (low, high) = choose_style(index), entry.frontier.reach
        grid = np.linspace(low, high, GRID)
        middle, bottom, top = (np.exp(values) for values in compute_bands(entry.frontier, grid))
        panels[0].fill_between(grid, bottom, top, color=style["color"], alpha=0.15, linewidth=0)
        panels[0].plot(grid, middle, color=style["color"], linestyle=style["linestyle"], linewidth=0.9)
        panels[0].plot(
            entry.frontier.entropy[0], np.exp(entry.frontier.log_ppl[0]), label=name, **(style | {"linestyle": ""})
        )
        for panel, pair in zip(panels[1:], below, strict=True):
            _draw_diversity(panel, entry, pair, style)
    like = frontiers[0].points[0]
    human = [find_human_value(items, value) for value in like]
    if human[0] is not None and human[1] is not None:
        star: dict[str, Any] = {"color": HUMAN_COLOR, "marker": "*", "markersize": 9, "linestyle": "", "label": "human"}
        panels[0].plot(human[0].mean, human[1].mean, **star)
        for panel in panels:
            panel.axvline(human[0].mean, color=HUMAN_COLOR, linewidth=0.5, linestyle=":")
    panels[0].set_yscale("log")
    panels[0].yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    panels[0].yaxis.set_minor_formatter(NullFormatter())
    panels[0].set(ylabel="generation perplexity")
    panels[-1].set(xlabel="entropy of the texts (nats)")
    draw_legend_below(figure, panels[0], columns=3)
    return figure


def _draw_diversity(panel: Axes, entry: SystemFrontier, pair: tuple[str, str], style: Mapping[str, object]) -> None:
    """Draw a value of each operating point against its entropy."""
    points = [(h, v) for s in entry.sweep.systems if (h := s.value(*ENTROPY)) and (v := s.value(*pair))]
    if points:
        ordered = sorted((h.mean, v.mean) for h, v in points)
        options = {"color": style["color"], "marker": style["marker"], "linewidth": 0.9}
        panel.plot([h for h, _ in ordered], [v for _, v in ordered], **options)  # type: ignore[arg-type]
        panel.set(ylabel=escape_mathtext(points[0][1].title))
