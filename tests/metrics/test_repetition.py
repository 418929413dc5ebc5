from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from openended.harness.core.errors import SpecError, UndefinedMetric
from openended.metrics._ngrams.index import index_of
from openended.metrics.repetition import (
    Repetition,
    diversity,
    ends_in_loop,
    final_repeats,
    loop_rate,
    self_repetition,
    seq_rep_n,
)
from tests.metrics.text_helpers import CORPORA, IDS, TEXTS, computed, published_words, run, stored, streams
from tests.oracles import text_statistics as slow


def looping(phrase, repeats, head=()):
    return [*head, *phrase * repeats]


@pytest.mark.parametrize(
    ("text", "repeats", "phrase", "loop"),
    [
        ([1, 2, 3, 1, 2, 3], 2, 3, True),  # three tokens twice
        ([1, 2, 1, 2, 1, 2], 3, 2, False),  # two tokens need more than 50 repeats
        ([7] * 50, 50, 1, False),  # exactly 50 repeats of one token are not enough
        ([7] * 51, 51, 1, True),
        # "1 1 2" stands twice; no other length repeats: 3 wins with 2
        ([1, 1, 2, 1, 1, 2], 2, 3, True),
        # "1" stands twice at the end, and so does "2 1 1"; the shorter wins the tie and is too short to count
        ([2, 1, 1, 2, 1, 1], 2, 1, False),
        ([1, 2, 3, 4], 1, 1, False),
        ([5], 1, 1, False),
        ([], 0, 0, False),
    ],
)
def test_loop_by_hand(text, repeats, phrase, loop):
    index = index_of([[99, 98], text, [5, 5, 5]])
    found, length = final_repeats(index, 500)
    assert (found[1], length[1]) == (repeats, phrase)
    assert bool(ends_in_loop(index, 500)[1]) is loop


def test_rep_by_hand():
    # "1 1 1 1": bigrams 11 11 11, 1 of 3 different; "1 2 3 1": 12 23 31, 3 of 3
    texts = [[1, 1, 1, 1], [1, 2, 3, 1]]
    assert seq_rep_n(texts, orders=(2,)) == {2: pytest.approx((2 / 3 + 0) / 2)}
    assert seq_rep_n(texts, orders=(2,), average="pooled") == {2: pytest.approx(2 / 6)}
    # trigrams: 1 of 2 and 2 of 2 different; 4-grams: none repeated
    assert diversity(texts) == pytest.approx((1 - 2 / 6) * (1 - 1 / 4) * 1)


def test_simctg_drops_the_last_ngram_and_rounds():
    # "1 1 1 1 2" without its last token: bigrams 1 of 3: 66.67 %; trigrams 1 of 2: 50 %; 4-grams 1 of 1: 0 %
    texts = [[1, 1, 1, 1, 2]]
    assert seq_rep_n(texts, average="simctg") == {2: pytest.approx(0.6667), 3: 0.5, 4: 0.0}
    assert diversity(texts, simctg=True) == pytest.approx((1 - 0.6667) * 0.5)


def test_self_repetition_by_hand():
    # bigrams: {12, 23}, {12}, {}: 12 is in one other text, 23 in none; 12 in one other; nothing
    assert self_repetition([[1, 2, 3], [1, 2], [9]], order=2) == pytest.approx((math.log(2) + math.log(2) + 0) / 3)


@given(st.lists(st.lists(st.integers(0, 1), max_size=24), min_size=1, max_size=8), st.integers(1, 15))
@settings(max_examples=150, deadline=None)
def test_loops_equal_slices(texts, max_phrase):
    found, phrase = final_repeats(index_of(texts), max_phrase)
    assert list(zip(found.tolist(), phrase.tolist(), strict=True)) == [slow.final_loop(t, max_phrase) for t in texts]
    want = [slow.is_loop(t, max_phrase) for t in texts]
    assert loop_rate(texts, max_phrase=max_phrase) == sum(want) / len(want)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=40), st.integers(1, 8), st.integers(0, 5))
@settings(max_examples=60, deadline=None)
def test_long_loops_equal_slices(phrase, repeats, head):
    text = looping(phrase, repeats, range(100, 100 + head))
    for limit in (3, 20, 500):
        found, length = final_repeats(index_of([text, text[:-1], [1]]), limit)
        assert (found[0], length[0]) == slow.final_loop(text, limit)
        assert (found[1], length[1]) == slow.final_loop(text[:-1], limit)


@given(TEXTS)
@settings(max_examples=80, deadline=None)
def test_rep_equals_the_slow_version(texts):
    for n in (1, 2, 4):
        if math.isnan(slow.seq_rep(texts, n)):
            with pytest.raises(UndefinedMetric):
                seq_rep_n(texts, orders=(n,))
            continue
        assert seq_rep_n(texts, orders=(n,))[n] == pytest.approx(slow.seq_rep(texts, n), abs=1e-12)
        assert seq_rep_n(texts, orders=(n,), average="pooled")[n] == pytest.approx(slow.rep_pooled(texts, n), abs=1e-12)
    assert self_repetition(texts, order=2) == pytest.approx(slow.self_repetition(texts, 2), abs=1e-12)


