"""Balls around points of two sides, in O(n · block) memory and with exact ties; the same for many subsets.

Distances come from a float32 matrix product of centered rows. Wherever the rounding of that product could change an
answer, the pair is computed again in float64 from the difference of the two rows, which is 0 for equal rows and the
same number in both directions. So every comparison is that of exact pairs, and only the fast path is approximate.
Subsets take the fast path alone.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from openended.harness.core import F64, I64, Floats

F32 = NDArray[np.float32]
Mask = NDArray[np.bool_]
_BLOCK_ROWS = 512  # rows of the table at a time
_PAIRS = 1 << 22  # numbers of a chunk of exact pairs
# Bound on the float32 error of a squared distance as a share of |x|^2 + |y|^2: about 80 roundings.
_ROUNDING = np.float32(1e-5)


@dataclass(frozen=True, slots=True, eq=False)
class DistancePoints:
    """Points of one side, prepared for distances to the other side."""

    exact: F64  # rows as given, times a power of two; shape (n, d)
    fast: F32  # centered rows
    squares: F32  # squared norms of the centered rows


Points = tuple[DistancePoints, DistancePoints]
"""Those of the human and of the model side, centered together."""


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """Which points of each side lie in which balls of the other side."""

    human_balls: I64  # number of human balls that each model point is in, shape (n_model,)
    model_balls: I64  # number of model balls that each human point is in, shape (n_human,)
    members: I64  # number of model points in each human ball, shape (n_human,)


def center_points(human: Floats, model: Floats) -> Points:
    """Center both sides together and scale them into the range of float32."""
    sides = [np.asarray(side, dtype=np.float64) for side in (human, model)]
    center = sum(side.sum(axis=0) for side in sides) / sum(map(len, sides))
    largest = max(float(np.abs(side - center).max()) for side in sides)
    # A power of two changes no mantissa, so equal distances stay equal.
    scale = 2.0 ** -np.ceil(np.log2(largest)) if largest > 0 else 1.0
    points = []
    for side in sides:
        fast = ((side - center) * scale).astype(np.float32)
        points.append(DistancePoints(side * scale, fast, np.einsum("ij,ij->i", fast, fast)))
    return points[0], points[1]


def radii(points: DistancePoints, k: int) -> F64:
    """Return the squared distance of each point to its k-th neighbor, itself left out, shape (n,)."""
    distances = np.empty(len(points.fast))
    for start, table, slack in _iterate_distances(points, points):
        rows = np.arange(len(table))
        table[rows, start + rows] = np.inf
        row, column = _find_true_entries(table <= (_bound_smallest(table, k) + 2 * slack)[:, None])
        exact = _compute_exact_distances(points.exact, start + row, points.exact, column)
        order = np.lexsort((exact, row))
        first = np.searchsorted(row, rows)  # `row` rises, and lexsort keeps it so
        distances[start : start + len(table)] = exact[order][first + k - 1]
    return distances


def _bound_smallest(table: F32, k: int) -> F32:
    """Return an upper bound of the k-th smallest number of each row, near it: k groups of columns begin below it."""
    groups = min(table.shape[1], max(256, 16 * k))
    each = table.shape[1] // groups
    smallest = table[:, : groups * each].reshape(len(table), each, groups).min(axis=1)
    bound: F32 = np.partition(smallest, k - 1, axis=1)[:, k - 1]
    return bound


def median_radius(squared: F32 | F64) -> float:
    """Return the square of the median distance; of an even number the two in the middle are averaged as distances."""
    ranked = np.sort(np.asarray(squared, dtype=np.float64))
    low, high = float(ranked[(len(ranked) - 1) // 2]), float(ranked[len(ranked) // 2])
    return low if low == high else ((low**0.5 + high**0.5) / 2) ** 2


def count_balls(
    human: DistancePoints, model: DistancePoints, human_radii: F64, model_radii: F64, *, closed: bool
) -> Counts:
    """Count for each point the balls of the other side that it is in; their surface belongs to them if `closed`."""
    in_human = np.zeros(len(model.fast), dtype=np.int64)
    in_model = np.zeros(len(human.fast), dtype=np.int64)
    members = np.zeros(len(human.fast), dtype=np.int64)
    for start, table, slack in _iterate_distances(human, model):
        rows = slice(start, start + len(table))
        inside = _is_within(table, slack, human_radii[rows, None], human.exact[rows], model.exact, closed)
        in_human += np.count_nonzero(inside, axis=0)
        members[rows] = np.count_nonzero(inside, axis=1)
        inside = _is_within(table, slack, model_radii[None, :], human.exact[rows], model.exact, closed)
        in_model[rows] = np.count_nonzero(inside, axis=1)
    return Counts(in_human, in_model, members)


def _is_within(table: F32, slack: np.float32, radius: F64, rows: F64, columns: F64, closed: bool) -> Mask:
    """Compare squared distances with a column or a row of radii; pairs near a radius are compared exactly."""
    # Pairs below the first limit are inside, pairs above the second are outside.
    low = np.nextafter((radius - slack).astype(np.float32), np.float32(-np.inf))
    high = np.nextafter((radius + slack).astype(np.float32), np.float32(np.inf))
    inside: Mask = table <= low
    row, column = _find_true_entries((table <= high) ^ inside)
    exact = _compute_exact_distances(rows, row, columns, column)
    limit = radius[row, 0] if radius.shape[1] == 1 else radius[0, column]
    inside[row, column] = exact <= limit if closed else exact < limit
    return inside


def _iterate_distances(a: DistancePoints, b: DistancePoints) -> Iterator[tuple[int, F32, np.float32]]:
    """Yield (first row, squared distances of a block of `a` to all of `b`, their error bound)."""
    most, turned = b.squares.max(), -2 * b.fast.T
    for start in range(0, len(a.fast), _BLOCK_ROWS):
        rows = slice(start, start + _BLOCK_ROWS)
        table = a.fast[rows] @ turned
        table += a.squares[rows, None]
        table += b.squares
        yield start, table, _ROUNDING * (a.squares[rows].max() + most)


def _find_true_entries(mask: Mask) -> tuple[I64, I64]:
    """Row and column of each true entry, in row order; faster than `np.nonzero` where few are true."""
    row, column = np.divmod(np.flatnonzero(mask), mask.shape[1])
    return row, column


def _compute_exact_distances(a: F64, rows: I64, b: F64, columns: I64) -> F64:
    """Squared distances of pairs, in float64, from differences."""
    out = np.empty(len(rows))
    step = max(1, _PAIRS // max(a.shape[1], 1))
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        gap = a[rows[part]] - b[columns[part]]
        out[part] = np.einsum("ij,ij->i", gap, gap)
    return out


class NearestPoints:
    """The nearest neighbors of each point on its own side, and the points of the other side that are as near."""

    def __init__(self, side: DistancePoints, other: DistancePoints, k: int) -> None:
        n = len(side.fast)
        # Half of them or more are in a subset; fewer than k are for a point in ten thousand.
        count = min(n - 1, 2 * k + math.ceil(6 * math.sqrt(k)) + 8)
        self.k = k
        # Nearest first, shape (n, count).
        self.index, self.squared = np.empty((n, count), dtype=np.int64), np.empty((n, count), dtype=np.float32)
        for start, table, slack in _iterate_distances(side, side):
            rows = np.arange(len(table))
            table[rows, start + rows] = np.inf
            nearest = np.argpartition(table, count - 1, axis=1)[:, :count]
            distances = np.take_along_axis(table, nearest, axis=1)
            order = np.argsort(distances, axis=1)
            part = slice(start, start + len(table))
            self.index[part] = np.take_along_axis(nearest, order, axis=1)
            self.squared[part] = _round_to_zero(np.take_along_axis(distances, order, axis=1), slack)
        ball, points, apart = [], [], []
        for start, table, slack in _iterate_distances(side, other):
            row, column = _find_true_entries(table <= self.squared[start : start + len(table), -1:] + slack)
            ball.append(row + start)
            points.append(column)
            apart.append(_round_to_zero(table[row, column], slack))
        # Pairs (point, point of the other side) no farther than the last neighbor kept, and their squared distances.
        self.ball, self.other, self.apart = (np.concatenate(parts) for parts in (ball, points, apart))

    def find_radii(self, in_side: Mask) -> F32:
        """Return the squared distance of each point to its k-th neighbor in the subset; -1 for points outside of it."""
        rank = np.cumsum(in_side[self.index], axis=1, dtype=np.int16)
        kth = np.argmax(rank >= self.k, axis=1)
        kth[rank[:, -1] < self.k] = self.index.shape[1] - 1  # the last one kept, for a point in ten thousand
        return np.where(in_side, self.squared[np.arange(len(kth)), kth], np.float32(-1.0))

    def find_members(self, in_side: Mask, in_other: Mask, closed: bool) -> tuple[I64, I64]:
        """Return the pairs (ball, point of the other side in it) of a subset."""
        limit = self.find_radii(in_side)[self.ball]
        inside = in_other[self.other] & ((self.apart <= limit) if closed else (self.apart < limit))
        return self.ball[inside], self.other[inside]


def _round_to_zero(squared: F32, slack: np.float32) -> F32:
    """Set distances within rounding error of 0 to 0, so that equal rows have distance 0."""
    return np.where(squared <= slack, np.float32(0.0), squared)


def explain_few_neighbors(k: int, default: int, least: int) -> str:
    """Return why the side with `least` texts has too few neighbors for an option k; empty for the default."""
    if k == default or k < least:
        return ""
    return f"k={k}: needs more than {k} texts per side, this run has {least}; raise num_examples"
