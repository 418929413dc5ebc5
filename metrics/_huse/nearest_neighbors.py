"""The leave-one-out nearest-neighbor discriminator of HUSE: exact ties, n log n through a k-d tree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from openended.harness.core import F64, I64, UndefinedMetric

Ties = Literal["include", "exclude"]
VoteTie = Literal["human", "model", "half"]

Count = Callable[[F64], tuple[I64, I64]]

TIE = 1e-9
"""Distances within this of each other are equal (features have standard deviation 1)."""


def compute_scale(values: F64, name: str) -> tuple[float, float]:
    """Return mean and population standard deviation of a column, shape (n,)."""
    mean = float(values.mean())
    spread = float(np.sqrt(np.mean((values - mean) ** 2)))
    # Equal numbers may differ from their own mean by rounding.
    if spread <= 1e-12 * max(1.0, float(np.abs(values).max())):
        raise UndefinedMetric(f"all {len(values)} texts have the same {name}; it cannot be scaled")
    return mean, spread


def knn_margins(
    points: F64,
    is_model: NDArray[np.bool_],
    *,
    k: int,
    ties: Ties = "include",
    queries: F64 | None = None,
    copies: I64 | None = None,
) -> I64:
    """Votes for `model` less votes for `human` among the k nearest neighbors (times the number tied, for `exclude`)."""
    n = len(points)
    own_copies = np.zeros(len(queries), dtype=np.int64) if queries is not None else np.ones(n, dtype=np.int64)
    if queries is None and copies is not None:
        own_copies = copies
    if n - int(own_copies.max(initial=0)) < k:
        raise UndefinedMetric(
            f"k={k} neighbors need more than {k} other texts, got {n - int(own_copies.max(initial=0))}"
        )
    at = points if queries is None else queries
    # A row's own copies sit at distance zero, so the k-th neighbor among the others has this index.
    last = own_copies + k - 1
    neighbors = _search_line if points.shape[1] == 1 and queries is None else _search_tree
    cut, count = neighbors(points, is_model, at, last)
    own_model = own_copies * is_model if queries is None else own_copies
    voters, for_model = count(cut + TIE)
    voters, for_model = voters - own_copies, for_model - own_model
    if ties == "include":
        return np.asarray(2 * for_model - voters, dtype=np.int64)
    inner, inner_model = count(np.maximum(cut - TIE, 0.0))
    nowhere = cut <= TIE
    inner, inner_model = np.where(nowhere, 0, inner - own_copies), np.where(nowhere, 0, inner_model - own_model)
    tied, tied_model = voters - inner, for_model - inner_model
    return np.asarray(tied * (2 * inner_model - inner) + (k - inner) * (2 * tied_model - tied), dtype=np.int64)


def _search_tree(points: F64, is_model: NDArray[np.bool_], at: F64, last: I64) -> tuple[F64, Count]:
    """Return each query's distance to its `last`-th nearest point (from 0), and a counter of points in balls."""
    from scipy.spatial import KDTree

    tree, model_tree = KDTree(points), KDTree(points[is_model])
    ranks = np.arange(1, int(last.max(initial=0)) + 2)
    distances = np.asarray(tree.query(at, k=ranks)[0], dtype=np.float64)

    def count(radius: F64) -> tuple[I64, I64]:
        inside, model = (t.query_ball_point(at, radius, return_length=True) for t in (tree, model_tree))
        return np.asarray(inside, dtype=np.int64), np.asarray(model, dtype=np.int64)

    return distances[np.arange(len(at)), last], count


def _search_line(points: F64, is_model: NDArray[np.bool_], _at: F64, last: I64) -> tuple[F64, Count]:
    """Do the same for one feature: the nearest points are a window around each point in sorted order."""
    x = points[:, 0]
    order = np.argsort(x, kind="stable")
    line, n = x[order], len(x)
    models = np.concatenate([[0], np.cumsum(is_model[order])])
    width = last[order]
    cut = np.full(n, np.inf)
    for left in range(int(width.max(initial=0)) + 1):
        low = np.arange(n) - left
        high = low + width
        good = (low >= 0) & (high < n) & (left <= width)
        reach = np.maximum(line[good] - line[low[good]], line[high[good]] - line[good])
        cut[good] = np.minimum(cut[good], reach)
    unsorted = np.empty(n)
    unsorted[order] = cut

    def count(radius: F64) -> tuple[I64, I64]:
        first, end = np.searchsorted(line, x - radius, "left"), np.searchsorted(line, x + radius, "right")
        return np.asarray(end - first, dtype=np.int64), np.asarray(models[end] - models[first], dtype=np.int64)

    return unsorted, count


def margins_to_errors(margins: I64, is_model: NDArray[np.bool_], vote_tie: VoteTie) -> F64:
    """Return the discriminator's error on each text, shape (n,): 0, 1, or 1/2 for a vote tie under `half`."""
    said_model = margins > 0 if vote_tie != "model" else margins >= 0
    errors: F64 = np.asarray(said_model != is_model, dtype=np.float64)
    if vote_tie == "half":
        errors[margins == 0] = 0.5
    return errors
