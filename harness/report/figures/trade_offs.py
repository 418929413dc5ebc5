"""Two values of a system against each other: precision and recall, quality and diversity, generative frontiers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from openended.harness.core import UndefinedMetric, escape_mathtext
from openended.harness.report.figures import drawing
from openended.harness.report.figures.drawing import HUMAN_COLOR, HUMAN_STAR, MOST, Part, draw_each_part
from openended.harness.report.tables import frontier_gaps as frontier
from openended.harness.results import find_human_value, group_by, select_systems_with_both

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.transforms import Bbox

KNN = "knn_precision_recall"
# Diversity between texts, which entropy inside a text says nothing about; drawn where it was measured.
DIVERSITY = (("self_bleu", "self_bleu_4"), ("vendi", "vendi"), ("entropy", "entropy_1"), ("distinct_n", "distinct_4"))
GRID = 60  # points of a frontier
STEPS = 40  # sample points per line segment
PAD = 2.5  # points of free room around a label: a marker reaches as far
ALIGN = {-1: ("right", "top"), 0: ("center", "center"), 1: ("left", "bottom")}
DIRECTIONS = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1))
# Candidate positions, nearest first: points between the data point and the edge or middle of the label, direction.
OFFSETS = [(far, dx, dy) for far in (5, 9, 14, 20) for dx, dy in DIRECTIONS]

Estimate = tuple[float, float, float]  # Gen-PPL with the ends of its interval


@draw_each_part("precision_recall", KNN, legend=2)
def precision_recall(part: Part) -> Figure | None:
    """Draw precision against recall, with ellipses of two standard deviations over seeds (P&R Fig. 1)."""
    from matplotlib.patches import Ellipse

    systems = select_systems_with_both(part.values, (KNN, "recall"), (KNN, "precision"))[:MOST]
    if not systems:
        return None
    figure, (panel,) = drawing.create_panels(1, 2.6)
    for (system, x, y), style in zip(systems, part.styles.choose([x for _, x, _ in systems]), strict=True):
        color = style["color"]
        # Points have no dashes to differ in.
        hollow = {"markerfacecolor": "none"} if style["linestyle"] == "--" else {}
        panel.plot(x.mean, y.mean, **(style | hollow | {"linestyle": "", "label": escape_mathtext(system.name)}))
        points = np.array([[x.values[s], y.values[s]] for s in x.values if s in y.values])
        if len(points) < 3:  # of two, the ellipse is a line
            continue
        # Two standard deviations over seeds to both sides, along the principal axes.
        variances, directions = np.linalg.eigh(np.cov(points.T))
        width, height = map(float, 2 * 2 * np.sqrt(np.clip(variances[::-1], 0, None)))
        angle = math.degrees(math.atan2(directions[1, 1], directions[0, 1]))
        center = (float(points[:, 0].mean()), float(points[:, 1].mean()))
        look: dict[str, Any] = {"facecolor": color, "alpha": 0.2, "edgecolor": color, "linewidth": 0.8}
        panel.add_patch(Ellipse(center, width, height, angle=angle, **look))
        panel.plot(*points.T, color=color, marker=".", markersize=1.5, linestyle="")
    panel.set(xlabel="recall ↑", ylabel="precision ↑")
    panel.margins(0.08)
    panel.set(xlim=(None, min(panel.get_xlim()[1], 1.02)), ylim=(None, min(panel.get_ylim()[1], 1.02)))
    return figure


@draw_each_part("quality_diversity", "gen_ppl", legend=0)
def quality_diversity(part: Part) -> Figure | None:
    """Draw generation perplexity against entropy; decoders of one kind are joined along their parameter."""
    from matplotlib.ticker import LogLocator

    systems = select_systems_with_both(part.values, ("gen_ppl", "gen_ppl"), ("gen_ppl", "entropy"))
    if len(systems) < 2:
        return None
    kinds = group_by(  # joined are those that differ in the decoder's parameters alone
        systems, lambda entry: tuple(v for a, v in entry[1].axes.items() if not a.startswith("decoder."))
    )
    groups = list(kinds.values())[:MOST]
    figure, (panel,) = drawing.create_panels(1, 2.5)
    ends: list[tuple[str, float, float, str]] = []
    styles = part.styles.choose([entries[0][1] for entries in groups])
    for entries, style in zip(groups, styles, strict=True):
        (system, value, _), xs, ys = entries[0], [x.mean for _, x, _ in entries], [y.mean for _, _, y in entries]
        kind = value.axes.get("decoder", "")
        name = system.name.replace(value.titles[1], kind) if len(entries) > 1 else system.name
        panel.plot(xs, ys, **(style | {"label": escape_mathtext(name), "linewidth": 0.9}))
        for at in (0, -1) if len(entries) > 2 else ():  # without the option's name if that is the decoder's
            option = entries[at][1].titles[1].rpartition(" ")[2].removeprefix(f"{kind}=")
            ends.append((option, xs[at], ys[at], str(style["color"])))
    sides = [(find_human_value(part.values, x), find_human_value(part.values, y)) for _, x, y in systems]
    humans = dict.fromkeys((x.mean, y.mean) for x, y in sides if x and y and math.isfinite(x.mean + y.mean))
    for number, (x_mean, y_mean) in enumerate(humans):  # systems of several lengths have several human sides
        panel.plot(x_mean, y_mean, **(HUMAN_STAR | {"label": "_" if number else "human"}))
        panel.axvline(x_mean, color=HUMAN_COLOR, linewidth=0.5, linestyle=":")
        panel.axhline(y_mean, color=HUMAN_COLOR, linewidth=0.5, linestyle=":")
    panel.set_xscale("log")
    panel.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    drawing.format_numbers_plainly(panel.xaxis)
    panel.set(xlabel="generation perplexity (nearest to human is best)", ylabel="entropy of the texts (nats)")
    panel.margins(0.08)
    drawing.add_legend(figure)
    draw_labels(figure, panel, ends)
    return figure


@draw_each_part("frontier", "gen_ppl")
def generative_frontier(part: Part) -> Figure | None:
    """Draw the frontier of every decoder with two settings or more; bands are 95 % intervals over prompts."""
    entries = frontier.find_frontiers(part.results, part.values)[:MOST]
    if not entries:
        return None
    below = [pair for pair in DIVERSITY if any(s.value(*pair) for e in entries for s in e.systems)]
    names = [escape_mathtext(entry.name) for entry in entries]
    figure, panels = drawing.create_panels(1 + len(below), (2.4 + 1.2 * len(below)) / (1 + len(below)), per_row=1)
    for index, (entry, name) in enumerate(zip(entries, names, strict=True)):
        style, (low, high) = drawing.choose_style(index), entry.reach
        grid = np.linspace(low, high, GRID)
        middle, bottom, top = (np.exp(values) for values in frontier.compute_bands(entry, grid))
        points = entry.entropy[0], np.exp(entry.log_ppl[0])
        panels[0].fill_between(grid, bottom, top, color=style["color"], alpha=0.15, linewidth=0)
        panels[0].plot(grid, middle, color=style["color"], linestyle=style["linestyle"], linewidth=0.9)
        panels[0].plot(*points, label=name, **(style | {"linestyle": ""}))
        for panel, pair in zip(panels[1:], below, strict=True):
            pairs = [(h, v) for s in entry.systems if (h := s.value(*frontier.ENTROPY)) and (v := s.value(*pair))]
            if pairs:
                x, y = zip(*sorted((h.mean, v.mean) for h, v in pairs), strict=True)
                panel.plot(x, y, color=style["color"], marker=style["marker"], linewidth=0.9)
                panel.set(ylabel=escape_mathtext(pairs[0][1].title))
    entropy, ppl = (find_human_value(part.values, value) for value in entries[0].points[0])
    if entropy is not None and ppl is not None:
        panels[0].plot(entropy.mean, ppl.mean, **HUMAN_STAR)
        for panel in panels:
            panel.axvline(entropy.mean, color=HUMAN_COLOR, linewidth=0.5, linestyle=":")
    panels[0].set_yscale("log")
    drawing.format_numbers_plainly(panels[0].yaxis)
    panels[0].set(ylabel="generation perplexity")
    panels[-1].set(xlabel="entropy of the texts (nats)")
    return figure


@draw_each_part("steps", "gen_ppl")
def steps_at_equal_entropy(part: Part) -> Figure | None:
    """Draw Gen-PPL at the human entropy for each number of steps; systems without steps are horizontal bands."""
    from matplotlib.ticker import LogLocator

    entries = frontier.find_frontiers(part.results, part.values)
    if not entries:
        return None
    entropy, ppl = entries[0].points[0]
    human_entropy = frontier.load_human_entropy(part.results, part.values, entropy)
    human = find_human_value(part.values, ppl)
    samplers: dict[str, list[tuple[int | None, Estimate]]] = {}
    for entry in entries:
        try:
            at_human = frontier.estimate_at(entry, human_entropy)
        except UndefinedMetric:  # the frontier does not reach the human entropy
            continue
        interval = at_human.interval()
        middle, low, high = (float(np.exp(x)) for x in (at_human.value, interval.low, interval.high))
        samplers.setdefault(entry.sampler, []).append((entry.steps, (middle, low, high)))
    visible = {escape_mathtext(name): estimates for name, estimates in list(samplers.items())[:MOST]}
    if not any(steps is not None for estimates in visible.values() for steps, _ in estimates):
        return None
    figure, (axes,) = drawing.create_panels(1, 2.3)
    for index, (name, estimates) in enumerate(visible.items()):
        style = drawing.choose_style(index) | {"label": name, "linewidth": 0.9}
        by_steps = sorted((steps, estimate) for steps, estimate in estimates if steps is not None)
        if by_steps:
            middles, lows, highs = np.array([estimate for _, estimate in by_steps]).T
            errors = np.stack([middles - lows, highs - middles])
            axes.errorbar([steps for steps, _ in by_steps], middles, yerr=errors, **style)
        else:
            middle, low, high = estimates[0][1]
            axes.axhspan(low, high, color=style["color"], alpha=0.15, linewidth=0)
            axes.axhline(middle, **{key: value for key, value in style.items() if key != "marker"})
    if human is not None:
        axes.axhline(human.mean, color=HUMAN_COLOR, linewidth=0.8, linestyle=":", label="human")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    for axis in (axes.xaxis, axes.yaxis):
        drawing.format_numbers_plainly(axis)
    axes.set(xlabel="steps", ylabel="Gen. PPL at the human entropy")
    return figure


def draw_labels(figure: Figure, panel: Axes, labels: Sequence[tuple[str, float, float, str]]) -> None:
    """Draw labels (text, x, y, color), each at the first free position, or else at the one that covers least.

    To be called last: the axes, their limits and all that is drawn in them are known by then.
    """
    figure.draw_without_rendering()
    paths = [line.get_transform().transform_path(line.get_path()).interpolated(STEPS) for line in panel.get_lines()]
    occupied = np.concatenate([path.vertices for path in paths])
    inside = panel.get_window_extent()
    boxes: list[Bbox] = []
    for label, x, y, color in labels:
        candidates = []
        for far, dx, dy in OFFSETS:
            text = panel.annotate(
                label, (x, y), xytext=(dx * far, dy * far), textcoords="offset points", fontsize=6, color=color,
                ha=ALIGN[dx][0], va=ALIGN[dy][1],
            )  # fmt: skip
            text.set_in_layout(False)  # the layout must not move after the position was chosen
            box = text.get_window_extent().padded(PAD * figure.dpi / 72)
            is_outside = inside.count_contains(box.corners()) < 4
            # Another label, or the edge of the axes, weighs more than any line.
            cost = box.count_contains(occupied) + 1000 * (box.count_overlaps(boxes) + is_outside)
            candidates.append((cost, text, box))
        best = min(candidates, key=lambda candidate: candidate[0])
        for candidate in candidates:
            if candidate is not best:
                candidate[1].remove()
        boxes.append(best[2])
