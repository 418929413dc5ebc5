"""Exact binomial tests of draws against a distribution, with a fixed rate of false alarms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence

import numpy as np

from openended.harness.core import F64

FALSE_ALARMS = 1e-6
"""Probability, at most, that all tests of one probe together raise an alarm on a server that samples as asked."""
TESTS = 400
"""Tests of one probe, at most: each has this part of the alarms."""
NOISE = 0.02
"""Relative error that a server's own log-probabilities may have (half precision, another batch): no alarm within it."""


def is_implausible(hits: int, draws: int, low: float, high: float | None = None) -> bool:
    """Test whether a number of hits is too low or too high for a probability, at level `FALSE_ALARMS / TESTS`.

    Args:
        hits: Draws that fell into a set of tokens.
        draws: All of them, independent.
        low: The set's probability, at least.
        high: At most; None: it is `low`. Both are right within `NOISE`.
    """
    from scipy.stats import binom

    high = min(1.0, (low if high is None else high) * (1 + NOISE))
    low *= 1 - NOISE
    if hits > draws * high:
        return bool(2 * binom.sf(hits - 1, draws, high) < FALSE_ALARMS / TESTS)
    if hits < draws * low:
        return bool(2 * binom.cdf(hits, draws, low) < FALSE_ALARMS / TESTS)
    return False


def find_worst_mismatch(tokens: Sequence[Hashable], q: F64, draws: Sequence[Hashable]) -> tuple[int, int, float] | None:
    """Compare how often the best 1, 2, 3 … tokens were drawn with their probabilities.

    Args:
        tokens: The best tokens, the best first.
        q: Their probabilities; need not sum to 1.
        draws: Independent draws.

    Returns:
        (how many best tokens, how often drawn, their probability) where these disagree most; None where none does.
    """
    counts, total = Counter(draws), len(draws)
    hits = np.cumsum([counts[token] for token in tokens])
    shares = np.minimum(np.cumsum(q), 1.0)
    apart = np.abs(hits / max(total, 1) - shares)
    odd = [i for i in range(len(tokens)) if is_implausible(int(hits[i]), total, float(shares[i]))]
    if not odd:
        return None
    worst = max(odd, key=lambda i: float(apart[i]))
    return worst + 1, int(hits[worst]), float(shares[worst])
