"""k-means (Lloyd's algorithm) that takes faiss's path and stops where faiss would only repeat itself.

Starts, empty clusters, centroid sums and the choice between restarts are those of `faiss.Kmeans`, through its public
functions; so the centroids are equal to its own after any number of iterations. Each step is a function of the
assignment alone, hence a repeated assignment is a fixed point and all further iterations can be left out.

faiss up to 1.12 always runs all iterations; 1.15 stops as soon as its float32 objective is unchanged, which could in
principle be before the fixed point (seen only where most rows are copies of each other).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from openended.harness.types import I64
from openended.metrics._assignment import F32, FullSearch, Search, nearest

_MAX_POINTS = 256  # faiss: train on at most this many points a centroid
_RESTART_STEP = 15486557  # faiss: the seed of restart r is seed + 1 + r * this
_SPLIT_SEED = 1234  # faiss: the seed of the draws that choose which cluster an empty one splits
_SPLIT_EPS = np.float32(1 / 1024)  # faiss: the relative shift of the two halves
_SPLIT_DRAWS = 4096  # the fewest that are made


@dataclass(frozen=True, slots=True, eq=False)
class Clustering:
    """The best of all restarts."""

    centroids: F32
    """Shape (k, d)."""
    objective: float
    """Sum of squared distances of the points that were fitted to their centroids."""
    iterations: tuple[int, ...]
    """Lloyd iterations of each restart."""
    labels: I64 | None = None
    """What `assign` returns for the rows given to `kmeans`, where it is known already."""

    def assign(self, points: F32) -> I64:
        """Return the nearest centroid of each row; the lower index where two are equally near."""
        return nearest(points, self.centroids)[0]


@dataclass(frozen=True, slots=True, eq=False)
class LloydRun:
    """What one start led to."""

    centroids: F32
    """After the last update, shape (k, d)."""
    searched: F32
    """Those that the last assignment is to; equal to `centroids` at a fixed point."""
    labels: I64
    """The last assignment, shape (n,)."""
    iterations: int
    fixed: bool
    """Whether the last assignment repeated the one before."""


class Searcher(Protocol):
    """Finds the nearest centroids of points that it was made for."""

    def labels(self, centroids: F32) -> I64:
        """Return the index of the nearest centroid of each row."""
        ...


def kmeans(points: F32, k: int, *, restarts: int = 5, max_iter: int = 500, seed: int = 0) -> Clustering:
    """Cluster rows into k cells.

    Args:
        points: Rows, shape (n, d), float32, n >= k.
        k: Number of centroids.
        restarts: Number of starts; the one with the least objective is kept (the first among equals).
        max_iter: Most Lloyd iterations a restart.
        seed: As `faiss.Kmeans(seed=…)`.
    """
    if restarts < 1:
        raise ValueError(f"restarts: expected at least 1, got {restarts}")
    points = np.ascontiguousarray(points, dtype=np.float32)
    whole = len(points) <= k * _MAX_POINTS
    if not whole:
        points = points[_permutation(len(points), seed)[: k * _MAX_POINTS]]
    runs, ranges = [], []
    for restart in range(restarts):
        search = Search(points)
        runs.append(lloyd(points, _start(points, k, seed, restart), max_iter, search))
        about, error = search.objective()
        ranges.append((about - error, about + error))
    # faiss's own distances choose, among the runs that could be the best of them.
    least = min(high for _, high in ranges)
    objectives = []
    for restart, (low, _) in enumerate(ranges):
        if low <= least:
            objective, runs[restart] = _checked(points, runs[restart], _start(points, k, seed, restart), max_iter)
            objectives.append((objective, restart))
    objective, restart = min(objectives)
    best = runs[restart]
    labels = best.labels if whole and best.fixed else None
    return Clustering(best.centroids, objective, tuple(run.iterations for run in runs), labels)


def lloyd(points: F32, start: F32, max_iter: int, search: Searcher) -> LloydRun:
    """Run Lloyd's algorithm from a start, to a fixed point or through `max_iter` iterations."""
    means = _Means(points, len(start))
    centroids, searched, count, last = start, start, 0, max_iter
    labels: I64 | None = None
    seen: dict[int, int] = {}
    while count < last:
        count += 1
        new, searched = search.labels(centroids), centroids
        if labels is not None and np.array_equal(new, labels):
            return LloydRun(centroids, searched, labels, count, fixed=True)
        labels = new
        centroids = means.update(labels)
        # Copies of a point can pass between equal centroids for ever: leave out whole rounds of such a cycle.
        state = hash(labels.tobytes())
        if state in seen and last == max_iter:
            round_trip = count - seen[state]
            last = min(max_iter, count + ((max_iter - count) % round_trip or round_trip))
        seen[state] = count
    if labels is None:
        raise ValueError(f"max_iter: expected at least 1, got {max_iter}")
    return LloydRun(centroids, searched, labels, count, fixed=False)


def _checked(points: F32, run: LloydRun, start: F32, max_iter: int) -> tuple[float, LloydRun]:
    """Return faiss's objective of a run; faiss has the last word on what is nearest, so the run may be done again."""
    labels, distances = nearest(points, run.searched)
    if not np.array_equal(labels, run.labels):
        run = lloyd(points, start, max_iter, FullSearch(points))
        distances = nearest(points, run.searched)[1]
    return _running_sum(distances), run


def _start(points: F32, k: int, seed: int, restart: int) -> F32:
    """Return the centroids that faiss starts from."""
    return points[_permutation(len(points), seed + 1 + restart * _RESTART_STEP)[:k]]


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
    k, at = len(counts), 0
    signs = np.where(np.arange(centroids.shape[1]) % 2 == 0, np.float32(1), np.float32(-1)) * _SPLIT_EPS
    for empty in np.flatnonzero(counts == 0):
        with np.errstate(divide="ignore", invalid="ignore"):  # n = k
            chances = (counts - np.float32(1)) / np.float32(n - k)
        while not (taken := _draws(at, k) < chances).any():  # around all cells, a draw each, until one is taken
            at += k
        donor = int(taken.argmax())
        at += donor + 1
        centroids[empty] = centroids[donor] * (1 + signs)
        centroids[donor] = centroids[donor] * (1 - signs)
        counts[empty] = counts[donor] / 2
        counts[donor] -= counts[empty]


def _draws(start: int, size: int) -> F32:
    """Return some of the uniform draws that faiss makes from its fixed seed, from number `start` on."""
    end = start + size
    return _first_draws(max(_SPLIT_DRAWS, 1 << (end - 1).bit_length()))[start:end]


@lru_cache(maxsize=2)
def _first_draws(count: int) -> F32:
    """Return the first draws; every empty cell of every iteration begins with the same ones."""
    import faiss

    native: Any = faiss
    generator = native.RandomGenerator(_SPLIT_SEED)
    made = np.fromiter((generator.rand_float() for _ in range(count)), dtype=np.float32, count=count)
    made.setflags(write=False)
    return made


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
