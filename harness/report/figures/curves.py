"""Curves of systems: divergence, precision and recall with F-scores, token frequencies, and the best of N settings."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from openended.harness import results as measured
from openended.harness.core import F64, escape_mathtext
from openended.harness.report.figures import drawing
from openended.harness.report.figures.drawing import COLORS, HUMAN_COLOR, MOST, PAGE, Part, create_panels, draw_curves
from openended.harness.report.tables.fair_comparison import compute_curves, describe_printed_value, group_sweeps
from openended.harness.report.tables.frame import arrow
from openended.harness.report.tables.selection import select_pairs
from openended.harness.results import Layout, Results, System, SystemValue, find_human_value, group_systems

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

KNN, PR_CURVE = "knn_precision_recall", "precision_recall_curve"
_QUALITY, _DIVERSITY = ("quality: F1/8, precision", "o-", COLORS[0]), ("diversity: F8, recall", "s--", COLORS[1])


def _read_arrays(results: Results, value: SystemValue | None, *names: str) -> Iterator[list[F64]]:
    """Yield the named arrays of each run behind a value that stored them."""
    for source in value.sources if value is not None else ():
        arrays = results.arrays(*source)
        if all(f"arrays/{name}" in arrays for name in names):
            yield [np.asarray(arrays[f"arrays/{name}"], dtype=np.float64) for name in names]


@drawing.draw_each_part("divergence", "mauve", legend=2)
def divergence_curves(part: Part) -> Figure | None:
    """Draw the MAUVE curve of every system: missed text against implausible text (MAUVE Fig. 2).

    A line is the mean over seeds and clusterings, so that its area is the value in the legend; the band is their
    standard deviation.
    """
    curves: list[tuple[str, SystemValue, tuple[F64, F64, F64]]] = []
    for system in group_systems(part.values):
        for value in (i for i in system.items if i.pair == ("mauve", "mauve") and math.isfinite(i.mean)):
            stored = [curve for (curve,) in _read_arrays(part.results, value, "divergence_curves")]
            if stored and len(stored) == value.seeds:
                curves.append((f"{system.name} ({value.mean:.3f})", value, average_curves(stored)))
                break
    if len(curves) > MOST:  # the best ones
        curves = sorted(curves, key=lambda c: -c[1].mean)[:MOST]
    if not curves:
        return None
    figure, (panel,) = create_panels(1, 2.9)
    styles = part.styles.choose([value for _, value, _ in curves])
    draw_curves(panel, [(label, (x, mean)) for label, _, (x, mean, _) in curves], styles)
    for (_, _, (x, mean, sd)), style in zip(curves, styles, strict=True):
        low, high = np.clip(mean - sd, 0, 1), np.clip(mean + sd, 0, 1)
        panel.fill_between(x, low, high, color=style["color"], alpha=0.15, linewidth=0)
    panel.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    panel.set_xlabel("less implausible text →\nexp(−c KL(model, mixture))")
    panel.set_ylabel("exp(−c KL(human, mixture))\nless missed text →")
    return figure


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


@drawing.draw_each_part("zipf", "zipf", legend=2)
def rank_frequency(part: Part) -> Figure | None:
    """Draw token rank against frequency of the human text and of each system, on logarithmic axes (Zipf)."""

    def read_points(value: SystemValue | None) -> F64 | None:
        arrays = next(_read_arrays(part.results, value, "log_rank", "log_frequency"), None)
        return np.exp(np.stack(arrays)) if arrays is not None else None

    values = [(s.name, value) for s in group_systems(part.values)[:MOST] if (value := s.value("zipf", "zipf"))]
    lines = [(name, value, points) for name, value in values if (points := read_points(value)) is not None]
    if not lines:
        return None
    sides = {human.sources[0]: human for _, value, _ in lines if (human := find_human_value(part.values, value))}
    humans = [points for human in sides.values() if (points := read_points(human)) is not None]
    figure, (panel,) = create_panels(1, 2.5)
    styles = [style | {"linewidth": 1.0} for style in part.styles.choose([value for _, value, _ in lines])]
    draw_curves(panel, [(name, points) for name, _, points in lines], styles)
    for number, points in enumerate(humans):  # systems of several lengths have several human sides
        panel.plot(*points, label="_" if number else "human", color=HUMAN_COLOR, linewidth=1.4)
    panel.set(xscale="log", yscale="log", xlabel="rank of the token", ylabel="occurrences")
    return figure


@drawing.draw_each_part("pr_curves", legend=2)
def pr_curves(part: Part) -> Figure | None:
    """Draw the precision-recall curve of every system, next to its divergence curve where MAUVE was measured."""
    systems = [s for s in group_systems(part.values) if _read_pr_curve(part.results, s) is not None][:MOST]
    if not systems:
        return None
    readers = [_read_pr_curve, _read_divergence_curve]
    readers = readers if any(_read_divergence_curve(part.results, s) for s in systems) else readers[:1]
    figure, panels = create_panels(len(readers), 2.9)
    styles = part.styles.choose([s.items[0] for s in systems])
    for panel, read in zip(panels, readers, strict=True):
        draw_curves(panel, [(system.name, read(part.results, system)) for system in systems], styles)
        panel.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    panels[0].set(title="precision-recall curve", xlabel="recall →", ylabel="precision →")
    if len(panels) > 1:
        labels = {"xlabel": "exp(−c KL(human, mixture)) →", "ylabel": "exp(−c KL(model, mixture)) →"}
        panels[1].set(title="divergence curve of MAUVE", **labels)
    return figure


@drawing.draw_each_part("f_scores", legend=2)
def f_scores(part: Part) -> Figure | None:
    """Draw F1/8 and F8 of both curves, and precision and recall by nearest neighbors, system by system."""
    systems = [s for s in group_systems(part.values) if s.value(PR_CURVE, "f8") is not None][:MOST]

    def read_means(metric: str, *keys: str) -> list[list[float]]:
        return [[value.mean if (value := s.value(metric, key)) else math.nan for key in keys] for s in systems]

    families = {
        "precision-recall curve": read_means(PR_CURVE, "f1_8", "f8"),
        "divergence curve of MAUVE": [_score_curve(_read_divergence_curve(part.results, s)) for s in systems],
        "nearest neighbors": read_means(KNN, "precision", "recall"),
    }
    visible = {title: np.array(pairs) for title, pairs in families.items() if np.isfinite(pairs).any()}
    if len(systems) < 2 or not visible:
        return None
    names = [escape_mathtext(system.name) for system in systems]
    # Of a name that continues the one before, only what is new.
    labels = [f"… {b[len(a) :]}" if a and b.startswith(a) else b for a, b in pairwise(["", *names])]
    figure, panels = create_panels(len(visible), 2.5, width=PAGE, sharey=True)
    for panel, (title, pairs) in zip(panels, visible.items(), strict=True):
        for column, (label, line, color) in enumerate((_QUALITY, _DIVERSITY)):
            panel.plot(range(len(systems)), pairs[:, column], line, color=color, label=label)
        panel.set_xticks(range(len(systems)), labels, rotation=35, ha="right")
        panel.set(title=title, ylim=(None, 1.02))
    return figure


def _read_pr_curve(results: Results, system: System) -> tuple[F64, F64] | None:
    """Return recall and precision along the curve of the first seed."""
    arrays = next(_read_arrays(results, system.value(PR_CURVE, "f8"), "recall", "precision"), None)
    return (arrays[0], arrays[1]) if arrays is not None else None


def _read_divergence_curve(results: Results, system: System) -> tuple[F64, F64] | None:
    """Return the side of the human text and that of the model along the mean curve."""
    stored = [curve for (curve,) in _read_arrays(results, system.value("mauve", "mauve"), "divergence_curves")]
    if not stored:
        return None
    model, human, _ = average_curves(stored)
    return human, model


def _score_curve(curve: tuple[F64, F64] | None) -> list[float]:
    """Return F1/8 and F8 of a divergence curve, as of a precision-recall curve."""
    if curve is None:
        return [math.nan, math.nan]
    recall, precision = curve
    scores = []
    for beta in (1 / 8, 8.0):
        below = beta**2 * precision + recall
        score = np.divide((1 + beta**2) * precision * recall, below, out=np.zeros_like(below), where=below > 0)
        scores.append(float(score.max()))
    return scores


@drawing.draw_each_part("best_of_n", legend=4)
def best_of_n(part: Part) -> Figure | None:
    """Draw the expected best of N settings of every decoder; dotted: chosen and scored on the same seeds."""
    from matplotlib.ticker import MaxNLocator

    pairs = select_pairs(part.values, Layout(metrics=part.layout.metrics))
    by_pair = {pair: curves for pair in pairs if (curves := compute_curves(part.values, pair)[0])}
    if not by_pair:
        return None
    names = list(dict.fromkeys(curve.name for curves in by_pair.values() for curve in curves))[:MOST]
    first = {sweep.name: sweep.systems[0].items[0] for sweep in group_sweeps(part.values)}
    chosen = dict(zip(names, part.styles.choose([first[name] for name in names]), strict=True))
    figure, axes = create_panels(len(by_pair), 2.0)
    for panel, (pair, curves) in zip(axes, by_pair.items(), strict=True):
        most = min(c.settings for c in curves)
        for curve in (c for c in curves if c.name in names):
            style, x = chosen[curve.name], range(1, most + 1)
            fresh, half, seen = (np.array(values[:most]) for values in (curve.fresh, curve.half, curve.seen))
            has_fresh = math.isfinite(fresh[0])
            if has_fresh:
                panel.fill_between(x, fresh - half, fresh + half, color=style["color"], alpha=0.12, linewidth=0)
                panel.plot(x, seen, color=style["color"], linestyle=":", linewidth=0.7)
            panel.plot(x, fresh if has_fresh else seen, label=escape_mathtext(curve.name), **style)
        title, direction = describe_printed_value(measured.select_values(part.values, *pair)[0])
        panel.set(title=escape_mathtext(f"{title} {arrow(direction)}"), xlabel="settings tried (N)")
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure
