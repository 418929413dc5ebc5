from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from openended.harness.core.errors import SpecError, UndefinedMetric
from openended.metrics.typicality import Typicality, ledoit_wolf, typicality
from tests.helpers import features
from tests.oracles.distributional import slow_typicality


def normal(n, d=3, seed=0, scale=1.0):
    return np.random.default_rng(seed).normal(size=(n, d)) * scale


def test_hand_value():
    """Human -2, -1, 1, 2 around 0; every human value is as far out as model 0 (p = 1), none as 3 (p = 0): 1/2."""
    assert typicality(human=np.array([[-2.0], [-1.0], [1.0], [2.0]]), model=np.array([[0.0], [3.0]])) == 0.5


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 9999), st.integers(5, 30), st.integers(2, 20), st.integers(1, 4))
def test_agrees_with_scikit_learn(seed, n, m, d):
    human, model = normal(n, d, seed), normal(m, d, seed + 1, 1.5)
    covariance = pytest.importorskip("sklearn.covariance").ledoit_wolf(human)[0]
    assert ledoit_wolf(human) == pytest.approx(covariance, rel=1e-9, abs=1e-12)
    assert typicality(human=human, model=model) == pytest.approx(slow_typicality(human, model, covariance), abs=1e-9)


def test_half_for_alike_low_for_outliers_high_for_the_usual():
    assert typicality(human=normal(2000), model=normal(2000, seed=1)) == pytest.approx(0.5, abs=0.03)
    assert typicality(human=normal(500), model=normal(500, seed=1, scale=5)) < 0.1
    assert typicality(human=normal(500), model=normal(500, seed=1, scale=0.1)) > 0.9


def test_p_value():
    metric = Typicality(space="embeddings", permutations=99)

    def p_value(scale):
        model = normal(60, seed=1, scale=scale).astype("f4")
        given = features(metric, human=normal(60).astype("f4"), model=model, n_human=60, n_model=60)
        return metric.compute(given).values["p_value"]

    assert p_value(6.0) == 0.02  # twice 1 of 100
    assert p_value(1.0) > 0.05


def test_edges():
    with pytest.raises(UndefinedMetric):
        typicality(human=normal(1), model=normal(5))
    with pytest.raises(ValueError, match="finite"):
        typicality(human=normal(5), model=np.full((2, 3), np.inf))
    assert typicality(human=np.ones((4, 2)), model=np.ones((4, 2))) == 1.0
    with pytest.raises(SpecError, match="permutations"):
        Typicality(permutations=-1)
