"""Tests of paired scores: equal to SciPy's, right about equal systems, exact for binary scores."""

import math

import numpy as np
import pytest
from scipy import stats

from openended.harness.imported import SystemScores
from openended.harness.report.analysis.paired import compute_clustered_error
from openended.harness.report.analysis.paired_scores import compare_all_pairs, compare_means, estimate_mean
from openended.harness.report.tables.pivot import build_tables
from openended.harness.report.tables.score_comparison import build_score_frames, pair_scores

WORLDS = 2000


def draw_pair(rng, kind):
    """Return the scores of two equal systems on the same samples, and their clusters."""
    n, clusters = 300, None
    if kind.startswith("clustered"):
        clusters = np.repeat(np.arange(80), rng.integers(1, 8, size=80))
        n = len(clusters)
    shared = rng.normal(size=n)
    if clusters is not None:
        shared = rng.normal(size=80)[clusters]
    if kind.endswith("binary"):
        own = [rng.normal(size=80)[clusters] if clusters is not None else 0.0 for _ in "ab"]
        return *((rng.random(n) < 1 / (1 + np.exp(-shared - o))).astype(float) for o in own), clusters
    effects = [rng.normal(size=80)[clusters] if clusters is not None else 0.0 for _ in "ab"]
    return *(shared + effect + rng.exponential(size=n) for effect in effects), clusters


@pytest.mark.parametrize("kind", ["numbers", "binary", "clustered numbers", "clustered binary"])
def test_equal_systems_are_told_apart_in_a_twentieth_of_worlds(kind):
    rng = np.random.default_rng(0)
    tests = [compare_means(*draw_pair(rng, kind)) for _ in range(WORLDS)]
    assert 0.04 <= np.mean([test.p_value < 0.05 for test in tests]) <= 0.06
    assert 0.94 <= np.mean([test.low <= 0 <= test.high for test in tests]) <= 0.96


def test_p_values_and_intervals_equal_those_of_scipy_on_20_logs():
    rng = np.random.default_rng(1)
    for _ in range(20):
        n = int(rng.integers(5, 400))
        first, second = rng.normal(size=(2, n)) + rng.normal(size=n)
        mine, theirs = compare_means(first, second), stats.ttest_rel(first, second)
        assert mine.p_value == pytest.approx(theirs.pvalue, rel=1e-9)
        assert (mine.low, mine.high) == pytest.approx(tuple(theirs.confidence_interval()), rel=1e-9)
        alone = compare_means(first, second, np.arange(n))  # every sample is a cluster
        assert (alone.p_value, alone.std_error) == pytest.approx((mine.p_value, mine.std_error))
        first, second = (first > 0).astype(float), (second > 0.2).astype(float)
        wins, losses = int((first > second).sum()), int((first < second).sum())
        seen = stats.binom.pmf(wins, wins + losses, 0.5)  # the mid-p counts half of the outcome that was seen
        mid_p = stats.binomtest(wins, wins + losses).pvalue - seen if wins != losses else 1.0
        assert compare_means(first, second).p_value == pytest.approx(mid_p, rel=1e-9)
        low, high = stats.binomtest(int(first.sum()), n).proportion_ci(method="wilson")
        assert (estimate_mean(first).low, estimate_mean(first).high) == pytest.approx((low, high), abs=1e-6)


@pytest.mark.parametrize(("pairs", "least"), [(5, 0.02), (10, 0.035), (20, 0.04)])
def test_few_samples_that_differ_reject_equal_systems_about_as_often_as_many(pairs, least):
    """Exact: 300 samples of which each differs with probability pairs / 300, in either direction alike."""
    rejected = 0.0
    for count in range(4 * pairs + 8):
        chance = stats.binom.pmf(count, 300, pairs / 300)
        for wins in range(count + 1):
            first = np.repeat([1.0, 0.0, 1.0], (wins, count - wins, 1))
            second = np.repeat([0.0, 1.0, 1.0], (wins, count - wins, 1))
            rejected += chance * stats.binom.pmf(wins, count, 0.5) * (compare_means(first, second).p_value < 0.05)
    assert least <= rejected <= 0.05


def compute_cr2(values, clusters):
    """Return CR2's error of a mean and Satterthwaite's degrees of freedom, from matrices, as clubSandwich has them."""
    n, hat = len(values), np.full((len(values), len(values)), 1 / len(values))
    residual_maker, loads = np.eye(n) - hat, []
    for cluster in np.unique(clusters):
        inside = clusters == cluster
        roots, axes = np.linalg.eigh(np.eye(inside.sum()) - hat[np.ix_(inside, inside)])
        adjustment = axes @ np.diag(roots**-0.5) @ axes.T
        loads.append(residual_maker[:, inside] @ adjustment @ np.ones(inside.sum()) / n)
    table = np.stack(loads, axis=1)
    products = table.T @ table
    return np.sqrt(np.sum((table.T @ values) ** 2)), np.trace(products) ** 2 / np.sum(products**2)


