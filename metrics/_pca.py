"""Principal components through the d × d covariance in float64, from rows read in blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.types import F64, Floats
from metrics._embeddings import Rows, blocks, n_rows


@dataclass(frozen=True, slots=True, eq=False)
class Projection:
    """A centred linear map fitted on some rows."""

    mean: F64
    """Shape (d,), of the scaled rows."""
    axes: F64
    """Shape (d, m), one component a column."""
    rows: Rows
    """How rows are scaled before they are centred."""

    def apply(self, sides: Sequence[Floats]) -> NDArray[np.float32]:
        """Return the projected rows of all sides one below the other, float32, shape (sum of n, m)."""
        out = np.empty((n_rows(sides), self.axes.shape[1]), dtype=np.float32)
        at = 0
        for side in sides:
            for part, block in blocks(side, self.rows):
                block -= self.mean
                out[at + part.start : at + part.stop] = block @ self.axes
            at += len(side)
        return out


def fit_pca(sides: Sequence[Floats], *, share: float, rows: Rows = "l2", whiten: bool = False) -> Projection:
    """Fit PCA on the rows of all sides together.

    Args:
        sides: Arrays of shape (n_i, d); may be memory maps.
        share: Keep the fewest leading components whose variances reach this share of the total, 0 < share <= 1.
        rows: Scaling of each row before the fit.
        whiten: Divide each component by its standard deviation (divisor n - 1).

    Returns:
        The map. Where all rows are equal it has one component, on which every row is 0.
    """
    mean, covariance = _moments(sides, rows)
    values, axes = _leading(covariance, share)
    if whiten:
        safe = np.where(values > 0, values, 1.0)
        axes = axes / np.sqrt(safe)
    return Projection(mean, axes, rows)


def _moments(sides: Sequence[Floats], rows: Rows) -> tuple[F64, F64]:
    """Mean and covariance (divisor n - 1) of all rows, in two passes."""
    dim, total = sides[0].shape[1], n_rows(sides)
    mean = np.zeros(dim)
    for side in sides:
        for _, block in blocks(side, rows):
            mean += block.sum(axis=0)
    mean /= total
    covariance = np.zeros((dim, dim))
    for side in sides:
        for _, block in blocks(side, rows):
            block -= mean
            covariance += block.T @ block  # one array on both sides: NumPy calls the symmetric product
    covariance /= max(total - 1, 1)
    return mean, covariance


def _leading(covariance: F64, share: float) -> tuple[F64, F64]:
    """Eigenvalues (falling) and eigenvectors that reach the share of the trace."""
    dim, total = len(covariance), float(np.trace(covariance))
    # Rounding of equal rows leaves a trace of about 1e-32 a dimension, not 0.
    if total <= 1e-28 * dim:
        return np.zeros(1), np.eye(dim, 1)
    # The reduction to tridiagonal form is most of the work, so leading vectors alone would cost nearly as much.
    values, axes = np.linalg.eigh(covariance)
    values, axes = values[::-1], axes[:, ::-1]
    reached = np.cumsum(values / total) >= share
    keep = int(np.argmax(reached)) + 1 if reached.any() else int((values > 1e-15 * values[0]).sum())
    return values[:keep], np.ascontiguousarray(axes[:, :keep])
