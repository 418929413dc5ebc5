"""k-NN metrics of many subsets of the texts, from the neighbors among all texts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from openended.harness.core import F64, I64
from openended.metrics._embeddings.neighbors import DistancePoints, distance_tables, median_radius


@dataclass(frozen=True, slots=True, eq=False)
class _Neighbors:
    """The nearest neighbors of each point on its own side, and the points of the other side that are as near."""

    index: I64
    """Shape (n, kept), nearest first."""
    squared: NDArray[np.float32]
    """Squared distances, shape (n, kept)."""
    ball: I64
    """Of each pair (point, point of the other side) no farther than the last neighbor kept: the point."""
    other: I64
    """The point of the other side."""
    apart: NDArray[np.float32]
    """Their squared distance."""


def resample_knn(
    human: DistancePoints,
    model: DistancePoints,
    human_subsets: NDArray[np.bool_],
    model_subsets: NDArray[np.bool_],
    *,
    k: int,
    closed: bool,
) -> dict[str, F64]:
    """Return the four values of each subset of half of the points or more, each of shape (subsets,).

    A radius is the distance to the k-th neighbor in the subset. NaN where it has too few points.
    """
    human_near, model_near = _find_neighbors(human, model, k), _find_neighbors(model, human, k)
    out = {name: np.full(len(human_subsets), np.nan) for name in ("precision", "recall", "density", "coverage")}
    for number, (in_human, in_model) in enumerate(zip(human_subsets, model_subsets, strict=True)):
        sizes = np.count_nonzero(in_human), np.count_nonzero(in_model)
        if min(sizes) <= k:
            continue
        holder, members = _find_ball_members(human_near, in_human, in_model, k, closed)
        out["precision"][number] = _count_distinct(members, len(in_model)) / sizes[1]
        out["density"][number] = len(members) / (k * sizes[1])
        out["coverage"][number] = _count_distinct(holder, len(in_human)) / sizes[0]
        _, members = _find_ball_members(model_near, in_model, in_human, k, closed)
        out["recall"][number] = _count_distinct(members, len(in_human)) / sizes[0]
    return out


def resample_clipped(
    human: DistancePoints,
    model: DistancePoints,
    human_subsets: NDArray[np.bool_],
    model_subsets: NDArray[np.bool_],
    *,
    k: int,
    calibrate: Callable[[float], float],
) -> dict[str, F64]:
    """Return clipped density and coverage of each subset of half of the points or more, each of shape (subsets,)."""
    near = _find_neighbors(human, model, k)
    out = {name: np.full(len(human_subsets), np.nan) for name in ("clipped_density", "clipped_coverage")}
    for number, (in_human, in_model) in enumerate(zip(human_subsets, model_subsets, strict=True)):
        if min(np.count_nonzero(in_human), np.count_nonzero(in_model)) <= k:
            continue
        radius = _find_radii(near, in_human, k)
        clipped = np.where(in_human, np.minimum(radius, np.float32(median_radius(radius[in_human]))), np.float32(-1.0))
        inside = in_model[near.other] & (near.apart <= clipped[near.ball])
        model_share = _average_clipped_counts(near.other[inside], in_model, k)
        in_ball = in_human[near.index] & (near.squared <= clipped[:, None])
        human_share = _average_clipped_counts(near.index[in_ball], in_human, k)
        out["clipped_density"][number] = min(1.0, model_share / human_share) if human_share else np.nan
        inside = in_model[near.other] & (near.apart < radius[near.ball])
        out["clipped_coverage"][number] = calibrate(_average_clipped_counts(near.ball[inside], in_human, k))
    return out


def _average_clipped_counts(points: I64, in_side: NDArray[np.bool_], k: int) -> float:
    """Return the mean over the points of a side of min(1, how often each is listed / k)."""
    counts = np.bincount(points, minlength=len(in_side))[in_side]
    return float(np.minimum(counts, k).mean() / k)


def _count_distinct(points: I64, n: int) -> int:
    seen = np.zeros(n, dtype=np.bool_)
    seen[points] = True
    return int(np.count_nonzero(seen))


def _find_ball_members(
    near: _Neighbors, in_side: NDArray[np.bool_], in_other: NDArray[np.bool_], k: int, closed: bool
) -> tuple[I64, I64]:
    """Return the pairs (ball, point of the other side in it) of a subset."""
    limit = _find_radii(near, in_side, k)[near.ball]
    inside = in_other[near.other] & ((near.apart <= limit) if closed else (near.apart < limit))
    return near.ball[inside], near.other[inside]


def _find_radii(near: _Neighbors, in_side: NDArray[np.bool_], k: int) -> NDArray[np.float32]:
    """Return the squared distance of each point to its k-th neighbor in the subset; -1 for points outside of it."""
    rank = np.cumsum(in_side[near.index], axis=1, dtype=np.int16)
    kth = np.argmax(rank >= k, axis=1)
    kth[rank[:, -1] < k] = near.index.shape[1] - 1  # the last one kept, for a point in ten thousand
    radius = near.squared[np.arange(len(kth)), kth]
    return np.where(in_side, radius, np.float32(-1.0))


def _find_neighbors(side: DistancePoints, other: DistancePoints, k: int) -> _Neighbors:
    n = len(side.fast)
    # Half of them or more are in a subset; fewer than k are for a point in ten thousand.
    count = min(n - 1, 2 * k + math.ceil(6 * math.sqrt(k)) + 8)
    index, squared = np.empty((n, count), dtype=np.int64), np.empty((n, count), dtype=np.float32)
    for start, table, slack in distance_tables(side, side):
        rows = np.arange(len(table))
        table[rows, start + rows] = np.inf
        nearest = np.argpartition(table, count - 1, axis=1)[:, :count]
        distances = np.take_along_axis(table, nearest, axis=1)
        order = np.argsort(distances, axis=1)
        part = slice(start, start + len(table))
        index[part] = np.take_along_axis(nearest, order, axis=1)
        squared[part] = _round_to_zero(np.take_along_axis(distances, order, axis=1), slack)
    ball, points, apart = [], [], []
    for start, table, slack in distance_tables(side, other):
        limit = squared[start : start + len(table), -1:]
        row, column = np.divmod(np.flatnonzero(table <= limit + slack), table.shape[1])
        ball.append(row + start)
        points.append(column)
        apart.append(_round_to_zero(table[row, column], slack))
    return _Neighbors(index, squared, np.concatenate(ball), np.concatenate(points), np.concatenate(apart))


def _round_to_zero(squared: NDArray[np.float32], slack: np.float32) -> NDArray[np.float32]:
    """Set distances within rounding error of 0 to 0, so that equal rows have distance 0."""
    return np.where(squared <= slack, np.float32(0.0), squared)
