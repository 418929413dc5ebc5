from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from openended.harness.core.errors import SpecError, UndefinedMetric
from openended.metrics.zipf import Zipf, top_frequencies, zipf_coefficient
from tests.metrics.text_helpers import CORPORA, IDS, TEXTS, computed, run, streams
from tests.oracles import text_statistics as slow


def corpus(frequencies):
    return [[token] * count for token, count in enumerate(frequencies)]


def test_hand_value():
    # frequencies 4 and 2: slope (log 2 - log 4) / (log 2 - log 1) = -1
    assert zipf_coefficient([[1, 1, 1, 1, 2, 2]]) == pytest.approx(1.0)
    # frequencies 64, 16, 4 at ranks 1, 2, 3, thinned: the last rank is not used: (log 16 - log 64) over the rounded
    # log 2, which is round(15 * 0.6931) / 15 = 10 / 15
    assert zipf_coefficient(corpus([64, 16, 4]), definition="log_thinned") == pytest.approx(math.log(4) / (10 / 15))


@given(st.lists(st.lists(st.integers(0, 30), max_size=40), min_size=1, max_size=5), st.sampled_from([2, 3, 7, 5000]))
@settings(max_examples=80, deadline=None)
def test_equals_the_slow_version(texts, max_rank):
    for definition in ("degen", "log_thinned"):
        want = slow.zipf(texts, definition, max_rank)
        if math.isnan(want):
            with pytest.raises(UndefinedMetric):
                zipf_coefficient(texts, definition=definition, max_rank=max_rank)
        else:
            got = zipf_coefficient(texts, definition=definition, max_rank=max_rank)
            assert got == pytest.approx(want, abs=1e-9)


def test_recovers_the_exponent_of_a_power_law_and_grows_with_it():
    ranks = np.arange(1, 301)
    values = []
    for exponent in (0.8, 1.0, 1.2):
        frequencies = np.rint(1e4 * ranks**-exponent).astype(int)
        for definition in ("degen", "log_thinned"):
            value = zipf_coefficient(corpus(frequencies), definition=definition)
            assert value == pytest.approx(exponent, abs=0.03)  # frequencies are rounded to integers
        values.append(value)
    assert values == sorted(values)


def test_equal_frequencies_give_zero_and_the_tail_is_cut():
    assert zipf_coefficient([[1, 2, 3, 4]]) == 0.0
    assert zipf_coefficient(corpus([8, 4, 1, 1, 1]), max_rank=2) == pytest.approx(1.0)
    assert top_frequencies(np.array([1, 0, 5, 3, 5]), 3).tolist() == [5, 5, 3]


@pytest.mark.parametrize("texts", [[], [[]], [[7, 7, 7]]])
def test_a_line_needs_two_ranks(texts):
    with pytest.raises(UndefinedMetric, match="two ranks"):
        zipf_coefficient(texts)


def test_wrong_arguments():
    with pytest.raises(ValueError, match="max_rank"):
        zipf_coefficient([[1, 2]], max_rank=1)
    with pytest.raises(ValueError, match="definition"):
        zipf_coefficient([[1, 2]], definition="other")
    for options in ({"max_rank": 1}, {"definition": "other"}):
        with pytest.raises(SpecError, match="zipf"):
            Zipf(**options)


@given(TEXTS)
@settings(max_examples=20, deadline=None)
def test_metric_equals_the_function_and_keeps_the_points(texts):
    try:
        want = zipf_coefficient(texts)
    except UndefinedMetric:
        with pytest.raises(UndefinedMetric):
            run(Zipf(), texts)
        return
    result = run(Zipf(), texts)
    assert result.values == {"zipf": want}
    x, y = result.arrays["log_rank"], result.arrays["log_frequency"]
    assert -np.polyfit(x, y, 1)[0] == pytest.approx(want, abs=1e-9)


@pytest.mark.reference
@pytest.mark.parametrize(("file", "field"), CORPORA, ids=IDS)
def test_published_generations(file, field):
    want = computed(file, field)
    for name, texts in streams(file, field):
        # sums of 5,000 logarithms in another order
        assert zipf_coefficient(texts) == pytest.approx(want[name]["zipf_plain"], rel=1e-11)
        thinned = zipf_coefficient(texts, definition="log_thinned")
        assert thinned == pytest.approx(want[name]["zipf_thinned"], rel=1e-11)
        assert len({token for text in texts for token in text}) == want[name]["vocab"]
