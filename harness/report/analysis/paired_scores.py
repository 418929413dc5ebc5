"""Paired tests of scores of the same samples: Student's t, also of clustered samples, and McNemar's test with mid-p.

`paired.compute_clustered_error` has the standard error of a mean of clustered samples; without clusters each sample is
one, which is Student's test (`scipy.stats.ttest_rel`). Scores of 0 and 1 without clusters are compared by McNemar's
test, and their difference has Newcombe's interval. The exact p-value counts all of the probability of the outcome that
was seen: where few samples differ it rejects equal systems in 0.2 to 2 % of cases. The mid-p counts half of it.

Sources: Miller 2024, "Adding error bars to evals"; McNemar 1947; Fagerland, Lydersen and Laake 2013, "The McNemar test
for binary matched-pairs data: mid-p and asymptotic are better than exact conditional"; Newcombe 1998, "Improved
confidence intervals for the difference between binomial proportions based on paired data" (method 10).
"""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np
from scipy.special import bdtr, stdtr

from openended.harness.core import F64, I64
from openended.harness.report.analysis import paired
from openended.harness.report.analysis.power import POWER

T, CLUSTERED, MCNEMAR, SIGNS = "paired t", "clustered t", "McNemar, mid-p", "signs"
_Z = NormalDist().inv_cdf(1 - paired.LEVEL / 2)


@dataclass(frozen=True, slots=True)
class MeanScore:
    """A mean with its 95 % interval."""

    value: float
    std_error: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class ScoreDifference(MeanScore):
    """The mean difference of two systems, first minus second, and its test."""

    p_value: float
    test: str
    first: str = ""
    second: str = ""
    corrected: float = math.nan  # by Holm's method over the pairs of systems
    freedom: float = math.inf  # of Student's t

    def resolve(self, times: float = 1.0) -> float:
        """Return the smallest difference that the test finds with 80 % power, in so many times the samples."""
        quantiles = (
            paired.compute_student_quantile(self.freedom * times, p) for p in (1 - paired.LEVEL, 2 * POWER - 1)
        )
        return sum(quantiles) * self.std_error / math.sqrt(times)

    def count_more(self, n: int, difference: float) -> int:
        """Return how many samples beyond these n resolve a difference."""
        times = 1.0
        for _ in range(9):  # the quantiles hardly change after the first
            times = max(1.0, times * (self.resolve(times) / difference) ** 2)
        return math.ceil(n * times) - n


def estimate_mean(values: F64, clusters: I64 | None = None) -> MeanScore:
    """Estimate a mean, shape (n,), with its interval; `clusters` numbers the cluster of each, from 0."""
    mean, _ = _estimate_by_clusters(values, clusters)
    if clusters is not None or not _is_binary(values):
        return mean
    low, high = _compute_wilson_limits(mean.value, len(values))
    return replace(mean, low=low, high=high)


def compare_means(first: F64, second: F64, clusters: I64 | None = None) -> ScoreDifference:
    """Test whether the scores of the same samples, shape (n,) each, have the same mean."""
    apart = first - second
    mean, freedom = _estimate_by_clusters(apart, clusters)
    if clusters is None and _is_binary(first) and _is_binary(second):
        low, high = _compute_newcombe_limits(first, second)
        return ScoreDifference(mean.value, mean.std_error, low, high, compute_mcnemar_p(first, second), MCNEMAR)
    if math.isnan(mean.std_error):
        sums = apart if clusters is None else np.bincount(clusters, apart).astype(np.float64)
        test, p_value = SIGNS, paired.compute_sign_flip_p(sums)
    else:
        test = T if clusters is None else CLUSTERED
        p_value = float(2 * stdtr(freedom, -abs(mean.value) / mean.std_error))
    return ScoreDifference(mean.value, mean.std_error, mean.low, mean.high, p_value, test, freedom=freedom)


def _estimate_by_clusters(values: F64, clusters: I64 | None) -> tuple[MeanScore, float]:
    """Estimate a mean with Student's interval and its degrees of freedom; equal values do not tell their error."""
    value = float(values.mean())
    error, freedom = paired.compute_clustered_error(values, clusters)
    error = error if error > 1e-12 * float(np.abs(values).max()) else math.nan
    margin = paired.compute_student_quantile(freedom) * error
    return MeanScore(value, error, value - margin, value + margin), freedom


def compute_mcnemar_p(first: F64, second: F64) -> float:
    """Return the two-sided mid-p of McNemar's test of scores of 0 and 1.

    >>> round(compute_mcnemar_p(np.array([1.0] * 9 + [0.0]), np.array([0.0] * 9 + [1.0])), 6)
    0.011719
    """
    wins, losses = int((first > second).sum()), int((first < second).sum())
    fewer, total = min(wins, losses), wins + losses
    if wins == losses:
        return 1.0
    return float(bdtr(fewer, total, 0.5) + (bdtr(fewer - 1, total, 0.5) if fewer else 0.0))


def _is_binary(values: F64) -> bool:
    return bool(np.isin(values, (0.0, 1.0)).all())


def _compute_wilson_limits(share: float, n: int) -> tuple[float, float]:
    center, reach = share + _Z**2 / (2 * n), _Z * math.sqrt(share * (1 - share) / n + _Z**2 / (4 * n**2))
    return max(0.0, (center - reach) / (1 + _Z**2 / n)), min(1.0, (center + reach) / (1 + _Z**2 / n))


def _compute_newcombe_limits(first: F64, second: F64) -> tuple[float, float]:
    """Return the limits of the difference of two paired shares, from Wilson's limits of both and their correlation."""
    n, a, b = len(first), float(first.mean()), float(second.mean())
    (low_a, high_a), (low_b, high_b) = (_compute_wilson_limits(share, n) for share in (a, b))
    both, only_a, only_b = (float(x @ y) for x, y in ((first, second), (first, 1 - second), (1 - first, second)))
    product = both * (n - both - only_a - only_b) - only_a * only_b
    product = max(product - n / 2, 0.0) if product > 0 else product  # corrected for continuity, as Newcombe does
    scale = n * n * math.sqrt(a * (1 - a) * b * (1 - b))
    r = product / scale if scale > 0 else 0.0
    reaches = ((a - low_a, high_b - b), (high_a - a, b - low_b))
    below, above = (math.sqrt(max(x * x - 2 * r * x * y + y * y, 0.0)) for x, y in reaches)
    return a - b - below, a - b + above


def compare_all_pairs(scores: Mapping[str, F64], clusters: I64 | None = None) -> list[ScoreDifference]:
    """Test all pairs of systems (name → scores of the same samples) with Holm's correction over the pairs."""
    tests = [
        replace(compare_means(scores[a], scores[b], clusters), first=a, second=b)
        for a, b in itertools.combinations(scores, 2)
    ]
    corrected = paired.correct_by_holm({at: test.p_value for at, test in enumerate(tests)})
    return [replace(test, corrected=corrected.get(at, math.nan)) for at, test in enumerate(tests)]
