"""Rows that are written in another order than they came in: the bytes of writing them so at once, a few at a time."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from openended.harness.core import Example, Generation, Ragged, spec
from openended.harness.storage import Row, RowFile, rows, write_examples, write_in_order, write_rows
from openended.harness.storage.rows import join_ragged


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(rows, "_CHUNK", 3)


def row(i: int) -> Row:
    thought = "so" if i % 5 == 1 else None
    made = Generation(f"x/{i}", i, f"tëxt {i}", tuple(range(i)), "eos", float(i), thought)
    return Row("p" * (i % 4), tuple(range(i % 3)), made)


def test_the_bytes_are_those_of_rows_written_in_that_order_at_once(tmp_path):
    made = [row(i) for i in range(11)]
    write_rows(tmp_path / "a", made[:7])
    write_rows(tmp_path / "b", made[7:])
    for order in (np.random.default_rng(0).permutation(11), [10, 3, 3], list(range(11)), []):
        assert write_in_order(tmp_path / "made", [tmp_path / "a", tmp_path / "b"], order) == len(order)
        write_rows(tmp_path / "want", [made[i] for i in order])
        assert (tmp_path / "made").read_bytes() == (tmp_path / "want").read_bytes()


def test_examples_are_written_in_a_new_order_too(tmp_path):
    made = [Example(str(i), "p", "h" * i, {"n": i}) for i in range(5)]
    write_examples(tmp_path / "a", made)
    write_in_order(tmp_path / "made", [tmp_path / "a"], [4, 0, 2, 1])
    write_examples(tmp_path / "want", [made[i] for i in (4, 0, 2, 1)])
    assert (tmp_path / "made").read_bytes() == (tmp_path / "want").read_bytes()


def test_rows_are_read_a_few_at_a_time(tmp_path: Path):
    write_rows(tmp_path / "a", (row(i) for i in range(10)))
    assert list(RowFile(tmp_path / "a")) == [row(i) for i in range(10)]


def test_columns_are_read_row_by_row_and_have_one_digest_however_many_are_read_at_once(tmp_path, monkeypatch):
    made = [row(i) for i in range(11)]
    write_rows(tmp_path / "a", made)
    read = RowFile(tmp_path / "a")
    assert list(read.each("text")) == [one.generation.text for one in made] == read.texts
    monkeypatch.setattr(spec, "_DIGEST_BLOCK", 4)
    for columns in ([read.texts, read.prompts], [read.texts, []], [[]], []):
        assert spec.digest_columns(iter(columns)) == spec.digest(columns)


def test_a_row_is_cut_where_it_stopped_at_the_length(tmp_path):
    ends = ("eos", "length", "eos", "length")
    stopped = [replace(row(i), generation=replace(row(i).generation, stop=e)) for i, e in enumerate(ends)]
    write_rows(tmp_path / "a", stopped)
    assert RowFile(tmp_path / "a").stops.tolist() == [False, True, False, True]


rows_of_ints = st.lists(st.lists(st.integers(0, 9), max_size=5), max_size=6)


@given(rows_of_ints, rows_of_ints)
def test_join_ragged_joins_rows(left, right):
    n = min(len(left), len(right))
    joined = join_ragged(Ragged.from_rows(left[:n], np.int32), Ragged.from_rows(right[:n], np.int32))
    assert [row.tolist() for row in joined] == [a + b for a, b in zip(left[:n], right[:n], strict=True)]
