"""The index of n-grams, for metrics of other packages too."""

from openended.metrics._ngrams.index import NgramIndex, Sequences, index_of

__all__ = ["NgramIndex", "Sequences", "index_of"]
