from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from openended.harness.core.errors import SpecError, UndefinedMetric
from openended.metrics._surface import NAMES, surface_features
from openended.metrics.energy_distance import EnergyDistance, energy_distance
from tests.helpers import features
from tests.oracles.distributional import slow_energy_distance

HUMAN = [f"The quick fox number {i} jumped over the lazy dog. Then it slept, because it was tired." for i in range(30)]
LOOPS = ["the the the the the the the the the the the the"] * 30


def normal(n, d=3, seed=0, shift=0.0):
    return np.random.default_rng(seed).normal(size=(n, d)) + shift


def test_hand_value():
    """Human 0, 2, model 1, 1: 2 * mean |x - y| = 2 * 1; within human (0 + 2 + 2 + 0) / 4 = 1, within model 0: 2 - 1 = 1."""
    assert energy_distance(human=np.array([[0.0], [2.0]]), model=np.array([[1.0], [1.0]])) == 1.0


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 9999), st.integers(1, 9), st.integers(1, 9))
def test_agrees_with_pairs(seed, n, m):
    human, model = normal(n, seed=seed), normal(m, seed=seed + 1, shift=0.5)
    # 1e-9: float64 sums in another order
    assert energy_distance(human=human, model=model) == pytest.approx(slow_energy_distance(human, model), abs=1e-9)


def test_zero_for_the_same_texts_and_rises_with_a_shift():
    assert energy_distance(human=normal(20), model=normal(20)) == pytest.approx(0.0, abs=1e-12)
    values = [energy_distance(human=normal(50), model=normal(50, seed=1, shift=s)) for s in (0, 1, 2)]
    assert values == sorted(values)


def test_p_value_is_small_for_other_texts_and_not_for_alike_ones():
    metric = EnergyDistance(permutations=99)
    result = metric.compute(features(metric, human=HUMAN, model=LOOPS, n_human=30, n_model=30))
    assert result.values["p_value"] == 0.01  # 1 of 100: only the observed labels are so far apart
    alike = EnergyDistance(space="embeddings", permutations=99)
    p_values = []
    for seed in range(1, 10):
        sides = {"human": normal(30).astype("f4"), "model": normal(30, seed=seed).astype("f4")}
        given = features(alike, **sides, n_human=30, n_model=30)
        p_values.append(alike.compute(given).values["p_value"])
    assert np.median(p_values) > 0.1
    assert "p_value" not in EnergyDistance(space="embeddings", permutations=0).compute(given).values


def test_edges():
    with pytest.raises(UndefinedMetric):
        energy_distance(human=np.zeros((0, 2)), model=normal(3, 2))
    with pytest.raises(ValueError, match="finite"):
        energy_distance(human=np.full((2, 2), np.nan), model=normal(3, 2))
    with pytest.raises(SpecError, match="permutations"):
        EnergyDistance(permutations=-1)


def test_surface_features_by_hand():
    """ "Cats purr loudly. They sleep." has 5 words in 2 segments of 3 and 2; content words: cats, purr, loudly, sleep."""
    row = dict(zip(NAMES, surface_features(["Cats purr loudly. They sleep."])[0], strict=True))
    assert row["log_words"] == pytest.approx(np.log(6))
    assert (row["segments"], row["segment_length"], row["segment_length_std"]) == (2.0, 2.5, 0.5)
    assert row["content_rate"] == pytest.approx(4 / 5)
    assert row["capitalized_rate"] == pytest.approx(2 / 5)
    assert row["pronoun_rate"] == pytest.approx(1 / 5)
    assert row["pronoun_first"] == pytest.approx(1 / 2)
    assert row["jaccard"] == 0.0
    assert surface_features(["", "one"]).shape == (2, 34)
    marked = dict(zip(NAMES, surface_features(["But it rained, so we left."])[0], strict=True))
    assert marked["marker_rate"] == pytest.approx(2 / 6)
    assert (marked["contrast_rate"], marked["cause_rate"]) == (pytest.approx(1 / 6), pytest.approx(1 / 6))
    assert marked["segments_starting_with_marker"] == 1.0
