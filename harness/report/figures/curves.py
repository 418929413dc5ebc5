"""Divergence curves of all systems in one panel, and rank-frequency curves of human and systems."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from openended.harness.core import F64, escape_mathtext
from openended.harness.report.figures.drawing import (
    COLUMN,
    HUMAN_COLOR,
    MOST,
    compute_legend_height,
    create_figure,
    draw_legend_below,
    space_markers,
)
from openended.harness.report.figures.naming import name_figures
from openended.harness.report.figures.styles import read_styles
from openended.harness.results import Results, SystemValue, find_human_value, group_by_task_and_options, group_systems

if TYPE_CHECKING:
    from matplotlib.figure import Figure


CURVES = "arrays/divergence_curves"


@dataclass(frozen=True, slots=True, eq=False)
class Band:
    """A mean curve with its standard deviation, each of shape (points,)."""

    x: F64
    mean: F64
    sd: F64


def divergence_curves(results: Results, items: Sequence[SystemValue]) -> Mapping[str, Figure]:
    """Draw the MAUVE curve of every system: missed text against implausible text (MAUVE Fig. 2).

    A line is the mean over seeds and clusterings, so that its area is the value in the legend; the band is their
    standard deviation.
    """
    return name_figures(
        "divergence",
        {key: _draw_divergence(results, part) for key, part in group_by_task_and_options(items, "mauve").items()},
    )


def _draw_divergence(results: Results, items: Sequence[SystemValue]) -> Figure | None:
    curves: list[tuple[str, SystemValue, Band]] = []
    for system in group_systems(items):
        for value in (i for i in system.items if (i.metric, i.key) == ("mauve", "mauve") and math.isfinite(i.mean)):
            stored = [a[CURVES] for s in value.sources if CURVES in (a := results.arrays(*s))]
            if stored and len(stored) == value.seeds:
                label = f"{escape_mathtext(system.name)} ({value.mean:.3f})"
                curves.append((label, value, mean_curve([np.asarray(a, dtype=np.float64) for a in stored])))
                break
    if not curves:
        return None
    if len(curves) > MOST:  # the best ones
        curves = sorted(curves, key=lambda c: -c[1].mean)[:MOST]
    figure, (panel,) = create_figure(COLUMN, 3.0 + compute_legend_height([c[0] for c in curves], COLUMN, 2))
    styles = read_styles(results).choose([value for _, value, _ in curves])
    for index, ((label, _, band), style) in enumerate(zip(curves, styles, strict=True)):
        every = space_markers(len(band.x), index, len(curves))
        panel.plot(band.x, band.mean, label=label, markevery=every, **style)
        low, high = np.clip(band.mean - band.sd, 0, 1), np.clip(band.mean + band.sd, 0, 1)
        panel.fill_between(band.x, low, high, color=style["color"], alpha=0.15, linewidth=0)
    panel.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    panel.set_xlabel("less implausible text →\nexp(−c KL(model, mixture))")
    panel.set_ylabel("exp(−c KL(human, mixture))\nless missed text →")
    draw_legend_below(figure, panel, columns=2)
    return figure


def mean_curve(runs: Sequence[F64]) -> Band:
    """Average divergence curves at each height, so that the area under the mean is the mean of the areas."""
    curves = [curve[np.lexsort((-curve[:, 1], curve[:, 0]))] for run in runs for curve in run]
    weights = np.concatenate([np.full(len(run), 1 / (len(run) * len(runs))) for run in runs])
    x = np.unique(np.concatenate([curve[:, 0] for curve in curves]))
    heights = np.stack([np.interp(x, *curve.T) for curve in curves])
    mean = weights @ heights
    sd = np.sqrt(weights @ (heights - mean) ** 2)
    # Each curve drops to the axes at its ends.
    return Band(np.concatenate([[0.0], x]), np.concatenate([[1.0], mean]), np.concatenate([[0.0], sd]))


def rank_frequency(results: Results, items: Sequence[SystemValue]) -> Mapping[str, Figure]:
    """Draw token rank against frequency of the human text and of each system, on logarithmic axes (Zipf)."""
    return name_figures(
        "zipf", {key: _draw_ranks(results, part) for key, part in group_by_task_and_options(items, "zipf").items()}
    )


def _draw_ranks(results: Results, items: Sequence[SystemValue]) -> Figure | None:
    lines: list[tuple[str, F64]] = []
    values: list[SystemValue] = []
    for system in group_systems(items)[:MOST]:
        value = system.value("zipf", "zipf")
        stored = (_read_points(results.arrays(*s)) for s in value.sources) if value else iter(())
        points = next((p for p in stored if p is not None), None)
        if points is not None and value is not None:
            lines.append((escape_mathtext(system.name), points))
            values.append(value)
    if not lines:
        return None
    sides = dict.fromkeys(human.sources[0] for v in values if (human := find_human_value(items, v)) is not None)
    humans = [h for source in sides if (h := _read_points(results.arrays(*source))) is not None]
    figure, (panel,) = create_figure(
        COLUMN, 2.6 + compute_legend_height([label for label, _ in lines] + ["human"], COLUMN, 2)
    )
    styles = read_styles(results).choose(values)
    for index, ((label, points), style) in enumerate(zip(lines, styles, strict=True)):
        every = space_markers(len(points[0]), index, len(lines))
        panel.plot(*points, label=label, markevery=every, **(style | {"linewidth": 1.0}))
    for number, line in enumerate(humans):  # systems of several lengths have several human sides
        panel.plot(*line, label="_" if number else "human", color=HUMAN_COLOR, linewidth=1.4)
    panel.set(xscale="log", yscale="log", xlabel="rank of the token", ylabel="occurrences")
    draw_legend_below(figure, panel, columns=2)
    return figure


def _read_points(arrays: Mapping[str, Any]) -> F64 | None:
    """Return ranks and counts, shape (2, points), of the line that the metric fitted."""
    if "arrays/log_rank" not in arrays or "arrays/log_frequency" not in arrays:
        return None
    return np.exp(np.stack([arrays["arrays/log_rank"], arrays["arrays/log_frequency"]]).astype(np.float64))