def test_repeated_text_is_found_and_varied_text_is_not():
    rng = np.random.default_rng(0)
    varied = rng.integers(0, 10_000, (10, 120)).tolist()
    looped = [looping(text[:20], 6) for text in varied]
    assert (loop_rate(varied), loop_rate(looped)) == (0.0, 1.0)
    assert diversity(looped) < 0.05 < 0.95 < diversity(varied) <= 1
    assert self_repetition(varied) == 0.0


def test_long_loops_need_the_long_limit():
    text = looping(list(range(200)), 3)
    assert (loop_rate([text], max_phrase=90), loop_rate([text], max_phrase=500)) == (0.0, 1.0)


def test_a_loop_longer_than_one_window_is_followed_to_its_start():
    text = looping([1, 2, 3, 4, 5], 4000, head=[9])
    found, phrase = final_repeats(index_of([text]), 500)
    assert (found[0], phrase[0]) == (4000, 5)


def test_undefined_and_wrong_arguments():
    for function in (loop_rate, seq_rep_n, diversity, self_repetition):
        with pytest.raises(UndefinedMetric):
            function([])
    assert loop_rate([[]]) == 0.0
    with pytest.raises(UndefinedMetric):
        diversity([[1, 2, 3]])
    with pytest.raises(ValueError, match="max_phrase"):
        loop_rate([[1]], max_phrase=0)
    for options in ({"max_phrase": 0}, {"orders": (0,)}, {"self_repetition_order": 0}):
        with pytest.raises(SpecError, match="repetition"):
            Repetition(**options)


def test_metric_gathers_all_values():
    rows = [looping([1, 2, 3], 4), [1, 2, 3, 4, 5], []]
    result = run(Repetition(), rows)
    assert result.values["loop_rate"] == pytest.approx(1 / 3)
    assert result.per_example["loop_rate"].tolist() == [1, 0, 0]
    assert result.values["diversity"] == pytest.approx(diversity(rows))
    assert result.values["rep_2"] == pytest.approx(slow.rep_pooled(rows, 2))
    assert result.values["seq_rep_3"] == pytest.approx(slow.seq_rep(rows, 3))
    assert np.isnan(result.per_example["seq_rep_3"][2])
    assert result.values["self_repetition"] == pytest.approx(slow.self_repetition(rows, 4))
    assert result.notes == ("1 of 3 texts are empty",)
    like_tables = run(Repetition(simctg=True), rows)
    assert like_tables.values["diversity"] == pytest.approx(diversity(rows, simctg=True))


def test_metric_on_texts_too_short_has_loops_but_no_rep():
    result = run(Repetition(), [[1], [2, 3]])
    assert result.values["loop_rate"] == 0
    assert math.isnan(result.values["diversity"])
    assert math.isnan(result.values["seq_rep_4"])
    with pytest.raises(UndefinedMetric):
        run(Repetition(), [])


@pytest.mark.reference
@pytest.mark.parametrize(("file", "field"), CORPORA, ids=IDS)
def test_published_generations(file, field):
    want = computed(file, field)
    words = published_words(file, field)
    assert len(words) == want["n_docs"]
    assert sum(not text for text in words) == want["n_empty"]
    pooled, texts_mean = seq_rep_n(words, average="pooled"), seq_rep_n(words)
    tables = seq_rep_n(words, average="simctg")
    for n in (2, 3, 4):
        assert pooled[n] == pytest.approx(want["rep_pooled_all_ngrams"][str(n)], rel=1e-13)
        assert texts_mean[n] == pytest.approx(want["seq_rep_mean_over_docs"][str(n)], rel=1e-13)
        assert round(100 * tables[n], 2) == want["rep_pct_simctg"][str(n)]
    assert round(100 * diversity(words, simctg=True), 2) == want["diversity_pct_simctg"]
    key = "reference_diversity_pct" if field == "reference" else "diversity_pct"
    assert round(100 * diversity(words, simctg=True), 2) == stored(file)[key]
    for name, texts in streams(file, field):
        for limit in (500, 90):
            assert round(loop_rate(texts, max_phrase=limit) * len(texts)) == want[name][f"loop_count_{limit}"]
        # any phrase that stands at least twice, whatever its length
        halves = sum(any(t[-n:] == t[-2 * n : -n] for n in range(1, min(500, len(t) // 2) + 1)) for t in texts)
        found, _ = final_repeats(index_of(texts), 500)
        assert int((found > 1).sum()) == halves == want[name]["any_final_repeat_count_500"]
