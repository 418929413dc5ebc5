"""Generative frontiers: Gen-PPL against entropy with bands, and Gen-PPL at the human entropy against steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from openended.harness.core import UndefinedMetric, escape_mathtext
from openended.harness.report.analysis.frontier import (
    ENTROPY,
    SystemFrontier,
    compute_bands,
    estimate_at_human,
    find_frontiers,
    load_human_entropy,
)
from openended.harness.report.figures.drawing import (
    COLUMN,
    HUMAN_COLOR,
    MOST,
    SystemStyles,
    choose_style,
    create_figure,
    draw_legend_below,
    facet,
    format_numbers_plainly,
)
from openended.harness.results import Results, SystemValue, find_human_value, group_by_task_and_options

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Diversity between texts, which entropy inside a text says nothing about; drawn where it was measured.
DIVERSITY = (("self_bleu", "self_bleu_4"), ("vendi", "vendi"), ("entropy", "entropy_1"), ("distinct_n", "distinct_4"))
GRID = 60
HUMAN_STAR: dict[str, Any] = {
    "color": HUMAN_COLOR, "marker": "*", "markersize": 9, "linestyle": "", "label": "human"
}  # fmt: skip

Estimate = tuple[float, float, float]
"""Gen-PPL with the ends of its interval."""


def generative_frontier(results: Results, _: SystemStyles) -> Mapping[str, Figure]:
    """Draw the frontier of every decoder with two settings or more; bands are 95 % intervals over prompts."""

    def draw(part: Sequence[SystemValue]) -> Figure | None:
        frontiers = find_frontiers(results, part)[:MOST]
        return _draw_frontiers(part, frontiers) if frontiers else None

    return facet("frontier", group_by_task_and_options(results.values, "gen_ppl"), draw)


def _draw_frontiers(items: Sequence[SystemValue], frontiers: Sequence[SystemFrontier]) -> Figure:
    below = [pair for pair in DIVERSITY if any(s.value(*pair) for f in frontiers for s in f.sweep.systems)]
    names = [escape_mathtext(f.sweep.name) for f in frontiers]
    figure, panels = create_figure(COLUMN, 2.5 + 1.2 * len(below), 1 + len(below), legend=[*names, "human"])
    for index, (entry, name) in enumerate(zip(frontiers, names, strict=True)):
        style, (low, high) = choose_style(index), entry.frontier.reach
        grid = np.linspace(low, high, GRID)
        middle, bottom, top = (np.exp(values) for values in compute_bands(entry.frontier, grid))
        points = entry.frontier.entropy[0], np.exp(entry.frontier.log_ppl[0])
        panels[0].fill_between(grid, bottom, top, color=style["color"], alpha=0.15, linewidth=0)
        panels[0].plot(grid, middle, color=style["color"], linestyle=style["linestyle"], linewidth=0.9)
        panels[0].plot(*points, label=name, **(style | {"linestyle": ""}))
        for panel, pair in zip(panels[1:], below, strict=True):
            pairs = [(h, v) for s in entry.sweep.systems if (h := s.value(*ENTROPY)) and (v := s.value(*pair))]
            if pairs:
                x, y = zip(*sorted((h.mean, v.mean) for h, v in pairs), strict=True)
                panel.plot(x, y, color=style["color"], marker=style["marker"], linewidth=0.9)
                panel.set(ylabel=escape_mathtext(pairs[0][1].title))
    entropy, ppl = (find_human_value(items, value) for value in frontiers[0].points[0])
    if entropy is not None and ppl is not None:
        panels[0].plot(entropy.mean, ppl.mean, **HUMAN_STAR)
        for panel in panels:
            panel.axvline(entropy.mean, color=HUMAN_COLOR, linewidth=0.5, linestyle=":")
    panels[0].set_yscale("log")
    format_numbers_plainly(panels[0].yaxis)
    panels[0].set(ylabel="generation perplexity")
    panels[-1].set(xlabel="entropy of the texts (nats)")
    draw_legend_below(figure, panels[0])
    return figure


def steps_at_equal_entropy(results: Results, _: SystemStyles) -> Mapping[str, Figure]:
    """Draw Gen-PPL at the human entropy for each number of steps; systems without steps are horizontal bands."""

    def draw(part: Sequence[SystemValue]) -> Figure | None:
        frontiers = find_frontiers(results, part)
        if not frontiers:
            return None
        entropy, ppl = frontiers[0].points[0]
        human_entropy, human = load_human_entropy(results, part, entropy), find_human_value(part, ppl)
        estimates: dict[str, list[tuple[int | None, Estimate]]] = {}
        for entry in frontiers:
            try:
                at_human = estimate_at_human(entry, human_entropy)
            except UndefinedMetric:  # the frontier does not reach the human entropy
                continue
            interval = at_human.interval()
            middle, low, high = (float(np.exp(x)) for x in (at_human.value, interval.low, interval.high))
            estimates.setdefault(entry.sampler, []).append((entry.steps, (middle, low, high)))
        samplers = dict(list(estimates.items())[:MOST])
        if not any(steps is not None for points in samplers.values() for steps, _ in points):
            return None
        return _draw_steps(samplers, human.mean if human is not None else None)

    return facet("steps", group_by_task_and_options(results.values, "gen_ppl"), draw)


def _draw_steps(samplers: Mapping[str, Sequence[tuple[int | None, Estimate]]], human: float | None) -> Figure:
    from matplotlib.ticker import LogLocator

    figure, (axes,) = create_figure(COLUMN, 2.4, legend=[*map(escape_mathtext, samplers), "human"])
    for index, (name, estimates) in enumerate(samplers.items()):
        _draw_sampler(axes, estimates, choose_style(index) | {"label": escape_mathtext(name), "linewidth": 0.9})
    if human is not None:
        axes.axhline(human, color=HUMAN_COLOR, linewidth=0.8, linestyle=":", label="human")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    for axis in (axes.xaxis, axes.yaxis):
        format_numbers_plainly(axis)
    axes.set(xlabel="steps", ylabel="Gen. PPL at the human entropy")
    draw_legend_below(figure, axes)
    return figure


def _draw_sampler(axes: Axes, estimates: Sequence[tuple[int | None, Estimate]], style: dict[str, Any]) -> None:
    """Draw a sampler's estimates against its numbers of steps, or one band without steps."""
    by_steps = sorted((steps, estimate) for steps, estimate in estimates if steps is not None)
    if not by_steps:
        middle, low, high = estimates[0][1]
        axes.axhspan(low, high, color=style["color"], alpha=0.15, linewidth=0)
        axes.axhline(middle, **{name: style[name] for name in ("color", "linestyle", "linewidth", "label")})
        return
    middles, lows, highs = np.array([estimate for _, estimate in by_steps]).T
    axes.errorbar([steps for steps, _ in by_steps], middles, yerr=np.stack([middles - lows, highs - middles]), **style)
