"""Entropy of the n-gram distribution, of the whole corpus and inside each text.

    H_n = - sum over n-grams g of p(g) log p(g),  p(g) = count of g / all n-grams of order n

From 0 (one n-gram only) to the log of the number of n-grams, in nats unless asked for bits, compared with the human
value. `entropy_<n>` is the corpus value, `text_entropy_<n>` the mean over texts; n-grams do not cross texts. Both grow
with length.

Source: corpus entropy of order n: Zhang et al. 2018, "Generating informative and diverse conversational responses via
adversarial information maximization" (Ent-n); mean unigram entropy inside texts: Dieleman et al. 2022, "Continuous
diffusion for categorical data", and later diffusion language models.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

import numpy as np

from openended.harness import core
from openended.harness.core import F64, Features, MetricResult, Weights, check_arguments, metric, weigh
from openended.metrics.families import Corpus, TextMetric, declare_orders, require_defined
from openended.metrics.families.ngram_statistics import average_without_nan, compute_text_entropies, iterate_counts
from openended.metrics.families.ngrams import NgramIndex, Sequences, index_of

Average = Literal["corpus", "texts"]


@check_arguments
def ngram_entropy(
    sequences: Sequences, *, orders: Sequence[int] = (1,), average: Average = "corpus"
) -> dict[int, float]:
    """Compute the entropy of n-grams for each order (Zhang et al. 2018; mean over texts: Dieleman et al. 2022).

    Args:
        sequences: Texts as lists of token ids, or as strings that are split at white space.
        orders: The n-gram lengths n, each at least 1.
        average: `corpus`: the entropy of all n-grams of all texts; `texts`: that of each text, then the mean over texts
            that have any.

    Returns:
        Order → nats, from 0 up; NaN for an order that is longer than every text.

    Raises:
        UndefinedMetric: If all orders are longer than every text.
    """
    index = index_of(sequences)
    if average == "corpus":
        values = {order: _compute_corpus_entropy(index, order) for order in orders}
    else:
        values = {n: average_without_nan(compute_text_entropies(index, n)) for n in orders}
    return require_defined(values, f"no text has an n-gram of order {min(orders)}")


def _compute_corpus_entropy(index: NgramIndex, order: int) -> float:
    """Return the entropy of all n-grams together, in nats; NaN without n-grams."""
    level = index.level(order)
    if not level.total:
        return float("nan")
    counts = level.counts.astype(np.float64)  # n-grams seen once add log 1 = 0
    return max(0.0, math.log(level.total) - float(np.sum(counts * np.log(counts))) / level.total)


def _compute_subset_entropies(index: NgramIndex, order: int, subsets: Weights, scale: float) -> F64:
    """Compute the entropy of all n-grams of each subset, nats times the scale, shape (subsets,)."""
    total = weigh(subsets, index.sizes(order))
    weighted = np.zeros_like(total)
    for counts in iterate_counts(index, order, subsets):
        terms = np.arange(counts.max(initial=0) + 1, dtype=np.float64)  # c log c of every count c
        terms[1:] *= np.log(terms[1:])
        weighted += terms[counts].sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return scale * np.maximum(np.log(total) - weighted / total, 0.0)


@metric
class Entropy(TextMetric):
    """Entropy of n-grams, inside each text and over the corpus; low where text repeats."""

    name = "entropy"
    version = 2
    bounds = (0.0, math.inf)
    resampling = "bootstrap"  # the primary value is a mean over texts
    schemes = {"entropy_*": "subsample"}  # that of a whole corpus depends on how many texts there are
    titles = {
        **{f"entropy_{n}": f"Corpus entropy-{n}" for n in range(1, 5)},
        **{f"text_entropy_{n}": f"Entropy-{n}" for n in range(1, 5)},
    }

    orders: tuple[int, ...] = declare_orders(1, 2, 3, 4)
    """Zhang et al. 2018; diffusion language models: 1."""
    measured_in: Literal["nats", "bits"] = "nats"
    """Unit of the entropies: nats or bits."""

    @property
    def _scale(self) -> float:
        return 1.0 if self.measured_in == "nats" else 1.0 / math.log(2.0)

    def evaluate(self, features: Features, prepared: Corpus) -> MetricResult:
        by_text = self._measure_texts(prepared)
        values = {name: average_without_nan(column) for name, column in by_text.items()}
        values |= {f"entropy_{n}": self._scale * _compute_corpus_entropy(prepared.index, n) for n in self.orders}
        require_defined(values, "all texts are shorter than the smallest order")
        primary = f"text_entropy_{1 if 1 in self.orders else self.orders[0]}"
        return self.report(features, prepared, primary, values, by_text)

    def _measure_texts(self, corpus: Corpus) -> dict[str, F64]:
        return {f"text_entropy_{n}": self._scale * compute_text_entropies(corpus.index, n) for n in self.orders}

    def bounds_of(self, key: str, result: MetricResult) -> tuple[float, float]:
        """The mean over texts is at most that of the most even text, and near it where hardly any n-gram recurs."""
        low, high = super().bounds_of(key, result)
        rows = result.per_example.get(key)
        return (low, high) if rows is None else (low, float(np.max(rows, where=~np.isnan(rows), initial=0.0)))

    def score(self, prepared: Corpus, human: Weights, model: Weights, /) -> dict[str, F64 | Callable[[], F64]]:
        values: dict[str, F64 | Callable[[], F64]] = {
            name: core.average(column, model) for name, column in self._measure_texts(prepared).items()
        }
        for n in self.orders:
            values[f"entropy_{n}"] = partial(_compute_subset_entropies, prepared.index, n, model, self._scale)
        return values
