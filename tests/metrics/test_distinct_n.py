from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings

from openended.harness.core.errors import SpecError, UndefinedMetric
from openended.metrics._ngrams.index import index_of
from openended.metrics.distinct_n import DistinctN, distinct_n
from tests.metrics.text_helpers import CORPORA, IDS, TEXTS, computed, run, streams
from tests.oracles import text_statistics as slow

VARIANTS = ("corpus", "li", "hapax", "per_doc", "simctg", "ngd")


@pytest.mark.parametrize(
    ("variant", "value"),
    [
        # texts "a b a b" and "a b c": bigrams ab ba ab | ab bc; types ab ba bc = 3 of 5
        ("corpus", 3 / 5),
        ("li", 3 / 7),  # the same types over 7 tokens
        ("hapax", 2 / 5),  # ba and bc occur once
        ("per_doc", (2 / 3 + 2 / 2) / 2),
        # without each last token: "a b a" (ab ba: 2 of 2) and "a b" (1 of 1): no repeat
        ("simctg", 1.0),
        # "a b a b a b c": ab ba ab ba ab bc: 3 of 6
        ("ngd", 3 / 6),
    ],
)
def test_hand_value(variant, value):
    texts = [["a", "b", "a", "b"], ["a", "b", "c"]]
    assert distinct_n(texts, orders=(2,), variant=variant) == {2: pytest.approx(value, abs=1e-15)}


@given(TEXTS)
@settings(max_examples=30, deadline=None)
def test_equals_the_slow_version(texts):
    for variant in VARIANTS:
        for n in (1, 2, 3, 5):
            want = slow.distinct(texts, n, variant)
            if math.isnan(want):
                with pytest.raises(UndefinedMetric):
                    distinct_n(texts, orders=(n,), variant=variant)
            else:
                assert distinct_n(texts, orders=(n,), variant=variant)[n] == pytest.approx(want, abs=1e-12)


def test_more_repetition_lowers_every_variant():
    rng = np.random.default_rng(0)
    varied = rng.integers(0, 1000, (20, 50))
    dull = rng.integers(0, 5, (20, 50))
    for variant in VARIANTS:
        assert distinct_n(dull, orders=(2,), variant=variant)[2] < distinct_n(varied, orders=(2,), variant=variant)[2]


def test_all_different_is_one_and_all_the_same_is_nearly_nothing():
    assert distinct_n([[1, 2, 3, 4]], orders=(1, 2)) == {1: 1.0, 2: 1.0}
    assert distinct_n([[5] * 100], orders=(1,)) == {1: 0.01}


def test_default_orders_are_one_to_six_and_long_orders_have_no_value():
    values = distinct_n([[1, 2, 3]])
    assert list(values) == [1, 2, 3, 4, 5, 6]
    assert [math.isnan(v) for v in values.values()] == [False] * 3 + [True] * 3


@pytest.mark.parametrize("texts", [[], [[]], [[], []]])
def test_nothing_to_count_is_undefined(texts):
    with pytest.raises(UndefinedMetric):
        distinct_n(texts)


def test_an_index_serves_where_the_texts_are_not_reshaped():
    index = index_of([[1, 2, 1, 2]])
    assert distinct_n(index, orders=(2,)) == {2: 2 / 3}
    with pytest.raises(TypeError, match="texts themselves"):
        distinct_n(index, variant="ngd")


def test_metric_names_its_values_and_what_it_left_out():
    result = run(DistinctN(orders=(1, 2, 4), fixed_tokens=3), [[1, 2, 1, 9], [3, 3], [], [5, 5, 5]])
    # cut to 3 tokens: "1 2 1" and "5 5 5": 3 types of 6 tokens, bigrams 12 21 55 55: 3 of 4
    assert result.values["distinct_1"] == pytest.approx(3 / 6)
    assert result.values["distinct_2"] == pytest.approx(3 / 4)
    assert math.isnan(result.values["distinct_4"])
    assert result.primary == "distinct_2"
    assert result.notes == (
        "2 of 4 texts are shorter than 3 tokens and left out",
        "no value for distinct_4: all texts are shorter",
    )


def test_per_doc_gives_per_example_values():
    result = run(DistinctN(orders=(2,), variant="per_doc"), [[1, 1, 1], [], [1, 2]])
    assert result.per_example["distinct_2"].tolist() == pytest.approx([0.5, math.nan, 1.0], nan_ok=True)
    assert result.values["distinct_2"] == pytest.approx(0.75)
    assert result.notes == ("1 of 3 texts are empty",)


def test_ngd_sums_the_orders():
    result = run(DistinctN(orders=(1, 2), variant="ngd"), [[1, 2, 1], [2]])
    # joined "1 2 1 2": 2 of 4 and 12 21 12: 2 of 3
    assert (result.primary, result.values["ngram_diversity"]) == ("ngram_diversity", pytest.approx(2 / 4 + 2 / 3))


def test_all_variants_run_as_metrics():
    rows = [[1, 2, 3, 1, 2], [4, 1, 2]]
    for variant in VARIANTS:
        assert run(DistinctN(orders=(2,), variant=variant), rows).values["distinct_2"] == pytest.approx(
            slow.distinct(rows, 2, variant)
        )


def test_undefined_metric_and_wrong_options():
    with pytest.raises(UndefinedMetric, match="no texts"):
        run(DistinctN(), [])
    with pytest.raises(UndefinedMetric, match="3 tokens and left out"):
        run(DistinctN(fixed_tokens=3), [[1]])
    with pytest.raises(UndefinedMetric, match="shorter"):
        run(DistinctN(), [[], []])
    for options in ({"orders": ()}, {"orders": (0,)}, {"orders": (2, 2)}, {"fixed_tokens": 0}, {"variant": "x"}):
        with pytest.raises(SpecError, match="distinct_n"):
            DistinctN(**options)


@pytest.mark.reference
@pytest.mark.parametrize(("file", "field"), CORPORA, ids=IDS)
def test_published_generations(file, field):
    want = computed(file, field)
    for name, texts in streams(file, field):
        assert sum(map(len, texts)) == want[name]["n_tokens"]
        index = index_of(texts)
        for order, value in want[name]["distinct"].items():
            assert distinct_n(index, orders=(int(order),))[int(order)] == pytest.approx(value, rel=1e-15)
        for order, value in want[name]["hapax_fraction"].items():
            assert distinct_n(index, orders=(int(order),), variant="hapax")[int(order)] == pytest.approx(
                value, rel=1e-15
            )
        if name == "words":
            made = distinct_n(texts, orders=(2, 3, 4), variant="simctg")
            assert {str(n): round(100 * (1 - share), 2) for n, share in made.items()} == want["rep_pct_simctg"]
