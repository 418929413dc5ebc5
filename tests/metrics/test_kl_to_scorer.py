from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from openended.harness.core.errors import UndefinedMetric
from openended.metrics.kl_to_scorer import KLToScorer, kl_per_token
from tests.helpers import ragged
from tests.metrics.text_helpers import run

ROWS = st.lists(st.lists(st.floats(0, 20), min_size=1, max_size=5), min_size=1, max_size=5)


def test_hand_value():
    # NLL 1 + 2 + 3 = 6 nats, log Q -1.5 twice: (6 - 3) / 3 tokens
    assert kl_per_token([[1.0, 2.0], [3.0]], log_prob=[-1.5, -1.5]) == 1.0


@given(ROWS)
def test_equals_the_slow_version(rows):
    log_prob = [-0.5 * len(row) for row in rows]
    want = math.fsum(x for row in rows for x in row) + math.fsum(log_prob)
    assert kl_per_token(rows, log_prob=log_prob) == pytest.approx(want / sum(map(len, rows)), rel=1e-9, abs=1e-12)


def test_zero_where_the_sampler_is_the_scorer_and_the_divergence_where_it_is_not():
    assert kl_per_token([[1.0, 0.5]], log_prob=[-1.5]) == 0.0
    rng = np.random.default_rng(0)
    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.8, 0.15, 0.05])
    tokens = rng.choice(3, size=(2000, 10), p=q)
    got = kl_per_token(list(-np.log(p[tokens])), log_prob=np.log(q[tokens]).sum(axis=1))
    # 20,000 tokens know the mean of log q / p (standard deviation about 0.5) to 0.004
    assert got == pytest.approx(float((q * np.log(q / p)).sum()), abs=0.015)


def test_metric_and_texts_without_log_q():
    nll = ragged([[1.0, 2.0], [3.0]], np.float64)
    result = run(KLToScorer(), [[1, 2], [3]], token_nll=nll, log_prob=np.array([-1.5, -1.5]))
    assert result.values == {"kl_per_token": 1.0}
    with pytest.raises(UndefinedMetric, match="without log Q"):
        run(KLToScorer(), [[1, 2], [3]], token_nll=nll, log_prob=np.array([-1.5, np.nan]))
    with pytest.raises(UndefinedMetric, match="bos=true"):
        run(KLToScorer(), [[1, 2], [3, 4]], token_nll=nll, log_prob=np.array([-1.5, -1.5]))
    with pytest.raises(ValueError, match="one a text"):
        kl_per_token([[1.0]], log_prob=[1.0, 2.0])
    with pytest.raises(UndefinedMetric, match="no token"):
        kl_per_token([[]], log_prob=[0.0])
