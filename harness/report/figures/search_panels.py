"""Figures of a search: its history, the effect of each parameter, the Pareto front of two objectives."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from openended.harness.core import escape_mathtext
from openended.harness.report.figures.drawing import (
    COLORS,
    COLUMN,
    HUMAN_COLOR,
    PAGE,
    compute_legend_height,
    create_figure,
    draw_legend_below,
    hide_unused_axes,
)
from openended.harness.results import SearchObjective, SearchResult, SearchTrial

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PER_ROW = 3
MOST_PANELS = 12


def search_figures(searched: SearchResult) -> Mapping[str, Figure]:
    """Draw all figures of a search; none if no trial is complete."""
    if not searched.complete:
        return {}
    figures = {"search-history": _draw_history(searched)}
    if any(searched.importance):
        figures["search-importance"] = _draw_importance(searched)
    for number in range(len(searched.objectives)):
        figure = _draw_parameters(searched, number)
        if figure is not None:
            figures["search-parameters" + (f"-{number + 1}" if len(searched.objectives) > 1 else "")] = figure
    if len(searched.objectives) == 2:
        figures["search-front"] = _draw_front(searched)
    return figures


def _draw_history(searched: SearchResult) -> Figure:
    """Draw the value of every trial and the best so far; trials that ended at a smaller size are hollow."""
    from matplotlib.ticker import MaxNLocator

    count = len(searched.objectives)
    figure, axes = create_figure(COLUMN if count == 1 else PAGE, 2.3, 1, count)
    for number, (panel, objective) in enumerate(zip(axes, searched.objectives, strict=True)):
        pruned = [t for t in searched.trials if t.state == "pruned" and t.values]
        done = searched.complete
        if pruned:
            style: dict[str, Any] = {
                "linestyle": "",
                "marker": "o",
                "markerfacecolor": "none",
                "color": COLORS[1],
                "label": "pruned",
            }
            panel.plot([t.number for t in pruned], [t.values[number] for t in pruned], **style)
        panel.plot(
            [t.number for t in done], [t.values[number] for t in done], linestyle="", marker="o", color=COLORS[0],
            label="complete",
        )  # fmt: skip
        pick = max if objective.direction == "maximize" else min
        best = [pick(t.values[number] for t in done[: i + 1]) for i in range(len(done))]
        panel.step([t.number for t in done], best, where="post", color=HUMAN_COLOR, linewidth=0.9, label="best so far")
        panel.set(xlabel="trial", ylabel=_format_axis_label(objective))
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    draw_legend_below(figure, axes[0], columns=3)
    return figure


def _format_axis_label(objective: SearchObjective) -> str:
    return escape_mathtext(f"{objective.title} {'↑' if objective.direction == 'maximize' else '↓'}")


def _draw_importance(searched: SearchResult) -> Figure:
    names = sorted({n for shares in searched.importance for n in shares})
    names.sort(key=lambda n: sum(shares.get(n, 0.0) for shares in searched.importance))
    titles = [objective.title for objective in searched.objectives]
    legend = compute_legend_height(titles, COLUMN, 3) if len(titles) > 1 else 0.0
    figure, (panel,) = create_figure(COLUMN, 0.7 + 0.22 * len(names) * max(1, 0.6 * len(titles)) + legend)
    width = 0.8 / len(titles)
    for number, shares in enumerate(searched.importance):
        at = [i + 0.4 - (number + 0.5) * width for i in range(len(names))]
        panel.barh(
            at,
            [shares.get(n, 0.0) for n in names],
            height=width,
            color=COLORS[number % len(COLORS)],
            label=escape_mathtext(titles[number]),
        )
    panel.set_yticks(range(len(names)), [escape_mathtext(n) for n in names])
    panel.set(xlabel="importance (share)")
    panel.grid(visible=False, axis="y")
    if len(titles) > 1:
        draw_legend_below(figure, panel, columns=3)
    return figure


def _draw_parameters(searched: SearchResult, number: int) -> Figure | None:
    """Draw the objective against each parameter; words become categories."""
    panels = _collect_panels(searched.complete)[:MOST_PANELS]
    if not panels:
        return None
    columns = min(PER_ROW, len(panels))
    rows = math.ceil(len(panels) / columns)
    figure, axes = create_figure(COLUMN if columns == 1 else PAGE, 1.8 * rows + 0.1, rows, columns, sharey=True)
    for at, (panel, (name, points)) in enumerate(zip(axes, panels, strict=False)):
        _draw_scatter(panel, [(value, t.values[number]) for value, t in points])
        panel.set(xlabel=escape_mathtext(name))
        if at % columns == 0:
            panel.set(ylabel=_format_axis_label(searched.objectives[number]))
    hide_unused_axes(axes, len(panels))
    return figure


def _collect_panels(trials: Sequence[SearchTrial]) -> list[tuple[str, list[tuple[str, SearchTrial]]]]:
    """Return (name of a parameter, its value in every trial that has it); one of single choices has a panel each."""
    out: dict[str, list[tuple[str, SearchTrial]]] = {}
    for trial in trials:
        for key, value in trial.setting.items():
            head, _, option = key.partition(".")
            choice = trial.setting.get(head) if option else None
            out.setdefault(f"{choice} {option}" if choice else key, []).append((value, trial))
    return [(name, points) for name, points in sorted(out.items()) if len({value for value, _ in points}) > 1]


def _draw_scatter(panel: Axes, points: Sequence[tuple[str, float]]) -> None:
    values = [_parse_number(text) for text, _ in points]
    numbers = [v for v in values if v is not None]
    if len(numbers) < len(values):
        words = sorted({text for text, _ in points})
        panel.plot(
            [words.index(text) for text, _ in points], [y for _, y in points], linestyle="", marker="o", color=COLORS[0]
        )
        panel.set_xticks(range(len(words)), [escape_mathtext(w) for w in words], rotation=30 if len(words) > 3 else 0)
        panel.set_xlim(-0.5, len(words) - 0.5)
        return
    panel.plot(numbers, [y for _, y in points], linestyle="", marker="o", color=COLORS[0])
    if min(numbers) > 0 and max(numbers) / min(numbers) >= 20:
        panel.set_xscale("log")


def _parse_number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _draw_front(searched: SearchResult) -> Figure:
    """Draw the two objectives against each other, with the Pareto front."""
    figure, (panel,) = create_figure(COLUMN, 2.8)
    done, front = searched.complete, searched.front()
    panel.plot(
        [t.values[0] for t in done],
        [t.values[1] for t in done],
        linestyle="",
        marker="o",
        color=COLORS[5],
        label="tried",
    )
    panel.plot(
        [t.values[0] for t in front],
        [t.values[1] for t in front],
        color=COLORS[3],
        marker="D",
        linewidth=0.9,
        label="Pareto front",
    )
    panel.set(xlabel=_format_axis_label(searched.objectives[0]), ylabel=_format_axis_label(searched.objectives[1]))
    draw_legend_below(figure, panel, columns=2)
    return figure
