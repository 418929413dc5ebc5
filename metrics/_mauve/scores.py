"""What MAUVE and its kin are once each text has a cell or an estimate of log p / q; see `openended.metrics.mauve`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from openended.harness.core import F64, I64, Direction
from openended.metrics._common.values import Values
from openended.metrics._mauve.frontier import RatioMeans, frontier_scores
from openended.metrics._mauve.histograms import (
    Curve,
    best_f,
    curve_area,
    divergence_curve,
    frontier_integral,
    histogram,
    js_divergence,
    kl_divergence,
    precision_recall,
)
from openended.metrics._mauve.smoothing import Smoothing, smooth

TITLES: Mapping[str, str] = {
    "mauve": "MAUVE",
    "mauve_star": "MAUVE*",
    "mid_point": "Mid-point",
    "frontier_integral": "FI",
    "frontier_integral_star": "FI*",
    "kl_human_model": "KL(human, model)",
    "kl_model_human": "KL(model, human)",
    "js": "JS",
    "f8": "F8",
    "f1_8": "F1/8",
    "type_1@0.5": "Type I",
    "type_2@0.5": "Type II",
}
DIRECTIONS: Mapping[str, Direction | Literal["none"]] = {
    "frontier_integral": "lower",
    "frontier_integral_star": "lower",
    "kl_human_model": "lower",
    "kl_model_human": "lower",
    "js": "lower",
    "type_1@0.5": "lower",
    "type_2@0.5": "lower",
}
_ANGLES = 1001  # of the precision-recall curve behind F8 and F1/8, as in openended.metrics.precision_recall_curve


@dataclass(frozen=True, slots=True, eq=False)
class Ratios:
    """An estimate of log p / q, in nats."""

    human: F64
    """At the human texts, shape (n_human,)."""
    model: F64
    """At the model texts, shape (n_model,)."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MauveResult(Values):
    """One clustering's (or estimate's) scores; a field can also be read as `result["mauve"]`."""

    mauve: float
    """Area under the divergence curve, in [0, 1]."""
    mauve_star: float
    """The same with `kt` smoothing; NaN where nothing was counted."""
    frontier_integral: float
    """In [0, 1], lower is better."""
    frontier_integral_star: float
    """The same with `kt` smoothing; NaN where nothing was counted."""
    divergence_curve: F64
    """Shape (curve_points + 2, 2)."""
    human_hist: F64
    """Share of human texts in each cell, not smoothed, shape (num_buckets,)."""
    model_hist: F64
    """Share of model texts in each cell, not smoothed, shape (num_buckets,)."""
    num_buckets: int
    """Number of cells; 0 where an estimator needs none."""
    js: float
    """Jensen-Shannon divergence, the mid-point of the frontier, nats, in [0, ln 2]."""
    mid_point: float
    """Rectangle under the mid-point of the curve, exp(-2 c js), in [0, 1]."""
    clipped: float
    """Share of an estimator's means that fell outside their range; 0 for cells."""


def mauve_of_cells(
    *,
    human: I64,
    model: I64,
    num_buckets: int,
    scaling_factor: float = 5.0,
    curve: Curve = "uniform",
    curve_points: int = 25,
    smoothing: Smoothing = "none",
    seen_only: bool = False,
) -> MauveResult:
    """Compute MAUVE from the cell of each text, shape (n_human,) and (n_model,).

    `seen_only` leaves out the cells that hold no text of either side, for codes of which most are never used.
    """
    p, q = histogram(human, num_buckets), histogram(model, num_buckets)
    if seen_only:
        seen = (p > 0) | (q > 0)
        p, q = p[seen], q[seen]
    p_star, q_star = smooth(p, len(human)), smooth(q, len(model))
    p_used, q_used = smooth(p, len(human), smoothing), smooth(q, len(model), smoothing)
    points = divergence_curve(p_used, q_used, scaling_factor=scaling_factor, points=curve_points, curve=curve)
    star = divergence_curve(p_star, q_star, scaling_factor=scaling_factor, points=curve_points, curve=curve)
    js = js_divergence(p_used, q_used)
    return MauveResult(
        mauve=curve_area(points),
        mauve_star=curve_area(star),
        frontier_integral=frontier_integral(p_used, q_used),
        frontier_integral_star=frontier_integral(p_star, q_star),
        divergence_curve=points,
        human_hist=p,
        model_hist=q,
        num_buckets=len(p),
        js=js,
        mid_point=float(np.exp(-2 * scaling_factor * js)),
        clipped=0,
    )


def mauve_of_ratios(
    *, human: F64, model: F64, scaling_factor: float = 5.0, curve: Curve = "uniform", curve_points: int = 25
) -> MauveResult:
    """Compute MAUVE from estimates of log p / q at each text, shape (n_human,) and (n_model,)."""
    scores = frontier_scores(human, model, scaling_factor=scaling_factor, points=curve_points, curve=curve)
    nothing = np.zeros(0)
    return MauveResult(
        mauve=scores.area,
        mauve_star=float("nan"),
        frontier_integral=scores.integral,
        frontier_integral_star=float("nan"),
        divergence_curve=scores.curve,
        human_hist=nothing,
        model_hist=nothing,
        num_buckets=0,
        js=scores.js,
        mid_point=float(np.exp(-2 * scaling_factor * scores.js)),
        clipped=scores.clipped / scores.means,
    )


def ratio_values(scores: MauveResult, human: F64, model: F64, lambdas: Sequence[float]) -> dict[str, float]:
    """Return further values of the same estimates: the errors at each λ, as in `histogram_values`."""
    means = RatioMeans(human, model)
    values = {"js": scores.js}
    for weight in lambdas:
        values[f"type_1@{weight:g}"] = means.kl_model(weight)
        values[f"type_2@{weight:g}"] = means.kl_human(weight)
    return values


def histogram_values(
    scores: MauveResult, n_human: int, n_model: int, lambdas: Sequence[float], smoothing: Smoothing = "none"
) -> dict[str, float]:
    """Return every other summary of the same histograms.

    The KL divergences need smoothed histograms to be finite: `kt` where `smoothing` is `none`. The errors at λ are KL
    to λ p + (1 - λ) q: type I from the model (text that humans would not write), type II from the human side (text the
    model misses).
    """
    rule: Smoothing = "kt" if smoothing == "none" else smoothing
    p_star, q_star = smooth(scores.human_hist, n_human, rule), smooth(scores.model_hist, n_model, rule)
    p, q = smooth(scores.human_hist, n_human, smoothing), smooth(scores.model_hist, n_model, smoothing)
    precision, recall = precision_recall(p, q, _ANGLES)
    values = {
        "kl_human_model": kl_divergence(p_star, q_star),
        "kl_model_human": kl_divergence(q_star, p_star),
        "js": scores.js,
        "f8": best_f(precision, recall, 8),
        "f1_8": best_f(precision, recall, 1 / 8),
    }
    for weight in lambdas:
        mixture = weight * p + (1 - weight) * q
        values[f"type_1@{weight:g}"] = kl_divergence(q, mixture)
        values[f"type_2@{weight:g}"] = kl_divergence(p, mixture)
    return values