def test_the_error_of_clusters_is_cr2_with_satterthwaites_freedom():
    rng = np.random.default_rng(5)
    for sizes in ((40, *[1] * 60), (3, 3, 3, 3), (1, 2, 9, 4, 4)):
        clusters = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
        values = rng.normal(size=len(clusters)) + rng.normal(size=len(sizes))[clusters]
        assert compute_clustered_error(values, clusters) == pytest.approx(compute_cr2(values, clusters))
    assert compute_clustered_error(values, np.repeat(np.arange(4), 5))[1] == pytest.approx(3)  # of equal clusters


def test_the_interval_of_paired_shares_is_newcombes():
    """Newcombe 1998, Table II, method 10: 36 both, 12 the first alone, 2 the second alone."""
    first, second = np.repeat([[1.0, 1.0, 0.0], [1.0, 0.0, 1.0]], (36, 12, 2), axis=1)
    test = compare_means(first, second)
    assert (test.low, test.high) == pytest.approx((0.0569, 0.3404), abs=5e-5)
    swapped = compare_means(second, first)
    assert (-swapped.high, -swapped.low) == pytest.approx((test.low, test.high))


def test_pairs_are_corrected_and_equal_scores_are_no_difference():
    first, second = np.random.default_rng(3).normal(size=(2, 50))
    same, far, further = compare_all_pairs({"a": first, "b": first.copy(), "c": second + 3})
    assert (same.value, same.p_value, same.corrected) == (0, 1, 1)
    assert (far.first, far.second, far.corrected) == ("a", "c", pytest.approx(3 * far.p_value))
    assert further.corrected == pytest.approx(far.corrected)
    shifted = compare_means(np.arange(8.0), np.arange(8.0) - 1)  # all signs are equal: 2 of 2⁸ patterns are as extreme
    assert shifted.p_value == 2 / 2**8
    counts = (
        np.array([1.0, 2.0, 2.0, 3.0]),
        np.array([1.0, 1.0, 2.0, 2.0]),
    )  # their differences are 0 and 1, they are not
    assert compare_means(*counts).high == pytest.approx(stats.ttest_rel(*counts).confidence_interval().high)


def test_a_difference_has_the_decimals_of_its_standard_error():
    """Scores around 300 differ by 0.004 with a standard error of 0.0005: with one decimal all of it would be zero."""
    shared, noise = np.random.default_rng(4).normal(size=(2, 400))
    scores = {"a": 300 + shared, "b": 300 + shared + 0.004 + 0.01 * noise}
    systems = [
        SystemScores(name, name, {"m": {str(i): v for i, v in enumerate(of)}}, {}, 1, (), {})
        for name, of in scores.items()
    ]
    means, differences = build_tables(build_score_frames(systems, pair_scores(systems)))
    difference, _, p_value, _, resolved, _ = differences.rows[0].cells
    assert p_value.value < 1e-9
    assert (difference.number, difference.spread) == ("-0.00366", "[-0.00466, -0.00266]")
    assert resolved.number == "0.00143"
    assert len({row.cells[0].number for row in means.rows}) == 2, "the means too are told apart"


@pytest.mark.parametrize("clusters", [None, np.repeat(np.arange(12), 10), np.repeat(np.arange(3), 40)])
def test_the_detectable_difference_is_found_with_80_percent_power(clusters):
    rng = np.random.default_rng(3)
    first, second = rng.normal(size=(2, 120))
    test = compare_means(first, second, clusters)
    dof = test.dof
    away = test.find_detectable() / test.std_error
    assert stats.nct.sf(stats.t.ppf(0.975, dof), dof, away) == pytest.approx(0.8, abs=1e-6)
    assert test.count_more(test.find_detectable()) == 0
    third = test.find_detectable() / 3
    assert test.find_detectable(120 + test.count_more(third)) == pytest.approx(third, rel=0.01)


@pytest.mark.parametrize("n", [40, 300])
def test_mcnemars_test_finds_the_detectable_difference_with_80_percent_power(n):
    """Counted over every number of wins and losses, instead of a normal approximation."""
    wins, losses = round(0.2 * n), round(0.1 * n)
    first, second = np.repeat([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]], (wins, losses, n - wins - losses), axis=1)
    test = compare_means(first, second)

    def compute_power(size, difference):
        share = (1 + difference / test.discordant) / 2
        power = 0.0
        for m in range(1, size + 1):
            mid_p = [stats.binomtest(k, m).pvalue - stats.binom.pmf(k, m, 0.5) for k in range(m + 1)]
            found = [k for k, p in enumerate(mid_p) if p < 0.05 and 2 * k != m]
            power += stats.binom.pmf(m, size, test.discordant) * stats.binom.pmf(found, m, share).sum()
        return power

    size = min(n, 60)  # of the oracle, which is slow
    assert compute_power(size, test.find_detectable(size)) == pytest.approx(0.8, abs=1e-3)
    assert test.find_detectable(n + test.count_more(0.1)) <= 0.1 + 1e-4
    assert math.isnan(test.find_detectable(5)), "of so few, no difference is found"
