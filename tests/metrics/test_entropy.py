from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings

from openended.harness.core.errors import SpecError, UndefinedMetric
from openended.metrics.entropy import Entropy, ngram_entropy
from tests.metrics.text_helpers import TEXTS, run
from tests.oracles import text_statistics as slow


def test_hand_value():
    # tokens 1 1 1 1 2: shares 4/5 and 1/5; bigrams 11 11 12: shares 2/3 and 1/3
    texts = [[1, 1, 1], [1, 2]]
    four_fifths = -(4 / 5 * math.log(4 / 5) + 1 / 5 * math.log(1 / 5))
    two_thirds = -(2 / 3 * math.log(2 / 3) + 1 / 3 * math.log(1 / 3))
    assert ngram_entropy(texts, orders=(1, 2)) == {1: pytest.approx(four_fifths), 2: pytest.approx(two_thirds)}
    # inside the texts: 0 and log 2; bigrams: 0 and 0
    by_text = ngram_entropy(texts, orders=(1, 2), average="texts")
    assert by_text == {1: pytest.approx(math.log(2) / 2), 2: 0.0}


@given(TEXTS)
@settings(max_examples=80, deadline=None)
def test_equals_the_slow_version(texts):
    for n in (1, 2, 3):
        want, want_text = slow.entropy(slow.pooled(texts, n)), slow.text_entropy(texts, n)
        if math.isnan(want):
            with pytest.raises(UndefinedMetric):
                ngram_entropy(texts, orders=(n,))
            continue
        assert ngram_entropy(texts, orders=(n,))[n] == pytest.approx(want, abs=1e-12)
        assert ngram_entropy(texts, orders=(n,), average="texts")[n] == pytest.approx(want_text, abs=1e-12)


def test_uniform_use_is_the_largest_and_one_token_the_smallest():
    assert ngram_entropy([list(range(64))])[1] == pytest.approx(math.log(64))
    assert ngram_entropy([[3] * 9])[1] == 0.0
    rng = np.random.default_rng(0)
    values = [ngram_entropy(rng.integers(0, size, (10, 200)))[1] for size in (2, 20, 200)]
    assert values == sorted(values)


def test_nothing_to_count_is_undefined_and_long_orders_have_no_value():
    for texts in ([], [[]]):
        with pytest.raises(UndefinedMetric):
            ngram_entropy(texts)
    values = ngram_entropy([[1, 2]], orders=(1, 3))
    assert values[1] == pytest.approx(math.log(2))
    assert math.isnan(values[3])


def test_metric_in_nats_and_bits():
    rows = [[1, 2, 3, 4], [], [5, 5]]
    result = run(Entropy(orders=(1, 4)), rows)
    assert result.primary == "text_entropy_1"
    assert result.values["text_entropy_1"] == pytest.approx(math.log(4) / 2)
    assert np.isnan(result.per_example["text_entropy_1"][1])
    assert result.values["entropy_4"] == 0.0
    assert result.notes == ("1 of 3 texts are empty",)
    bits = run(Entropy(orders=(1, 4), measured_in="bits"), rows)
    assert bits.values["text_entropy_1"] == pytest.approx(1.0)


def test_metric_undefined_and_wrong_options():
    for rows in ([], [[], []]):
        with pytest.raises(UndefinedMetric):
            run(Entropy(), rows)
    for options in ({"orders": ()}, {"measured_in": "hartleys"}):
        with pytest.raises(SpecError, match="entropy"):
            Entropy(**options)
