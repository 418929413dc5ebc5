"""Two values of a system against each other: precision and recall, quality and diversity."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from openended.harness.core import F64
from openended.harness.report.figures.drawing import (
    COLOURS,
    COLUMN,
    HUMAN_COLOUR,
    MOST,
    legend_below,
    legend_height,
    look,
    new_figure,
)
from openended.harness.report.figures.labels import Label, place_labels
from openended.harness.report.figures.naming import Told, named
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

PRECISION_RECALL = "knn_precision_recall"


def precision_recall(results: Results, items: Sequence[SystemValue]) -> Mapping[str, Figure]:  # noqa: ARG001
    """Draw precision against recall, with ellipses of two standard deviations over seeds (P&R Fig. 1)."""
    drawn: dict[Told, Figure | None] = {}
    for told, part in group_by_task_and_options(items, PRECISION_RECALL).items():
        known = select_systems_with_both(part, (PRECISION_RECALL, "recall"), (PRECISION_RECALL, "precision"))[:MOST]
        if known:
            drawn[told] = _precision_recall(known)
    return named("precision_recall", drawn)


def _precision_recall(known: Sequence[tuple[System, SystemValue, SystemValue]]) -> Figure:
    figure, (panel,) = new_figure(COLUMN, 2.7 + legend_height([s.label for s, _, _ in known], COLUMN, 2))
    for index, (system, x, y) in enumerate(known):
        style = look(index)
        hollow = {"markerfacecolor": "none"} if index // len(COLOURS) % 2 else {}  # points have no dashes to differ in
        panel.plot(x.mean, y.mean, **(style | hollow | {"linestyle": "", "label": system.label}))
        seeds = [s for s in x.values if s in y.values]
        points = np.array([[x.values[s], y.values[s]] for s in seeds])
        if len(points) > 2:  # of two, the ellipse is a line
            _ellipse(panel, points, style["color"])
    panel.set(xlabel="recall ↑", ylabel="precision ↑")
    panel.margins(0.08)
    panel.set(xlim=(None, min(panel.get_xlim()[1], 1.02)), ylim=(None, min(panel.get_ylim()[1], 1.02)))
    legend_below(figure, panel, columns=2)
    return figure


def _ellipse(panel: Axes, points: F64, colour: str) -> None:
    """Draw where two standard deviations lie, along the principal axes of the seeds' spread."""
    from matplotlib.patches import Ellipse

    spread, directions = np.linalg.eigh(np.cov(points.T))
    width, height = 2 * 2 * np.sqrt(np.clip(spread[::-1], 0, None))
    angle = math.degrees(math.atan2(directions[1, 1], directions[0, 1]))
    center = (float(points[:, 0].mean()), float(points[:, 1].mean()))
    options: dict[str, Any] = {"facecolor": colour, "alpha": 0.2, "edgecolor": colour, "linewidth": 0.8}
    panel.add_patch(Ellipse(center, float(width), float(height), angle=angle, **options))
    panel.plot(*points.T, color=colour, marker=".", markersize=1.5, linestyle="")


def quality_diversity(results: Results, items: Sequence[SystemValue]) -> Mapping[str, Figure]:  # noqa: ARG001
    """Draw generation perplexity against entropy; decoders of one kind are joined along their parameter."""
    drawn: dict[Told, Figure | None] = {}
    for told, part in group_by_task_and_options(items, "gen_ppl").items():
        known = select_systems_with_both(part, ("gen_ppl", "gen_ppl"), ("gen_ppl", "entropy"))
        if len(known) > 1:
            drawn[told] = _quality_diversity(known, part)
    return named("quality_diversity", drawn)


def _kind(entry: tuple[System, SystemValue, SystemValue]) -> str:
    """Name a decoder without its parameters."""
    system, value, _ = entry
    return system.label.replace(value.titles[1], value.axes.get("decoder", ""))


def _option(value: SystemValue) -> str:
    """Say the parameter of a decoder, without its name where that is the decoder's own (`0.6` of temperature)."""
    option = value.titles[1].rpartition(" ")[2]
    return option.removeprefix(f"{value.axes.get('decoder', '')}=")


def _quality_diversity(
    known: Sequence[tuple[System, SystemValue, SystemValue]], items: Sequence[SystemValue]
) -> Figure:
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    kinds: dict[tuple[str, ...], list[tuple[System, SystemValue, SystemValue]]] = {}
    for entry in known:  # joined are those that differ in the decoder's parameters alone
        rest = tuple(v for a, v in entry[1].axes.items() if not a.startswith("decoder."))
        kinds.setdefault(rest, []).append(entry)
    shown = list(kinds.items())[:MOST]
    names = [e[0][0].label if len(e) == 1 else _kind(e[0]) for _, e in shown]
    figure, (panel,) = new_figure(COLUMN, 2.6 + legend_height([*names, "human"], COLUMN, 3))
    ends: list[Label] = []
    for index, (_, entries) in enumerate(shown):
        xs, ys = [x.mean for _, x, _ in entries], [y.mean for _, _, y in entries]
        panel.plot(xs, ys, **(look(index) | {"label": names[index], "linewidth": 0.9}))
        if len(entries) > 2:
            ends += [Label(_option(entries[at][1]), xs[at], ys[at], str(look(index)["color"])) for at in (0, -1)]
    sides = [(find_human_value(items, x), find_human_value(items, y)) for _, x, y in known]
    humans = dict.fromkeys((x.mean, y.mean) for x, y in sides if x and y and math.isfinite(x.mean + y.mean))
    for place, (x_mean, y_mean) in enumerate(humans):  # systems of several lengths have several human sides
        label = "_" if place else "human"
        panel.plot(x_mean, y_mean, marker="*", markersize=9, color=HUMAN_COLOUR, linestyle="", label=label)
        panel.axvline(x_mean, color=HUMAN_COLOUR, linewidth=0.5, linestyle=":")
        panel.axhline(y_mean, color=HUMAN_COLOUR, linewidth=0.5, linestyle=":")
    panel.set_xscale("log")
    panel.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    panel.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    panel.xaxis.set_minor_formatter(NullFormatter())
    panel.set(xlabel="generation perplexity (nearest to human is best)", ylabel="entropy of the texts (nats)")
    panel.margins(0.08)
    legend_below(figure, panel, columns=3)
    place_labels(figure, panel, ends)
    return figure
