"""k-means (Lloyd's algorithm) that takes faiss's path and stops where faiss would only repeat itself.

Starts, empty clusters, centroid sums and the choice between restarts are those of `faiss.Kmeans`, through its public
functions; so the centroids are equal to its own after any number of iterations. Each step is a function of the
assignment alone, hence a repeated assignment is a fixed point and all further iterations can be left out.

faiss up to 1.12 always runs all iterations; 1.15 stops as soon as its float32 objective is unchanged, which could in
principle be before the fixed point (seen only where most rows are copies of each other).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.types import I64

F32 = NDArray[np.float32]

_MAX_POINTS = 256  # faiss: train on at most this many points a centroid
_RESTART_STEP = 15486557  # faiss: the seed of restart r is seed + 1 + r * this
_SPLIT_SEED = 1234  # faiss: the seed of the draws that choose which cluster an empty one splits
_SPLIT_EPS = np.float32(1 / 1024)  # faiss: the relative shift of the two halves
_FAISS_BLAS_ROWS = 20  # faiss: from this many queries on it takes its matrix kernel
_LARGEST_TABLE = 1 << 28  # entries, 1 GiB; beyond it every iteration is a full search
# Two distances nearer than this share of |x|^2 + |c|^2 are a tie for us: about 80 float32 roundings.
_ROUNDING = np.float32(1e-5)


@dataclass(frozen=True, slots=True, eq=False)
class Clustering:
    """The best of all restarts."""

    centroids: F32
    """Shape (k, d)."""
    objective: float
    """Sum of squared distances of the points that were fitted to their centroids."""
    iterations: tuple[int, ...]
    """Lloyd iterations of each restart."""

    def assign(self, points: F32) -> I64:
        """Return the nearest centroid of each row; the lower index where two are equally near."""
        return nearest(points, self.centroids)[0]


def kmeans(points: F32, k: int, *, restarts: int = 5, max_iter: int = 500, seed: int = 0) -> Clustering:
    """Cluster rows into k cells.

    Args:
        points: Rows, shape (n, d), float32, n >= k.
        k: Number of centroids.
        restarts: Number of starts; the one with the least objective is kept (the first among equals).
        max_iter: Most Lloyd iterations a restart.
        seed: As `faiss.Kmeans(seed=…)`.
    """
    points = np.ascontiguousarray(points, dtype=np.float32)
    if len(points) > k * _MAX_POINTS:
        points = points[_permutation(len(points), seed)[: k * _MAX_POINTS]]
    best: tuple[float, F32] | None = None
    iterations = []
    for restart in range(restarts):
        start = points[_permutation(len(points), seed + 1 + restart * _RESTART_STEP)[:k]]
        centroids, objective, count = lloyd(points, start, max_iter)
        iterations.append(count)
        if best is None or objective < best[0]:
            best = (objective, centroids)
    if best is None:
        raise ValueError(f"restarts: expected at least 1, got {restarts}")
    return Clustering(best[1], best[0], tuple(iterations))


def lloyd(points: F32, start: F32, max_iter: int) -> tuple[F32, float, int]:
    """Run Lloyd's algorithm; return the centroids, the objective of the last assignment and the iterations done."""
    search = _Search(points, len(start))
    means = _Means(points, len(start))
    centroids, count, last = start.copy(), 0, max_iter
    labels: I64 | None = None
    seen: dict[int, int] = {}
    objective = np.inf
    while count < last:
        count += 1
        new = search.labels(centroids)
        still = labels is not None and np.array_equal(new, labels)
        if still or count == last:
            # faiss has the last word on what is nearest, and its distances choose between the restarts.
            new, distances = nearest(points, centroids)
            objective = _running_sum(distances)
            if labels is not None and np.array_equal(new, labels):
                break
        labels = new
        centroids = means.update(labels)
        # Copies of a point can pass between equal centroids for ever: leave out whole rounds of such a cycle.
        state = hash(labels.tobytes())
        if state in seen and last == max_iter:
            round_trip = count - seen[state]
            last = min(max_iter, count + ((max_iter - count) % round_trip or round_trip))
        seen[state] = count
    return centroids, objective, count


def nearest(points: F32, centroids: F32) -> tuple[I64, F32]:
    """Return index of and squared distance to the nearest centroid of each row, as faiss finds them."""
    import faiss

    index = faiss.IndexFlatL2(points.shape[1])
    index.add(centroids)
    distances, labels = index.search(points, 1)
    return labels[:, 0], distances[:, 0]


