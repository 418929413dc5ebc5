"""k-NN precision and recall of many halves of the texts, from the neighbours found among all texts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from openended.harness.types import F64, I64
from openended.metrics._neighbors import PreparedPoints, distance_tables

_MORE = 2  # times k, and 16: neighbours kept, of which about half are in a half


@dataclass(frozen=True, slots=True, eq=False)
class _Neighbours:
    """The nearest neighbours of each point on its own side, and the points of the other side that are as near."""

    index: I64
    """Shape (n, kept), nearest first."""
    squared: NDArray[np.float32]
    """Squared distances, shape (n, kept)."""
    ball: I64
    """Of each pair (point, point of the other side) no farther than the last neighbour kept: the point."""
    other: I64
    """The point of the other side."""
    apart: NDArray[np.float32]
    """Their squared distance."""


def knn_draws(
    human: PreparedPoints,
    model: PreparedPoints,
    human_halves: NDArray[np.bool_],
    model_halves: NDArray[np.bool_],
    *,
    k: int,
    closed: bool,
) -> dict[str, F64]:
    """Return the four values of both halves of each split, each of shape (2, splits).

    A radius is the distance to the neighbour of half the rank, rounded up, in the half: with half of the points the
    balls keep their size. NaN where a half has too few points.
    """
    whole, k = k, (k + 1) // 2
    ours, theirs = _neighbours(human, model, whole), _neighbours(model, human, whole)
    out = {name: np.full((2, len(human_halves)), np.nan) for name in ("precision", "recall", "density", "coverage")}
    for split in range(len(human_halves)):
        for half in (0, 1):
            in_human = human_halves[split] ^ bool(half)
            in_model = model_halves[split] ^ bool(half)
            sizes = np.count_nonzero(in_human), np.count_nonzero(in_model)
            if min(sizes) <= k:
                continue
            holder, held = _inside(ours, in_human, in_model, k, closed)
            out["precision"][half, split] = _covered(held, len(in_model)) / sizes[1]
            out["density"][half, split] = len(held) / (k * sizes[1])
            out["coverage"][half, split] = _covered(holder, len(in_human)) / sizes[0]
            _, held = _inside(theirs, in_model, in_human, k, closed)
            out["recall"][half, split] = _covered(held, len(in_human)) / sizes[0]
    return out


def _covered(points: I64, n: int) -> int:
    seen = np.zeros(n, dtype=np.bool_)
    seen[points] = True
    return int(np.count_nonzero(seen))


def _inside(
    near: _Neighbours, own: NDArray[np.bool_], other: NDArray[np.bool_], k: int, closed: bool
) -> tuple[I64, I64]:
    """Return the pairs (ball, point of the other side in it) of a half."""
    rank = np.cumsum(own[near.index], axis=1, dtype=np.int16)
    place = np.argmax(rank >= k, axis=1)
    place[rank[:, -1] < k] = near.index.shape[1] - 1  # the last one kept, for a point in ten thousand
    radius = near.squared[np.arange(len(place)), place]
    radius = np.where(own, radius, np.float32(-1.0))
    limit = radius[near.ball]
    inside = other[near.other] & ((near.apart <= limit) if closed else (near.apart < limit))
    return near.ball[inside], near.other[inside]


def _neighbours(own: PreparedPoints, other: PreparedPoints, k: int) -> _Neighbours:
    n = len(own.fast)
    kept = min(n - 1, _MORE * k + 16)
    index, squared = np.empty((n, kept), dtype=np.int64), np.empty((n, kept), dtype=np.float32)
    for start, table, slack in distance_tables(own, own):
        rows = np.arange(len(table))
        table[rows, start + rows] = np.inf
        nearest = np.argpartition(table, kept - 1, axis=1)[:, :kept]
        found = np.take_along_axis(table, nearest, axis=1)
        order = np.argsort(found, axis=1)
        part = slice(start, start + len(table))
        index[part] = np.take_along_axis(nearest, order, axis=1)
        squared[part] = _settled(np.take_along_axis(found, order, axis=1), slack)
    ball, points, apart = [], [], []
    for start, table, slack in distance_tables(own, other):
        limit = squared[start : start + len(table), -1:]
        row, column = np.divmod(np.flatnonzero(table <= limit + slack), table.shape[1])
        ball.append(row + start)
        points.append(column)
        apart.append(_settled(table[row, column], slack))
    return _Neighbours(index, squared, np.concatenate(ball), np.concatenate(points), np.concatenate(apart))


def _settled(squared: NDArray[np.float32], slack: np.float32) -> NDArray[np.float32]:
    """Set distances that rounding cannot tell from 0 to 0: equal rows are equal."""
    return np.where(squared <= slack, np.float32(0.0), squared)
