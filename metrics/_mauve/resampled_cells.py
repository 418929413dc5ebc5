"""Summaries of cell histograms for many halves of the texts at once; the cells are those of all texts.

The formulas are those of `metrics._mauve.histograms` and `scores`, with the splits as a leading axis; a test
holds the two together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from openended.harness.core import F64, I64, Replicates
from openended.metrics._mauve.histograms import Curve, f_beta, mixture_weights, slopes
from openended.metrics._mauve.smoothing import Smoothing, smooth

ANGLES = 101  # angles of the precision-recall curve of F8 and F1/8: a tenth of the value's, enough for a standard error


def count_half_histograms(cells: I64, halves: NDArray[np.bool_], num_buckets: int) -> F64:
    """Return the share of each cell in both halves of each split, shape (2 · splits, num_buckets)."""
    splits = len(halves)
    split, row = np.nonzero(halves)
    first = np.bincount(split * num_buckets + cells[row], minlength=splits * num_buckets)
    first = first.reshape(splits, num_buckets).astype(np.float64)
    counts = np.concatenate([first, np.bincount(cells, minlength=num_buckets) - first])
    shares: F64 = counts / counts.sum(axis=1, keepdims=True)
    return shares


def kl(p: F64, q: F64) -> F64:
    """KL(p || q) of the last axis, nats; infinite where q is 0 and p is not."""
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(p > 0, p * np.log(p / q), 0.0)
    divergence: F64 = np.maximum(terms.sum(axis=-1), 0.0)
    return divergence


def areas(p: F64, q: F64, *, scaling_factor: float, points: int, curve: Curve) -> F64:
    """Area under the divergence curve of each row, shape (rows,)."""
    corner = np.zeros(len(p))
    x, y = [corner + 1.0], [corner]
    for w in mixture_weights(points, curve):
        mixture = w * p + (1 - w) * q
        x.append(np.exp(-scaling_factor * kl(q, mixture)))
        y.append(np.exp(-scaling_factor * kl(p, mixture)))
    xs, ys = np.stack([*x, corner], axis=1), np.stack([*y, corner + 1.0], axis=1)
    area = (_integrate_trapezoids(xs, ys) + _integrate_trapezoids(ys, xs)) / 2
    clipped: F64 = np.clip(area, 0.0, 1.0)
    return clipped


def _integrate_trapezoids(x: F64, y: F64) -> F64:
    """Area by the trapezoid rule along x, ties in falling order of y, row by row."""
    order = np.lexsort((-y, x), axis=1)
    x, y = np.take_along_axis(x, order, axis=1), np.take_along_axis(y, order, axis=1)
    sums: F64 = np.sum(np.diff(x, axis=1) * (y[:, 1:] + y[:, :-1]) / 2, axis=1)
    return sums


def frontier(p: F64, q: F64) -> F64:
    """Frontier integral of each row."""
    together = (p > 0) & (q > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        gap = np.where(together, (q - p) / p, 0.0)
        near = np.abs(gap) < 1e-12
        ratio = np.where(near, 1.0, np.log1p(gap) / np.where(near, 1.0, gap))
    value = (p + q).sum(axis=1) / 2 - np.where(together, q * ratio, 0.0).sum(axis=1)
    integral: F64 = np.maximum(value, 0.0)
    return integral


def best_fs(p: F64, q: F64, betas: Sequence[float], angles: int = ANGLES) -> list[F64]:
    """Return the largest F-beta of the precision-recall curve of each row, for each beta."""
    best = [np.zeros(len(p)) for _ in betas]
    for slope in slopes(angles):
        precision = np.minimum(slope * p, q).sum(axis=1)
        recall = np.minimum(p, q / slope).sum(axis=1)
        for column, beta in enumerate(betas):
            best[column] = np.maximum(best[column], f_beta(precision, recall, beta))
    return best


def resample_mauve(
    p: F64,
    q: F64,
    n_human: float,
    n_model: float,
    *,
    lambdas: Sequence[float],
    smoothing: Smoothing = "none",
    scaling_factor: float,
    points: int,
    curve: Curve,
) -> dict[str, F64]:
    """Return every value of MAUVE for each pair of rows of histograms, shape (rows,)."""
    p_star, q_star = smooth(p, n_human), smooth(q, n_model)
    if smoothing == "kt":
        p, q = p_star, q_star
    elif smoothing != "none":
        part = 1 if smoothing == "laplace" else 2
        p = np.stack([smooth(row, round(n_human / part), smoothing) for row in p])
        q = np.stack([smooth(row, round(n_model / part), smoothing) for row in q])
    p_kl, q_kl = (p_star, q_star) if smoothing == "none" else (p, q)
    middle = (p + q) / 2
    js = (kl(p, middle) + kl(q, middle)) / 2
    f8, f1_8 = best_fs(p, q, (8.0, 1 / 8))
    values = {
        "mauve": areas(p, q, scaling_factor=scaling_factor, points=points, curve=curve),
        "mauve_star": areas(p_star, q_star, scaling_factor=scaling_factor, points=points, curve=curve),
        "frontier_integral": frontier(p, q),
        "frontier_integral_star": frontier(p_star, q_star),
        "kl_human_model": kl(p_kl, q_kl),
        "kl_model_human": kl(q_kl, p_kl),
        "js": js,
        "mid_point": np.exp(-2 * scaling_factor * js),
        "f8": f8,
        "f1_8": f1_8,
    }
    for weight in lambdas:
        mixture = weight * p + (1 - weight) * q
        values[f"type_1@{weight:g}"] = kl(q, mixture)
        values[f"type_2@{weight:g}"] = kl(p, mixture)
    return values


def without_gaps(p: I64, q: I64) -> tuple[I64, I64, int]:
    """Return the cells of both sides numbered so that each holds a text, and how many there are."""
    seen, cells = np.unique(np.concatenate([p, q]), return_inverse=True)
    return cells[: len(p)], cells[len(p) :], len(seen)


def resample_ratios(
    p: F64, q: F64, halves: tuple[NDArray[np.bool_], NDArray[np.bool_]], of: Callable[[F64, F64], Mapping[str, float]]
) -> dict[str, Replicates]:
    """Return what a function makes of the ratios at the human and the model texts of each half."""
    pairs = list(zip(*halves, strict=True))
    scores = [of(p[a], q[b]) for a, b in pairs] + [of(p[~a], q[~b]) for a, b in pairs]
    return {k: Replicates(np.array([values[k] for values in scores]).reshape(2, -1)) for k in scores[0]}
