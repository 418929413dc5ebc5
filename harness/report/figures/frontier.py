"""Figures at equal entropy: generative frontiers, and the number of sampling steps."""

import math
from typing import Any

import numpy as np

from openended.harness.report.figures.plot import Mark, Panel, Part, Plot, Series, drop_embedders
from openended.harness.report.tables import frontier_gaps as frontier
from openended.harness.report.tables.pictures import HUMAN_COLOR, HUMAN_STAR
from openended.harness.results import find_human_value

# Diversity between texts, which entropy inside a text says nothing about; drawn where it was measured.
DIVERSITY = (("self_bleu", "self_bleu_4"), ("vendi", "vendi"), ("entropy", "entropy_1"), ("distinct_n", "distinct_4"))
GRID = 60  # points of a frontier

Estimate = tuple[float, float, float]  # Gen-PPL with the ends of its interval


def show_frontier(part: Part) -> Plot | None:
    """Show the frontier of every decoder with two settings or more; bands are 95 % intervals over prompts."""
    systems = {tuple(item.axes.values()) for item in part.values if item.system == "model"}
    others_of = (
        i for i in drop_embedders(part.results.values) if i.metric != "gen_ppl" and tuple(i.axes.values()) in systems
    )
    entries = frontier.find_frontiers(part.results, [*part.values, *others_of])
    if not entries:
        return None
    below = [pair for pair in DIVERSITY if any(s.value(*pair) for e in entries for s in e.systems)]
    first = list[Series]()
    lower: dict[tuple[str, str], list[Series]] = {pair: [] for pair in below}
    titles = dict[tuple[str, str], str]()
    for entry in entries:
        system: dict[str, Any] = {"like": entry.systems[0].items[0], "style": entry.name}
        grid = np.linspace(*entry.reach, GRID)
        middle, bottom, top = (np.exp(values) for values in frontier.compute_bands(entry, grid))
        look: dict[str, Any] = {"linewidth": 0.9}
        band: dict[str, Any] = {"below": middle - bottom, "above": top - middle}
        first.append(Series(x=grid, y=middle, look=look | {"marker": "", "alpha": 0.15}, **system, **band))
        x, y = entry.entropy[0], np.exp(entry.log_ppl[0])
        first.append(Series(mark="dots", x=x, y=y, label=entry.name, **system))
        for pair in below:
            pairs = [(h, v) for s in entry.systems if (h := s.value(*frontier.ENTROPY)) and (v := s.value(*pair))]
            if pairs:
                x, y = zip(*sorted((h.mean, v.mean) for h, v in pairs), strict=True)
                lower[pair].append(Series(x=x, y=y, look=look | {"linestyle": "-"}, **system))
                titles[pair] = pairs[0][1].title
    entropy, ppl = (find_human_value(part.values, value) for value in entries[0].points[0])
    if entropy is not None and ppl is not None:
        rule: dict[str, Any] = {"color": HUMAN_COLOR, "linewidth": 0.5, "linestyle": ":"}
        for series in (first, *lower.values()):
            series.append(Series(mark="cross", x=[entropy.mean], look=rule))
        first.append(Series(mark="dots", x=[entropy.mean], y=[ppl.mean], label="human", look=HUMAN_STAR))
    options: dict[str, Any] = {"yscale": "log", "plain": ["y"], "ylabel": "generation perplexity"}
    panels = [Panel(first, "frontier", options)]
    panels += [Panel(series, ".".join(pair), {"ylabel": titles.get(pair, "")}) for pair, series in lower.items()]
    panels[-1] = Panel(
        panels[-1].series, panels[-1].name, {**panels[-1].options, "xlabel": "entropy of the texts (nats)"}
    )
    return Plot(panels, changes={"height": (2.4 + 1.2 * len(below)) / (1 + len(below))})


def show_steps(part: Part) -> Plot | None:
    """Show Gen-PPL at the human entropy for each number of steps; systems without steps are horizontal bands."""
    entries = frontier.find_frontiers(part.results, part.values)
    if not entries:
        return None
    entropy, ppl = entries[0].points[0]
    human_entropy = frontier.load_human_entropy(part.results, part.values, entropy)
    human = find_human_value(part.values, ppl)
    samplers: dict[str, list[tuple[int | None, Estimate]]] = {}
    likes = {entry.sampler: entry.systems[0].items[0] for entry in reversed(entries)}
    for entry in entries:
        cell = frontier.format_estimate(frontier.estimate_at, entry, human_entropy, convert=np.exp)
        if math.isfinite(cell.value):  # the frontier reaches the human entropy
            samplers.setdefault(entry.sampler, []).append((entry.steps, (cell.value, cell.low, cell.high)))
    if not any(steps is not None for estimates in samplers.values() for steps, _ in estimates):
        return None
    series = []
    for name, estimates in samplers.items():
        by_steps = sorted((steps, estimate) for steps, estimate in estimates if steps is not None)
        middles, lows, highs = np.array([e for _, e in by_steps] or [estimates[0][1]]).T
        steps = [step for step, _ in by_steps]
        mark: Mark = "path" if steps else "span"
        error: dict[str, Any] = {"below": middles - lows, "above": highs - middles}
        common: dict[str, Any] = {"like": likes[name], "look": {"linewidth": 0.9}, **error}
        series.append(Series(mark=mark, x=steps, y=middles, label=name, **common))
    if human is not None:
        rule = {"color": HUMAN_COLOR, "linewidth": 0.8, "linestyle": ":"}
        series.append(Series(mark="cross", y=[human.mean], label="human", look=rule))
    return Plot([Panel(series)])
