from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings

from openended.harness.core.errors import UndefinedMetric
from openended.metrics.ppl import PPL, ppl
from tests.metrics.teacher_helpers import SEEDS, distributions, run, stats_of
from tests.oracles import language_model as slow


def test_hand_value():
    # exp(-(log .5 + log .125) / 2) = 1 / sqrt(.0625) = 4
    assert ppl([0.5, 0.125]) == pytest.approx(4.0, rel=1e-15)


@settings(max_examples=50, deadline=None)
@given(SEEDS)
def test_equals_the_oracle(seed):
    q, gold = distributions(seed)
    assert ppl(stats_of(q, gold).gold_prob) == pytest.approx(slow.eps_ppl(q, gold, 0.0), rel=1e-11)  # float64 algebra


def test_meaning():
    assert ppl([1.0, 1.0]) == 1.0
    assert ppl([1 / 50] * 3) == pytest.approx(50, rel=1e-12)  # uniform over 50
    assert ppl([0.2]) > ppl([0.3])


def test_metric_by_row():
    q, gold = distributions(3, n=4)
    result = run(PPL(), stats_of(q, gold, [2, 2]))
    by_row = result.per_example["ppl"]
    assert result.values["ppl"] == pytest.approx(math.sqrt(by_row[0] * by_row[1]), rel=1e-12)


def test_edges():
    with pytest.raises(UndefinedMetric, match="no token"):
        ppl([])
    with pytest.raises(UndefinedMetric, match="zero on 1 of 2"):
        ppl([0.0, 0.5])
    with pytest.raises(ValueError, match="probabilities"):
        ppl([np.nan])
    assert ppl([1e-300]) == pytest.approx(1e300, rel=1e-9)
