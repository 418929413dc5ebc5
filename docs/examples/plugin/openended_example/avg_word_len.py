"""Average word length: letters per word, over all words of a system.

Sum of the lengths of all words / number of words; words are split at whitespace. Above 0; characters; compared with the
human value.

Source: none; an example of a metric.
"""

from __future__ import annotations

from collections.abc import Sequence

from openended.plugins import Features, Metric, MetricResult, Need, UndefinedMetric, metric


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
    lengths = [sum(c.isalpha() or not letters_only for c in word) for text in texts for word in text.split()]
    if not lengths:
        raise UndefinedMetric("the texts contain no words")
    return sum(lengths) / len(lengths)


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
        """Return what `compute` reads: the texts."""
        return (Need("texts"),)

    def compute(self, features: Features) -> MetricResult:
        """Compute the average."""
        value = avg_word_len(features.model[self.needs()[0]], letters_only=self.letters_only)
        return self.result(features, "avg_word_len", {"avg_word_len": value})
