"""A user's own file: what is read, and twelve and more ways in which a file can be wrong."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from openended.harness.core.errors import DataError, SpecError
from openended.harness.core.types import Example
from openended.tasks.jsonl import JsonLines

GOOD = [{"id": i, "prompt": f"P{i}", "human": f" h{i}"} for i in range(3)]


def write(path: Path, rows: list[Any], end: str = "\n") -> Path:
    path.write_text("".join(json.dumps(r) + end for r in rows), encoding="utf-8", newline="")
    return path


def read(path: Path, **options: Any) -> list[Example]:
    return list(JsonLines(path=str(path), **options).examples(None, Counter()))


def test_lines_become_examples_in_file_order(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", GOOD)
    assert read(path, id_field=None)[1] == Example("jsonl/000001", "P1", " h1")
    for field in ("auto", "id"):
        assert [e.id for e in read(path, id_field=field)] == ["jsonl/0", "jsonl/1", "jsonl/2"]


def test_ids_are_found_by_themselves_and_none_or_all_lines_have_one(tmp_path: Path) -> None:
    rows = [{"example_id": f"x{i}", "prompt": f"P{i}", "human": f" h{i}"} for i in range(2)]
    assert [e.id for e in read(write(tmp_path / "a.jsonl", rows))] == ["jsonl/x0", "jsonl/x1"]
    bare = {"prompt": "P", "human": " h"}
    with pytest.raises(DataError, match=r"b\.jsonl:2: has an id \('example_id'\), the first line has none"):
        read(write(tmp_path / "b.jsonl", [bare, rows[1]]))
    with pytest.raises(DataError, match=r"c\.jsonl:2: field 'example_id': expected an id"):
        read(write(tmp_path / "c.jsonl", [rows[0], bare]))


def test_fields_are_options_and_extra_ones_do_not_matter(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [{"q": "a", "gold_ref": " b", "x": [1]}])
    assert read(path, prompt_field="q", human_field="gold_ref") == [Example("jsonl/000000", "a", " b")]


def test_gz_is_the_same(tmp_path: Path) -> None:
    plain = write(tmp_path / "a.jsonl", GOOD)
    packed = tmp_path / "a.jsonl.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert read(packed) == read(plain)


def test_fingerprint_is_of_the_content(tmp_path: Path) -> None:
    a, b = write(tmp_path / "a.jsonl", GOOD), write(tmp_path / "b.jsonl", GOOD)
    c = write(tmp_path / "c.jsonl", GOOD[:2])
    prints = [JsonLines(path=str(p)).fingerprint() for p in (a, b, c)]
    assert prints[0] == prints[1] != prints[2]
    assert JsonLines(path=str(a)).files()[0].present


# What is wrong and the words of the one-line error; each names the file, and the line where there is one.
WRONG = {
    "truncated gz": ("a.jsonl.gz", gzip.compress(json.dumps(GOOD[0]).encode() * 9999)[:-40], r"to its end"),
    "not gz": ("a.jsonl.gz", b'{"prompt": "a", "human": "b"}\n', r"a\.jsonl\.gz:1: cannot be read to its end"),
    "wrong encoding": (
        "a.jsonl", b'{"prompt": "a", "human": "b"}\n{"prompt": "caf\xe9", "human": "b"}\n', r"a\.jsonl:2: not UTF-8"
    ),
    "utf-16": ("a.jsonl", '{"prompt": "a", "human": "b"}\n'.encode("utf-16"), r":1: not UTF-8"),
    "missing field": ("a.jsonl", b'{"promt": "a", "human": "b"}\n', r":1: no field 'prompt'; did you mean 'promt'"),
    "null text": ("a.jsonl", b'{"prompt": "a", "human": null}\n', r":1: field 'human': expected text, got null"),
    "empty human": ("a.jsonl", b'\n{"prompt": "a", "human": " \\n"}\n', r":2: example 000001 has an empty human side"),
    "empty file": ("a.jsonl", b"", r"a\.jsonl: holds no example"),
    "blank lines": ("a.jsonl", b"\n\n", r"a\.jsonl: holds no example"),
    "malformed json": ("a.jsonl", b'{"prompt": "a"\n', r":1: not JSON"),
    "json array": ("a.jsonl", b'[{"prompt": "a", "human": "b"}]\n', r":1: expected a JSON object, got list"),
    "mixed types": (
        "a.jsonl", b'{"prompt": "a", "human": "b"}\n{"prompt": 7, "human": "b"}\n', r":2: .*'prompt': expected text, got int"
    ),
    "half a surrogate pair": ("a.jsonl", b'{"prompt": "\\ud800", "human": "b"}\n', r":1: .*surrogate"),
    "deep nesting": ("a.jsonl", b'{"prompt": ' + b"[" * 200_000 + b"\n", r":1: (JSON nested too deeply|not JSON)"),
    "50 MB line": ("a.jsonl", b'{"prompt": "' + b"x" * 50_000_000 + b'", "human": "b"}\n', r":1: a line of more than 16 MiB"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_file_is_a_one_line_error(tmp_path: Path, case: str) -> None:
    name, data, message = WRONG[case]
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(DataError, match=message) as caught:
        read(path)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["a", "b", "a"], r":3: duplicate id 'a', first used on line 1"),
        ([1, "1"], r":2: duplicate id '1', first used on line 1"),
        (["a", None], r":2: field 'id': expected an id .* got null"),
        (["a", 1.5], r":2: .*got 1.5"),
        (["a", True], r":2: .*got True"),
        (["a", ""], r":2: .*got ''"),
    ],
)
def test_ids_are_used_once(tmp_path: Path, values: list[Any], message: str) -> None:
    rows = [{"id": v, "prompt": "p", "human": " h"} for v in values]
    with pytest.raises(DataError, match=message):
        read(write(tmp_path / "a.jsonl", rows), id_field="id")


def test_a_collision_of_short_hashes_is_no_duplicate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from openended.tasks import _records

    class Same:
        def __init__(self, *_: Any, **__: Any) -> None: ...

        def digest(self) -> bytes:
            return b"\0" * 8

    monkeypatch.setattr(_records.hashlib, "blake2b", Same)
    assert len(read(write(tmp_path / "a.jsonl", GOOD), id_field="id")) == 3


@pytest.mark.parametrize("data", ["crlf", "bom", "no end of line"])
def test_harmless_oddities_are_accepted(tmp_path: Path, data: str) -> None:
    path = write(tmp_path / "a.jsonl", GOOD, "\r\n" if data == "crlf" else "\n")
    if data == "bom":
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    if data == "no end of line":
        path.write_bytes(path.read_bytes()[:-1])
    assert [e.human for e in read(path)] == [" h0", " h1", " h2"]


def test_a_folder_and_no_file_at_all(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="expected a file, got a folder"):
        read(tmp_path)
    with pytest.raises(DataError, match="no such file"):
        read(tmp_path / "none.jsonl")
    with pytest.raises(DataError, match=r"no such file.*set task\.path"):
        JsonLines(path=str(tmp_path / "none.jsonl")).fingerprint()
    with pytest.raises(DataError, match="got a folder"):
        JsonLines(path=str(tmp_path)).fingerprint()


@pytest.mark.parametrize("options", [{"path": ""}, {"human_field": "prompt"}, {"id_field": ""}, {"prompt_field": ""}])
def test_wrong_options(options: dict[str, Any]) -> None:
    with pytest.raises(SpecError):
        JsonLines(**{"path": "a.jsonl", **options})


def test_a_long_file_streams(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    text = "x" * 4000
    with path.open("w") as handle:
        handle.writelines(f'{{"id": {i}, "prompt": "p", "human": "{text}"}}\n' for i in range(5_000))
    tracemalloc.start()
    try:
        count = sum(1 for _ in JsonLines(path=str(path), id_field="id").examples(None, Counter()))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == 5_000
    # 20 MB of text pass through; eight bytes an id and their table stay.
    assert peak < 4e6


@pytest.mark.parametrize("field", ["reference", "text", "story"])
def test_the_human_field_is_detected_where_the_default_is_missing(tmp_path: Path, field: str) -> None:
    path = write(tmp_path / "a.jsonl", [{"id": "a", "prompt": "p", field: " h"}])
    assert [e.human for e in read(path)] == [" h"]
    with pytest.raises(DataError, match=rf"no field 'other'; .*; set task\.human_field={field}"):
        read(path, human_field="other")


def test_several_texts_ask_for_the_option(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [{"prompt": "p", "left": "a", "right": "b"}])
    with pytest.raises(DataError, match=r"name it: task\.human_field=left"):
        read(path)


def test_a_json_array_is_told_apart(tmp_path: Path) -> None:
    for data in ('[{"prompt": "p", "human": " h"}]\n', '[\n {"prompt": "p", "human": " h"}\n]\n'):
        (tmp_path / "a.json").write_text(data)
        with pytest.raises(DataError, match="one object per line"):
            read(tmp_path / "a.json")