class _Search:
    """Nearest centroids of the same points again and again, computing only what can have changed.

    It keeps the table of |c|^2 - 2 x.c (the squared distance less |x|^2). Columns of centroids that did not move stay.
    A row is looked at again if its own centroid moved or a moved centroid came nearer than its own. Rows whose two
    best are nearer to each other than rounding are left to faiss.
    """

    def __init__(self, points: F32, k: int) -> None:
        n = len(points)
        self._points, self._k = points, k
        self._table = np.empty((n, k), dtype=np.float32) if n * k <= _LARGEST_TABLE else None
        self._norms = np.einsum("ij,ij->i", points, points)
        self._centroids: F32 | None = None
        self._labels = np.zeros(n, dtype=np.int64)
        self._best = np.zeros(n, dtype=np.float32)

    def labels(self, centroids: F32) -> I64:
        """Return the index of the nearest centroid of each row."""
        if self._table is None:
            return nearest(self._points, centroids)[0]
        if self._centroids is None:
            moved = np.ones(self._k, dtype=bool)
        else:
            moved = (centroids != self._centroids).any(axis=1)
        self._centroids = centroids.copy()
        squares = np.einsum("ij,ij->i", centroids, centroids)
        slack = _ROUNDING * (self._norms + squares.max())
        if moved.sum() > self._k // 2:
            np.matmul(self._points, -2 * centroids.T, out=self._table)
            self._table += squares
            self._choose(slice(None), self._table, slack)
        elif moved.any():
            part = self._points @ (-2 * centroids[moved].T)
            part += squares[moved]
            self._table[:, moved] = part
            rows = np.flatnonzero(moved[self._labels] | (part.min(axis=1) <= self._best + slack))
            self._choose(rows, self._table[rows], slack[rows])
        return self._labels.copy()

    def _choose(self, rows: slice | I64, table: F32, slack: F32) -> None:
        """Set label and best of some rows from their part of the table."""
        if not len(table):
            return
        labels = table.argmin(axis=1)
        best = table[np.arange(len(table)), labels]
        self._labels[rows], self._best[rows] = labels, best
        close = np.count_nonzero(table <= (best + slack)[:, None], axis=1) > 1
        if close.any() and self._centroids is not None:
            where = np.arange(len(self._labels))[rows][close]
            # faiss takes another kernel below 20 rows; the first row fills up.
            padded = np.concatenate([where, np.repeat(where[:1], max(0, _FAISS_BLAS_ROWS - len(where)))])
            self._labels[where] = nearest(self._points[padded], self._centroids)[0][: len(where)]


class _Means:
    """Means of the cells, summed in row order in float32 as faiss does; only cells whose rows changed are summed."""

    def __init__(self, points: F32, k: int) -> None:
        self._points = points
        self._means = np.zeros((k, points.shape[1]), dtype=np.float32)
        self._labels: I64 | None = None

    def update(self, labels: I64) -> F32:
        """Return the means; empty cells split large ones."""
        k = len(self._means)
        counts = np.bincount(labels, minlength=k)
        changed = np.ones(k, dtype=bool)
        if self._labels is not None:
            differs = labels != self._labels
            changed[:] = False
            changed[labels[differs]] = changed[self._labels[differs]] = True
        self._labels = labels
        self._sum(labels, changed, counts)
        centroids = self._means.copy()
        if (counts == 0).any():
            _split_empty(centroids, counts.astype(np.float32), len(labels))
        return centroids

    def _sum(self, labels: I64, changed: NDArray[np.bool_], counts: I64) -> None:
        from scipy.sparse import csr_array

        rows = np.flatnonzero(changed[labels])
        rows = rows[np.argsort(labels[rows], kind="stable")]
        cells = np.flatnonzero(changed & (counts > 0))
        ends = np.concatenate([[0], np.cumsum(counts[cells])])
        ones = np.ones(len(rows), dtype=np.float32)
        sums = csr_array((ones, rows, ends), shape=(len(cells), len(labels))) @ self._points
        self._means[cells] = sums * (np.float32(1) / counts[cells].astype(np.float32))[:, None]


def _split_empty(centroids: F32, counts: F32, n: int) -> None:
    """Give each empty cell half of a cell drawn by size, in place, with faiss's own draws."""
    import faiss

    native: Any = faiss
    draws = native.RandomGenerator(_SPLIT_SEED)
    k = len(counts)
    signs = np.where(np.arange(centroids.shape[1]) % 2 == 0, np.float32(1), np.float32(-1)) * _SPLIT_EPS
    for empty in np.flatnonzero(counts == 0):
        donor = 0
        while np.float32(draws.rand_float()) >= np.float32(float(counts[donor]) - 1.0) / np.float32(n - k):
            donor = (donor + 1) % k
        centroids[empty] = centroids[donor] * (1 + signs)
        centroids[donor] = centroids[donor] * (1 - signs)
        counts[empty] = counts[donor] / 2
        counts[donor] -= counts[empty]


def _running_sum(distances: F32) -> float:
    """Sum in float32 from first to last, as faiss does: restarts may differ by less than the rounding."""
    return float(np.cumsum(distances, dtype=np.float32)[-1])


def _permutation(n: int, seed: int) -> I64:
    """Return faiss's permutation of range(n)."""
    import faiss

    out = np.empty(n, dtype=np.int32)
    native: Any = faiss
    native.rand_perm(native.swig_ptr(out), n, seed)
    return out.astype(np.int64)
