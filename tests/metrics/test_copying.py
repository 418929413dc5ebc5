from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from openended.harness.core.errors import SpecError, UndefinedMetric
from openended.metrics.copying import Copying, auth_pct, copying_z
from tests.helpers import features
from tests.oracles.copying import slow_auth_pct, slow_mann_whitney_z


def normal(n, d=3, seed=0, shift=0.0):
    return np.random.default_rng(seed).normal(size=(n, d)) + shift


def test_hand_value():
    """Human 0, 1, 5. 0.1: nearest 0, whose neighbor is 1 away: copy. 7: 2 from 5, whose neighbor is 4 away: copy. 30: 25
    from 5: authentic. -4: 4 from 0: authentic. 2 of 4."""
    assert auth_pct(human=np.array([[0.0], [1.0], [5.0]]), model=np.array([[0.1], [7.0], [30.0], [-4.0]])) == 50.0


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 9999), st.integers(2, 20), st.integers(1, 15))
def test_authenticity_agrees_with_loops(seed, n, m):
    human, model = normal(n, seed=seed), normal(m, seed=seed + 1, shift=0.5)
    assert auth_pct(human=human, model=model) == pytest.approx(slow_auth_pct(human, model))


def test_z_in_one_cell_agrees_with_pairs():
    train, test, model = normal(30), normal(20, seed=1), normal(25, seed=2, shift=0.3)
    distances = [np.linalg.norm(side[:, None] - train[None], axis=2).min(axis=1) for side in (test, model)]
    value = copying_z(train=train, test=test, model=model, cells=1)
    assert value == pytest.approx(slow_mann_whitney_z(*distances), abs=1e-9)


def test_copies_are_seen_and_other_human_texts_are_not_copies():
    human = normal(200).astype("f4")
    metric = Copying()

    def values(model):
        return metric.compute(features(metric, human=human, model=model.astype("f4"), n_human=200, n_model=200)).values

    copied, alike, far = values(human + 1e-3), values(normal(200, seed=1)), values(normal(200, seed=1, shift=5))
    assert copied["auth_pct"] == 0.0
    assert far["auth_pct"] > alike["auth_pct"] > 30
    assert copied["c_t"] < -3.5
    assert abs(alike["c_t"]) < 2.5
    assert "c_t" not in far or far["c_t"] > 3


def test_edges():
    with pytest.raises(UndefinedMetric):
        auth_pct(human=normal(1), model=normal(5))
    with pytest.raises(UndefinedMetric, match="cell"):
        copying_z(train=normal(9), test=normal(3), model=normal(9))
    with pytest.raises(ValueError, match="finite"):
        auth_pct(human=normal(5), model=np.full((2, 3), np.nan))
    assert auth_pct(human=np.ones((5, 2)), model=np.ones((5, 2))) == 0.0
    with pytest.raises(SpecError, match="cells"):
        Copying(cells=0)
