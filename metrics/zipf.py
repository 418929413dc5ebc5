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

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from openended.harness.core import F64, I64, Features, MetricResult, UndefinedMetric, Weights, metric, ranged
from openended.metrics._ngrams.statistics import compute_subset_slopes
from openended.metrics.families import Corpus, Sequences, TextMetric, check_choice, index_of

Definition = Literal["degen", "log_thinned"]
Frequencies = NDArray[np.signedinteger[Any]]
_BINS_PER_E = 15  # Pillutla et al. 2021, released code


def zipf_coefficient(sequences: Sequences, *, definition: Definition = "degen", max_rank: int = 5000) -> float:
    """Minus the slope of log frequency on log rank (Holtzman et al. 2020, section 5.2).

    Args:
        sequences: Texts as lists of token ids or strings.
        definition: `degen` or `log_thinned`; see the module's text.
        max_rank: How many of the most frequent tokens are used, at least 2.

    Returns:
        The coefficient, about 1 for natural text; 0 if all tokens are equally frequent. With fewer than two ranks it
        raises `UndefinedMetric`.
    """
    if max_rank < 2:
        raise ValueError(f"expected max_rank of at least 2, got {max_rank}")
    check_choice("definition", definition, Definition)
    return _fit_slope(*_make_points(index_of(sequences).frequencies, definition, max_rank))


def top_frequencies(frequencies: Frequencies, max_rank: int) -> I64:
    """Return the `max_rank` largest positive frequencies, falling."""
    seen = frequencies[frequencies > 0]
    if len(seen) > max_rank:
        seen = np.partition(seen, len(seen) - max_rank)[-max_rank:]
    return np.sort(seen)[::-1]


def _make_points(frequencies: Frequencies, definition: Definition, max_rank: int) -> tuple[F64, F64]:
    """Return the points (log rank, log frequency) that the line is fitted to."""
    top = top_frequencies(frequencies, max_rank)
    log_rank = np.log(np.arange(1, len(top) + 1, dtype=np.float64))
    if definition == "degen":
        return log_rank, np.log(top)
    rounded, first = np.unique(np.round(log_rank[:-1] * _BINS_PER_E) / _BINS_PER_E, return_index=True)
    return rounded, np.log(top[first])


def _fit_slope(x: F64, y: F64) -> float:
    if len(x) < 2:
        raise UndefinedMetric(f"a slope needs at least two ranks, got {len(x)}")
    deviation = x - x.mean()
    return 0.0 - float(deviation @ (y - y.mean()) / (deviation @ deviation))


@metric
class Zipf(TextMetric):
    """Slope of log frequency on log rank; about 1 for natural text."""

    name = "zipf"
    synonyms = ("zipf_coefficient", "zipfs_law")
    bounds = (0.0, np.inf)
    resampling = "subsample"  # a bootstrap repeats texts, which changes the counts of rare tokens
    subset_share = 0.75  # the line bends with the number of texts
    titles = {"zipf": "Zipf coef."}

    definition: Definition = "degen"
    """Holtzman et al. 2020; log_thinned: released code of Pillutla et al. 2021."""
    max_rank: int = ranged(5000, "[2, inf)", "an integer of at least 2")
    """Both."""

    def evaluate(self, features: Features, prepared: Corpus) -> MetricResult:
        x, y = _make_points(prepared.index.frequencies, self.definition, self.max_rank)
        arrays = {"log_rank": x, "log_frequency": y}
        return self.report(features, prepared, "zipf", {"zipf": _fit_slope(x, y)}, arrays=arrays)

    def score(self, prepared: Corpus, human: Weights, model: Weights, /) -> dict[str, F64]:
        def fit(frequencies: Frequencies) -> float:
            return _fit_slope(*_make_points(frequencies, self.definition, self.max_rank))

        return {"zipf": compute_subset_slopes(prepared.index, model, fit)}
