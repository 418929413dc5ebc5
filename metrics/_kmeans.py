"""k-means (Lloyd's algorithm) that takes faiss's path and stops where faiss would only repeat itself.

Starts, empty clusters, centroid sums and the choice between restarts are those of `faiss.Kmeans`, through its public
functions; so the centroids are equal to its own after any number of iterations. Each step is a function of the
assignment alone, hence a repeated assignment is a fixed point and all further iterations can be left out.
"""

from __future__ import annotations

import logging
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

_log = logging.getLogger(__name__)


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
    centroids, objective, count, last = start.copy(), np.inf, 0, max_iter
    labels: I64 | None = None
    seen: dict[int, int] = {}
    while count < last:
        count += 1
        new, distances = nearest(points, centroids)
        objective = _running_sum(distances)
        if labels is not None and np.array_equal(new, labels):
            break
        labels = new
        centroids = _update(points, labels, centroids)
        # Copies of a point can pass between equal centroids for ever: leave out whole rounds of such a cycle.
        state = hash(labels.tobytes())
        if state in seen and last == max_iter:
            last = count + (max_iter - count) % (count - seen[state])
        seen[state] = count
    return centroids, objective, count


def nearest(points: F32, centroids: F32) -> tuple[I64, F32]:
    """Return index of and squared distance to the nearest centroid of each row."""
    import faiss

    index = faiss.IndexFlatL2(points.shape[1])
    index.add(centroids)
    distances, labels = index.search(points, 1)
    return labels[:, 0], distances[:, 0]


def _update(points: F32, labels: I64, centroids: F32) -> F32:
    """Means of the cells, summed in row order in float32 as faiss does; empty cells split large ones."""
    from scipy.sparse import csr_array

    n, k = len(points), len(centroids)
    counts = np.bincount(labels, minlength=k)
    order = np.argsort(labels, kind="stable")
    ends = np.concatenate([[0], np.cumsum(counts)])
    cells = csr_array((np.ones(n, dtype=np.float32), order, ends), shape=(k, n))
    filled = counts > 0
    means = centroids.copy()
    scale = np.float32(1) / counts[filled].astype(np.float32)
    means[filled] = (cells @ points)[filled] * scale[:, None]
    if not filled.all():
        _split_empty(means, counts.astype(np.float32), n)
    return means


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
