"""Gaussians fitted to the rows of a side, and the trace term of their distance; see `openended.metrics.frechet`."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Literal

import numpy as np

from openended.harness.core import F64, Floats
from openended.metrics._embeddings.blocks import blocks
from openended.metrics._embeddings.pca import moments

# Allowed error of the shortcut, as a share of both traces: 1e-8 of a distance that is a thousandth of them.
_MOST_LOST = 1e-11

Shrinkage = Literal["none", "ledoit_wolf"]


@dataclass(frozen=True, slots=True, eq=False)
class Gaussian:
    """Mean and covariance of one side; of the covariance its lower triangle or, where n <= d, a root r with r r^T."""

    mean: F64
    trace: float
    lower: F64 | None
    """Shape (d, d); nothing of use above the diagonal."""
    root: F64 | None
    """Shape (d, n)."""


def gaussian(rows: Floats, shrinkage: Shrinkage) -> Gaussian:
    """Fit a Gaussian with divisor n - 1, float64."""
    n, dim = rows.shape
    if shrinkage == "none" and n <= dim:
        # The centered rows themselves are an exact root of a singular covariance.
        centered = np.array(rows, dtype=np.float64)
        mean = centered.mean(axis=0)
        centered -= mean
        centered /= np.sqrt(n - 1)
        return Gaussian(mean, float(np.sum(centered**2)), None, centered.T)
    mean, lower = moments([rows], "none")
    if shrinkage != "none":
        fourth = 0.0
        for _, block in blocks(rows, "none"):
            block -= mean
            fourth += float(np.sum(np.einsum("ij,ij->i", block, block) ** 2))
        lower = _shrink(lower * ((n - 1) / n), fourth, n)
    return Gaussian(mean, float(np.trace(lower)), lower, None)


def _shrink(lower: F64, fourth: float, n: int) -> F64:
    """Ledoit and Wolf's optimal mixture of a covariance (divisor n) and its mean variance times the identity.

    With d2 the squared distance of the two and b2 = (sum of |x|^4 / n - |S|^2) / n the noise of S (both Frobenius), the
    identity's weight is min(b2, d2) / d2. Takes and gives lower triangles.
    """
    target = np.trace(lower) / len(lower)
    squared = float(2 * np.sum(np.tril(lower, -1) ** 2) + np.sum(np.diagonal(lower) ** 2))
    distance = squared - len(lower) * target**2
    noise = max((fourth / n - squared) / n, 0.0)
    weight = min(noise / distance, 1.0) if distance > 0 else 0.0
    mixed: F64 = (1 - weight) * lower
    mixed[np.diag_indices_from(mixed)] += weight * target
    return mixed * n / (n - 1)


def cross_root_trace(a: Gaussian, b: Gaussian) -> float:
    """Return the trace of (A^1/2 B A^1/2)^1/2: sum of singular values of r^T s, for roots A = r r^T, B = s s^T.

    With a triangular r it is also the sum of the roots of the eigenvalues of r^T B r, which costs less but is as exact
    only where no eigenvalue is so small that its root is lost in the rounding of the largest.
    """
    if a.lower is not None and b.lower is not None:
        from scipy.linalg import lapack

        with contextlib.suppress(np.linalg.LinAlgError):
            root = np.linalg.cholesky(a.lower)
            both, info = lapack.dsygst(b.lower, root, itype=2, lower=1)
            if info:
                raise ValueError(f"dsygst: illegal argument {-info}")
            values = np.linalg.eigvalsh(both, UPLO="L")
            rounding = np.finfo(np.float64).eps * max(float(values[-1]), 0.0)
            lost = float(np.sum(rounding / (2 * np.sqrt(np.maximum(values, rounding)))))
            if lost <= _MOST_LOST * (a.trace + b.trace):
                return float(np.sqrt(np.maximum(values, 0.0)).sum())
    return float(np.linalg.svd(_compute_root(a).T @ _compute_root(b), compute_uv=False).sum())


def _compute_root(side: Gaussian) -> F64:
    """Return some r with r r^T = covariance: triangular if it is regular, from eigenvalues otherwise."""
    if side.root is not None or side.lower is None:
        return np.empty((len(side.mean), 0)) if side.root is None else side.root
    try:
        return np.asarray(np.linalg.cholesky(side.lower), dtype=np.float64)
    except np.linalg.LinAlgError:
        values, axes = np.linalg.eigh(side.lower, UPLO="L")
        is_positive = values > len(values) * np.finfo(np.float64).eps * max(float(values[-1]), 0.0)
        return np.asarray(axes[:, is_positive] * np.sqrt(values[is_positive]), dtype=np.float64)
