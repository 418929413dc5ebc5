"""Average word length: letters per word, over all words of a system.

Sum of the lengths of all words / number of words; words are split at whitespace. Above 0; characters; compared with the
human value.

Source: none; an example of a metric.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from openended.plugins import F64, Features, Metric, Need, UndefinedMetric, Weights, metric, weigh


def avg_word_len(texts: Sequence[str], *, letters_only: bool = False) -> float:
    """Compute the average word length of texts.

    Args:
        texts: Any number of texts.
        letters_only: Count only letters: `end.` has three.

    Raises:
        UndefinedMetric: If there is no word.

    >>> avg_word_len(["a bee", "cat."], letters_only=True)
    2.3333333333333335
    """
    lengths = [length for text in texts for length in measure_words(text, letters_only=letters_only)]
    if not lengths:
        raise UndefinedMetric("the texts contain no words")
    return sum(lengths) / len(lengths)


def measure_words(text: str, *, letters_only: bool) -> list[int]:
    """Return the number of characters (or letters) of each word."""
    return [sum(c.isalpha() or not letters_only for c in word) for word in text.split()]


@metric
class AvgWordLen(Metric):
    """Average word length of a system's texts."""

    name = "avg_word_len"
    version = 1  # raise it when the same options give other numbers
    family = "text"
    direction = "match_human"
    bounds = (0.0, float("inf"))
    resampling = "bootstrap"
    sides = "one"  # a statistic of one system; the human side has a row
    titles = {"avg_word_len": "Word length"}

    letters_only: bool = False  # true: punctuation does not count

    def needs(self) -> tuple[Need, ...]:
        """Return what `prepare` reads: the texts."""
        return (Need("texts"),)

    def prepare(self, features: Features) -> tuple[F64, F64]:
        """Return the letters and the words of each text."""
        rows = [measure_words(text, letters_only=self.letters_only) for text in features.model[self.needs()[0]]]
        if not any(rows):
            raise UndefinedMetric("the texts contain no words")
        return np.array([sum(row) for row in rows], dtype=np.float64), np.array([len(row) for row in rows], dtype=float)

    def score(self, prepared: tuple[F64, F64], human: Weights, model: Weights, /) -> dict[str, F64]:  # noqa: ARG002
        """Return the average of weighted sets of texts: the value is that of all texts, and its interval follows."""
        letters, words = prepared
        return {"avg_word_len": weigh(model, letters) / weigh(model, words)}
