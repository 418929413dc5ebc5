from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from openended.harness.core.errors import UndefinedMetric
from openended.metrics.sparsemax_score import SparsemaxScore, sparsemax_score
from tests.metrics.teacher_helpers import SEEDS, distributions, run, stats_of
from tests.oracles import language_model as slow


def test_hand_value():
    # Q = (.5, .5), true token first: .5 + (1 - .5) / 2 = .75; Q = one-hot elsewhere: 0 + (1 - 1) / 2 = 0; mean .375
    assert sparsemax_score([0.5, 0.0], [0.5, 1.0]) == pytest.approx(0.375, abs=1e-15)


@settings(max_examples=50, deadline=None)
@given(SEEDS)
def test_equals_the_oracle(seed):
    q, gold = distributions(seed, kept=1 + seed % 7)
    s = stats_of(q, gold)
    # float64 algebra: 1e-12
    assert sparsemax_score(s.gold_prob, s.sum_sq) == pytest.approx(slow.sparsemax_score(q, gold), abs=1e-12)


@settings(max_examples=50, deadline=None)
@given(SEEDS)
def test_lies_in_its_bounds(seed):
    s = stats_of(*distributions(seed, kept=1 + seed % 7))
    assert 0 <= sparsemax_score(s.gold_prob, s.sum_sq) <= 1


def test_meaning():
    assert sparsemax_score([1.0], [1.0]) == 1.0  # certain and right
    assert sparsemax_score([0.0], [1.0]) == 0.0  # certain and wrong
    assert sparsemax_score([0.0], [1e-4]) == pytest.approx(0.5, abs=1e-3)  # knows nothing
    better = sparsemax_score([0.6, 0.6], [0.5, 0.5])
    assert better > sparsemax_score([0.4, 0.4], [0.5, 0.5])


def test_metric_by_row():
    q, gold = distributions(3, n=5)
    result = run(SparsemaxScore(), stats_of(q, gold, [2, 0, 3]))
    by_row = result.per_example["sparsemax_score"]
    assert np.isnan(by_row[1])
    assert result.values["sparsemax_score"] == pytest.approx((2 * by_row[0] + 3 * by_row[2]) / 5, abs=1e-12)


def test_edges():
    with pytest.raises(UndefinedMetric, match="no token"):
        sparsemax_score([], [])
    with pytest.raises(ValueError, match="probabilities"):
        sparsemax_score([float("nan")], [1.0])
    with pytest.raises(ValueError, match="probabilities"):
        sparsemax_score([1.5], [1.0])
    with pytest.raises(ValueError, match="one sum of squares"):
        sparsemax_score([0.5, 0.5], [1.0])
    assert sparsemax_score([0.5] * 4, [0.5] * 4) == 0.75  # all identical
    with pytest.raises(UndefinedMetric, match="no human token"):
        run(SparsemaxScore(), stats_of(np.zeros((0, 3)), np.zeros(0, dtype=int), [0]))
