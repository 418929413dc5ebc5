"""Metrics of the decoder's Q on human text: eps_ppl, jensen_shannon, ppl, rep_l, sparsemax_score."""

import math

import numpy as np
import pytest
from hypothesis import given, settings

from openended.harness.core import NextToken, Ragged, UndefinedMetric
from openended.metrics.eps_ppl import EpsPPL, eps_ppl
from openended.metrics.jensen_shannon import JensenShannon, jensen_shannon
from openended.metrics.ppl import PPL, ppl
from openended.metrics.rep_l import RepL, distance_back, rep_l
from openended.metrics.sparsemax_score import SparsemaxScore, sparsemax_score
from tests.metrics.helpers import SEEDS, check_edges, distributions, run_teacher_forced as run, stats_of
from tests.oracles import language_model as slow


def test_hand_values():
    # V = 4, eps = .25: (.5 + .25) / 2 = .375 and (0 + .25) / 2 = .125; exp(-(log .375 + log .125) / 2) = 1 / sqrt(.046875)
    assert eps_ppl([0.5, 0.0], vocab_size=4, eps=0.25) == pytest.approx(1 / math.sqrt(0.046875), rel=1e-14)
    # Q(y) = 1/3: m(y) = 2/3; KL(e||m) = log 1.5 = .405465; KL(Q||m) = 1/3 log(1/2) + 2/3 log 2 = .231049
    # JS = (.405465 + .231049) / 2 = .318257
    assert jensen_shannon([1 / 3]) == pytest.approx(0.5 * (math.log(1.5) + math.log(2) / 3), abs=1e-15)
    # exp(-(log .5 + log .125) / 2) = 1 / sqrt(.0625) = 4
    assert ppl([0.5, 0.125]) == pytest.approx(4.0, rel=1e-15)
    # Q = (.5, .5), true token first: .5 + (1 - .5) / 2 = .75; Q = one-hot elsewhere: 0 + (1 - 1) / 2 = 0; mean .375
    assert sparsemax_score([0.5, 0.0], [0.5, 1.0]) == pytest.approx(0.375, abs=1e-15)


@settings(max_examples=50, deadline=None)
@given(SEEDS)
def test_values_equal_the_oracles(seed):
    q, gold = distributions(seed, kept=1 + seed % 7)
    stats, eps = stats_of(q, gold), 10.0 ** -(seed % 7)
    # float64 algebra
    assert eps_ppl(stats.gold_prob, vocab_size=q.shape[1], eps=eps) == pytest.approx(
        slow.eps_ppl(q, gold, eps), rel=1e-11
    )
    value = jensen_shannon(stats.gold_prob)
    assert value == pytest.approx(slow.jensen_shannon(q, gold), abs=1e-12)
    assert 0 <= value <= math.log(2)
    score = sparsemax_score(stats.gold_prob, stats.sum_sq)
    assert score == pytest.approx(slow.sparsemax_score(q, gold), abs=1e-12)
    assert 0 <= score <= 1
    whole, gold = distributions(seed)
    assert ppl(stats_of(whole, gold).gold_prob) == pytest.approx(slow.eps_ppl(whole, gold, 0.0), rel=1e-11)


def test_divergence_and_score_mean():
    assert jensen_shannon([1.0]) == jensen_shannon([1 + 1e-9]) == 0.0  # rounding above 1
    assert jensen_shannon([0.0]) == math.log(2)
    assert jensen_shannon([1e-300]) == pytest.approx(math.log(2), abs=1e-12)
    assert jensen_shannon([0.0], base="2") == 1.0
    assert sparsemax_score([1.0], [1.0]) == 1.0  # certain and right
    assert sparsemax_score([0.0], [1.0]) == 0.0  # certain and wrong
    assert sparsemax_score([0.0], [1e-4]) == pytest.approx(0.5, abs=1e-3)  # knows nothing


@pytest.mark.parametrize("metric", [JensenShannon(), JensenShannon(base="2"), SparsemaxScore()], ids=repr)
def test_values_by_row_are_means_over_positions(metric):
    result = run(metric, stats_of(*distributions(3, n=5), [2, 0, 3]))
    by_row = result.per_example[metric.name]
    assert np.isnan(by_row[1])
    assert result.values[metric.name] == pytest.approx((2 * by_row[0] + 3 * by_row[2]) / 5, abs=1e-12)


def test_perplexities_by_row_have_a_geometric_mean():
    by_row = run(PPL(), stats_of(*distributions(3, n=4), [2, 2])).per_example["ppl"]
    assert run(PPL(), stats_of(*distributions(3, n=4), [2, 2])).values["ppl"] == pytest.approx(
        math.sqrt(by_row[0] * by_row[1]), rel=1e-12
    )
    result = run(EpsPPL(eps=1e-3, grid=(1e-1, 1e-3)), stats_of(*distributions(3, n=6, kept=3), [3, 3]))
    assert set(result.values) == {"eps_ppl", "eps_ppl_0.1", "eps_ppl_0.001"}
    assert result.values["eps_ppl"] == result.values["eps_ppl_0.001"]
    assert set(result.per_example) == {"eps_ppl"}
    by_row = result.per_example["eps_ppl"]
    assert result.values["eps_ppl"] == pytest.approx(math.sqrt(by_row[0] * by_row[1]), rel=1e-12)


