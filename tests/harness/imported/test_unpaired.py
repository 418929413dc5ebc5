"""Texts that answer no prompt: all of them, as they stand."""

from __future__ import annotations

import pytest

from openended.harness.core.errors import DataError
from openended.harness.imported.pairing import import_unpaired
from tests.helpers import write_jsonl

NAME = "texts/{:06d}".format


def written(folder, *rows):
    path = folder / "a.jsonl"
    return write_jsonl(path, rows)


def taken(*asked, **options):
    made = import_unpaired(*asked, **options)
    return list(made), made.notes


def test_all_texts_are_taken_whatever_their_ids_say(tmp_path):
    path = written(tmp_path, *({"id": "same", "text": f"t{i}"} for i in range(3)))
    rows, _ = taken(path, NAME, None, None, count=None)
    assert [(r.generation.example_id, r.generation.text) for r in rows] == [(NAME(i), f"t{i}") for i in range(3)]
    rows, _ = taken(path, NAME, None, None, count=2)
    assert len(rows) == 2
    with pytest.raises(DataError, match="holds 3 texts, got num_examples=4; num_examples=all"):
        taken(path, NAME, None, None, count=4)


def test_a_prompt_that_every_text_begins_with_is_cut_off_and_said(tmp_path):
    path = written(tmp_path, {"prompt": "P", "text": "P one"}, {"prompt": "Q", "text": "Q two"})
    rows, notes = taken(path, NAME, None, None, count=None)
    assert [r.generation.text for r in rows] == [" one", " two"]
    assert "every text began with its prompt, which was cut off" in notes


def test_a_file_of_empty_texts_is_refused(tmp_path):
    with pytest.raises(DataError, match="all 2 texts of the file are empty"):
        taken(written(tmp_path, {"text": ""}, {"text": " "}), NAME, None, None, count=None)


def test_a_prompt_counts_only_where_every_text_begins_with_its_own(tmp_path):
    with pytest.raises(DataError, match="all 2 texts of the file are empty"):
        taken(
            written(tmp_path, {"prompt": "P", "text": "P"}, {"prompt": "Q", "text": "Q "}), NAME, None, None, count=None
        )
    rows, _ = taken(written(tmp_path, {"prompt": "P", "text": "P"}, {"text": ""}), NAME, None, None, count=None)
    assert [r.generation.text for r in rows] == ["P", ""]


def test_rows_are_in_the_order_of_their_names_where_those_grow_longer(tmp_path):
    """As from the millionth text on, whose number has one digit more than the names have room for."""
    path = written(tmp_path, *({"text": f"t{i}"} for i in range(11)))
    rows, _ = taken(path, "x/{}".format, None, None, count=None)
    assert [r.generation.text for r in rows] == ["t0", "t1", "t10", *(f"t{i}" for i in range(2, 10))]
