"""Novelty: the share of generated n-grams that a corpus does not contain, and the longest span copied from it.

    novelty_n = |{n-grams of the texts that do not occur in the corpus}| / |{n-grams of the texts}|

From 0 (all copied) to 1. `longest_copy` is the longest sequence of words of any text that occurs in the corpus,
`mean_longest_copy` its mean over texts, both in words. The value of other human texts is best: people repeat common
phrases, and noise is all new. Tokens are words, split at white space; n-grams do not cross texts.

Source: n-novelty: Merrill, Smith and Elazar 2024, "Evaluating n-gram novelty of language models using Rusty-DAWG"
(arXiv 2406.13069), orders 1 to 100 there. Copied spans: Lu et al. 2025, "AI as humanity's Salieri" (arXiv 2410.04265).
"""

from collections.abc import Callable, Sequence
from functools import cache, partial

import numpy as np

from openended.harness import core
from openended.harness.core import F64, I64, Features, MetricResult, Need, Ragged, UndefinedMetric, Weights
from openended.metrics.families import ComparisonMetric, align_values, declare_orders, divide_known, require_defined
from openended.metrics.families.ngram_statistics import CELLS, build_table
from openended.metrics.families.ngrams import NgramIndex, Texts, pack_rows

REFERENCES = "references"
Prepared = tuple[Ragged, list[str], list[str]]
"""How many words from each one on the corpus has in this order, and the texts of the model and of people."""


def n_novelty(sequences: Texts, corpus: Texts, *, orders: Sequence[int] = (2, 4, 6, 8, 10)) -> dict[int, float]:
    """Compute the share of n-grams that a corpus does not contain, for each order (Merrill et al. 2024).

    Args:
        sequences: Generated texts, as lists of token ids or strings, or as one string each.
        corpus: Texts in the same form.
        orders: The n-gram lengths n, each at least 1.

    Returns:
        Order → share in [0, 1], 0 if all are copied; NaN for an order that is longer than every text.

    Raises:
        UndefinedMetric: If all orders are longer than every text.
    """
    matches = _match_corpus(sequences, corpus)
    values = {order: _compute_share(matches, order) for order in orders}
    return require_defined(values, f"no text has an n-gram of order {min(orders)}")


def longest_copied_spans(sequences: Texts, corpus: Texts) -> I64:
    """Return the length of the longest sequence of tokens of each text that a corpus contains (Lu et al. 2025).

    Args:
        sequences: Generated texts, as lists of token ids or strings, or as one string each.
        corpus: Texts in the same form.

    Returns:
        Lengths in tokens, shape (texts,); 0 where no token is in the corpus.
    """
    return _find_longest(_match_corpus(sequences, corpus))


def _match_corpus(sequences: Texts, corpus: Texts) -> Ragged:
    """Return for each token of each text how many tokens from it on the corpus contains in this order."""
    return NgramIndex(pack_rows([*sequences, *corpus])).match_lengths(len(sequences))


def _count_novel(matches: Ragged, order: int) -> tuple[I64, I64]:
    """Return the novel n-grams and all n-grams of each text, shape (texts,) each."""
    total = np.maximum(matches.lengths - order + 1, 0).astype(np.int64)
    # A match never passes the end of its text, so positions without an n-gram are never copied.
    sums = np.concatenate([[0], np.cumsum(matches.values >= order)])
    return total - (sums[matches.offsets[1:]] - sums[matches.offsets[:-1]]), total


def _compute_share(matches: Ragged, order: int) -> float:
    novel, total = _count_novel(matches, order)
    return float(novel.sum() / total.sum()) if total.sum() else float("nan")


def _find_longest(matches: Ragged) -> I64:
    return np.array([int(row.max()) if len(row) else 0 for row in matches], dtype=np.int64)


