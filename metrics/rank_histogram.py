"""Divergence of the histograms of token ranks: how often a text takes the scorer's first, second, … choice.

    p_b = share of tokens whose rank falls into bin b;  chi2 = sum over b of (p_model,b - p_human,b)^2 / p_human,b

From 0 (equal histograms) up, lower is better. Bins: ranks 1 to 20 one by one, then a tail of eight bins whose bounds
grow by 2.5. A half is added to each count, so that an empty bin of the human side is no division by zero.
`divergence: renyi` is the Rényi divergence of the model's histogram from the human one, of large order (100), which is
near the log of the largest ratio of two bins.

Source: the public code of andreamiele/ranking_divergence (bins of single ranks and a logarithmic tail, chi-squared or
Rényi divergence); histograms of ranks: Gehrmann, Strobelt and Rush 2019, "GLTR". The number of tail bins is ours.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from openended.harness import core
from openended.harness.core import F64, Features, MetricResult, Need, Ragged, UndefinedMetric, Weights, check_arguments
from openended.metrics.families import PermutationMetric, divide_known, sort_order

Divergence = Literal["chi2", "renyi"]
SINGLE_RANKS = 20
TAIL_BOUNDS = np.floor(SINGLE_RANKS * 2.5 ** np.arange(8)).astype(np.int64)  # 20, 50, 125, …, 12207; the last is open
BOUNDS = np.concatenate([np.arange(SINGLE_RANKS), TAIL_BOUNDS])  # bin b: ranks over BOUNDS[b], to BOUNDS[b + 1]
_SMOOTHING = 0.5

Ranks = Ragged | NDArray[Any] | Iterable[Sequence[int]] | Sequence[int]


@check_arguments
def rank_histogram_divergence(
    *, human_ranks: Ranks, model_ranks: Ranks, divergence: Divergence = "chi2", order: float = 100.0
) -> float:
    """Compute the divergence of the model's histogram of token ranks from the human one.

    Args:
        human_ranks: Ranks of the tokens of human texts under the scorer, from 1; flat or one row per text.
        model_ranks: The same of model texts.
        divergence: `chi2` or `renyi`.
        order: Order of the Rényi divergence, above 0 and not 1.

    Returns:
        The divergence, from 0 up, that of Rényi in nats; lower is better.

    Raises:
        UndefinedMetric: If a side has no token.
        ValueError: If a rank is below 1.
    """
    histograms = []
    for ranks in (human_ranks, model_ranks):
        if isinstance(ranks, Ragged):
            flat = np.asarray(ranks.values, dtype=np.int64)
        else:
            flat = np.concatenate([np.zeros(0, dtype=np.int64), *(np.atleast_1d(np.asarray(r)) for r in ranks)])
        histograms.append(_count_ranks_by_bin(flat)[None])
    if not all(counts.any() for counts in histograms):
        raise UndefinedMetric("a side has no ranked token")
    return float(_compute_divergences(histograms[0], histograms[1], divergence, order)[0])


def _count_ranks_by_bin(ranks: NDArray[np.int64]) -> F64:
    """Return the number of ranks in each bin, shape (bins,)."""
    if (ranks < 1).any():
        raise ValueError(f"ranks: expected 1 for the most probable token and up, got {int(ranks.min())}")
    bins = np.searchsorted(BOUNDS, ranks, side="left") - 1
    return np.bincount(bins, minlength=len(BOUNDS)).astype(np.float64)


def _compute_divergences(human: F64, model: F64, divergence: Divergence, order: float) -> F64:
    """Return the divergence of each pair of rows of counts, shapes (draws, bins)."""
    p, q = (counts + _SMOOTHING for counts in (human, model))
    p, q = p / p.sum(axis=1, keepdims=True), q / q.sum(axis=1, keepdims=True)
    if divergence == "chi2":
        values: F64 = ((q - p) ** 2 / p).sum(axis=1)
        return values
    exponents = order * np.log(q) + (1 - order) * np.log(p)
    largest = exponents.max(axis=1, keepdims=True)
    logs = largest[:, 0] + np.log(np.exp(exponents - largest).sum(axis=1))
    return np.asarray(np.maximum(logs / (order - 1), 0.0), dtype=np.float64)


@core.metric
class RankHistogram(PermutationMetric):
    """Divergence of the histograms of the ranks that the scorer gives to tokens (ranking_divergence)."""

    name = "rank_histogram"
    family = "scored"
    titles = {"rank_histogram": "Rank div.", "p_value": "Rank p"}

    divergence: Divergence = "chi2"
    """Divergence of the histograms: chi2 or renyi; andreamiele/ranking_divergence."""
    order: float = core.option(100.0, lambda q: q > 0 and q != 1, "a number over 0 and not 1")
    """Order of the Rényi divergence."""

    def needs(self) -> tuple[Need, ...]:
        return (Need("token_rank", by="scorer", options=(("bos", False),)),)

    def prepare(self, features: Features) -> F64:
        """Return the bin counts of each text of both sides, human texts first, each side sorted by example id."""
        counts = []
        for side in (features.human, features.model):
            rows = [_count_ranks_by_bin(np.asarray(row)) for row in side[self.needs()[0]]]
            counts.append(np.array(rows).reshape(-1, len(BOUNDS))[sort_order(side)])
        if not (counts[0].any() and counts[1].any()):
            raise UndefinedMetric("a side has no ranked token")
        return np.concatenate(counts)

    def score(self, prepared: F64, first: Weights, second: Weights, /) -> dict[str, F64]:
        return {self.name: _compute_divergences(first @ prepared, second @ prepared, self.divergence, self.order)}

    def evaluate(self, features: Features, prepared: F64) -> MetricResult:
        """Add for each text the mean over its tokens of how much a token of their bins raises the divergence."""
        human, model = np.split(prepared, [len(features.human)])
        arrays = {"human_ranks": human.sum(axis=0), "model_ranks": model.sum(axis=0)}
        p, q = (counts + _SMOOTHING for counts in arrays.values())
        ratios = (q / q.sum()) / (p / p.sum())
        adds = ratios - 1
        if self.divergence == "renyi":
            powers = (self.order - 1) * (np.log(ratios) - np.log(ratios).max())
            share = np.exp(powers) / (q / q.sum() @ np.exp(powers))
            adds = self.order / (self.order - 1) * (share - 1)
        result = self.test(features, prepared, divide_known(model @ adds, model.sum(axis=1)))
        return replace(result, arrays={**result.arrays, **arrays})
