from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from openended.harness.core.errors import UndefinedMetric
from openended.metrics.face import FREQUENCIES, Face, _compute_spectra, face
from tests.helpers import features, ragged
from tests.oracles.copying import slow_spectrum


def losses(n, length=40, seed=0):
    return list(np.random.default_rng(seed).gamma(2.0, 1.5, (n, length)))


def test_hand_value():
    """Twice the losses is twice the spectrum: overlap 1/2; shares, ranks and correlation are equal."""
    result = face(human_nll=[[1.0, 2.0, 3.0, 4.0]], model_nll=[[2.0, 4.0, 6.0, 8.0]])
    assert result.so == 0.5
    assert (result.pearson, result.spearman) == (pytest.approx(1), pytest.approx(1))
    assert (result.emd, result.kl, result.js) == (pytest.approx(0, abs=1e-12),) * 3
    # Losses 1, 3: at frequency 0 their sum 4, at 1/2 their difference 2, a straight line between.
    spectrum = _compute_spectra([[1.0, 3.0]], standardize=False)[0][0]
    assert spectrum == pytest.approx(np.linspace(4, 2, FREQUENCIES))


@settings(max_examples=20, deadline=None)
@given(st.lists(st.floats(0, 20), min_size=2, max_size=15))
def test_agrees_with_a_transform_by_hand(row):
    spectrum = _compute_spectra([row], standardize=False)[0][0]
    assert spectrum == pytest.approx(slow_spectrum(row, FREQUENCIES), abs=1e-8)


def test_loops_and_flat_text_differ_from_human_text():
    human = losses(60)
    alike, flat = losses(60, seed=1), [np.full(40, 3.0)] * 60
    loops = [np.tile(row[:4], 10) for row in losses(60, seed=2)]
    values = [face(human_nll=human, model_nll=model) for model in (human, alike, loops, flat)]
    assert values[0].so == 1.0
    assert [v.so for v in values] == sorted((v.so for v in values), reverse=True)
    assert values[1].so > 0.9
    assert values[1].emd < values[2].emd


def test_standardized_texts_ignore_shift_and_scale():
    human = losses(10)
    assert face(human_nll=human, model_nll=[2 * r + 1 for r in human], standardize=True).so == pytest.approx(1.0)
    assert face(human_nll=human, model_nll=[2 * r + 1 for r in human]).so < 0.6


def test_short_texts_are_left_out_and_counted():
    metric = Face()
    given_rows = ragged([*losses(12), [1.0], []], float)
    result = metric.compute(features(metric, human=given_rows, model=given_rows, n_human=14, n_model=14))
    assert result.values["so"] == 1.0
    assert result.notes == ("4 texts with fewer than two scored tokens are left out",)


def test_edges():
    with pytest.raises(UndefinedMetric):
        face(human_nll=[[1.0]], model_nll=[[1.0, 2.0]])
    with pytest.raises(ValueError, match="finite"):
        face(human_nll=[[1.0, np.nan]], model_nll=[[1.0, 2.0]])
    zero = face(human_nll=[[0.0, 0.0]], model_nll=[[0.0, 0.0]])
    assert zero.so == 1.0
    assert np.isnan(zero.pearson)
