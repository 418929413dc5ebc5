from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from openended.harness.core.errors import SpecError, UndefinedMetric
from openended.metrics.gradient_moment import GradientMoment, gradient_moment
from tests.helpers import features
from tests.oracles.distributional import slow_gradient_moment


def normal(n, d=5, seed=0, shift=0.0):
    return np.random.default_rng(seed).normal(size=(n, d)) + shift


def test_hand_value():
    """Human 1, 3: pairs of different texts 1 * 3 = 3; model 0, 0: 0; across 0. The plug-in value would be 2^2 = 4."""
    assert gradient_moment(human=np.array([[1.0], [3.0]]), model=np.array([[0.0], [0.0]])) == 3.0


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 9999), st.integers(2, 9), st.integers(2, 9))
def test_agrees_with_norms_less_their_bias(seed, n, m):
    human, model = normal(n, seed=seed), normal(m, seed=seed + 1, shift=0.5)
    want = slow_gradient_moment(human, model)
    assert gradient_moment(human=human, model=model) == pytest.approx(want, rel=1e-9, abs=1e-9)


def test_two_human_halves_are_zero_on_average_and_a_shift_is_seen():
    values = [gradient_moment(human=normal(40, seed=2 * i), model=normal(40, seed=2 * i + 1)) for i in range(60)]
    assert abs(np.mean(values)) < 3 * np.std(values) / np.sqrt(60)
    assert min(values) < 0
    # every one of the 5 numbers shifted by 1: 5, less noise
    assert gradient_moment(human=normal(500), model=normal(500, seed=1, shift=1.0)) == pytest.approx(5.0, rel=0.1)


def test_p_value():
    metric = GradientMoment(permutations=99)
    given = features(
        metric, human=normal(30).astype("f4"), model=normal(30, seed=1, shift=2).astype("f4"), n_human=30, n_model=30
    )
    assert metric.compute(given).values["p_value"] == 0.01


def test_edges():
    with pytest.raises(UndefinedMetric):
        gradient_moment(human=normal(1), model=normal(5))
    with pytest.raises(ValueError, match="finite"):
        gradient_moment(human=normal(5), model=np.full((3, 5), np.nan))
    with pytest.raises(SpecError, match="size"):
        GradientMoment(size=4)
