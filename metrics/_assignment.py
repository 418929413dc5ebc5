"""Nearest centroids of the same rows again and again, as faiss finds them, computing only what can have changed.

One lower bound a row, in the manner of Hamerly, but with distances to the centroids that moved instead of how far they
went: a row that neither these distances nor the bound speak against keeps its centroid, and those that stand still are
not looked at. Distances are float32; what their rounding could turn is left to faiss, so the labels are those of a full
search in every iteration. (The triangle inequality proper was tried: it saves less than its gathering of rows costs.)

Source: Hamerly 2010, "Making k-means even faster" (the bound); Higham 2002, "Accuracy and Stability of Numerical
Algorithms", section 3.1 (rounding of an inner product).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from openended.harness.types import I64

F32 = NDArray[np.float32]

_FAISS_BLAS_ROWS = 20  # faiss: from this many queries on it takes its matrix kernel
_BLOCK = 1 << 20  # entries of the table that is held at a time: it fits a cache
_MANY = 0.6  # from this share of moved centroids on, a full table costs less than a part and what it leaves open


def nearest(points: F32, centroids: F32) -> tuple[I64, F32]:
    """Return index of and squared distance to the nearest centroid of each row, as faiss finds them."""
    import faiss

    index = faiss.IndexFlatL2(points.shape[1])
    index.add(centroids)
    distances, labels = index.search(points, 1)
    return labels[:, 0], distances[:, 0]


class FullSearch:
    """Every distance every time."""

    def __init__(self, points: F32) -> None:
        self._points = points

    def labels(self, centroids: F32) -> I64:
        """Return the index of the nearest centroid of each row."""
        return nearest(self._points, centroids)[0]


class Search:
    """The same labels with bounds; memory O(n + k d).

    All values are |c|^2 - 2 x.c, the squared distance less |x|^2. For each row it keeps the label, the value at its own
    centroid, and a number that no other centroid's value is below by more than rounding. Where some centroids moved, a
    row stays if neither they nor that number are nearer than its own centroid; else all centroids are looked at.
    """

    def __init__(self, points: F32) -> None:
        n, dim = points.shape
        self._points = points
        self._norms = np.einsum("ij,ij->i", points, points)
        # Worst error of the two values that are compared, ours and faiss's, as a share of |x|^2 + |c|^2.
        self._rounding = np.float32(8 * (dim + 8) * 2.0**-24)
        self._slack = np.zeros(n, dtype=np.float32)
        self._centroids: F32 | None = None
        self._labels = np.zeros(n, dtype=np.int64)
        self._own = np.zeros(n, dtype=np.float32)
        self._others = np.zeros(n, dtype=np.float32)

    def labels(self, centroids: F32) -> I64:
        """Return the index of the nearest centroid of each row."""
        before, self._centroids = self._centroids, centroids.copy()
        rows = np.arange(len(self._labels))
        squares = np.einsum("ij,ij->i", centroids, centroids)
        # The largest so far: values of earlier iterations are compared with new ones.
        np.maximum(self._slack, self._rounding * (self._norms + squares.max()), out=self._slack)
        if before is not None:
            moved = (centroids != before).any(axis=1)
            if not moved.any():
                return self._labels.copy()
            if moved.sum() <= _MANY * len(moved):
                rows = self._unsettled(moved, squares)
        self._choose(rows, squares)
        return self._labels.copy()

    def objective(self) -> tuple[float, float]:
        """Return the sum of squared distances of the last search and the most that faiss's may differ from it."""
        total = float(np.sum(self._norms, dtype=np.float64) + np.sum(self._own, dtype=np.float64))
        # Where faiss had the word, its value is another one within the slack; it adds n float32 one after the other.
        return total, 2 * float(np.sum(self._slack, dtype=np.float64)) + len(self._own) * 2.0**-24 * abs(total)

    def _unsettled(self, moved: NDArray[np.bool_], squares: F32) -> I64:
        """Look at the moved centroids alone; return the rows that may have another nearest centroid now."""
        place = np.where(moved, np.cumsum(moved) - 1, -1)
        left = []
        for part, where, table in self._tables(np.arange(len(self._labels)), moved, squares):
            own, column = self._own[part], place[self._labels[part]]
            mine = np.flatnonzero(column >= 0)
            own[mine] = table[mine, column[mine]]
            table[mine, column[mine]] = np.inf
            others = np.minimum(self._others[part], table.min(axis=1))
            self._own[part], self._others[part] = own, others
            left.append(where[others <= own + self._slack[part]])
        return np.concatenate(left)

    def _choose(self, rows: I64, squares: F32) -> None:
        """Look at all centroids for some rows, in rising order."""
        close = [rows[:0]]
        for part, where, table in self._tables(rows, slice(None), squares):
            line = np.arange(len(table))
            labels = table.argmin(axis=1)
            own = table[line, labels]
            table[line, labels] = np.inf
            others = table.min(axis=1)
            self._labels[part], self._own[part], self._others[part] = labels, own, others
            close.append(where[others <= own + self._slack[part]])
        tied = np.concatenate(close)
        if len(tied) and self._centroids is not None:
            # faiss takes another kernel below 20 rows; the first row fills up.
            padded = np.concatenate([tied, np.repeat(tied[:1], max(0, _FAISS_BLAS_ROWS - len(tied)))])
            self._labels[tied] = nearest(self._points[padded], self._centroids)[0][: len(tied)]
            # Whichever of the two it was, the row is looked at in full as soon as anything moves.
            self._others[tied] = -np.inf

    def _tables(
        self, rows: I64, which: slice | NDArray[np.bool_], squares: F32
    ) -> Iterator[tuple[slice | I64, I64, F32]]:
        """Yield blocks of rows (as an index and as numbers) and their values at some centroids."""
        if self._centroids is None:
            raise RuntimeError("no centroids yet")
        turned, squares = -2 * self._centroids[which], squares[which]
        step = max(_FAISS_BLAS_ROWS, _BLOCK // len(squares))
        for start in range(0, len(rows), step):
            where = rows[start : start + step]
            # A slice where no row is left out: an array of numbers would copy the rows.
            part = slice(start, start + step) if len(rows) == len(self._labels) else where
            table = self._points[part] @ turned.T
            table += squares
            yield part, where, table
