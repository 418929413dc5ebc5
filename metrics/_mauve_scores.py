"""What MAUVE and its kin are once each text has a cell; see `openended.metrics.mauve` for definitions and sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from openended.harness.types import F64, I64
from openended.metrics._histograms import (
    Curve,
    best_f,
    curve_area,
    divergence_curve,
    frontier_integral,
    histogram,
    js_divergence,
    kl_divergence,
    precision_recall,
    smoothed,
)
from openended.metrics._result import Values

_ANGLES = 1001  # of the precision-recall curve behind F8 and F1/8, as in openended.metrics.precision_recall_curve


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MauveResult(Values):
    """One clustering's scores; a field can also be read as `result["mauve"]`."""

    mauve: float
    """Area under the divergence curve, in [0, 1]."""
    mauve_star: float
    """The same from smoothed histograms."""
    frontier_integral: float
    """In [0, 1], lower is better."""
    frontier_integral_star: float
    """The same from smoothed histograms."""
    divergence_curve: F64
    """Shape (curve_points + 2, 2)."""
    human_hist: F64
    """Share of human texts in each cell, shape (num_buckets,)."""
    model_hist: F64
    """Share of model texts in each cell, shape (num_buckets,)."""
    num_buckets: int
    """Number of cells."""


def mauve_of_cells(
    *,
    human: I64,
    model: I64,
    num_buckets: int,
    scaling_factor: float = 5.0,
    curve: Curve = "uniform",
    curve_points: int = 25,
) -> MauveResult:
    """Compute MAUVE from the cell of each text, shape (n_human,) and (n_model,)."""
    p, q = histogram(human, num_buckets), histogram(model, num_buckets)
    p_star, q_star = smoothed(p, len(human)), smoothed(q, len(model))
    points = divergence_curve(p, q, scaling_factor=scaling_factor, points=curve_points, curve=curve)
    star = divergence_curve(p_star, q_star, scaling_factor=scaling_factor, points=curve_points, curve=curve)
    return MauveResult(
        mauve=curve_area(points),
        mauve_star=curve_area(star),
        frontier_integral=frontier_integral(p, q),
        frontier_integral_star=frontier_integral(p_star, q_star),
        divergence_curve=points,
        human_hist=p,
        model_hist=q,
        num_buckets=num_buckets,
    )


def histogram_values(scores: MauveResult, n_human: int, n_model: int, lambdas: Sequence[float]) -> dict[str, float]:
    """Return every other summary of the same histograms.

    The KL divergences need smoothed histograms to be finite. The errors at λ are KL to λ p + (1 - λ) q, unsmoothed:
    type I from the model (text that humans would not write), type II from the human side (text the model misses).
    """
    p, q = scores.human_hist, scores.model_hist
    p_star, q_star = smoothed(p, n_human), smoothed(q, n_model)
    precision, recall = precision_recall(p, q, _ANGLES)
    values = {
        "kl_human_model": kl_divergence(p_star, q_star),
        "kl_model_human": kl_divergence(q_star, p_star),
        "js": js_divergence(p, q),
        "f8": best_f(precision, recall, 8),
        "f1_8": best_f(precision, recall, 1 / 8),
    }
    for weight in lambdas:
        mixture = weight * p + (1 - weight) * q
        values[f"type_1@{weight:g}"] = kl_divergence(q, mixture)
        values[f"type_2@{weight:g}"] = kl_divergence(p, mixture)
    return values
