"""Figures of a search: its history, the effect of each parameter, the Pareto front of two objectives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from openended.harness.core import escape_mathtext
from openended.harness.report.figures.drawing import COLORS, HUMAN_COLOR, add_legend, create_panels
from openended.harness.results import SearchObjective, SearchResult, SearchTrial

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure

MOST_PANELS = 12
POINTS: dict[str, Any] = {"linestyle": "", "marker": "o"}


def search_figures(searched: SearchResult) -> Mapping[str, Figure]:
    """Draw all figures of a search; none if no trial is complete."""
    if not searched.complete:
        return {}
    figures = {"search-history": _draw_history(searched)}
    if any(searched.importance):
        figures["search-importance"] = _draw_importance(searched)
    parameters = _collect_parameters(searched.complete)
    several = len(searched.objectives) > 1
    for number in range(len(searched.objectives) if parameters else 0):
        name = f"search-parameters-{number + 1}" if several else "search-parameters"
        figures[name] = _draw_parameters(searched, parameters, number)
    if len(searched.objectives) == 2:
        figures["search-front"] = _draw_front(searched)
    for figure in figures.values():
        add_legend(figure)
    return figures


def _draw_history(searched: SearchResult) -> Figure:
    """Draw the value of every trial and the best so far; trials that ended at a smaller size are hollow."""
    from matplotlib.ticker import MaxNLocator

    pruned = [t for t in searched.trials if t.state == "pruned" and t.values]
    figure, axes = create_panels(len(searched.objectives), 2.2)
    for number, (panel, objective) in enumerate(zip(axes, searched.objectives, strict=True)):
        if pruned:
            hollow = {"markerfacecolor": "none", "color": COLORS[1], "label": "pruned"}
            panel.plot([t.number for t in pruned], [t.values[number] for t in pruned], **(POINTS | hollow))
        x, y = zip(*((t.number, t.values[number]) for t in searched.complete), strict=True)
        panel.plot(x, y, color=COLORS[0], label="complete", **POINTS)
        best = (np.maximum if objective.direction == "maximize" else np.minimum).accumulate(y)
        panel.step(x, best, where="post", color=HUMAN_COLOR, linewidth=0.9, label="best so far")
        panel.set(xlabel="trial", ylabel=_format_axis_label(objective))
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure


def _format_axis_label(objective: SearchObjective) -> str:
    return escape_mathtext(f"{objective.title} {'↑' if objective.direction == 'maximize' else '↓'}")


def _draw_importance(searched: SearchResult) -> Figure:
    names = sorted({n for shares in searched.importance for n in shares})
    names.sort(key=lambda n: sum(shares.get(n, 0.0) for shares in searched.importance))
    titles = [escape_mathtext(objective.title) for objective in searched.objectives]
    figure, (panel,) = create_panels(1, 0.6 + 0.22 * len(names) * max(1, 0.6 * len(titles)))
    width = 0.8 / len(titles)
    for number, shares in enumerate(searched.importance):
        at = [i + 0.4 - (number + 0.5) * width for i in range(len(names))]
        label = titles[number] if len(titles) > 1 else None
        color = COLORS[number % len(COLORS)]
        panel.barh(at, [shares.get(n, 0.0) for n in names], height=width, color=color, label=label)
    panel.set_yticks(range(len(names)), [escape_mathtext(n) for n in names])
    panel.set(xlabel="importance (share)")
    panel.grid(visible=False, axis="y")
    return figure


def _collect_parameters(trials: Sequence[SearchTrial]) -> list[tuple[str, list[tuple[str, SearchTrial]]]]:
    """Return each parameter with its value in every trial that has it; one of single choices is of each choice."""
    points: dict[str, list[tuple[str, SearchTrial]]] = {}
    for trial in trials:
        for key, value in trial.setting.items():
            head, _, option = key.partition(".")
            choice = trial.setting.get(head) if option else None
            points.setdefault(f"{choice} {option}" if choice else key, []).append((value, trial))
    several = [(name, entries) for name, entries in sorted(points.items()) if len({value for value, _ in entries}) > 1]
    return several[:MOST_PANELS]


def _draw_parameters(
    searched: SearchResult, parameters: Sequence[tuple[str, Sequence[tuple[str, SearchTrial]]]], number: int
) -> Figure:
    figure, axes = create_panels(len(parameters), 1.8, sharey=True)
    for panel, (name, points) in zip(axes, parameters, strict=True):
        texts, y = [value for value, _ in points], [trial.values[number] for _, trial in points]
        words = sorted(set(texts))
        try:
            x = [float(text) for text in texts]
            if min(x) > 0 and max(x) / min(x) >= 20:
                panel.set_xscale("log")
        except ValueError:
            x = [words.index(text) for text in texts]
            labels = [escape_mathtext(word) for word in words]
            panel.set_xticks(range(len(words)), labels, rotation=30 if len(words) > 3 else 0)
            panel.set_xlim(-0.5, len(words) - 0.5)
        panel.plot(x, y, color=COLORS[0], **POINTS)
        panel.set(xlabel=escape_mathtext(name))
    for panel in axes[::3]:
        panel.set(ylabel=_format_axis_label(searched.objectives[number]))
    return figure


def _draw_front(searched: SearchResult) -> Figure:
    figure, (panel,) = create_panels(1, 2.7)
    for trials, style in (
        (searched.complete, {**POINTS, "color": COLORS[5], "label": "tried"}),
        (searched.front(), {"color": COLORS[3], "marker": "D", "linewidth": 0.9, "label": "Pareto front"}),
    ):
        panel.plot([t.values[0] for t in trials], [t.values[1] for t in trials], **style)
    panel.set(xlabel=_format_axis_label(searched.objectives[0]), ylabel=_format_axis_label(searched.objectives[1]))
    return figure