def _count_subset_copies(index: NgramIndex, order: int, texts: Weights, corpus: Weights) -> F64:
    """Count the n-grams of the texts of each subset that a text of a subset of the corpus has, shape (subsets,).

    The index has the texts first, then the corpus.
    """
    runs = index.runs(order)
    is_text = runs.text < texts.shape[1]
    holders = build_table(index, order, ~is_text)[:, texts.shape[1] :]
    shared = np.flatnonzero(np.diff(holders.indptr))  # n-grams that the corpus has
    counts = build_table(index, order, is_text, runs.count)[:, : texts.shape[1]]
    copies = np.zeros(len(texts))
    step = max(1, CELLS // max(len(texts), 1))
    for low in range(0, len(shared), step):
        part = shared[low : low + step]
        in_corpus = holders[part] @ corpus.T.astype(np.float64) > 0
        copies += ((counts[part] @ texts.T.astype(np.float64)) * in_corpus).sum(axis=0)
    return copies


@core.metric
class Novelty(ComparisonMetric):
    """Share of n-grams that a corpus does not contain, and the longest copied span."""

    name = "novelty"
    family = "text"
    direction = "match_human"
    bounds = (0.0, 1.0)
    ranges = dict.fromkeys(("longest_copy", "mean_longest_copy"), (0.0, np.inf))  # words
    resampling = "bootstrap"
    schemes = {"longest_copy": "none", "novelty_*": "subsample"}
    subset_share = core.SHARE
    titles = {f"novelty_{n}": f"Novelty-{n}" for n in range(1, 101)}
    titles |= {"longest_copy": "Longest copy", "mean_longest_copy": "Mean longest copy"}

    orders: tuple[int, ...] = declare_orders(2, 4, 6, 8, 10)
    """People differ from models from 5 on: Merrill et al. 2024."""
    corpus: str = core.option(REFERENCES, bool, "references, or the path of a file of texts")
    """What texts are looked up in: the human references, or the path of a file of texts: the model's training text."""
    scope: core.Scope = "continuation"
    """What is looked up: the continuation, or prompt_and_continuation."""

    def needs(self) -> tuple[Need, ...]:
        texts = super().needs()
        return texts if self.corpus == REFERENCES else (*texts, Need("corpus", options=(("file", self.corpus),)))

    def prepare(self, features: Features) -> Prepared:
        """Return the length of the copied sequence at every word, and the index of both sides if both are drawn."""
        needs = self.needs()
        corpus = features.human[needs[0]] if len(needs) == 1 else features.model[needs[1]]
        if not corpus:
            raise UndefinedMetric("the corpus has no text")
        matches = _match_corpus([text.split() for text in self.sort_texts(features.model)], [t.split() for t in corpus])
        return matches, self.sort_texts(features.model), self.sort_texts(features.human)

    def evaluate(self, features: Features, prepared: Prepared) -> MetricResult:
        matches = prepared[0]
        values = {f"novelty_{order}": _compute_share(matches, order) for order in self.orders}
        require_defined(values, "all texts are shorter than the smallest order")
        longest = _find_longest(matches).astype(np.float64)
        values |= {"longest_copy": longest.max(), "mean_longest_copy": longest.mean()}
        rows = {f"novelty_{order}": divide_known(*_count_novel(matches, order)) for order in self.orders}
        rows = {name: align_values(features.model, row) for name, row in {**rows, "mean_longest_copy": longest}.items()}
        return self.result(features, f"novelty_{4 if 4 in self.orders else self.orders[0]}", values, per_example=rows)

    def find_scheme(self, key: str, prepared: Prepared) -> core.Scheme:
        """References are drawn too; a corpus of the user's is what it is."""
        scheme = super().find_scheme(key, prepared)
        return "bootstrap" if self.corpus != REFERENCES and scheme == "subsample" else scheme

    def score(self, prepared: Prepared, human: Weights, model: Weights, /) -> dict[str, F64 | Callable[[], F64]]:
        """Return ratios of sums, and a mean."""
        matches, texts, references = prepared
        out: dict[str, F64 | Callable[[], F64]] = {
            "mean_longest_copy": core.average(_find_longest(matches).astype(np.float64), model)
        }
        index = cache(lambda: NgramIndex(pack_rows([text.split() for text in (*texts, *references)])))

        def score_order(order: int) -> F64:
            if self.corpus != REFERENCES:
                novel, total = _count_novel(matches, order)
                return core.average(divide_known(novel, total), model, total.astype(np.float64))
            with np.errstate(invalid="ignore", divide="ignore"):
                copied = _count_subset_copies(index(), order, model, human)
                return np.asarray(1.0 - copied / core.weigh(model, index().sizes(order)[: len(texts)]))

        return out | {f"novelty_{order}": partial(score_order, order) for order in self.orders}
