"""How well raters agree."""

from __future__ import annotations

import numpy as np

from openended.harness.core import F64

_MOST_LEVELS = 100  # distinct ratings; the coincidence matrix grows with their square for every text


def agreement(ratings: F64) -> float:
    """Krippendorff's alpha between raters, for ordinal ratings; 1 is full agreement, 0 is chance.

    Args:
        ratings: Shape (texts, raters), NaN where a rater did not rate; the columns may hold different people.

    Returns:
        Alpha, at most 1; NaN where it does not exist: no text was rated twice, all ratings are equal, or ratings take
        more than 100 values (they are then no levels).

    Source: Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability"; computed by the package `krippendorff`.
    """
    twice = ratings[(~np.isnan(ratings)).sum(axis=1) >= 2]
    levels = np.unique(twice[~np.isnan(twice)])
    if not 2 <= len(levels) <= _MOST_LEVELS:
        return float("nan")
    import krippendorff

    return float(krippendorff.alpha(reliability_data=twice.T, level_of_measurement="ordinal"))
