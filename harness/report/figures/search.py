"""A search as figures: how it went, what each parameter did, the front of two objectives."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from openended.harness.core import escape_mathtext
from openended.harness.report.figures.drawing import (
    COLOURS,
    COLUMN,
    HUMAN_COLOUR,
    PAGE,
    hide_rest,
    legend_below,
    legend_height,
    new_figure,
)
from openended.harness.results import SearchObjective, SearchResult, SearchTrial

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PER_ROW = 3
MOST_PANELS = 12


def search_figures(searched: SearchResult) -> Mapping[str, Figure]:
    """Draw what there is to draw: nothing of a search without a finished trial."""
    if not searched.complete:
        return {}
    drawn = {"search-history": _history(searched)}
    if any(searched.importance):
        drawn["search-importance"] = _importance(searched)
    for place in range(len(searched.objectives)):
        figure = _parameters(searched, place)
        if figure is not None:
            drawn["search-parameters" + (f"-{place + 1}" if len(searched.objectives) > 1 else "")] = figure
    if len(searched.objectives) == 2:
        drawn["search-front"] = _front(searched)
    return drawn


def _history(searched: SearchResult) -> Figure:
    """The value of every trial, and the best so far; trials that ended at a smaller size are hollow."""
    from matplotlib.ticker import MaxNLocator

    count = len(searched.objectives)
    figure, axes = new_figure(COLUMN if count == 1 else PAGE, 2.3, 1, count)
    for place, (panel, one) in enumerate(zip(axes, searched.objectives, strict=True)):
        pruned = [t for t in searched.trials if t.state == "pruned" and t.values]
        done = searched.complete
        if pruned:
            style: dict[str, Any] = {
                "linestyle": "",
                "marker": "o",
                "markerfacecolor": "none",
                "color": COLOURS[1],
                "label": "pruned",
            }
            panel.plot([t.number for t in pruned], [t.values[place] for t in pruned], **style)
        panel.plot(
            [t.number for t in done], [t.values[place] for t in done], linestyle="", marker="o", color=COLOURS[0],
            label="to the end",
        )  # fmt: skip
        pick = max if one.direction == "maximize" else min
        best = [pick(t.values[place] for t in done[: i + 1]) for i in range(len(done))]
        panel.step([t.number for t in done], best, where="post", color=HUMAN_COLOUR, linewidth=0.9, label="best so far")
        panel.set(xlabel="trial", ylabel=_named(one))
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    legend_below(figure, axes[0], columns=3)
    return figure


def _named(one: SearchObjective) -> str:
    return escape_mathtext(f"{one.title} {'↑' if one.direction == 'maximize' else '↓'}")


def _importance(searched: SearchResult) -> Figure:
    names = sorted({n for shares in searched.importance for n in shares})
    names.sort(key=lambda n: sum(shares.get(n, 0.0) for shares in searched.importance))
    titles = [one.title for one in searched.objectives]
    legend = legend_height(titles, COLUMN, 3) if len(titles) > 1 else 0.0
    figure, (panel,) = new_figure(COLUMN, 0.7 + 0.22 * len(names) * max(1, 0.6 * len(titles)) + legend)
    width = 0.8 / len(titles)
    for place, shares in enumerate(searched.importance):
        at = [i + 0.4 - (place + 0.5) * width for i in range(len(names))]
        panel.barh(
            at,
            [shares.get(n, 0.0) for n in names],
            height=width,
            color=COLOURS[place % len(COLOURS)],
            label=escape_mathtext(titles[place]),
        )
    panel.set_yticks(range(len(names)), [escape_mathtext(n) for n in names])
    panel.set(xlabel="importance (share)")
    panel.grid(visible=False, axis="y")
    if len(titles) > 1:
        legend_below(figure, panel, columns=3)
    return figure


def _parameters(searched: SearchResult, place: int) -> Figure | None:
    """The objective against each parameter; words stand side by side, numbers of one choice in its colour."""
    panels = _panels(searched.complete)[:MOST_PANELS]
    if not panels:
        return None
    columns = min(PER_ROW, len(panels))
    rows = math.ceil(len(panels) / columns)
    figure, axes = new_figure(COLUMN if columns == 1 else PAGE, 1.8 * rows + 0.1, rows, columns, sharey=True)
    for at, (panel, (name, points)) in enumerate(zip(axes, panels, strict=False)):
        _scatter(panel, [(value, t.values[place]) for value, t in points])
        panel.set(xlabel=escape_mathtext(name))
        if at % columns == 0:
            panel.set(ylabel=_named(searched.objectives[place]))
    hide_rest(axes, len(panels))
    return figure


def _panels(trials: Sequence[SearchTrial]) -> list[tuple[str, list[tuple[str, SearchTrial]]]]:
    """Return (name of a parameter, its value in every trial that has it); one of single choices has a panel each."""
    out: dict[str, list[tuple[str, SearchTrial]]] = {}
    for trial in trials:
        for key, value in trial.setting.items():
            head, _, option = key.partition(".")
            choice = trial.setting.get(head) if option else None
            out.setdefault(f"{choice} {option}" if choice else key, []).append((value, trial))
    return [(name, points) for name, points in sorted(out.items()) if len({value for value, _ in points}) > 1]


def _scatter(panel: Axes, points: Sequence[tuple[str, float]]) -> None:
    values = [_number(text) for text, _ in points]
    known = [v for v in values if v is not None]
    if len(known) < len(values):
        words = sorted({text for text, _ in points})
        panel.plot(
            [words.index(text) for text, _ in points],
            [y for _, y in points],
            linestyle="",
            marker="o",
            color=COLOURS[0],
        )
        panel.set_xticks(range(len(words)), [escape_mathtext(w) for w in words], rotation=30 if len(words) > 3 else 0)
        panel.set_xlim(-0.5, len(words) - 0.5)
        return
    panel.plot(known, [y for _, y in points], linestyle="", marker="o", color=COLOURS[0])
    if min(known) > 0 and max(known) / min(known) >= 20:
        panel.set_xscale("log")


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _front(searched: SearchResult) -> Figure:
    """The two objectives against each other, with the settings that no other beats."""
    figure, (panel,) = new_figure(COLUMN, 2.8)
    done, front = searched.complete, searched.front()
    panel.plot(
        [t.values[0] for t in done],
        [t.values[1] for t in done],
        linestyle="",
        marker="o",
        color=COLOURS[5],
        label="tried",
    )
    panel.plot(
        [t.values[0] for t in front],
        [t.values[1] for t in front],
        color=COLOURS[3],
        marker="D",
        linewidth=0.9,
        label="beaten by none",
    )
    panel.set(xlabel=_named(searched.objectives[0]), ylabel=_named(searched.objectives[1]))
    legend_below(figure, panel, columns=2)
    return figure
