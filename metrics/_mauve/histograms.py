"""Two histograms over the same cells: divergences, the divergence curve and its summaries. Logs are natural."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from openended.harness.core import F64, I64

Curve = Literal["uniform", "angular"]

_EDGE = 1e-6  # mauve-text: the mixture weights stay this far from 0 and 1
_ANGLE_EDGE = 1e-10  # Sajjadi et al. 2018: the angles stay this far from 0 and pi / 2


def histogram(labels: I64, num_buckets: int) -> F64:
    """Return the share of rows in each cell, shape (num_buckets,)."""
    return np.bincount(labels, minlength=num_buckets) / len(labels)


def kl_divergence(p: F64, q: F64) -> float:
    """Return KL(p || q) in nats; infinite where q is 0 and p is not."""
    here = p > 0
    if (q[here] == 0).any():
        return float("inf")
    # Rounding may leave -1e-17 where the two are equal.
    return max(float(np.sum(p[here] * np.log(p[here] / q[here]))), 0.0)


def js_divergence(p: F64, q: F64) -> float:
    """Return the Jensen-Shannon divergence in nats, in [0, ln 2]."""
    middle = (p + q) / 2
    return (kl_divergence(p, middle) + kl_divergence(q, middle)) / 2


def frontier_integral(p: F64, q: F64) -> float:
    """Return the frontier integral, in [0, 1]; 0 where both are equal, 1 where they share no cell.

    It is 2 ∫ λ KL(p || r) + (1 - λ) KL(q || r) dλ over the mixtures r = λ p + (1 - λ) q, whose closed form is the sum
    over cells of (p + q) / 2 - p q (ln p - ln q) / (p - q).

    Source: Liu et al. 2021, "Divergence frontiers for generative models", Definition 2 and Proposition 1.
    """
    both = (p > 0) & (q > 0)
    a, b = p[both], q[both]
    gap = (b - a) / a
    # p q (ln p - ln q) / (p - q) = q log1p(gap) / gap, which tends to q as the two meet.
    near = np.abs(gap) < 1e-12
    ratio = np.where(near, 1.0, np.log1p(np.where(near, 1.0, gap)) / np.where(near, 1.0, gap))
    return max(float(np.sum(p + q) / 2 - np.sum(b * ratio)), 0.0)


def mixture_weights(points: int, curve: Curve) -> F64:
    """Return the weights of p in the mixtures: evenly spaced, or cosines of evenly spaced angles."""
    if curve == "uniform":
        return np.linspace(_EDGE, 1 - _EDGE, points)
    return np.cos(np.linspace(_EDGE, np.pi / 2 - _EDGE, points))[::-1]


def divergence_curve(p: F64, q: F64, *, scaling_factor: float, points: int, curve: Curve) -> F64:
    """Return the divergence curve from (1, 0) to (0, 1), shape (points + 2, 2).

    With r = w p + (1 - w) q, a point is (exp(-c KL(q || r)), exp(-c KL(p || r))).
    """
    rows = []
    for w in mixture_weights(points, curve):
        mixture = w * p + (1 - w) * q
        rows.append((kl_divergence(q, mixture), kl_divergence(p, mixture)))
    return curve_through(rows, scaling_factor)


def curve_through(divergences: Sequence[tuple[float, float]], scaling_factor: float) -> F64:
    """Return the curve of exp(-c KL(q || r)) and exp(-c KL(p || r)), with both end points."""
    inner = [(float(np.exp(-scaling_factor * x)), float(np.exp(-scaling_factor * y))) for x, y in divergences]
    return np.array([(1.0, 0.0), *inner, (0.0, 1.0)])


def curve_area(curve: F64) -> float:
    """Return the area under a curve by the trapezoid rule along each axis, averaged; in [0, 1]."""
    by_x = curve[np.lexsort((-curve[:, 1], curve[:, 0]))]
    by_y = curve[np.lexsort((-curve[:, 0], curve[:, 1]))]
    area = (np.trapezoid(by_x[:, 1], by_x[:, 0]) + np.trapezoid(by_y[:, 0], by_y[:, 1])) / 2
    return float(min(max(area, 0.0), 1.0))


def slopes(num_angles: int) -> F64:
    """Return the tangents of evenly spaced angles from 0 to pi / 2, shape (num_angles,)."""
    slopes_: F64 = np.tan(np.linspace(_ANGLE_EDGE, np.pi / 2 - _ANGLE_EDGE, num_angles))
    return slopes_


def precision_recall(p: F64, q: F64, num_angles: int) -> tuple[F64, F64]:
    """Return precision and recall of q against p along the angles, each of shape (num_angles,), in [0, 1].

    At slope t = tan(angle): precision = sum of min(t p, q), recall = sum of min(p, q / t).
    """
    t = slopes(num_angles)[:, None]
    precision = np.minimum(t * p, q).sum(axis=1)
    recall = np.minimum(p, q / t).sum(axis=1)
    return np.clip(precision, 0.0, 1.0), np.clip(recall, 0.0, 1.0)


def best_f(precision: F64, recall: F64, beta: float) -> float:
    """Return the largest F-beta on a curve; beta > 1 weighs recall, beta < 1 precision."""
    return float(np.max(f_beta(precision, recall, beta)))


def f_beta(precision: F64, recall: F64, beta: float) -> F64:
    """Return F-beta of each pair; 0 where both are 0."""
    weighed = beta**2 * precision + recall
    both = (1 + beta**2) * precision * recall
    scores: F64 = np.divide(both, weighed, out=np.zeros_like(both), where=weighed > 0)
    return scores
