from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings

from openended.harness.core.errors import UndefinedMetric
from openended.metrics.jensen_shannon import JensenShannon, jensen_shannon
from tests.metrics.teacher_helpers import SEEDS, distributions, run, stats_of
from tests.oracles import language_model as slow


def test_hand_value():
    # Q(y) = 1/3: m(y) = 2/3; KL(e||m) = log 1.5 = .405465; KL(Q||m) = 1/3 log(1/2) + 2/3 log 2 = .231049
    # JS = (.405465 + .231049) / 2 = .318257
    assert jensen_shannon([1 / 3]) == pytest.approx(0.5 * (math.log(1.5) + math.log(2) / 3), abs=1e-15)


@settings(max_examples=50, deadline=None)
@given(SEEDS)
def test_equals_the_oracle(seed):
    q, gold = distributions(seed, kept=1 + seed % 7)
    value = jensen_shannon(stats_of(q, gold).gold_prob)
    assert value == pytest.approx(slow.jensen_shannon(q, gold), abs=1e-12)  # float64 algebra
    assert 0 <= value <= math.log(2)


def test_meaning():
    assert jensen_shannon([1.0]) == 0.0
    assert jensen_shannon([0.0]) == math.log(2)
    values = [jensen_shannon([p]) for p in np.linspace(0, 1, 11)]
    assert values == sorted(values, reverse=True)
    assert jensen_shannon([0.0], base="2") == 1.0


@pytest.mark.parametrize("base", ["e", "2"])
def test_metric_by_row(base):
    q, gold = distributions(3, n=5)
    result = run(JensenShannon(base=base), stats_of(q, gold, [2, 3]))
    by_row = result.per_example["jensen_shannon"]
    assert result.values["jensen_shannon"] == pytest.approx((2 * by_row[0] + 3 * by_row[1]) / 5, abs=1e-12)


def test_edges():
    with pytest.raises(UndefinedMetric, match="no token"):
        jensen_shannon([])
    with pytest.raises(ValueError, match="probabilities"):
        jensen_shannon([float("inf")])
    with pytest.raises(ValueError, match="shape"):
        jensen_shannon([[0.5]])
    assert jensen_shannon([1e-300]) == pytest.approx(math.log(2), abs=1e-12)
    assert jensen_shannon([1 + 1e-9]) == 0.0  # rounding above 1
