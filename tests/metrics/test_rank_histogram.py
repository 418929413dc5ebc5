from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from openended.harness.core.errors import SpecError, UndefinedMetric
from openended.metrics.rank_histogram import RankHistogram, rank_histogram_divergence
from tests.helpers import features, ragged
from tests.oracles.distributional import slow_rank_divergence

RANKS = st.lists(st.integers(1, 60_000), min_size=1, max_size=40)


def test_hand_value():
    """Human rank 1 twice, model rank 2 twice; 28 bins with a half added: 2.5 and 0.5 of 16 against 0.5 and 2.5 of 16.

    chi2 = (2/16)^2 / (2.5/16) + (2/16)^2 / (0.5/16) = 4/16 * (1/2.5 + 1/0.5) = 0.25 * 2.4 = 0.6.
    """
    assert rank_histogram_divergence(human_ranks=[1, 1], model_ranks=[2, 2]) == pytest.approx(0.6)


@settings(max_examples=40, deadline=None)
@given(RANKS, RANKS)
def test_agrees_with_the_slow_version(human, model):
    for divergence in ("chi2", "renyi"):
        got = rank_histogram_divergence(human_ranks=human, model_ranks=model, divergence=divergence)
        assert got == pytest.approx(slow_rank_divergence(human, model, divergence), rel=1e-9, abs=1e-12)


def test_zero_for_equal_histograms_and_large_for_greedy_text():
    human = np.random.default_rng(0).integers(1, 500, 2000)
    assert rank_histogram_divergence(human_ranks=human, model_ranks=human[::-1]) == 0.0
    mild = rank_histogram_divergence(human_ranks=human, model_ranks=np.minimum(human, 50))
    assert 0 < mild < rank_histogram_divergence(human_ranks=human, model_ranks=np.ones(2000, dtype=int))


def test_rows_and_flat_ranks_are_the_same():
    rows = [[1, 5], [30]]
    flat = rank_histogram_divergence(human_ranks=[1, 5, 30], model_ranks=[2])
    assert rank_histogram_divergence(human_ranks=rows, model_ranks=[[2]]) == flat
    assert rank_histogram_divergence(human_ranks=ragged(rows), model_ranks=ragged([[2]])) == flat


def test_metric_and_its_p_value():
    rng = np.random.default_rng(0)
    human = ragged([rng.integers(1, 300, 20) for _ in range(40)])
    greedy = ragged([np.ones(20, dtype=int) for _ in range(40)])
    metric = RankHistogram(permutations=99)
    result = metric.compute(features(metric, human=human, model=greedy, n_human=40, n_model=40))
    assert result.values["p_value"] == 0.01
    assert result.values["rank_histogram"] == pytest.approx(
        rank_histogram_divergence(human_ranks=human, model_ranks=greedy)
    )
    other = ragged([rng.integers(1, 300, 20) for _ in range(40)])
    assert metric.compute(features(metric, human=human, model=other, n_human=40, n_model=40)).values["p_value"] > 0.05


def test_edges():
    with pytest.raises(UndefinedMetric):
        rank_histogram_divergence(human_ranks=[], model_ranks=[1])
    with pytest.raises(ValueError, match="expected 1"):
        rank_histogram_divergence(human_ranks=[0], model_ranks=[1])
    with pytest.raises(ValueError, match="order"):
        rank_histogram_divergence(human_ranks=[1], model_ranks=[1], order=1)
    with pytest.raises(SpecError, match="order"):
        RankHistogram(order=1.0)
