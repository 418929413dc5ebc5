"""Influence of each text on statistics of moments (Fréchet distance, Vendi score), and kernel distances of halves.

The influence is the derivative of the value by a text's share of its side: the infinitesimal jackknife. One
decomposition serves all texts.

Source: Efron 1982, "The jackknife, the bootstrap and other resampling plans", chapter 6; the derivative of the trace
term is that of the optimal transport map between Gaussians (Dowson and Landau 1982; Takatsu 2011).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from openended.harness.core import F64, Floats
from openended.metrics._embeddings.blocks import blocks

_BLOCK = 1024


def frechet_influence(human: Floats, model: Floats) -> tuple[F64, F64]:
    """Return the influence of the rows of both sides on their Fréchet distance, shapes (n_human,) and (n_model,).

    With T the map that carries one Gaussian to the other, the derivative of tr S1 + tr S2 - 2 tr (S1 S2)^1/2 by S1 is
    I - T, and by S2 I - T^-1; that of |m1 - m2|^2 is 2 (m1 - m2).
    """
    x, y = (np.array(side, dtype=np.float64) for side in (human, model))
    means = x.mean(axis=0), y.mean(axis=0)
    x -= means[0]
    y -= means[1]
    gap = means[0] - means[1]
    forth, back = _transport_costs(x, y)
    first = 2 * x @ gap + np.einsum("ij,ij->i", x, x) - forth
    second = -2 * y @ gap + np.einsum("ij,ij->i", y, y) - back
    return first, second


def _transport_costs(x: F64, y: F64) -> tuple[F64, F64]:
    """Return x_i^T T x_i and y_i^T T^-1 y_i for centered rows."""
    (n, dim), m = x.shape, len(y)
    if min(n, m) > dim:
        first, second = x.T @ x / (n - 1), y.T @ y / (m - 1)
        try:
            root = np.linalg.cholesky(first)
            values, axes = np.linalg.eigh(root.T @ second @ root)
            singular = np.sqrt(np.maximum(values, values[-1] * 1e-12))
            ahead = np.linalg.solve(root, x.T)
            turned = axes.T @ ahead
            forth = np.einsum("ij,ij,i->j", turned, turned, singular)
            turned = axes.T @ (root.T @ y.T)
            return forth, np.einsum("ij,ij,i->j", turned, turned, 1 / singular)
        except np.linalg.LinAlgError:  # a covariance that is singular although there are many texts
            pass
    # The centered rows are roots: x_i^T T x_i is the i-th diagonal entry of the polar factor of their product table.
    left, values, right = np.linalg.svd(x @ y.T, full_matrices=False)
    scale = np.sqrt((n - 1) / (m - 1))
    return scale * (left**2 @ values), (right.T**2 @ values) / scale


def vendi_influence(rows: Floats, order: float) -> F64:
    """Return the influence of each row on the Vendi score, shape (n,)."""
    unit = np.vstack([block for _, block in blocks(rows, "l2")])
    n = len(unit)
    small = unit.shape[1] <= n
    values, axes = np.linalg.eigh((unit.T @ unit if small else unit @ unit.T) / n)
    is_positive = values > 1e-12
    values, axes = values[is_positive], axes[:, is_positive]
    # The share of row i in each eigenvalue.
    loads = (unit @ axes) ** 2 if small else n * axes**2 * values
    influence: F64
    if np.isinf(order):
        influence = -loads[:, -1] / values[-1] ** 2
    elif order == 1:
        entropy = -float(np.sum(values * np.log(values)))
        influence = np.exp(entropy) * (-(loads @ np.log(values)) - entropy)
    else:
        total = float(np.sum(values**order))
        slope = order / (1 - order) * (loads @ values ** (order - 1) / total - 1)
        influence = total ** (1 / (1 - order)) * slope
    return influence


def kid_draws(
    human: Floats, model: Floats, human_halves: NDArray[np.bool_], model_halves: NDArray[np.bool_], degree: int
) -> F64:
    """Return the unbiased kernel distance of both halves of each split, shape (2, splits)."""
    within = [
        _compute_half_kernel_means(side, halves, degree)
        for side, halves in ((human, human_halves), (model, model_halves))
    ]
    masks = [np.hstack([h.T.astype(np.float64), 1.0 - h.T]) for h in (human_halves, model_halves)]
    across = np.zeros(masks[0].shape[1])
    for part, table in _iterate_kernel(human, model, degree):
        across += np.einsum("ij,ij->j", masks[0][part], table @ masks[1])
    sizes = [m.sum(axis=0) for m in masks]
    value: F64 = within[0] + within[1] - 2 * (across / (sizes[0] * sizes[1]))
    return value.reshape(2, -1)


def _compute_half_kernel_means(side: Floats, halves: NDArray[np.bool_], degree: int) -> F64:
    """Mean of the kernel over the pairs of each half, shape (2 · splits,)."""
    mask = np.hstack([halves.T.astype(np.float64), 1.0 - halves.T])
    total = np.zeros(mask.shape[1])
    for part, table in _iterate_kernel(side, side, degree):
        diagonal = np.arange(part.start, part.start + len(table))
        table[np.arange(len(table)), diagonal] = 0.0
        total += np.einsum("ij,ij->j", mask[part], table @ mask)
    size = mask.sum(axis=0)
    means: F64 = total / (size * (size - 1))
    return means


def _iterate_kernel(a: Floats, b: Floats, degree: int) -> Iterator[tuple[slice, F64]]:
    """Yield (rows, kernel of these rows of a with all rows of b)."""
    right = np.asarray(b, dtype=np.float64).T
    for start in range(0, len(a), _BLOCK):
        part = slice(start, min(start + _BLOCK, len(a)))
        base = np.asarray(a[part], dtype=np.float64) @ right / a.shape[1] + 1.0
        table = base
        for _ in range(degree - 1):
            table = table * base
        yield part, table
