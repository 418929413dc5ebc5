"""The form of a published file is told by the file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from openended.harness.core.errors import DataError
from openended.harness.imported.generations import read_generations, split_member
from tests.helpers import write_jsonl


def written(folder: Path, *rows: object) -> Path:
    path = folder / "texts.jsonl"
    return write_jsonl(path, rows)


@pytest.mark.parametrize("field", ["text", "generation", "gen_text", "completion"])
def test_a_text_goes_by_several_names(tmp_path, field):
    (found,) = read_generations(written(tmp_path, {"id": "a/1", "prompt": "p", field: " t", "stop": "stop"}))
    assert (found.identity, found.prompt, found.text, found.stop) == ("a/1", "p", " t", "eos")
    assert found.where.endswith("texts.jsonl:1")


def test_lines_are_counted_in_the_order_of_the_file(tmp_path):
    assert [one.line for one in read_generations(written(tmp_path, {"text": "a"}, {"text": "b"}))] == [0, 1]


def test_a_row_without_a_text_is_named(tmp_path):
    with pytest.raises(DataError, match=r"texts.jsonl:2"):
        list(read_generations(written(tmp_path, {"text": "a"}, {"words": "b"})))


def test_a_member_of_an_archive_stands_behind_a_mark():
    assert split_member(Path("all.tar.gz#x/p.p")) == (Path("all.tar.gz"), "x/p.p")
    assert split_member(Path("texts.jsonl")) == (Path("texts.jsonl"), None)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"text": "t", "stop": []}, "field 'stop': expected eos or length"),
        ({"text": "t", "stop": {}}, "field 'stop': expected eos or length"),
        ({"text": "t", "ended": "NaN"}, "field 'ended': expected true or false, got 'NaN'"),
        ({"text": "t", "ended": 1, "length": 2}, "field 'ended': expected true or false"),
        ({"text": "t", "sample": 2**31}, "field 'sample': expected 0, 1"),
    ],
)
def test_nonsense_is_refused_in_one_line(row, message, tmp_path):
    path = tmp_path / "g.jsonl"
    path.write_text(json.dumps(row))
    with pytest.raises(DataError, match=message):
        list(read_generations(path))
