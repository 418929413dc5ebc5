"""Suffix array of a corpus: the longest sequence of a text's tokens that the corpus contains, at every position.

All suffixes of the corpus are sorted by prefix doubling: ranks of the first 2, 4, 8, … tokens come from pairs of ranks
of half as many. A query holds the range of suffixes that start with its tokens so far and narrows it by one token at a
time, for all positions of all texts together. Nothing is hashed, so matches are exact. Sequences do not cross texts.

Source: Manber and Myers 1993, "Suffix arrays: a new method for on-line string searches".
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from openended.harness.core import I64, Ragged

_END = 0  # separator after each text of the corpus; tokens are from 1


class SuffixArray:
    """All suffixes of a corpus in order."""

    def __init__(self, corpus: Ragged) -> None:
        self.tokens = _pad(corpus)
        self.order = _sort_suffixes(self.tokens)

    def match_lengths(self, rows: Ragged) -> Ragged:
        """Return for each token of each text the length of the longest sequence from it on that the corpus contains."""
        tokens = np.asarray(rows.values, dtype=np.int64) + 1
        left = np.repeat(rows.offsets[1:], rows.lengths) - np.arange(len(tokens))  # tokens up to the end of the text
        lengths = np.zeros(len(tokens), dtype=np.int64)
        active = np.arange(len(tokens))
        low, high = np.zeros(len(tokens), dtype=np.int64), np.full(len(tokens), len(self.order), dtype=np.int64)
        depth = 0
        while len(active):
            next_tokens = tokens[active + depth]
            low, high = (self._search(low, high, next_tokens + add, depth) for add in (0, 1))
            matching = high > low
            active, low, high = active[matching], low[matching], high[matching]
            depth += 1
            lengths[active] = depth
            inside = left[active] > depth
            active, low, high = active[inside], low[inside], high[inside]
        return Ragged(lengths, rows.offsets)

    def _search(self, low: I64, high: I64, least: I64, depth: int) -> I64:
        """Return the first suffix of each range whose token at `depth` is at least a given one."""
        low, high = low.copy(), high.copy()
        while (searching := np.flatnonzero(low < high)).size:
            middle = (low[searching] + high[searching]) // 2
            below = self.tokens[self.order[middle] + depth] < least[searching]
            low[searching] = np.where(below, middle + 1, low[searching])
            high[searching] = np.where(below, high[searching], middle)
        return low


def _pad(corpus: Ragged) -> I64:
    """Return the tokens, from 1, with the separator after each text."""
    lengths = np.asarray(corpus.lengths, dtype=np.int64)
    out = np.full(int(lengths.sum()) + len(lengths), _END, dtype=np.int64)
    is_token = np.ones(len(out), dtype=np.bool_)
    is_token[np.cumsum(lengths + 1) - 1] = False
    out[is_token] = np.asarray(corpus.values[corpus.offsets[0] : corpus.offsets[-1]], dtype=np.int64) + 1
    return out


def _sort_suffixes(tokens: I64) -> I64:
    """Return where the suffixes start, in order; equal up to a separator means equal."""
    n = len(tokens)
    if not n:
        return np.zeros(0, dtype=np.int64)
    rank: I64 = np.unique(tokens, return_inverse=True)[1].astype(np.int64)
    is_open: NDArray[np.bool_] = tokens != _END  # no separator among the tokens compared so far
    size = 1
    while True:
        after = np.zeros(n, dtype=np.int64)
        after[: n - size] = rank[size:] + 1 if size < n else 0
        after[~is_open] = 0
        key = rank * (n + 1) + after
        order = np.argsort(key, kind="stable")
        new = np.concatenate([[0], np.cumsum(np.diff(key[order]) > 0)])
        refined = np.empty(n, dtype=np.int64)
        refined[order] = new
        if new[-1] == rank.max() or size >= n:
            return order
        is_open[: n - size] &= is_open[size:] if size < n else True
        is_open[max(n - size, 0) :] = False
        rank, size = refined, 2 * size
