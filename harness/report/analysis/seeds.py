"""Standard deviation and Student's interval of a mean over seeds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

LEVEL = 0.95


def sample_std(values: Sequence[float]) -> float:
    """Return the sample standard deviation (n - 1); NaN for fewer than two values."""
    return statistics.stdev(values) if len(values) > 1 else math.nan


def compute_half_width(values: Sequence[float], level: float = LEVEL) -> float:
    """Return the half-width of Student's interval of the mean; NaN for fewer than two values.

    >>> round(compute_half_width([1.0, 2.0, 3.0]), 4)  # 4.3027 * 1 / sqrt(3)
    2.4841
    """
    if len(values) < 2:
        return math.nan
    from scipy.stats import t

    return float(t.ppf((1 + level) / 2, len(values) - 1)) * sample_std(values) / math.sqrt(len(values))
