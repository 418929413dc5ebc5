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
from bisect import bisect
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import bdtr, bdtrik, gammaln, stdtr, xlog1py, xlogy

from openended.harness.core import F64, I64
from openended.harness.report.analysis import paired
from openended.harness.report.analysis.power import POWER, compute_detectable_size

T, CLUSTERED_T, MCNEMAR, SIGNS = "paired t", "clustered t", "McNemar, mid-p", "signs"


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
    dof: float = math.inf  # of Student's t
    n: int = 0  # samples
    discordant: float = math.nan  # share of the samples that two scores of 0 and 1 differ on

    def find_detectable(self, n: int = 0) -> float:
        """Return the smallest difference that the test finds with 80 % power, with so many samples; NaN: none."""
        n = n or self.n
        if self.test == MCNEMAR:
            if self.discordant == 0:  # of equal scores nothing can be said
                return math.nan
            steps = 1 << 20
            least = bisect(
                range(steps), POWER, key=lambda step: compute_mcnemar_power(n, self.discordant, step / steps)
            )
            return least / steps if least < steps * self.discordant else math.nan
        times = n / self.n
        return compute_detectable_size(self.dof * times) * self.std_error / math.sqrt(times)

    def count_more(self, difference: float) -> int:
        """Return how many samples beyond these make a difference detectable."""
        if self.test == MCNEMAR:
            share = max(self.discordant, difference)
            sizes = range(self.n, max(2 * self.n, math.ceil(20 * share / difference**2) + 20))
            at = bisect(sizes, POWER, key=lambda size: compute_mcnemar_power(size, share, difference))
            return sizes[min(at, len(sizes) - 1)] - self.n
        n = self.n
        for _ in range(9):  # the quantiles hardly change after the first
            n = max(self.n, math.ceil(n * (self.find_detectable(n) / difference) ** 2 - 1e-9))
        return n - self.n


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
    mean, dof = _estimate_by_clusters(apart, clusters)
    if clusters is None and _is_binary(first) and _is_binary(second):
        low, high = _compute_newcombe_limits(first, second)
        share = float((first != second).mean())
        p_value = compute_mcnemar_p(first, second)
        return ScoreDifference(mean.value, mean.std_error, low, high, p_value, MCNEMAR, n=len(first), discordant=share)
    if math.isnan(mean.std_error):
        sums = apart if clusters is None else np.bincount(clusters, apart).astype(np.float64)
        test, p_value = SIGNS, paired.compute_sign_flip_p(sums)
    else:
        test = T if clusters is None else CLUSTERED_T
        p_value = float(2 * stdtr(dof, -abs(mean.value) / mean.std_error))
    return ScoreDifference(mean.value, mean.std_error, mean.low, mean.high, p_value, test, dof=dof, n=len(first))


def _estimate_by_clusters(values: F64, clusters: I64 | None) -> tuple[MeanScore, float]:
    """Estimate a mean with Student's interval and its degrees of freedom; equal values do not tell their error."""
    value = float(values.mean())
    error, dof = paired.compute_clustered_error(values, clusters)
    error = error if error > 1e-12 * float(np.abs(values).max()) else math.nan
    margin = paired.compute_student_quantile(dof) * error
    return MeanScore(value, error, value - margin, value + margin), dof


def compute_mcnemar_p(first: F64, second: F64) -> float:
    """Return the two-sided mid-p of McNemar's test of scores of 0 and 1.

    >>> round(compute_mcnemar_p(np.array([1.0] * 9 + [0.0]), np.array([0.0] * 9 + [1.0])), 6)
    0.011719
    """
    wins, losses = int((first > second).sum()), int((first < second).sum())
    fewer, total = min(wins, losses), wins + losses
    return 1.0 if wins == losses else float(_compute_mid_p(np.array(fewer), np.array(total)))


def _compute_mid_p(fewer: I64, total: I64) -> F64:
    """Return the two-sided mid-p of so many wins of the side with fewer of them, of all pairs that differ."""
    below = np.where(fewer > 0, bdtr(np.maximum(fewer - 1, 0), total, 0.5), 0.0)
    return np.asarray(bdtr(fewer, total, 0.5) + below, dtype=np.float64)


def compute_mcnemar_power(n: int, discordant: float, difference: float) -> float:
    """Return the probability that McNemar's test (mid-p) at 5 % finds a difference of two shares, with n pairs.

    `discordant` is the share of pairs that differ; all of them favor one side if the difference is larger.

    >>> round(compute_mcnemar_power(100, 0.2, 0.12), 2)  # 16 wins and 4 losses are expected
    0.79
    """
    wins = (1 + min(difference / discordant, 1.0)) / 2
    center, reach = n * discordant, 8 * math.sqrt(n * discordant * (1 - discordant)) + 8
    counts = np.arange(max(0, math.floor(center - reach)), min(n, math.ceil(center + reach)) + 1)
    # The largest number of losses that is significant: that of the exact test, or up to two more.
    exact = np.nan_to_num(np.floor(bdtrik(paired.LEVEL / 2, counts, 0.5)), nan=-1).astype(np.int64)
    limits = np.full(len(counts), -1)
    for more in range(-1, 3):
        candidate = np.maximum(exact + more, 0)
        fits = (_compute_mid_p(candidate, counts) < paired.LEVEL) & (2 * candidate < counts)
        limits = np.where(fits, candidate, limits)
    powers = [bdtr(np.maximum(limits, 0), counts, share) * (limits >= 0) for share in (1 - wins, wins)]
    binomial = gammaln(n + 1) - gammaln(counts + 1) - gammaln(n - counts + 1)
    weights = np.exp(binomial + xlogy(counts, discordant) + xlog1py(n - counts, -discordant))
    return float(weights @ (powers[0] + powers[1]))


def _is_binary(values: F64) -> bool:
    return bool(np.isin(values, (0.0, 1.0)).all())


def _compute_wilson_limits(share: float, n: int) -> tuple[float, float]:
    from scipy.stats import binomtest

    limits = binomtest(round(share * n), n).proportion_ci(method="wilson")
    return float(limits.low), float(limits.high)


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
