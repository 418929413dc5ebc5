"""Two histograms over the same cells: smoothing, divergences, the divergence curve and its summaries. Logs are natural.

Smoothing adds something for cells that a finite sample missed. With n texts over k cells and c_a of them in cell a, the
share of a is proportional to

| rule | share |
| --- | --- |
| `none` | c_a |
| `kt` | c_a + 1/2 (Krichevsky and Trofimov) |
| `laplace` | c_a + 1 |
| `braess_sauer` | c_a + 1/2 where c_a = 0, c_a + 1 where c_a = 1, c_a + 3/4 elsewhere |
| `good_turing` | c_a / n where c_a > φ(c_a + 1), else (φ(c_a + 1) + 1)(c_a + 1) / (n φ(c_a)); φ(t): cells of t texts |

All but `none` leave no cell at 0; all tend to the shares of the sample as n grows.

Source: Krichevsky and Trofimov 1981, "The performance of universal encoding"; Braess and Sauer 2004, "Bernstein
polynomials and learning theory"; Orlitsky and Suresh 2015, "Competitive distribution estimation: why is Good-Turing
good", section 1.3; Liu et al. 2021 for their use in divergence frontiers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from openended.harness.core import F64, I64

Curve = Literal["uniform", "angular"]
Smoothing = Literal["none", "kt", "laplace", "braess_sauer", "good_turing"]

_EDGE = 1e-6  # mauve-text: the mixture weights stay this far from 0 and 1
_ANGLE_EDGE = 1e-10  # Sajjadi et al. 2018: the angles stay this far from 0 and pi / 2
_HALF_ANGLES = 101  # of the precision-recall curve of halves: a tenth of the value's, enough for a standard error


def histogram(labels: I64, num_buckets: int) -> F64:
    """Return the share of rows in each cell, shape (num_buckets,)."""
    return np.bincount(labels, minlength=num_buckets) / len(labels)


def smooth(hist: F64, n: float, rule: Smoothing = "kt") -> F64:
    """Return smoothed shares of n texts, of the shape of `hist`, (k,); for `kt` and `none` also (rows, k)."""
    if rule == "none":
        return hist
    if rule == "kt":
        shares: F64 = (hist * n + 0.5) / (n + 0.5 * hist.shape[-1])
        return shares
    counts = np.rint(hist * n)
    if rule == "laplace":
        weights = counts + 1
    elif rule == "braess_sauer":
        weights = counts + np.select([counts == 0, counts == 1], [0.5, 1.0], 0.75)
    else:
        texts = counts.astype(np.int64)
        cells = np.bincount(texts, minlength=int(texts.max()) + 2)  # φ
        here, above = cells[texts], cells[texts + 1]
        weights = np.where(texts > above, texts, (above + 1) * (texts + 1) / here) / texts.sum()
    normalized: F64 = weights / weights.sum()
    return normalized


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


def divergence_curve(p: F64, q: F64, *, scaling_factor: float, curve_points: int, curve: Curve) -> F64:
    """Return the divergence curve from (1, 0) to (0, 1), shape (curve_points + 2, 2).

    With r = w p + (1 - w) q, a point is (exp(-c KL(q || r)), exp(-c KL(p || r))).
    """
    mixtures = (w * p + (1 - w) * q for w in mixture_weights(curve_points, curve))
    return curve_through([(kl_divergence(q, r), kl_divergence(p, r)) for r in mixtures], scaling_factor)


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


def precision_recall(p: F64, q: F64, num_angles: int) -> tuple[F64, F64]:
    """Return precision and recall of q against p along the angles, each of shape (num_angles,), in [0, 1].

    At slope t = tan(angle): precision = sum of min(t p, q), recall = sum of min(p, q / t).
    """
    t = _slopes(num_angles)[:, None]
    precision = np.minimum(t * p, q).sum(axis=1)
    recall = np.minimum(p, q / t).sum(axis=1)
    return np.clip(precision, 0.0, 1.0), np.clip(recall, 0.0, 1.0)


def _slopes(num_angles: int) -> F64:
    """Return the tangents of evenly spaced angles from 0 to pi / 2."""
    slopes: F64 = np.tan(np.linspace(_ANGLE_EDGE, np.pi / 2 - _ANGLE_EDGE, num_angles))
    return slopes


def best_f(precision: F64, recall: F64, beta: float) -> float:
    """Return the largest F-beta on a curve; beta > 1 weighs recall, beta < 1 precision."""
    return float(np.max(_f_beta(precision, recall, beta)))


def _f_beta(precision: F64, recall: F64, beta: float) -> F64:
    """Return F-beta of each pair; 0 where both are 0."""
    weighed = beta**2 * precision + recall
    both = (1 + beta**2) * precision * recall
    scores: F64 = np.divide(both, weighed, out=np.zeros_like(both), where=weighed > 0)
    return scores


# The same summaries for many halves of the texts at once, whose histograms are rows; the cells are those of all texts.


def count_half_histograms(cells: I64, halves: NDArray[np.bool_], num_buckets: int) -> F64:
    """Return the share of each cell in both halves of each split, shape (2 · splits, num_buckets)."""
    splits = len(halves)
    split, row = np.nonzero(halves)
    first = np.bincount(split * num_buckets + cells[row], minlength=splits * num_buckets)
    first = first.reshape(splits, num_buckets).astype(np.float64)
    counts = np.concatenate([first, np.bincount(cells, minlength=num_buckets) - first])
    shares: F64 = counts / counts.sum(axis=1, keepdims=True)
    return shares


def renumber_cells(p: I64, q: I64) -> tuple[I64, I64, int]:
    """Return the cells of both sides numbered so that each holds a text, and how many there are."""
    seen, cells = np.unique(np.concatenate([p, q]), return_inverse=True)
    return cells[: len(p)], cells[len(p) :], len(seen)


def row_kl_divergences(p: F64, q: F64) -> F64:
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(p > 0, p * np.log(p / q), 0.0)
    divergences: F64 = np.maximum(terms.sum(axis=-1), 0.0)
    return divergences


def row_curve_areas(p: F64, q: F64, *, scaling_factor: float, curve_points: int, curve: Curve) -> F64:
    corner = np.zeros(len(p))
    x, y = [corner + 1.0], [corner]
    for w in mixture_weights(curve_points, curve):
        mixture = w * p + (1 - w) * q
        x.append(np.exp(-scaling_factor * row_kl_divergences(q, mixture)))
        y.append(np.exp(-scaling_factor * row_kl_divergences(p, mixture)))
    xs, ys = np.stack([*x, corner], axis=1), np.stack([*y, corner + 1.0], axis=1)
    areas: F64 = np.clip((_integrate_rows(xs, ys) + _integrate_rows(ys, xs)) / 2, 0.0, 1.0)
    return areas


def _integrate_rows(x: F64, y: F64) -> F64:
    """Integrate by the trapezoid rule along x, ties in falling order of y."""
    order = np.lexsort((-y, x), axis=1)
    x, y = np.take_along_axis(x, order, axis=1), np.take_along_axis(y, order, axis=1)
    sums: F64 = np.sum(np.diff(x, axis=1) * (y[:, 1:] + y[:, :-1]) / 2, axis=1)
    return sums


def row_frontier_integrals(p: F64, q: F64) -> F64:
    together = (p > 0) & (q > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        gap = np.where(together, (q - p) / p, 0.0)
        near = np.abs(gap) < 1e-12
        ratio = np.where(near, 1.0, np.log1p(gap) / np.where(near, 1.0, gap))
    values = (p + q).sum(axis=1) / 2 - np.where(together, q * ratio, 0.0).sum(axis=1)
    integrals: F64 = np.maximum(values, 0.0)
    return integrals


def row_best_fs(p: F64, q: F64, betas: Sequence[float]) -> list[F64]:
    """Return the largest F-beta of the precision-recall curve of each row, for each beta."""
    best = [np.zeros(len(p)) for _ in betas]
    for slope in _slopes(_HALF_ANGLES):
        precision = np.minimum(slope * p, q).sum(axis=1)
        recall = np.minimum(p, q / slope).sum(axis=1)
        for column, beta in enumerate(betas):
            best[column] = np.maximum(best[column], _f_beta(precision, recall, beta))
    return best