def test_edges():
    nothing = stats_of(np.zeros((0, 3)), np.zeros(0, dtype=int), [0])
    check_edges([
        (lambda: eps_ppl([], vocab_size=3, eps=0.1), UndefinedMetric, "no token"),
        (lambda: eps_ppl([0.0, 1.0], vocab_size=3, eps=0.0), UndefinedMetric, "1 of 2"),
        (lambda: eps_ppl([0.5], vocab_size=3, eps=-1.0), ValueError, "eps >= 0"),
        (lambda: eps_ppl([0.5], vocab_size=0, eps=1.0), ValueError, "vocab_size >= 1"),
        (lambda: eps_ppl([np.nan], vocab_size=3, eps=0.1), ValueError, "probabilities"),
        (lambda: jensen_shannon([]), UndefinedMetric, "no token"),
        (lambda: jensen_shannon([float("inf")]), ValueError, "probabilities"),
        (lambda: jensen_shannon([[0.5]]), ValueError, "shape"),
        (lambda: ppl([]), UndefinedMetric, "no token"),
        (lambda: ppl([0.0, 0.5]), UndefinedMetric, "zero on 1 of 2"),
        (lambda: ppl([-0.1]), ValueError, "probabilities"),
        (lambda: sparsemax_score([], []), UndefinedMetric, "no token"),
        (lambda: sparsemax_score([float("nan")], [1.0]), ValueError, "probabilities"),
        (lambda: sparsemax_score([1.5], [1.0]), ValueError, "probabilities"),
        (lambda: sparsemax_score([0.5, 0.5], [1.0]), ValueError, "one sum of squares"),
        (lambda: run(SparsemaxScore(), nothing), UndefinedMetric, "no human token"),
        (lambda: run(RepL(), repetition_stats([], [])), UndefinedMetric, "no human token"),
    ])  # fmt: skip


def repetition_stats(best, gold, context=(), offsets=None):
    n = len(gold)
    ends = np.array(offsets or [0, n], dtype=np.int64)
    return NextToken(
        ends, np.full(n, 0.5), np.full(n, 0.5), np.full(n, 2), np.array(best, dtype=np.int64), np.array(gold, dtype=np.int64),
        Ragged.from_rows([list(context)] * (len(ends) - 1), np.int64), vocab_size=10,
    )  # fmt: skip


def test_rep_by_hand():
    # prompt 1 2; gold 3 1 3; best 1 2 3. l = 1: before the positions stand {2} {3} {1}: 1, 2, 3 → 0 of 3.
    # l = 2: {1 2} {2 3} {3 1}: 1 yes, 2 yes, 3 yes → 3 of 3; the last is the true token → wrep 2 of 3.
    # human: l = 2: 3 in {1 2} no, 1 in {2 3} no, 3 in {3 1} yes → 1 of 3.
    stats = repetition_stats([1, 2, 3], [3, 1, 3], [1, 2])
    assert rep_l(stats, lengths=(1,)) == {"rep_l": 0.0, "wrep_l": 0.0, "human_rep_l": 0.0}
    assert rep_l(stats, lengths=(2,)) == pytest.approx({"rep_l": 1.0, "wrep_l": 2 / 3, "human_rep_l": 1 / 3})
    assert rep_l(stats, lengths=(1, 2)) == pytest.approx({"rep_l": 0.5, "wrep_l": 1 / 3, "human_rep_l": 1 / 6})


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_rep_equals_the_oracle(seed):
    g = np.random.default_rng(seed)
    n, length = int(g.integers(1, 30)), int(g.integers(1, 12))
    best, gold, context = g.integers(0, 8, n).tolist(), g.integers(0, 8, n).tolist(), g.integers(0, 8, 3).tolist()
    got = rep_l(repetition_stats(best, gold, context), lengths=(length,))
    assert got["rep_l"] == pytest.approx(slow.rep(best, gold, context, length, wrong=False), abs=1e-15)
    assert got["wrep_l"] == pytest.approx(slow.rep(best, gold, context, length, wrong=True), abs=1e-15)
    assert got["human_rep_l"] == pytest.approx(slow.rep(gold, gold, context, length, wrong=False), abs=1e-15)


def test_rows_do_not_see_each_other():
    result = run(RepL(lengths=(16,)), repetition_stats([5, 5, 5, 5], [5, 6, 7, 8], offsets=[0, 2, 4]))
    assert result.per_example["rep_l"].tolist() == [0.5, 0.0]
    one = distance_back(np.array([3]), np.array([3]), np.array([0, 1]), Ragged.from_rows([[]], np.int64))
    assert one[0] == np.iinfo(np.int64).max
