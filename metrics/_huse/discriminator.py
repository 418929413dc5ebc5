"""The leave-one-out nearest-neighbor discriminator of HUSE on texts as points (mean rating, log p per word).

Ties are exact; a k-d tree keeps the cost at n log n.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from openended.harness.core import F64, I64, UndefinedMetric

Ties = Literal["include", "exclude"]
VoteTie = Literal["human", "model", "half"]
CountPoints = Callable[[F64], tuple[I64, I64]]
"""From a radius per query to the number of points, and of model points, in its ball."""

TIE = 1e-9  # distances within this of each other are equal (features have standard deviation 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """How the discriminator decides; defaults as in the released code (see `openended.metrics.huse`)."""

    k: int = 16
    """Neighbors before ties are added."""
    ties: Ties = "include"
    """`include`: every point tied with the k-th votes too. `exclude`: exactly k votes; the points tied at the cut share
    the remaining votes equally, so that the order of the rows does not matter."""
    vote_tie: VoteTie = "human"
    log_prob_floor: float | None = -1000.0
    """Nats that replace −inf; none: −inf leaves HUSE undefined."""


@dataclass(frozen=True, slots=True, eq=False)
class HusePoints:
    """Texts in the plane of HUSE."""

    raw: F64
    """Mean rating and log-probability per word, finite, shape (n, 2)."""
    is_model: NDArray[np.bool_]
    """Shape (n,)."""
    mean: F64
    """Of both columns, shape (2,)."""
    spread: F64
    """Population standard deviations, positive, shape (2,)."""

    @classmethod
    def build(cls, judgments: F64, log_probs: F64, lengths: F64, is_model: NDArray[np.bool_], rule: Rule) -> HusePoints:
        """Build the points; undefined where a text has probability zero without a floor, or a column has no spread."""
        zero = np.isneginf(log_probs)
        if zero.any():
            if rule.log_prob_floor is None:
                raise UndefinedMetric(
                    f"{int(zero.sum())} texts have probability zero under the model and no log_prob_floor is set"
                )
            log_probs = np.where(zero, rule.log_prob_floor, log_probs)
        raw = np.column_stack([judgments, log_probs / lengths])
        mean, spread = np.empty(2), np.empty(2)
        for column, name in enumerate(("rating", "log-probability a word")):
            values = raw[:, column]
            mean[column] = values.mean()
            spread[column] = np.sqrt(np.mean((values - mean[column]) ** 2))
            # Equal numbers may differ from their own mean by rounding.
            if spread[column] <= 1e-12 * max(1.0, float(np.abs(values).max())):
                raise UndefinedMetric(f"all {len(values)} texts have the same {name}; it cannot be scaled")
        return cls(raw, is_model, mean, spread)

    def errors(self, rule: Rule, copies: I64 | None = None) -> tuple[F64, F64]:
        """Return the leave-one-out error per text on both features and on ratings only, each of shape (n,).

        An error is 0, 1, or 1/2 for a vote tie under `half`. `copies` says how often each row occurs in a bootstrap
        draw, shape (n,); a row never votes for its own copies.
        """
        both = (self.raw - self.mean) / self.spread
        columns = []
        for points in (both, both[:, :1]):
            margins = _compute_margins(points, self.is_model, rule.k, rule.ties, copies=copies)
            said_model = margins > 0 if rule.vote_tie != "model" else margins >= 0
            errors: F64 = np.asarray(said_model != self.is_model, dtype=np.float64)
            if rule.vote_tie == "half":
                errors[margins == 0] = 0.5
            columns.append(errors)
        return columns[0], columns[1]

    def margins_at(self, raw: F64, rule: Rule) -> I64:
        """Return votes for `model` less votes for `human` at points of the plane, shape (m, 2) → (m,)."""
        points, queries = ((rows - self.mean) / self.spread for rows in (self.raw, raw))
        return _compute_margins(points, self.is_model, min(rule.k, len(points)), rule.ties, queries=queries)


def compute_huse(errors: F64) -> float:
    """Return twice the mean error: HUSE of the errors on both features, HUSE-Q of those on ratings."""
    return 2.0 * float(errors.mean())


def _compute_margins(
    points: F64,
    is_model: NDArray[np.bool_],
    k: int,
    ties: Ties,
    *,
    queries: F64 | None = None,
    copies: I64 | None = None,
) -> I64:
    """Return votes for `model` less votes for `human` of the k nearest points (times the number tied, for `exclude`).

    Queried are other points, shape (q, d), or each of the points, itself and its copies left out.
    """
    n = len(points)
    if queries is not None:
        own_copies = np.zeros(len(queries), dtype=np.int64)
    else:
        own_copies = np.ones(n, dtype=np.int64) if copies is None else copies
    others = n - int(own_copies.max(initial=0))
    if others < k:
        raise UndefinedMetric(f"k={k} neighbors need more than {k} other texts, got {others}")
    # A row's own copies sit at distance zero, so the k-th neighbor among the others has this index.
    last = own_copies + k - 1
    if points.shape[1] == 1 and queries is None:
        cut, count = _search_line(points[:, 0], is_model, last)
    else:
        cut, count = _search_tree(points, is_model, points if queries is None else queries, last)
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


def _search_tree(points: F64, is_model: NDArray[np.bool_], at: F64, last: I64) -> tuple[F64, CountPoints]:
    """Return each query's distance to its `last`-th nearest point (from 0), and a counter of points in balls."""
    from scipy.spatial import KDTree

    tree, model_tree = KDTree(points), KDTree(points[is_model])
    ranks = np.arange(1, int(last.max(initial=0)) + 2)
    distances = np.asarray(tree.query(at, k=ranks)[0], dtype=np.float64)

    def count(radius: F64) -> tuple[I64, I64]:
        inside, model = (t.query_ball_point(at, radius, return_length=True) for t in (tree, model_tree))
        return np.asarray(inside, dtype=np.int64), np.asarray(model, dtype=np.int64)

    return distances[np.arange(len(at)), last], count


def _search_line(x: F64, is_model: NDArray[np.bool_], last: I64) -> tuple[F64, CountPoints]:
    """Do the same for one feature: the nearest points are a window around each point in sorted order."""
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
