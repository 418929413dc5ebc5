"""Two values of a system against each other: precision and recall, quality and diversity."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from openended.harness.core import F64, escape_mathtext
from openended.harness.report.figures.drawing import (
    COLUMN,
    HUMAN_COLOR,
    MOST,
    SystemStyles,
    create_figure,
    draw_legend_below,
    facet,
    format_numbers_plainly,
)
from openended.harness.report.figures.labels import Label, draw_labels
from openended.harness.results import (
    Results,
    System,
    SystemValue,
    find_human_value,
    group_by_task_and_options,
    select_systems_with_both,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

KNN = "knn_precision_recall"
Entry = tuple[System, SystemValue, SystemValue]


def precision_recall(results: Results, styles: SystemStyles) -> Mapping[str, Figure]:
    """Draw precision against recall, with ellipses of two standard deviations over seeds (P&R Fig. 1)."""

    def draw(part: Sequence[SystemValue]) -> Figure | None:
        systems = select_systems_with_both(part, (KNN, "recall"), (KNN, "precision"))[:MOST]
        if not systems:
            return None
        figure, (panel,) = create_figure(COLUMN, 2.7, legend=[s.name for s, _, _ in systems], most=2)
        for (system, x, y), style in zip(systems, styles.choose([x for _, x, _ in systems]), strict=True):
            # Points have no dashes to differ in.
            hollow = {"markerfacecolor": "none"} if style["linestyle"] == "--" else {}
            panel.plot(x.mean, y.mean, **(style | hollow | {"linestyle": "", "label": escape_mathtext(system.name)}))
            points = np.array([[x.values[s], y.values[s]] for s in x.values if s in y.values])
            if len(points) > 2:  # of two, the ellipse is a line
                _draw_ellipse(panel, points, style["color"])
        panel.set(xlabel="recall ↑", ylabel="precision ↑")
        panel.margins(0.08)
        panel.set(xlim=(None, min(panel.get_xlim()[1], 1.02)), ylim=(None, min(panel.get_ylim()[1], 1.02)))
        draw_legend_below(figure, panel, 2)
        return figure

    return facet("precision_recall", group_by_task_and_options(results.values, KNN), draw)


def _draw_ellipse(panel: Axes, points: F64, color: str) -> None:
    """Draw an ellipse of two standard deviations over seeds along their principal axes."""
    from matplotlib.patches import Ellipse

    spread, directions = np.linalg.eigh(np.cov(points.T))
    width, height = 2 * 2 * np.sqrt(np.clip(spread[::-1], 0, None))
    angle = math.degrees(math.atan2(directions[1, 1], directions[0, 1]))
    center = (float(points[:, 0].mean()), float(points[:, 1].mean()))
    options: dict[str, Any] = {"facecolor": color, "alpha": 0.2, "edgecolor": color, "linewidth": 0.8}
    panel.add_patch(Ellipse(center, float(width), float(height), angle=angle, **options))
    panel.plot(*points.T, color=color, marker=".", markersize=1.5, linestyle="")


def quality_diversity(results: Results, styles: SystemStyles) -> Mapping[str, Figure]:
    """Draw generation perplexity against entropy; decoders of one kind are joined along their parameter."""

    def draw(part: Sequence[SystemValue]) -> Figure | None:
        systems = select_systems_with_both(part, ("gen_ppl", "gen_ppl"), ("gen_ppl", "entropy"))
        return _draw_quality_diversity(systems, part, styles) if len(systems) > 1 else None

    return facet("quality_diversity", group_by_task_and_options(results.values, "gen_ppl"), draw)


def _draw_quality_diversity(systems: Sequence[Entry], items: Sequence[SystemValue], styles: SystemStyles) -> Figure:
    from matplotlib.ticker import LogLocator

    kinds: dict[tuple[str, ...], list[Entry]] = {}
    for entry in systems:  # joined are those that differ in the decoder's parameters alone
        rest = tuple(v for a, v in entry[1].axes.items() if not a.startswith("decoder."))
        kinds.setdefault(rest, []).append(entry)
    groups = list(kinds.values())[:MOST]
    names = [_name_decoder(entries) for entries in groups]
    figure, (panel,) = create_figure(COLUMN, 2.6, legend=[*names, "human"])
    ends: list[Label] = []
    choices = styles.choose([entries[0][1] for entries in groups])
    for name, entries, style in zip(names, groups, choices, strict=True):
        xs, ys = [x.mean for _, x, _ in entries], [y.mean for _, _, y in entries]
        panel.plot(xs, ys, **(style | {"label": name, "linewidth": 0.9}))
        if len(entries) > 2:
            ends += [Label(_format_option(entries[at][1]), xs[at], ys[at], str(style["color"])) for at in (0, -1)]
    sides = [(find_human_value(items, x), find_human_value(items, y)) for _, x, y in systems]
    humans = dict.fromkeys((x.mean, y.mean) for x, y in sides if x and y and math.isfinite(x.mean + y.mean))
    for number, (x_mean, y_mean) in enumerate(humans):  # systems of several lengths have several human sides
        label = "_" if number else "human"
        panel.plot(x_mean, y_mean, marker="*", markersize=9, color=HUMAN_COLOR, linestyle="", label=label)
        panel.axvline(x_mean, color=HUMAN_COLOR, linewidth=0.5, linestyle=":")
        panel.axhline(y_mean, color=HUMAN_COLOR, linewidth=0.5, linestyle=":")
    panel.set_xscale("log")
    panel.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    format_numbers_plainly(panel.xaxis)
    panel.set(xlabel="generation perplexity (nearest to human is best)", ylabel="entropy of the texts (nats)")
    panel.margins(0.08)
    draw_legend_below(figure, panel)
    draw_labels(figure, panel, ends)
    return figure


def _name_decoder(entries: Sequence[Entry]) -> str:
    """Return the label of a single system, or that of several without the decoder's parameters."""
    system, value, _ = entries[0]
    if len(entries) == 1:
        return escape_mathtext(system.name)
    return escape_mathtext(system.name).replace(value.titles[1], value.axes.get("decoder", ""))


def _format_option(value: SystemValue) -> str:
    """Format the parameter of a decoder, without its name if that is the decoder's (`0.6` for temperature)."""
    option = value.titles[1].rpartition(" ")[2]
    return option.removeprefix(f"{value.axes.get('decoder', '')}=")
