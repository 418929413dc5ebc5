"""Loops at the end of texts: which phrase, repeated how often.

A phrase of n tokens stands at the end m // n + 1 times, where m is the number of last tokens that equal the token n
places before. The texts are worked on together, one phrase length after the other, and only where the last token recurs
and the length could still beat the best so far.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from openended.harness.core import I64
from openended.metrics._ngrams.index import NgramIndex

_FEW_REPEATS = 50  # a phrase of one or two tokens counts only above this: Holtzman et al. 2020, released code
_LONG_PHRASE = 3


def ends_in_loop(index: NgramIndex, max_phrase: int) -> NDArray[np.bool_]:
    """Return true for each text that ends in a loop, shape (n,)."""
    repeats, phrase = final_repeats(index, max_phrase)
    return (repeats > 1) & ((phrase >= _LONG_PHRASE) | (repeats > _FEW_REPEATS))


def final_repeats(index: NgramIndex, max_phrase: int) -> tuple[I64, I64]:
    """Return how often the most repeated final phrase stands at the end, and its length (the shortest of equals)."""
    if max_phrase < 1:
        raise ValueError(f"expected max_phrase of at least 1, got {max_phrase}")
    lengths, tokens = index.lengths, index.tokens
    last = np.cumsum(lengths + 1) - 1  # place of each text's last token (a separator, if it is empty)
    best = np.minimum(lengths, 1)
    phrase = best.copy()
    longest = lengths // 2  # longest phrase that can repeat more often than the best one
    alive, room = np.arange(len(lengths)), 0
    for n in range(1, max_phrase + 1):
        if n > room:
            alive = alive[longest[alive] >= n]
            if not len(alive):
                break
            room, end = int(longest[alive].min()), last[alive]
            final = tokens[end]
        rows = alive[np.flatnonzero(tokens[end - n] == final)]
        rows = rows[tokens[last[rows] - 2 * n + 1] == tokens[last[rows] - n + 1]]
        if len(rows):
            repeats = _count_matching(tokens, last[rows], n) // n + 1
            better = repeats > best[rows]
            rows, repeats = rows[better], repeats[better]
            best[rows], phrase[rows] = repeats, n
            longest[rows] = lengths[rows] // (repeats + 1)
            room = min(room, int(longest[rows].min(initial=room)))
    return best, phrase


def _count_matching(tokens: NDArray[np.int32], end: I64, n: int) -> I64:
    """Count the tokens, from place `end` backwards, that equal the token `n` places before."""
    out = np.zeros(len(end), dtype=np.int64)
    active = np.arange(len(end))
    width = 32
    while len(active):
        positions = (end[active] - out[active])[:, None] - np.arange(width)
        # place 0 is a separator; a token never equals it, so the count stops at the start of the text
        equal = tokens[np.maximum(positions, 0)] == tokens[np.maximum(positions - n, 0)]
        equal &= positions > 0
        run = np.where(equal.all(axis=1), width, np.argmin(equal, axis=1))
        out[active] += run
        active = active[run == width]
        width = min(width * 2, 4096)
    return out
