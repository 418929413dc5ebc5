"""Balls around points of two sides, in O(n · block) memory and with exact ties.

Distances come from a float32 matrix product of centered rows. Wherever the rounding of that product could change an
answer, the pair is computed again in float64 from the difference of the two rows, which is 0 for equal rows and the
same number in both directions. So every comparison is that of exact pairs, and only the fast path is approximate.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from openended.harness.core import F64, I64, Floats

_BLOCK = 512  # rows of the table at a time
_PAIRS = 1 << 22  # numbers of a chunk of exact pairs
# Bound on the float32 error of a squared distance as a share of |x|^2 + |y|^2: about 80 roundings.
_ROUNDING = np.float32(1e-5)


@dataclass(frozen=True, slots=True, eq=False)
class DistancePoints:
    """Points of one side, prepared for distances to the other side."""

    exact: F64
    """Rows as given, times a power of two; shape (n, d)."""
    fast: NDArray[np.float32]
    """Centered rows."""
    squares: NDArray[np.float32]
    """Squared norms of the centered rows."""


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """Which points of each side lie in which balls of the other side."""

    human_balls: I64
    """Number of human balls that each model point is in, shape (n_model,)."""
    model_balls: I64
    """Number of model balls that each human point is in, shape (n_human,)."""
    members: I64
    """Number of model points in each human ball, shape (n_human,)."""


def prepare(human: Floats, model: Floats) -> tuple[DistancePoints, DistancePoints]:
    """Center both sides together and scale them into the range of float32."""
    sides = [np.asarray(side, dtype=np.float64) for side in (human, model)]
    center = sum(side.sum(axis=0) for side in sides) / sum(map(len, sides))
    largest = max(float(np.abs(side - center).max()) for side in sides)
    # A power of two changes no mantissa, so equal distances stay equal.
    scale = 2.0 ** -np.ceil(np.log2(largest)) if largest > 0 else 1.0
    prepared = []
    for side in sides:
        fast = ((side - center) * scale).astype(np.float32)
        prepared.append(DistancePoints(side * scale, fast, np.einsum("ij,ij->i", fast, fast)))
    return prepared[0], prepared[1]


def radii(points: DistancePoints, k: int) -> F64:
    """Return the squared distance of each point to its k-th neighbor, itself left out, shape (n,)."""
    distances = np.empty(len(points.fast))
    for start, table, slack in distance_tables(points, points):
        rows = np.arange(len(table))
        table[rows, start + rows] = np.inf
        nearest = np.partition(table, k - 1, axis=1)[:, k - 1]
        row, column = _find_true_entries(table <= (nearest + 2 * slack)[:, None])
        exact = _compute_exact_distances(points.exact, start + row, points.exact, column)
        order = np.lexsort((exact, row))
        first = np.searchsorted(row, rows)  # `row` rises, and lexsort keeps it so
        distances[start : start + len(table)] = exact[order][first + k - 1]
    return distances


def median_radius(squared: NDArray[np.float32] | F64) -> float:
    """Return the square of the median distance; of an even number the two in the middle are averaged as distances."""
    ranked = np.sort(np.asarray(squared, dtype=np.float64))
    low, high = float(ranked[(len(ranked) - 1) // 2]), float(ranked[len(ranked) // 2])
    return low if low == high else ((low**0.5 + high**0.5) / 2) ** 2


def count_balls(
    human: DistancePoints, model: DistancePoints, human_radii: F64, model_radii: F64, *, closed: bool
) -> Counts:
    """Count for each point the balls of the other side that it is in."""
    in_human = np.zeros(len(model.fast), dtype=np.int64)
    in_model = np.zeros(len(human.fast), dtype=np.int64)
    members = np.zeros(len(human.fast), dtype=np.int64)
    for start, table, slack in distance_tables(human, model):
        rows = slice(start, start + len(table))
        inside = _is_within_radius(table, human_radii[rows, None], slack, start, (human, model), closed=closed)
        in_human += np.count_nonzero(inside, axis=0)
        members[rows] = np.count_nonzero(inside, axis=1)
        inside = _is_within_radius(table, model_radii[None, :], slack, start, (human, model), closed=closed)
        in_model[rows] = np.count_nonzero(inside, axis=1)
    return Counts(in_human, in_model, members)


def distance_tables(a: DistancePoints, b: DistancePoints) -> Iterator[tuple[int, NDArray[np.float32], np.float32]]:
    """Yield (first row, squared distances of a block of `a` to all of `b`, their error bound)."""
    most, turned = b.squares.max(), -2 * b.fast.T
    for start in range(0, len(a.fast), _BLOCK):
        rows = slice(start, start + _BLOCK)
        table = a.fast[rows] @ turned
        table += a.squares[rows, None]
        table += b.squares
        yield start, table, _ROUNDING * (a.squares[rows].max() + most)


def _is_within_radius(
    table: NDArray[np.float32],
    radius: F64,
    slack: np.float32,
    start: int,
    sides: tuple[DistancePoints, DistancePoints],
    *,
    closed: bool,
) -> NDArray[np.bool_]:
    """True where the distance is at most (closed) or below (open) the radius; `radius` is a column or a row."""
    low, high = _compute_limits(radius, slack)
    inside: NDArray[np.bool_] = table <= low
    near = table <= high
    near ^= inside
    row, column = _find_true_entries(near)
    exact = _compute_exact_distances(sides[0].exact, start + row, sides[1].exact, column)
    limit = radius[row, 0] if radius.shape[1] == 1 else radius[0, column]
    inside[row, column] = exact <= limit if closed else exact < limit
    return inside


def _compute_limits(radius: F64, slack: np.float32) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return float32 limits: pairs below the first are inside, pairs above the second are outside."""
    below = np.nextafter((radius - slack).astype(np.float32), np.float32(-np.inf))
    above = np.nextafter((radius + slack).astype(np.float32), np.float32(np.inf))
    return below, above


def _find_true_entries(mask: NDArray[np.bool_]) -> tuple[I64, I64]:
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
