import tracemalloc
from collections import Counter

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

from openended.harness.core.types import Ragged
from openended.metrics._ngrams import index as ngram_index
from openended.metrics._ngrams.index import NgramIndex, index_of, join_rows, pack_rows, select_rows, trim_rows
from tests.helpers import ragged
from tests.oracles import text_statistics as slow

TEXTS = st.lists(st.lists(st.integers(0, 3), max_size=14), max_size=7)


def check(texts, orders=range(1, 6)):
    index = index_of(texts)
    for n in orders:
        counts, level, runs = slow.pooled(texts, n), index.level(n), index.runs(n)
        assert (level.total, level.types) == (sum(counts.values()), len(counts))
        assert level.hapaxes == sum(c == 1 for c in counts.values())
        assert sorted(level.counts) == sorted(c for c in counts.values() if c > 1)
        own = [Counter(slow.grams(text, n)) for text in texts]
        assert index.repeats(n).tolist() == [sum(c.values()) - len(c) for c in own]
        expected = sorted((i, c) for i, text in enumerate(own) for g, c in text.items() if counts[g] > 1)
        assert sorted(zip(runs.text.tolist(), runs.count.tolist(), strict=True)) == expected
        assert index.sizes(n).tolist() == [len(slow.grams(text, n)) for text in texts]


@given(TEXTS)
@example([])
@example([[], []])
@settings(max_examples=150, deadline=None)
def test_counts_equal_those_of_dictionaries(texts):
    check(texts)


@given(TEXTS)
@settings(max_examples=60, deadline=None)
def test_block_borders_do_not_matter(texts):
    # one group a block and three places a chunk: every border case of the blocked sorts
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ngram_index, "CHUNK", 4)
        patch.setattr(ngram_index, "_KEY_BITS", 8)
        check(texts)


def test_positions_of_a_hand_made_text():
    # padded: 0 [7 8 7 8] 0 [7 8] 0, so texts start at places 1 and 6; "7 8" stands at 1, 3, 6; "8 7" once
    index = index_of([[7, 8, 7, 8], [7, 8]])
    level = index.level(2)
    assert level.positions.tolist() == [1, 3, 6]
    assert (level.total, level.types, level.hapaxes) == (4, 2, 1)
    runs = index.runs(2)
    assert (runs.text.tolist(), runs.count.tolist(), runs.first.tolist()) == ([0, 1], [2, 1], [0])


def test_large_sparse_and_negative_ids_are_kept_apart():
    big = 2**62
    index = index_of([[big, big - 1, -5], [big, -5, big - 1]])
    assert index.level(1).types == 3
    assert index.level(2).types == 4


def test_strings_words_and_integers_give_the_same_statistics():
    by_word = index_of(["a b a", "b"])
    by_list = index_of([["a", "b", "a"], ["b"]])
    by_id = index_of([np.array([4, 9, 4]), [9]])
    for index in (by_list, by_id):
        assert index.tokens.tolist() == by_word.tokens.tolist() or index.level(2).types == by_word.level(2).types
        assert index.lengths.tolist() == [3, 1]
        assert sorted(index.frequencies[index.frequencies > 0]) == [2, 2]

    assert index_of([[1, "1"], ["1", 1]]).level(1).types == 2
    assert index_of(by_id) is by_id


@pytest.mark.parametrize("wrong", ["one string", [[1.5]], ragged([[1.5]], np.float64), [3], [[[1], [2]]]])
def test_wrong_inputs_are_refused(wrong):
    if wrong == [[1.5]]:
        assert pack_rows(wrong).values.tolist() == [0]  # a float is hashable: a token like any other
        return
    with pytest.raises(TypeError):
        index_of(wrong)
    with pytest.raises(ValueError, match="order of at least 1"):
        index_of([[1]]).level(0)


