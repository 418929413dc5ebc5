"""Length of the texts, and the share of texts cut at the length limit.

    length = mean number of tokens;  hit_limit = texts that reached the length limit / texts

In tokens under the scorer's tokenizer (or words), from 0 up; compared with the human value. `length_sd` is the standard
deviation over texts with divisor n.

Source: lengths as in Su et al. 2022 (mean words); non-termination: Welleck et al. 2020, "Consistency of a recurrent
language model with respect to incomplete decoding". The released code of Pillutla et al. 2021 reports the complement.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from openended.harness import core
from openended.harness.core import F64, Features, MetricResult, Need, UndefinedMetric, Weights
from openended.metrics.families import CountMetric
from openended.metrics.families.ngrams import Texts, pack_rows


def length_statistics(sequences: Texts) -> dict[str, float]:
    """Compute the mean (Su et al. 2022), standard deviation and median of the number of tokens.

    Args:
        sequences: Texts as lists of token ids, or as strings that are split at white space.

    Returns:
        `length`, `length_sd` (divisor n) and `length_median`, in tokens.

    Raises:
        UndefinedMetric: If there are no texts.
    """
    lengths = pack_rows(sequences).lengths
    if not len(lengths):
        raise UndefinedMetric("there are no texts")
    return _describe_lengths(lengths)


def _describe_lengths(lengths: NDArray[Any]) -> dict[str, float]:
    statistics = {"length": lengths.mean(), "length_sd": lengths.std(), "length_median": np.median(lengths)}
    return {name: float(value) for name, value in statistics.items()}


@core.metric
class Length(CountMetric):
    """Number of tokens a text, and the share that ran into the length limit."""

    name = "length"
    synonyms = ("len", "mean_length", "num_tokens")
    bounds = (0.0, np.inf)
    ranges = {"hit_limit": (0.0, 1.0)}
    shares = ("hit_limit",)
    resampling = "bootstrap"
    titles = {"length": "Length", "length_sd": "Length SD", "length_median": "Median length", "hit_limit": "Hit limit"}

    def needs(self) -> tuple[Need, ...]:
        return (*super().needs(), Need("stops"))

    def prepare(self, features: Features) -> dict[str, F64]:
        tokens, stops = (features.model[need] for need in self.needs())
        if not len(tokens):
            raise UndefinedMetric("there are no texts")
        return {"length": tokens.lengths.astype(np.float64), "hit_limit": stops.astype(np.float64)}

    def evaluate(self, features: Features, prepared: dict[str, F64]) -> MetricResult:
        values = {**_describe_lengths(prepared["length"]), "hit_limit": float(prepared["hit_limit"].mean())}
        return self.result(features, "length", values, per_example=prepared)

    def score(self, prepared: dict[str, F64], human: Weights, model: Weights, /) -> dict[str, F64]:
        """Take the deviation from the sums of squares, and the median from the weights in the order of the lengths."""
        lengths = prepared["length"]
        centered = lengths - lengths.mean()
        count, first, second = core.weigh(model, np.stack([np.ones(len(lengths)), centered, centered**2], axis=1)).T
        order = np.argsort(lengths, kind="stable")
        below = np.cumsum(model[:, order], axis=1, dtype=np.int64)
        half = below[:, -1:] / 2
        lower, upper = (below < half).sum(axis=1), (below <= half).sum(axis=1)
        middle = lengths[order][np.stack([lower, np.minimum(upper, len(lengths) - 1)])].mean(axis=0)
        spread = np.sqrt(np.maximum(second / count - (first / count) ** 2, 0.0))
        return {**super().score(prepared, human, model), "length_sd": spread, "length_median": middle}
