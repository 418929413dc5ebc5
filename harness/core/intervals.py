"""Choose the interval of a value: Wilson's for shares, t for others, none for replicates without variation.

A share of 0 or 1 has replicates that are all equal, although other texts would give other shares. Wilson's interval
inverts the score test and covers such shares too. Its number of independent texts is the one that gives the variance of
the replicates, so that several samples of a prompt count for less than as many prompts; without variation it is the
number of prompts. For other values no size of the error is known if the replicates do not vary.

Source: Wilson 1927; Brown, Cai and DasGupta 2001, "Interval estimation for a binomial proportion"; Korn and Graubard
1998 (the effective number of clustered observations).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from openended.harness.core.resampling import LEVEL, Interval, Replicates
from openended.harness.core.types import F64, I64

WILSON = "wilson"


def estimate_interval(
    replicates: Replicates,
    value: float,
    bounds: Sequence[float] = (-math.inf, math.inf),
    rows: F64 | None = None,
    prompts: I64 | None = None,
    level: float = LEVEL,
) -> Interval | None:
    """Return the interval of a value; None if its replicates do not vary and it is not a share.

    Args:
        replicates: Of the value.
        value: The value.
        bounds: Least and greatest value of the metric.
        rows: The rows whose mean the value is, if it is one.
        prompts: The prompt of each row; None if each has its own.
        level: Confidence level.
    """
    if rows is not None and replicates.method == "bootstrap" and _is_share(rows, value):
        count = len(np.unique(prompts)) if prompts is not None else int(np.isfinite(rows).sum())
        if replicates.varies and 0 < value < 1:
            return wilson_interval(value, value * (1 - value) / replicates.std_error() ** 2, replicates, level)
        return wilson_interval(value, count, replicates, level)
    return replicates.interval(value, bounds, level) if replicates.varies else None


def wilson_interval(share: float, count: float, replicates: Replicates, level: float = LEVEL) -> Interval:
    """Return Wilson's interval of a share of `count` independent texts.

    >>> made = wilson_interval(0.0, 100, Replicates(np.zeros((1, 8))))
    >>> made.low, round(made.high, 4)
    (0.0, 0.037)
    """
    from scipy.special import ndtri

    z = float(ndtri(0.5 + level / 2))
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    away = z * math.sqrt(share * (1 - share) / count + (z / (2 * count)) ** 2) / (1 + z * z / count)
    low, high = (0.0 if share == 0 else max(middle - away, 0.0)), (1.0 if share == 1 else min(middle + away, 1.0))
    return Interval(low, high, replicates.std_error(), level, WILSON, replicates.draws.size)


def _is_share(rows: F64, value: float) -> bool:
    """Check whether a value is the mean of rows that are 0 or 1."""
    finite = rows[np.isfinite(rows)]
    return bool(len(finite) and np.isin(finite, (0.0, 1.0)).all()) and math.isclose(
        float(finite.mean()), value, rel_tol=1e-6, abs_tol=1e-12
    )
