"""Zipf coefficient: how fast the frequency of tokens falls with their rank.

    zipf = - slope of the least-squares line through (log rank, log frequency), ranks 1 to min(V, max_rank)

About 1 for natural text, higher where few tokens dominate; compared with the human value. By `degen` (default) every
rank has the same weight: the released code of Holtzman et al. By `log_thinned` log ranks from 1 to min(V, max_rank) - 1
are rounded to the nearest 1/15 and the first rank of each rounded value is kept, so that the line is not ruled by the
tail: the released code of Pillutla et al. 2021, which prints the slope itself.

Source: Holtzman et al. 2020, "The curious case of neural text degeneration", section 5.2, after Zipf 1949.
"""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from openended.harness import core
from openended.harness.core import F64, I64, Features, MetricResult, UndefinedMetric, Weights, metric, ranged
from openended.metrics.families import Corpus, Sequences, TextMetric, index_of
from openended.metrics.families.ngram_statistics import count_singles, iterate_counts
from openended.metrics.families.ngrams import CHUNK

Definition = Literal["degen", "log_thinned"]
Frequencies = NDArray[np.signedinteger[Any]]
_BINS_PER_E = 15  # Pillutla et al. 2021, released code


@core.check_arguments
def zipf_coefficient(sequences: Sequences, *, definition: Definition = "degen", max_rank: int = 5000) -> float:
    """Compute minus the slope of log frequency on log rank (Holtzman et al. 2020, section 5.2).

    Args:
        sequences: Texts as lists of token ids, or as strings that are split at white space.
        definition: `degen` or `log_thinned`; the module describes both.
        max_rank: How many of the most frequent tokens are used, at least 2.

    Returns:
        The coefficient, dimensionless, about 1 for natural text; 0 if all tokens are equally frequent.

    Raises:
        UndefinedMetric: If fewer than two ranks are left for the line.
    """
    return _fit_slope(*_make_points(index_of(sequences).frequencies, definition, max_rank)[:2])


def top_frequencies(frequencies: Frequencies, max_rank: int) -> I64:
    """Return the `max_rank` largest positive frequencies, falling."""
    seen = frequencies[frequencies > 0]
    if len(seen) > max_rank:
        seen = np.partition(seen, len(seen) - max_rank)[-max_rank:]
    return np.sort(seen)[::-1]


def _make_points(frequencies: Frequencies, definition: Definition, max_rank: int) -> tuple[F64, F64, I64]:
    """Return the points (log rank, log frequency) that the line is fitted to, and their ranks from 0."""
    top = top_frequencies(frequencies, max_rank)
    log_rank = np.log(np.arange(1, len(top) + 1, dtype=np.float64))
    if definition == "degen":
        return log_rank, np.log(top), np.arange(len(top))
    rounded, first = np.unique(np.round(log_rank[:-1] * _BINS_PER_E) / _BINS_PER_E, return_index=True)
    return rounded, np.log(top[first]), first


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
    """How the line is fitted: degen: Holtzman et al. 2020; log_thinned: released code of Pillutla et al. 2021."""
    max_rank: int = ranged(5000, "[2, inf)", "an integer of at least 2")
    """How many of the most frequent tokens the line is fitted to; as in both codes."""

    def evaluate(self, features: Features, prepared: Corpus) -> MetricResult:
        """Add how far each text moves the coefficient: its share of each frequency moves the log of that frequency."""
        x, y, ranks = _make_points(prepared.index.frequencies, self.definition, self.max_rank)
        arrays, value = {"log_rank": x, "log_frequency": y}, _fit_slope(x, y)
        index, slopes = prepared.index, np.zeros(prepared.index.vocab + 1)
        deviation, tokens = x - x.mean(), np.argsort(-index.frequencies, kind="stable")[ranks]
        slopes[tokens + 1] = -deviation / (deviation @ deviation) / index.frequencies[tokens]
        moved = np.zeros(len(index))
        for low in range(0, len(index.tokens), CHUNK):
            part = slice(low, low + CHUNK)
            moved += np.bincount(index.text_of[part], slopes[index.tokens[part]], minlength=len(index))
        return self.report(features, prepared, "zipf", {"zipf": value}, {"zipf": moved}, arrays=arrays)

    def score(self, prepared: Corpus, human: Weights, model: Weights, /) -> dict[str, F64]:
        index, slopes = prepared.index, []
        single = model @ count_singles(index, 1)
        parts = list(iterate_counts(index, 1, model))
        for number, ones in enumerate(single):
            counts = np.concatenate([*(part[:, number] for part in parts), np.ones(ones, dtype=np.int32)])
            slopes.append(_fit_slope(*_make_points(counts, self.definition, self.max_rank)[:2]))
        return {"zipf": np.array(slopes)}
