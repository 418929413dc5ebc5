from __future__ import annotations

import statistics

import numpy as np
import pytest
from hypothesis import given, strategies as st

from openended.harness.core.errors import SpecError, UndefinedMetric
from openended.harness.core.metric_spec import Features, Need, Side
from openended.harness.core.resampling import Plan
from openended.harness.run.measure import add_intervals
from openended.metrics.length import Length, length_statistics
from tests.helpers import ragged
from tests.metrics.text_helpers import CORPORA, IDS, computed, published_words, run, stored


def rows_of_lengths(lengths):
    return [[0] * n for n in lengths]


def test_hand_value():
    # lengths 1, 2, 6: mean 3, squared deviations 4 + 1 + 9 = 14 over 3, median 2; two of three hit the limit
    result = run(Length(), rows_of_lengths([1, 2, 6]), stops=np.array([True, False, True]))
    assert result.values == {
        "length": pytest.approx(3),
        "length_sd": pytest.approx((14 / 3) ** 0.5),
        "length_median": 2.0,
        "hit_limit": pytest.approx(2 / 3),
    }
    assert result.per_example["length"].tolist() == [1, 2, 6]
    assert result.per_example["hit_limit"].tolist() == [1, 0, 1]


@given(st.lists(st.integers(0, 30), min_size=1, max_size=20))
def test_equals_the_standard_library(lengths):
    values = length_statistics(rows_of_lengths(lengths))
    assert values["length"] == pytest.approx(statistics.fmean(lengths))
    assert values["length_sd"] == pytest.approx(statistics.pstdev(lengths))
    assert values["length_median"] == statistics.median(lengths)


def test_longer_texts_are_longer_and_equal_texts_do_not_spread():
    assert length_statistics(rows_of_lengths([9, 9]))["length_sd"] == 0
    assert length_statistics(["a b c"])["length"] == 3 > length_statistics(["a b"])["length"]


def test_empty_side_is_undefined_and_empty_texts_count_as_zero():
    with pytest.raises(UndefinedMetric, match="no texts"):
        run(Length(), [], stops=np.zeros(0, dtype=bool))
    assert run(Length(), [[], [1, 1]], stops=np.zeros(2, dtype=bool)).values["length"] == 1


def test_needs_and_options():
    assert Length(unit="words").needs() == (Need("tokens", by="words"), Need("stops"))
    with pytest.raises(SpecError, match="unit"):
        Length(unit="letters")


@pytest.mark.reference
@pytest.mark.parametrize(("file", "field"), CORPORA, ids=IDS)
def test_published_generations(file, field):
    mean = length_statistics(published_words(file, field))["length"]
    assert mean == pytest.approx(computed(file, field)["mean_words"], rel=1e-14)
    if field == "generation":
        assert mean == pytest.approx(stored(file)["gen_length_words"], rel=1e-14)


def test_the_share_of_texts_at_the_limit_has_an_interval_without_any_such_text():
    """No text of 40: Wilson's interval; the constant length has none, and a note says so."""
    metric, plan = Length(unit="words"), Plan(40)
    tokens, stops = metric.needs()
    ids = tuple(f"t/{i:02d}" for i in range(40))
    side = Side("model", ids, {tokens: ragged([[1, 2, 3]] * 40), stops: np.zeros(40, dtype=bool)})
    given_ = Features(side, side, {"n": "40"})
    made = add_intervals(metric, given_, metric.compute(given_), plan)
    assert made.intervals["hit_limit"]["method"] == "wilson"
    assert made.intervals["hit_limit"]["low"] == 0.0
    assert made.intervals["hit_limit"]["high"] == pytest.approx(3.8415 / 43.8415, abs=1e-4)  # z^2 / (n + z^2)
    assert set(made.intervals) == {"hit_limit"}
    assert made.notes[-1] == "no interval of length, length_sd, length_median: no variation seen"