def test_rows_can_be_cut_selected_and_joined():
    rows = ragged([[1, 2, 3], [], [4], [5, 6]])
    assert [r.tolist() for r in trim_rows(rows, np.array([2, 0, 1, 0]))] == [[1, 2], [], [4], []]
    assert [r.tolist() for r in select_rows(rows, np.array([True, True, False, True]))] == [[1, 2, 3], [], [5, 6]]
    assert [r.tolist() for r in join_rows(rows)] == [[1, 2, 3, 4, 5, 6]]
    assert trim_rows(rows, rows.lengths) is rows
    # a view into a longer array is read from its first offset
    view = Ragged(np.array([9, 9, 1, 2, 1, 2]), np.array([2, 4, 6]))
    assert index_of(view).level(2).counts.tolist() == [2]


def test_memory_stays_a_small_multiple_of_the_tokens():
    rng = np.random.default_rng(0)
    rows = Ragged(rng.zipf(1.3, 400_000).clip(max=30_000), np.arange(0, 400_001, 100))
    tracemalloc.start()
    index = NgramIndex(rows)
    for order in (1, 2, 3, 4):
        index.repeats(order)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # 110 bytes a token here, where one block holds the whole corpus; blocks bound it for larger ones
    assert peak < 400_000 * 160


def test_ids_beyond_int64_do_not_wrap():
    """2^64 - 1 is -1 where it wraps: two tokens would be one."""
    high = np.array([2**64 - 1, 2**63], dtype=np.uint64)
    assert NgramIndex(pack_rows([high, np.array([-1, -(2**63)])])).level(1).types == 4
    assert NgramIndex(pack_rows([high, high])).level(1).types == 2
    packed = Ragged(np.array([2**63, 2**63 + 1, 2**63], dtype=np.uint64), np.array([0, 3]))
    assert NgramIndex(packed).level(1).types == 2


@pytest.mark.parametrize("chunk", [1 << 4, 1 << 20])
def test_blocks_of_runs_are_the_runs_however_they_are_cut(chunk, monkeypatch):

    monkeypatch.setattr(ngram_index, "CHUNK", chunk)
    rng = np.random.default_rng(3)
    rows = Ragged.from_rows((rng.integers(0, 5, n) for n in rng.integers(0, 30, 40)), np.int64)
    for order in (1, 2, 3):
        parts = list(ngram_index.NgramIndex(rows).run_blocks(order))
        runs = ngram_index.NgramIndex(rows).runs(order)
        assert (len(parts) == 1) == (chunk > 16), "a small corpus is one block"
        for name in ("text", "count"):
            assert np.array_equal(np.concatenate([getattr(part, name) for part in parts]), getattr(runs, name))
        before = np.cumsum([0, *(len(part.text) for part in parts)])
        assert np.array_equal(np.concatenate([part.first + n for part, n in zip(parts, before)]), runs.first)
        groups = np.cumsum([0, *(len(part.first) for part in parts)])
        assert np.array_equal(np.concatenate([part.group + n for part, n in zip(parts, groups)]), runs.group)


@pytest.mark.parametrize("chunk", [1 << 4, 1 << 20])
def test_no_statistic_depends_on_how_runs_are_cut(chunk, monkeypatch):
    from openended.metrics._ngrams.statistics import self_repetition_by_text
    from openended.metrics.self_bleu import bleu_by_text

    rng = np.random.default_rng(4)
    rows = Ragged.from_rows((rng.integers(0, 5, n) for n in rng.integers(0, 30, 40)), np.int64)
    whole = ngram_index.NgramIndex(rows)
    want = [bleu_by_text(whole, 4), bleu_by_text(whole, 4, num_references=9), self_repetition_by_text(whole, 2)]
    monkeypatch.setattr(ngram_index, "CHUNK", chunk)
    cut = ngram_index.NgramIndex(rows)
    made = [bleu_by_text(cut, 4), bleu_by_text(cut, 4, num_references=9), self_repetition_by_text(cut, 2)]
    for one, other in zip(made, want, strict=True):
        assert np.array_equal(one, other)
