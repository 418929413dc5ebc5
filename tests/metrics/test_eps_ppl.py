from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings

from openended.harness.core.errors import SpecError, UndefinedMetric
from openended.metrics.eps_ppl import EpsPPL, eps_ppl
from openended.metrics.ppl import ppl
from tests.metrics.teacher_helpers import SEEDS, distributions, run, stats_of
from tests.oracles import language_model as slow


def test_hand_value():
    # V = 4, eps = .25: (.5 + .25) / 2 = .375 and (0 + .25) / 2 = .125; exp(-(log .375 + log .125) / 2) = 1 / sqrt(.046875)
    assert eps_ppl([0.5, 0.0], vocab_size=4, eps=0.25) == pytest.approx(1 / math.sqrt(0.046875), rel=1e-14)


@settings(max_examples=50, deadline=None)
@given(SEEDS)
def test_equals_the_oracle(seed):
    q, gold = distributions(seed, kept=1 + seed % 7)
    eps = 10.0 ** -(seed % 7)
    value = eps_ppl(stats_of(q, gold).gold_prob, vocab_size=q.shape[1], eps=eps)
    assert value == pytest.approx(slow.eps_ppl(q, gold, eps), rel=1e-11)  # float64 algebra


def test_without_floor_it_is_the_perplexity():
    q, gold = distributions(1)
    p = stats_of(q, gold).gold_prob
    assert eps_ppl(p, vocab_size=7, eps=0.0) == pytest.approx(ppl(p), rel=1e-14)
    assert eps_ppl(p, vocab_size=7, eps=1e-14) == pytest.approx(ppl(p), rel=1e-10)


def test_meaning():
    assert eps_ppl([1.0], vocab_size=100, eps=0.0) == 1.0
    assert eps_ppl([0.0], vocab_size=100, eps=1e9) == pytest.approx(100, rel=1e-6)  # all floor: uniform
    assert eps_ppl([0.0, 1.0], vocab_size=9, eps=1e-6) > eps_ppl([0.1, 0.9], vocab_size=9, eps=1e-6)


def test_metric_with_a_grid():
    q, gold = distributions(3, n=6, kept=3)
    result = run(EpsPPL(eps=1e-3, grid=(1e-1, 1e-3)), stats_of(q, gold, [3, 3]))
    assert set(result.values) == {"eps_ppl", "eps_ppl_0.1", "eps_ppl_0.001"}
    assert result.values["eps_ppl"] == result.values["eps_ppl_0.001"]
    by_row = result.per_example["eps_ppl"]
    assert result.values["eps_ppl"] == pytest.approx(math.sqrt(by_row[0] * by_row[1]), rel=1e-12)


def test_edges():
    with pytest.raises(UndefinedMetric, match="no token"):
        eps_ppl([], vocab_size=3, eps=0.1)
    with pytest.raises(UndefinedMetric, match="1 of 2"):
        eps_ppl([0.0, 1.0], vocab_size=3, eps=0.0)
    with pytest.raises(ValueError, match="eps >= 0"):
        eps_ppl([0.5], vocab_size=3, eps=-1.0)
    with pytest.raises(ValueError, match="probabilities"):
        eps_ppl([np.nan], vocab_size=3, eps=0.1)
    with pytest.raises(SpecError, match="eps"):
        EpsPPL(eps=0.0)
    with pytest.raises(SpecError, match="grid"):
        EpsPPL(grid=(0.1, -1.0))
