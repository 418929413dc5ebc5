import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from openended.harness.core.errors import UndefinedMetric
from openended.metrics.rouge_l import RougeL, rouge_l
from tests.metrics.within_helpers import check_rows, run, sizes_of, tokens
from tests.oracles import diversity as oracle

TEXT = st.lists(st.integers(0, 4), max_size=90)


def test_hand_value():
    """a b c d and a c x d share a c d: 2 · 3 / 8; with e f nothing: the mean of 0.75, 0, 0."""
    assert rouge_l(["a b c d", "a c x d"], ["p", "p"]) == pytest.approx(0.75)
    assert rouge_l(["a b c d", "a c x d", "e f"], ["p", "p", "p"]) == pytest.approx(0.25)


@settings(max_examples=60, deadline=None)
@given(TEXT, TEXT)
def test_the_common_length_is_exact(a, b):
    expected = oracle.rouge_l([a, b])
    assert rouge_l([a, b], ["p", "p"]) == pytest.approx(expected, abs=1e-12)
    assert rouge_l([b, a], ["p", "p"]) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_agrees_with_pair_after_pair(seed):
    ids = sizes_of(seed)
    rows = tokens(len(ids), seed)
    assert rouge_l(rows, ids) == pytest.approx(oracle.over_prompts(oracle.rouge_l, rows, ids))


def test_agrees_with_the_table_on_long_texts():
    g = np.random.default_rng(0)
    rows = [g.integers(0, 60, 300).tolist() for _ in range(3)]
    assert rouge_l(rows, ["p"] * 3) == pytest.approx(oracle.rouge_l(rows))


def test_meaning():
    text = list(range(30))
    assert rouge_l([text, text], ["p", "p"]) == 1
    assert rouge_l([text, text[::-1]], ["p", "p"]) == pytest.approx(1 / 30)
    assert rouge_l([text, [99] * 30], ["p", "p"]) == 0


def test_edges():
    with pytest.raises(UndefinedMetric, match="samples=2"):
        rouge_l([[1], [2]], ["a", "b"])
    assert rouge_l([[], []], ["p", "p"]) == 1
    assert rouge_l([[], [1]], ["p", "p"]) == 0


def test_the_metric_cuts_to_one_length_and_leaves_short_texts_out():
    ids = ["a", "a", "a", "b", "b", "c", "c"]
    rows = [[1, 2, 3, 4], [1, 2, 9, 9], [1], [5, 6, 7, 8], [5], [1, 2, 3, 3], [3, 2, 1, 1]]
    result = run(RougeL(fixed_tokens=3), ids, {"tokens": rows})
    assert result.values["rouge_l"] == pytest.approx((2 / 3 + 1 / 3) / 2)  # a: 1 2 of 1 2 3; c: one of 1 2 3 and 3 2 1
    assert np.isnan(result.per_example["rouge_l"]).tolist() == [False, False, True, True, True, False, False]
    check_rows(result, "rouge_l")
    assert any("shorter than 3" in note for note in result.notes)
    assert any("1 of 3 prompts" in note for note in result.notes)
