"""Figures of a search: its history, the effect of each parameter, the Pareto front of two objectives."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from openended.harness.report.analysis.lines import parse_number
from openended.harness.report.figures.plot import FAR, Panel, Plot, Series
from openended.harness.report.tables.pictures import COLORS, HUMAN_COLOR
from openended.harness.results import SearchObjective, SearchResult, SearchTrial

MOST_PANELS = 12
DOT = {"color": COLORS[0], "marker": "o"}


def show_search(searched: SearchResult) -> dict[str, Plot]:
    """Show all figures of a search; none if no trial is complete."""
    if not searched.complete:
        return {}
    plots = {"search-history": _show_history(searched)}
    if any(searched.importance):
        plots["search-importance"] = _show_importance(searched)
    parameters = _collect_parameters(searched.complete)
    several = len(searched.objectives) > 1
    for number in range(len(searched.objectives) if parameters else 0):
        name = f"search-parameters-{number + 1}" if several else "search-parameters"
        plots[name] = Plot([_show_parameter(searched, n, p, number) for n, p in parameters])
    if len(searched.objectives) == 2:
        plots["search-front"] = _show_front(searched)
    return plots


def _show_history(searched: SearchResult) -> Plot:
    """Show the value of every trial and the best so far."""
    panels = []
    for number, objective in enumerate(searched.objectives):
        x, y = zip(*((t.number, t.values[number]) for t in searched.complete), strict=True)
        best = (np.maximum if objective.direction == "maximize" else np.minimum).accumulate(y)
        path = {"color": HUMAN_COLOR, "linewidth": 0.9, "marker": ""}
        points = Series(mark="dots", x=x, y=y, label="complete", look=DOT)
        series = [points, Series(mark="step", x=x, y=best, label="best so far", look=path)]
        panels.append(Panel(series, options={"xlabel": "trial", "ylabel": _format_label(objective), "integers": ["x"]}))
    return Plot(panels)


def _format_label(objective: SearchObjective) -> str:
    return f"{objective.title} {'↑' if objective.direction == 'maximize' else '↓'}"


def _show_importance(searched: SearchResult) -> Plot:
    names = sorted({n for shares in searched.importance for n in shares})
    names.sort(key=lambda n: sum(shares.get(n, 0.0) for shares in searched.importance))
    titles = [objective.title for objective in searched.objectives]
    width = 0.8 / len(titles)
    series = []
    for number, shares in enumerate(searched.importance):
        at = [i + 0.4 - (number + 0.5) * width for i in range(len(names))]
        look: dict[str, Any] = {"color": COLORS[number % len(COLORS)], "height": width}
        label = titles[number] if len(titles) > 1 else ""
        series.append(Series(mark="bars", x=at, y=[shares.get(n, 0.0) for n in names], label=label, look=look))
    options: dict[str, Any] = {"yticklabels": names, "xlabel": "importance (share)", "grid": "x"}
    return Plot(
        [Panel(series, options=options)], changes={"height": 0.6 + 0.22 * len(names) * max(1, 0.6 * len(titles))}
    )


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


def _show_parameter(searched: SearchResult, name: str, points: Sequence[tuple[str, SearchTrial]], number: int) -> Panel:
    texts, y = [value for value, _ in points], [trial.values[number] for _, trial in points]
    words = sorted(set(texts))
    options: dict[str, Any] = {"xlabel": name, "outer": _format_label(searched.objectives[number])}
    x = [value for value in map(parse_number, texts) if value is not None]
    if len(x) == len(texts):
        options |= {"xscale": "log", "plain": ["x"]} if min(x) > 0 and max(x) / min(x) >= FAR else {}
    else:
        x = [words.index(text) for text in texts]
        ticks = {"xticklabels": words, "xlim": (-0.5, len(words) - 0.5)}
        options |= ticks | {"turn": 30 if len(words) > 3 else 0}
    return Panel([Series(mark="dots", x=x, y=y, look=DOT)], options=options)


def _show_front(searched: SearchResult) -> Plot:
    tried, front = (list(zip(*(t.values for t in of), strict=True)) for of in (searched.complete, searched.front()))
    look: dict[str, Any] = {"color": COLORS[3], "marker": "D", "linewidth": 0.9}
    points = Series(mark="dots", x=tried[0], y=tried[1], label="tried", look=DOT | {"color": COLORS[5]})
    series = [points, Series(x=front[0], y=front[1], label="Pareto front", look=look)]
    labels = [_format_label(objective) for objective in searched.objectives]
    return Plot([Panel(series, options={"xlabel": labels[0], "ylabel": labels[1]})], changes={"height": 2.7})
