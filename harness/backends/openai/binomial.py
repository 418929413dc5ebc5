"""Exact binomial tests of sampled tokens against a distribution, with a bounded false alarm rate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence

import numpy as np

from openended.harness.core import F64

FALSE_ALARMS = 1e-6
"""Maximum probability that any test of one probe raises an alarm on a server that samples correctly."""
TESTS = 400
"""Maximum number of tests of one probe; the false alarm rate is divided by it (Bonferroni)."""
NOISE = 0.02
"""Tolerated relative error of a server's log-probabilities (half precision, another batch)."""


def is_implausible(hits: int, draws: int, low: float, high: float | None = None) -> bool:
    """Test whether a number of hits is too low or too high for a probability, at level `FALSE_ALARMS / TESTS`."""
    from scipy.stats import binom

    high = min(1.0, (low if high is None else high) * (1 + NOISE))
    low *= 1 - NOISE
    if hits > draws * high:
        return bool(2 * binom.sf(hits - 1, draws, high) < FALSE_ALARMS / TESTS)
    if hits < draws * low:
        return bool(2 * binom.cdf(hits, draws, low) < FALSE_ALARMS / TESTS)
    return False


def find_worst_mismatch(tokens: Sequence[Hashable], q: F64, draws: Sequence[Hashable]) -> tuple[int, int, float] | None:
    """Find the k for which the share of draws in the k most probable tokens differs most from its probability."""
    counts, total = Counter(draws), len(draws)
    hits = np.cumsum([counts[token] for token in tokens])
    shares = np.minimum(np.cumsum(q), 1.0)
    differences = np.abs(hits / max(total, 1) - shares)
    implausible = [i for i in range(len(tokens)) if is_implausible(int(hits[i]), total, float(shares[i]))]
    if not implausible:
        return None
    worst = max(implausible, key=lambda i: float(differences[i]))
    return worst + 1, int(hits[worst]), float(shares[worst])
