"""Zipf coefficient: how fast the frequency of tokens falls with their rank.

    zipf = - slope of the least-squares line through (log rank, log frequency), ranks 1 to min(V, max_rank)

Measures how unequal the use of the vocabulary is; about 1 for natural text, higher where few tokens dominate;
dimensionless, compared with the human value.

Source: Holtzman et al. 2020, "The curious case of neural text degeneration", section 5.2, after Zipf 1949. Variants:

- `degen` (default): every rank up to `max_rank` has the same weight; the released code of Holtzman et al.
- `log_thinned`: log ranks from 1 to min(V, max_rank) - 1 are rounded to the nearest 1/15 and the first rank of each
  rounded value is kept, so that the line is not ruled by the tail; the released code of Pillutla et al. 2021, which
  prints the negative of our value (the slope itself) and counts the prompt's tokens too.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from openended.harness.core import F64, I64, Features, MetricResult, Plan, UndefinedMetric, metric, ranged
from openended.metrics._common import check_choice
from openended.metrics._ngrams.index import Sequences, index_of
from openended.metrics._ngrams.statistics import compute_subset_slopes
from openended.metrics.families import ReplicatesByName, TextMetric

Definition = Literal["degen", "log_thinned"]
_SHARE = 0.75  # of the texts in a subset: the line bends with their number
_BINS_PER_E = 15  # Pillutla et al. 2021, released code


def zipf_coefficient(sequences: Sequences, *, definition: Definition = "degen", max_rank: int = 5000) -> float:
    """Minus the slope of log frequency on log rank (Holtzman et al. 2020, section 5.2).

    Args:
        sequences: Texts as lists of token ids or strings.
        definition: `degen` or `log_thinned`; see the module's text.
        max_rank: How many of the most frequent tokens are used.

    Returns:
        The coefficient, about 1 for natural text; 0 if all tokens are equally frequent.

    Raises:
        UndefinedMetric: If fewer than two ranks are left.
        ValueError: If `max_rank` is below 2 or `definition` unknown.

    >>> round(zipf_coefficient([[1, 1, 1, 1, 2, 2]]), 6)
    1.0
    """
    if max_rank < 2:
        raise ValueError(f"expected max_rank of at least 2, got {max_rank}")
    log_rank, log_frequency = rank_points(top_frequencies(index_of(sequences).frequencies, max_rank), definition)
    return fit_slope(log_rank, log_frequency)


def top_frequencies(frequencies: NDArray[np.signedinteger[Any]], max_rank: int) -> I64:
    """Return the `max_rank` largest positive frequencies, falling."""
    seen = frequencies[frequencies > 0]
    if len(seen) > max_rank:
        seen = np.partition(seen, len(seen) - max_rank)[-max_rank:]
    return np.sort(seen)[::-1]


def rank_points(frequencies: I64, definition: Definition) -> tuple[F64, F64]:
    """Return the points (log rank, log frequency) that the line is fitted to."""
    check_choice("definition", definition, Definition)
    log_rank = np.log(np.arange(1, len(frequencies) + 1, dtype=np.float64))
    if definition == "degen":
        return log_rank, np.log(frequencies)
    rounded, first = np.unique(np.round(log_rank[:-1] * _BINS_PER_E) / _BINS_PER_E, return_index=True)
    return rounded, np.log(frequencies[first])


def fit_slope(x: F64, y: F64) -> float:
    """Minus the least-squares slope of y on x.

    Raises:
        UndefinedMetric: If there are fewer than two points.
    """
    if len(x) < 2:
        raise UndefinedMetric(f"a slope needs at least two ranks, got {len(x)}")
    deviation = x - x.mean()
    return 0.0 - float(deviation @ (y - y.mean()) / (deviation @ deviation))


@metric
class Zipf(TextMetric):
    """Zipf coefficient of the tokens."""

    name = "zipf"
    bounds = (0.0, np.inf)
    resampling = "subsample"  # a bootstrap repeats texts, which changes the counts of rare tokens
    titles = {"zipf": "Zipf coef."}

    definition: Definition = "degen"  # Holtzman et al. 2020; log_thinned: Pillutla et al. 2021
    max_rank: int = ranged(5000, "[2, inf)", "an integer of at least 2")  # both

    def _make_points(self, frequencies: NDArray[np.signedinteger[Any]]) -> tuple[F64, F64]:
        return rank_points(top_frequencies(frequencies, self.max_rank), self.definition)

    def compute(self, features: Features) -> MetricResult:
        corpus = self.corpus(features)
        log_rank, log_frequency = self._make_points(corpus.index.frequencies)
        values = {"zipf": fit_slope(log_rank, log_frequency)}
        arrays = {"log_rank": log_rank, "log_frequency": log_frequency}
        return self.result(features, "zipf", values, notes=corpus.notes, arrays=arrays)

    def replicates(self, features: Features, result: MetricResult, plan: Plan) -> ReplicatesByName:
        """Fit the line to the frequencies of subsets."""
        corpus = self.corpus(features)

        def resample(subsets: NDArray[np.bool_]) -> dict[str, F64]:
            return {"zipf": compute_subset_slopes(corpus.index, subsets, lambda f: fit_slope(*self._make_points(f)))}

        return corpus.subsample(plan, resample, _SHARE)
