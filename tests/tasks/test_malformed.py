"""Twelve ways in which a file can be wrong, for every format: a clear error, or a count of what was passed over."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from openended.harness.core.errors import DataError, HarnessError
from openended.harness.core.io import read_json
from openended.harness.core.task_spec import Task
from openended.harness.run.dataset import EXAMPLES, make_examples
from openended.harness.storage.rows import read_examples
from openended.tasks.ag_news import AgNews
from openended.tasks.biographies import Biographies
from openended.tasks.creative import Creative
from openended.tasks.jsonl import JsonLines
from openended.tasks.realnews import RealNews
from openended.tasks.webtext import WebText
from openended.tasks.writing_prompts import WritingPrompts

COUNT = 4
TEXT = "Once there was a fox, and it slept all day in the sun, for nobody came by. "
Rows = list[dict[str, Any]]


def lines(rows: Iterable[Any]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def table(rows: Iterable[Any]) -> bytes:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([row["class"], row["title"], row["text"]] for row in rows)
    return out.getvalue().encode()


class Format:
    """A task's file: what a good row is, which field holds the text and the id, and how rows are written."""

    def __init__(self, make: Callable[[str], Task], row: Callable[[int], dict[str, Any]], text: str, identity: str | None,
                 write: Callable[[Iterable[Any]], bytes] = lines, name: str = "a.jsonl", count: int = COUNT) -> None:  # fmt: skip
        self.make, self.row, self.text, self.identity = make, row, text, identity
        self.write, self.name, self.count = write, name, count

    def rows(self, count: int) -> Rows:
        return [self.row(i) for i in range(count)]


FORMATS = {
    "jsonl": Format(
        lambda path: JsonLines(path=path, id_field="id"), lambda i: {"id": i, "prompt": f"P{i}", "human": f" {TEXT}"},
        "human", "id",
    ),
    "webtext": Format(
        lambda path: WebText(path=path, prompt_unit="words", prompt_length=5),
        lambda i: {"id": i, "ended": True, "length": 20, "text": f"{i} {TEXT}"}, "text", None,
    ),
    "realnews": Format(
        lambda path: RealNews(path=path, split="any"),
        lambda i: {"article": TEXT, "domain": "a.org", "title": f"T{i}", "date": "April 5, 2019", "authors": "A",
                   "label": "human", "split": "test", "orig_split": "gen", "ind30k": i},
        "article", "ind30k",
    ),
    "realnews corpus": Format(
        lambda path: RealNews(path=path, split="any"),
        lambda i: {"text": TEXT, "domain": "a.org", "title": f"T{i}", "publish_date": "04-05-2019", "authors": ["A"],
                   "split": "train", "url": f"https://a.org/{i}"},
        "text", None,
    ),
    "biographies": Format(
        lambda path: Biographies(path=path, min_words=5, num_in_context=1),
        lambda i: {"title": f"P {i}", "content": f"{i} {TEXT}"}, "content", None,
    ),
    "creative": Format(
        lambda path: Creative(reference=path, num_draws=8), lambda i: {"id": i, "text": TEXT}, "text", None,
    ),
    "ag_news": Format(
        lambda path: AgNews(path=path), lambda i: {"class": 1 + i % 2, "title": f"T{i}", "text": TEXT}, "text", None,
        write=table, name="train.csv", count=40,
    ),
}  # fmt: skip
JSON_LINES = [name for name in FORMATS if name != "ag_news"]
NULL_IS_COUNTED = {"webtext", "realnews", "realnews corpus", "biographies"}


def put(folder: Path, name: str, data: bytes, *, packed: bool = False) -> Path:
    path = folder / (name + ".gz" if packed else name)
    path.write_bytes(data)
    return path


def load(folder: Path, form: Format, path: Path, count: int = COUNT) -> tuple[list[Any], dict[str, int]]:
    task = form.make(str(path))
    task.fingerprint()
    facts = make_examples(folder / "made", task, None, count, 0)
    return list(read_examples(folder / "made" / EXAMPLES)), facts["skipped"]


