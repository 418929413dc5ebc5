"""Residual k-means: each level clusters what the one before left over; a cell is one code a level.

With three levels of ten codes a row has one of 1,000 cells, at the price of 30 centroids. It is what a deep residual
mixture model (`openended.metrics._mauve.drmm`) comes to where distances outweigh its other terms.

Source: Juang and Gray 1982, "Multiple stage vector quantization for speech coding"; Arthur and Vassilvitskii 2007,
"k-means++: the advantages of careful seeding" (starts, with several candidates a step).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from openended.harness.core import F64, I64, Floats, make_random_stream
from openended.metrics._mauve.kmeans import F32, kmeans, nearest

LEVELS = 3  # the paper's DRMM


@dataclass(frozen=True, slots=True, eq=False)
class ResidualCodes:
    """Centroids of every level."""

    levels: tuple[F32, ...]
    """One array of shape (codes, d) a level."""
    spreads: tuple[float, ...]
    """Mean squared length of what each level leaves over."""

    def cells(self, points: F32) -> I64:
        """Return the cell of each row: its codes as the digits of a number."""
        cells, rest = np.zeros(len(points), dtype=np.int64), points
        for centroids in self.levels:
            labels = nearest(rest, centroids)[0]
            cells = cells * len(centroids) + labels
            rest = rest - centroids[labels]
        return cells


def residual_kmeans(points: F32, codes: int, *, restarts: int, max_iter: int, seed: int) -> ResidualCodes:
    """Fit all levels, one after the other."""
    levels, spreads, rest = [], [], np.ascontiguousarray(points, dtype=np.float32)
    for level in range(LEVELS):
        runs = []
        for restart in range(restarts):
            chosen = choose_distant_rows(rest, codes, make_random_stream(seed, "residual_kmeans", level, restart))
            centroids = kmeans(rest, codes, restarts=1, max_iter=max_iter, start=rest[chosen]).centroids
            labels, squares = nearest(rest, centroids)
            runs.append((float(np.sum(squares, dtype=np.float64)), centroids, labels))
        _, centroids, labels = min(runs, key=lambda run: run[0])
        rest = rest - centroids[labels]
        levels.append(centroids)
        spreads.append(float(np.mean(np.einsum("ij,ij->i", rest, rest), dtype=np.float64)))
    return ResidualCodes(tuple(levels), tuple(spreads))


def choose_distant_rows(points: Floats, count: int, draw: np.random.Generator) -> I64:
    """Draw rows that are far from each other: by squared distance to those drawn, the best of a few candidates each."""
    squares = np.einsum("ij,ij->i", points, points, dtype=np.float64)
    chosen = [int(draw.integers(len(points)))]
    apart = _compute_squared_distances(points, squares, chosen)[:, 0]
    candidates = 2 + int(np.log(count))
    while len(chosen) < count:
        sums = np.cumsum(apart)
        candidate_rows = np.searchsorted(sums, draw.random(candidates) * sums[-1]).clip(max=len(points) - 1)
        nearer = np.minimum(apart[:, None], _compute_squared_distances(points, squares, candidate_rows))
        best = int(np.argmin(nearer.sum(axis=0)))
        chosen.append(int(candidate_rows[best]))
        apart = nearer[:, best]
    return np.array(chosen, dtype=np.int64)


def _compute_squared_distances(points: Floats, squares: F64, rows: list[int] | I64) -> F64:
    """Squared distances of all rows to some, shape (n, len(rows))."""
    products = (points @ points[rows].T).astype(np.float64)
    gaps = np.maximum(squares[:, None] - 2 * products + squares[rows], 0.0)
    # Rounding must leave nothing between a row and itself.
    return np.where(gaps <= 1e-6 * (squares[:, None] + squares[rows]), 0.0, gaps)
