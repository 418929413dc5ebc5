"""Principal components through the d × d covariance in float64, from rows read in blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from openended.harness.core import F64, Floats
from openended.metrics._embeddings.blocks import Rows, blocks, check_range, find_equal_rows, n_rows

_BLOCK = 1024  # rows at a time: few enough for a cache, enough for the products


@dataclass(frozen=True, slots=True, eq=False)
class Projection:
    """A centered linear map fitted on some rows."""

    mean: F64
    """Shape (d,), of the scaled rows."""
    axes: F64
    """Shape (d, m), one component a column."""
    rows: Rows
    """How rows are scaled before they are centered."""

    def apply(self, sides: Sequence[Floats]) -> NDArray[np.float32]:
        """Return the projected rows of all sides one below the other, float32, shape (sum of n, m)."""
        out = np.empty((n_rows(sides), self.axes.shape[1]), dtype=np.float32)
        at = 0
        for side in sides:
            for part, block in blocks(side, self.rows, _BLOCK):
                block -= self.mean
                out[at + part.start : at + part.stop] = block @ self.axes
            at += len(side)
        return out


def fit_pca(sides: Sequence[Floats], *, share: float, rows: Rows = "l2", whiten: bool = False) -> Projection:
    """Fit PCA on the rows of all sides together."""
    mean, covariance = moments(sides, rows)  # only the lower triangle is filled
    dim, total = len(covariance), float(np.trace(covariance))
    if total <= 1e-28 * dim:  # rounding of equal rows leaves a trace of about 1e-32 a dimension, not 0
        values, axes = np.zeros(1), np.eye(dim, 1)
    else:
        values, vectors = _compute_eigenvectors(covariance)
        values = values[::-1]
        reached = np.cumsum(values / total) >= share
        keep = int(np.argmax(reached)) + 1 if reached.any() else int((values > 1e-15 * values[0]).sum())
        values, axes = values[:keep], np.ascontiguousarray(vectors(keep)[:, ::-1])
    if whiten:
        safe = np.where(values > 0, values, 1.0)
        axes = axes / np.sqrt(safe)
    return Projection(mean, axes, rows)


def project_pair(
    *, human: Floats, model: Floats, share: float, rows: Rows, option: str
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return both sides after a joint PCA; rows that are equal stay equal."""
    if not 0 < share <= 1:
        raise ValueError(f"{option}: expected a share in (0, 1] or None, got {share}")
    if rows == "none":
        check_range(human=human, model=model)
    points = fit_pca([human, model], share=share, rows=rows).apply([human, model])
    points = points[find_equal_rows([human, model])]
    return points[: len(human)], points[len(human) :]


def moments(sides: Sequence[Floats], rows: Rows) -> tuple[F64, F64]:
    """Return mean and covariance (divisor n - 1) of the rows of all sides together, float64, in one pass."""
    from scipy.linalg import blas

    dim, total = sides[0].shape[1], n_rows(sides)
    shift, sums = np.zeros(dim), np.zeros(dim)
    products = np.zeros((dim, dim), order="F")
    first = True
    for side in sides:
        for _, block in blocks(side, rows, _BLOCK):
            if first:
                # Any vector near the mean will do: its error is subtracted below, without canceling large numbers.
                shift, first = block.mean(axis=0), False
            block -= shift
            sums += block.sum(axis=0)
            products = blas.dsyrk(1.0, block.T, beta=1.0, c=products, lower=1, overwrite_c=1)
    off = sums / total
    products = blas.dsyr(-float(total), off, a=products, lower=1, overwrite_a=1)
    products /= max(total - 1, 1)
    return shift + off, products


def _compute_eigenvectors(lower: F64) -> tuple[F64, Callable[[int], F64]]:
    """Return the ascending eigenvalues and a function for the eigenvectors of the last ones.

    The steps of LAPACK's divide and conquer (dsyevd) one by one: reduction to tridiagonal form, eigenvectors of that,
    and the way back, which is taken only for the vectors that are asked for.
    """
    from scipy.linalg import eigh_tridiagonal, lapack

    dim = len(lower)
    if dim == 1:
        return lower[0], lambda last: np.ones((1, last))
    work, _ = lapack.dsytrd_lwork(dim, lower=1)
    reflectors, diagonal, off_diagonal, scales, info = lapack.dsytrd(lower, lower=1, lwork=int(work))
    if info:
        raise np.linalg.LinAlgError(f"dsytrd: illegal argument {-info}")
    solved = eigh_tridiagonal(diagonal, off_diagonal)
    values, inner = (np.asarray(part, dtype=np.float64) for part in solved)

    def vectors(last: int) -> F64:
        out = np.asfortranarray(inner[:, dim - last :])
        # The first row and column of the reduction's rotation are those of the identity.
        rotation = np.asfortranarray(reflectors[1:, :-1])
        work = lapack.dormqr("L", "N", rotation, scales, out[1:], -1)[1]
        out[1:], _, info = lapack.dormqr("L", "N", rotation, scales, out[1:], int(work[0]))
        if info:
            raise np.linalg.LinAlgError(f"dormqr: illegal argument {-info}")
        return out

    return values, vectors