def refused(folder: Path, form: Format, path: Path, message: str, count: int = COUNT) -> None:
    with pytest.raises(HarnessError, match=message) as caught:
        load(folder, form, path, count)
    assert "\n" not in str(caught.value)


@pytest.fixture(params=FORMATS)
def form(request: pytest.FixtureRequest) -> Format:
    return FORMATS[request.param]


@pytest.mark.parametrize("name", JSON_LINES)
def test_truncated_gz(tmp_path: Path, name: str) -> None:
    form = FORMATS[name]
    whole = gzip.compress(form.write(form.rows(2000)))
    path = put(tmp_path, form.name, whole[: len(whole) // 2], packed=True)
    refused(tmp_path, form, path, r"a\.jsonl\.gz:\d+: cannot be read to its end", count=2000)


def test_wrong_encoding(tmp_path: Path, form: Format) -> None:
    good = form.write(form.rows(form.count))
    path = put(tmp_path, form.name, good.replace(b"nobody", b"caf\xe9", 2))
    refused(tmp_path, form, path, r"not (UTF-8|a CSV file in UTF-8)")


@pytest.mark.parametrize("name", JSON_LINES)
def test_missing_field(tmp_path: Path, name: str) -> None:
    form = FORMATS[name]
    rows = form.rows(COUNT)
    del rows[1][form.text]
    refused(tmp_path, form, put(tmp_path, form.name, form.write(rows)), rf"a\.jsonl:2: no field '({form.text}|text)'")


def test_missing_column(tmp_path: Path) -> None:
    form = FORMATS["ag_news"]
    data = form.write(form.rows(form.count)).replace(b"\n", b'\n3,"no description"\n', 1)
    refused(tmp_path, form, put(tmp_path, form.name, data), r"train\.csv:2: expected a class from 1 to 4, a title")


@pytest.mark.parametrize("name", JSON_LINES)
def test_null_text(tmp_path: Path, name: str) -> None:
    form = FORMATS[name]
    rows = form.rows(COUNT + 1)
    rows[1][form.text] = None
    path = put(tmp_path, form.name, form.write(rows))
    if name not in NULL_IS_COUNTED:
        refused(tmp_path, form, path, rf"a\.jsonl:2: field '{form.text}': expected text, got null")
        return
    examples, skipped = load(tmp_path, form, path)
    assert len(examples) == COUNT
    assert skipped == {f"{form.text} is null": 1}


@pytest.mark.parametrize("name", [n for n, f in FORMATS.items() if f.identity])
def test_duplicated_ids(tmp_path: Path, name: str) -> None:
    form = FORMATS[name]
    rows = form.rows(COUNT)
    rows[3][str(form.identity)] = rows[1][str(form.identity)]
    refused(tmp_path, form, put(tmp_path, form.name, form.write(rows)), "first used on line 2|duplicate example id")


def test_a_draw_with_two_texts(tmp_path: Path) -> None:
    """Of a reference, two texts for one draw cannot both be used; nothing is dropped in silence."""
    form = FORMATS["creative"]
    rows = [*form.rows(COUNT), {"id": 1, "text": "Another."}]
    refused(tmp_path, form, put(tmp_path, form.name, form.write(rows)), r"a\.jsonl:5: answers none of the 8 draws", count=COUNT + 1)  # fmt: skip


@pytest.mark.parametrize("data", [b"", b"\n\n"])
def test_empty_file(tmp_path: Path, form: Format, data: bytes) -> None:
    refused(tmp_path, form, put(tmp_path, form.name, data), "holds (no|0) ")


def test_a_directory(tmp_path: Path, form: Format) -> None:
    (tmp_path / "folder").mkdir()
    refused(tmp_path, form, tmp_path / "folder", r"got a folder|no such file: .*record\.json")


@pytest.mark.parametrize("oddity", ["crlf", "bom"])
def test_line_ends_and_byte_order_marks_change_nothing(tmp_path: Path, form: Format, oddity: str) -> None:
    data = form.write(form.rows(form.count))
    plain, _ = load(tmp_path, form, put(tmp_path, form.name, data))
    odd = data.replace(b"\n", b"\r\n") if oddity == "crlf" else b"\xef\xbb\xbf" + data
    (tmp_path / "odd").mkdir()
    made, skipped = load(tmp_path / "odd", form, put(tmp_path / "odd", form.name, odd))
    assert made == plain
    assert not skipped


def test_a_line_of_50_megabytes(tmp_path: Path, form: Format) -> None:
    rows = form.rows(form.count)
    rows[1][form.text] = "x" * 50_000_000
    path = put(tmp_path, form.name, form.write(rows))
    refused(tmp_path, form, path, r":2: a line of more than 16 MiB|field larger than field limit")


@pytest.mark.parametrize("name", JSON_LINES)
@pytest.mark.parametrize("value", [7, ["a"], {"a": 1}, True])
def test_mixed_types(tmp_path: Path, name: str, value: Any) -> None:
    form = FORMATS[name]
    rows = form.rows(COUNT)
    rows[1][form.text] = value
    path = put(tmp_path, form.name, form.write(rows))
    refused(tmp_path, form, path, rf"a\.jsonl:2: field '{form.text}': expected text, got {type(value).__name__}")


def test_fewer_rows_than_asked(tmp_path: Path, form: Format) -> None:
    path = put(tmp_path, form.name, form.write(form.rows(COUNT)))
    refused(tmp_path, form, path, r"num_examples: task \w+ holds \d+ examples, got num_examples=30", count=30)


# The stories are two files whose lines belong together.
SOURCES, TARGETS = "[ WP ] It is late .\n" * COUNT, f"`` Hello , '' he said . {TEXT}\n" * COUNT


def stories(folder: Path, source: bytes, target: bytes, count: int = COUNT) -> dict[str, int]:
    (folder / "test.wp_source").write_bytes(source)
    (folder / "test.wp_target").write_bytes(target)
    task = WritingPrompts(path=str(folder), prompt_unit="words", prompt_length=5)
    task.fingerprint()
    skipped: dict[str, int] = make_examples(folder / "made", task, None, count, 0)["skipped"]
    return skipped


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (b"", b"", "holds (no|0) "),
        (SOURCES.encode(), TARGETS.encode() * 2, "line 5: only one of"),
        (SOURCES.encode(), TARGETS.encode()[:-150], "only one of"),
        (SOURCES.encode() * 2, TARGETS.encode() * 2, "got num_examples=30"),
        (SOURCES.encode(), b"x" * 50_000_000, "wp_target:1: a line of more than 16 MiB"),
    ],
    ids=["empty", "more targets", "fewer targets", "fewer than asked", "50 MB line"],
)
def test_stories(tmp_path: Path, source: bytes, target: bytes, message: str) -> None:
    with pytest.raises(HarnessError, match=message):
        stories(tmp_path, source, target, 30 if "30" in message else COUNT)


@pytest.mark.parametrize("oddity", ["crlf", "bom"])
def test_stories_with_harmless_oddities(tmp_path: Path, oddity: str) -> None:
    made = []
    for name in ("plain", oddity):
        folder = tmp_path / name
        folder.mkdir()
        pair = [SOURCES.encode(), TARGETS.encode()]
        if name == "crlf":
            pair = [part.replace(b"\n", b"\r\n") for part in pair]
        if name == "bom":
            pair = [b"\xef\xbb\xbf" + part for part in pair]
        assert not stories(folder, pair[0], pair[1])
        made.append(list(read_examples(folder / "made" / EXAMPLES)))
    assert made[0] == made[1]


def test_stories_that_are_no_text_are_counted(tmp_path: Path) -> None:
    target = TARGETS.encode().replace(b"Hello", b"H\xe9llo", 1)
    assert sum(stories(tmp_path, SOURCES.encode(), target, COUNT - 1).values()) == 1


def test_a_run_folder_is_no_file_of_texts(tmp_path: Path) -> None:
    (tmp_path / "record.json").write_text("[]")
    assert read_json(tmp_path / "record.json") == []
    with pytest.raises(DataError, match="not a run record"):
        Creative(reference=str(tmp_path)).fingerprint()
