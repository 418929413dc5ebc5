"""Divergence curves of all systems in one panel, and rank-frequency curves of human and systems."""

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
    space_markers,
)
from openended.harness.results import Results, SystemValue, find_human_value, group_by_task_and_options, group_systems

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CURVES = "arrays/divergence_curves"


def divergence_curves(results: Results, styles: SystemStyles) -> Mapping[str, Figure]:
    """Draw the MAUVE curve of every system: missed text against implausible text (MAUVE Fig. 2).

    A line is the mean over seeds and clusterings, so that its area is the value in the legend; the band is their
    standard deviation.
    """

    def draw(part: Sequence[SystemValue]) -> Figure | None:
        curves: list[tuple[str, SystemValue, tuple[F64, F64, F64]]] = []
        for system in group_systems(part):
            for value in (i for i in system.items if (i.metric, i.key) == ("mauve", "mauve") and math.isfinite(i.mean)):
                stored = [a[CURVES] for s in value.sources if CURVES in (a := results.arrays(*s))]
                if stored and len(stored) == value.seeds:
                    curve = average_curves([np.asarray(a, dtype=np.float64) for a in stored])
                    curves.append((f"{escape_mathtext(system.name)} ({value.mean:.3f})", value, curve))
                    break
        if len(curves) > MOST:  # the best ones
            curves = sorted(curves, key=lambda c: -c[1].mean)[:MOST]
        if not curves:
            return None
        figure, (panel,) = create_figure(COLUMN, 3.0, legend=[label for label, _, _ in curves], most=2)
        choices = styles.choose([value for _, value, _ in curves])
        for index, ((label, _, (x, mean, sd)), style) in enumerate(zip(curves, choices, strict=True)):
            panel.plot(x, mean, label=label, markevery=space_markers(len(x), index, len(curves)), **style)
            low, high = np.clip(mean - sd, 0, 1), np.clip(mean + sd, 0, 1)
            panel.fill_between(x, low, high, color=style["color"], alpha=0.15, linewidth=0)
        panel.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
        panel.set_xlabel("less implausible text →\nexp(−c KL(model, mixture))")
        panel.set_ylabel("exp(−c KL(human, mixture))\nless missed text →")
        draw_legend_below(figure, panel, 2)
        return figure

    return facet("divergence", group_by_task_and_options(results.values, "mauve"), draw)


def average_curves(runs: Sequence[F64]) -> tuple[F64, F64, F64]:
    """Average divergence curves at each height, so that the area under the mean is the mean of the areas."""
    curves = [curve[np.lexsort((-curve[:, 1], curve[:, 0]))] for run in runs for curve in run]
    weights = np.concatenate([np.full(len(run), 1 / (len(run) * len(runs))) for run in runs])
    x = np.unique(np.concatenate([curve[:, 0] for curve in curves]))
    heights = np.stack([np.interp(x, *curve.T) for curve in curves])
    mean = weights @ heights
    sd = np.sqrt(weights @ (heights - mean) ** 2)
    # Each curve drops to the axes at its ends.
    return np.concatenate([[0.0], x]), np.concatenate([[1.0], mean]), np.concatenate([[0.0], sd])


def rank_frequency(results: Results, styles: SystemStyles) -> Mapping[str, Figure]:
    """Draw token rank against frequency of the human text and of each system, on logarithmic axes (Zipf)."""

    def draw(part: Sequence[SystemValue]) -> Figure | None:
        lines: list[tuple[str, SystemValue, F64]] = []
        for system in group_systems(part)[:MOST]:
            value = system.value("zipf", "zipf")
            stored = (_read_points(results.arrays(*s)) for s in value.sources) if value else iter(())
            points = next((p for p in stored if p is not None), None)
            if points is not None and value is not None:
                lines.append((escape_mathtext(system.name), value, points))
        if not lines:
            return None
        sides = dict.fromkeys(h.sources[0] for _, v, _ in lines if (h := find_human_value(part, v)) is not None)
        humans = [line for source in sides if (line := _read_points(results.arrays(*source))) is not None]
        figure, (panel,) = create_figure(COLUMN, 2.6, legend=[*(label for label, _, _ in lines), "human"], most=2)
        choices = styles.choose([value for _, value, _ in lines])
        for index, ((label, _, points), style) in enumerate(zip(lines, choices, strict=True)):
            every = space_markers(len(points[0]), index, len(lines))
            panel.plot(*points, label=label, markevery=every, **(style | {"linewidth": 1.0}))
        for number, line in enumerate(humans):  # systems of several lengths have several human sides
            panel.plot(*line, label="_" if number else "human", color=HUMAN_COLOR, linewidth=1.4)
        panel.set(xscale="log", yscale="log", xlabel="rank of the token", ylabel="occurrences")
        draw_legend_below(figure, panel, 2)
        return figure

    return facet("zipf", group_by_task_and_options(results.values, "zipf"), draw)


def _read_points(arrays: Mapping[str, Any]) -> F64 | None:
    """Return ranks and counts, shape (2, points), of the line that the metric fitted."""
    if "arrays/log_rank" not in arrays or "arrays/log_frequency" not in arrays:
        return None
    return np.exp(np.stack([arrays["arrays/log_rank"], arrays["arrays/log_frequency"]]).astype(np.float64))
