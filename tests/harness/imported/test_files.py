"""Four forms of files, packed or not, alone or in a folder, are the same texts."""

from __future__ import annotations

import csv
import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from openended.harness.core.errors import DataError, SpecError
from openended.harness.imported.files import TEXTS, choose_text_field, read_records
from openended.harness.imported.generations import read_generations

ROWS = [{"id": "a", "text": 'one, "two"\nthree; four'}, {"id": "b", "text": "fünf"}]


def written(folder, name):
    path = folder / name
    if ".jsonl" in name:
        data = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    elif ".parquet" in name:
        pq.write_table(pa.Table.from_pylist(ROWS), path)
    else:
        with path.open("w", newline="", encoding="utf-8-sig") as handle:
            rows = csv.DictWriter(handle, ["id", "text"], delimiter="\t" if name.endswith(".tsv") else ";")
            rows.writeheader()
            rows.writerows(ROWS)
    return path


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.csv", "a.tsv", "a.parquet"])
def test_every_form_holds_the_same(tmp_path, name):
    found = list(read_generations(written(tmp_path, name)))
    assert [(one.identity, one.text, one.line) for one in found] == [("a", ROWS[0]["text"], 0), ("b", "fünf", 1)]


def test_a_folder_is_read_in_the_order_of_names_and_lines_count_on(tmp_path):
    written(tmp_path, "b.jsonl")
    written(tmp_path, "a.parquet")
    (tmp_path / "notes.md").write_text("no texts")
    found = list(read_records(tmp_path))
    assert [r.line for r in found] == [0, 1, 2, 3]
    assert found[0].where.endswith("a.parquet:1")
    assert found[2].where.endswith("b.jsonl:1")


def test_plain_text_is_a_line_a_text_and_in_a_folder_a_file_a_text(tmp_path):
    (tmp_path / "a.txt").write_text("one\n\ntwo\n")
    assert [r.cells["text"] for r in read_records(tmp_path / "a.txt")] == ["one", "two"]
    assert [r.cells["text"] for r in read_records(tmp_path)] == ["one\n\ntwo\n"]
    written(tmp_path, "b.csv")
    with pytest.raises(DataError, match="beside other files"):
        list(read_records(tmp_path))


@pytest.mark.parametrize(
    ("row", "field"),
    [({"completion": "x", "story": "y"}, "completion"), ({"id": "1", "story": "x", "score": 3}, "story")],
)
def test_the_field_is_a_usual_name_or_the_only_text(tmp_path, row, field):
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(row))
    assert choose_text_field(path, TEXTS, None, "--field ") == field


def test_what_cannot_be_guessed_is_asked_for(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"one": "x", "two": "y"}))
    with pytest.raises(DataError, match=r"a\.jsonl:1: no field with the text; .*got one, two"):
        choose_text_field(path, TEXTS, None, "--field ")
    with pytest.raises(SpecError, match="no field 'tow'; did you mean 'two'"):
        choose_text_field(path, TEXTS, "tow", "--field ")


def test_broken_files_are_named(tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"no parquet")
    with pytest.raises(DataError, match=r"a\.parquet: not a readable Parquet file"):
        list(read_records(tmp_path / "a.parquet"))
    (tmp_path / "a.csv").write_text("text,id\nx\n")
    with pytest.raises(DataError, match=r"a\.csv:2: expected 2 cells"):
        list(read_records(tmp_path / "a.csv"))
