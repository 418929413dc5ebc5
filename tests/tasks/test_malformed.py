"""Ways in which a file can be wrong, for every format: a clear error, or a count of what was skipped."""

import csv
import io
import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from openended.harness.core.errors import HarnessError
from openended.harness.run.dataset import EXAMPLES, make_examples
from openended.harness.storage.rows import read_examples
from openended.tasks.ag_news import AgNews
from openended.tasks.biographies import Biographies
from openended.tasks.creative import Creative
from openended.tasks.jsonl import JsonLines
from openended.tasks.realnews import RealNews
from openended.tasks.webtext import WebText
from tests.helpers import check_error

COUNT = 4
TEXT = "Once there was a fox, and it slept all day in the sun, for nobody came by. "


def write_lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def write_table(rows):
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([row["class"], row["title"], row["text"]] for row in rows)
    return out.getvalue().encode()


class Format(NamedTuple):
    """A task's file: a good row, which field holds the text and the id, and how rows are written."""

    make: Callable[[str], Any]
    row: Callable[[int], dict[str, Any]]
    text: str
    identity: str | None = None
    write: Callable[[Any], bytes] = write_lines
    name: str = "a.jsonl"
    count: int = COUNT

    def rows(self, count):
        return [self.row(i) for i in range(count)]


FORMATS = {
    "jsonl": Format(
        lambda path: JsonLines(path=path, id_field="id"), lambda i: {"id": i, "prompt": f"P{i}", "human": f" {TEXT}"},
        "human", "id",
    ),
    "webtext": Format(
        lambda path: WebText(path=path, prompt_unit="words", prompt_length=5),
        lambda i: {"id": i, "ended": True, "length": 20, "text": f"{i} {TEXT}"}, "text",
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
        "text",
    ),
    "biographies": Format(
        lambda path: Biographies(path=path, min_words=5, num_in_context=1),
        lambda i: {"title": f"P {i}", "content": f"{i} {TEXT}"}, "content",
    ),
    "creative": Format(
        lambda path: Creative(reference=path, num_draws=8), lambda i: {"id": i, "text": TEXT}, "text",
    ),
    "ag_news": Format(
        lambda path: AgNews(path=path), lambda i: {"class": 1 + i % 2, "title": f"T{i}", "text": TEXT}, "text",
        write=write_table, name="train.csv", count=40,
    ),
}  # fmt: skip
JSON_LINES = [name for name in FORMATS if name != "ag_news"]
NULL_IS_COUNTED = {"webtext", "realnews", "realnews corpus", "biographies"}


def put(folder, form, data):
    path = folder / form.name
    path.write_bytes(data)
    return path


def load(folder, form, path, count=COUNT):
    task = form.make(str(path))
    task.fingerprint()
    facts = make_examples(folder / "made", task, None, count, 0)
    return list(read_examples(folder / "made" / EXAMPLES)), facts["skipped"]


def check_refused(folder, form, path, message, count=COUNT):
    check_error(HarnessError, message, load, folder, form, path, count)


@pytest.fixture(params=FORMATS)
def form(request):
    return FORMATS[request.param]


@pytest.mark.parametrize("name", JSON_LINES)
@pytest.mark.parametrize("value", ["missing", None, 7, ["a"], {"a": 1}, True], ids=str)
def test_missing_and_mixed_fields(tmp_path, name, value):
    form = FORMATS[name]
    rows = form.rows(COUNT + 1)
    rows[1][form.text] = value
    kind = "null" if value is None else type(value).__name__
    message = rf"a\.jsonl:2: field '{form.text}': expected text, got {kind}"
    if value == "missing":
        del rows[1][form.text]
        message = rf"a\.jsonl:2: no field '({form.text}|text)'"
    path = put(tmp_path, form, form.write(rows))
    if value is None and name in NULL_IS_COUNTED:
        examples, skipped = load(tmp_path, form, path)
        assert len(examples) == COUNT
        assert skipped == {f"{form.text} is null": 1}
    else:
        check_refused(tmp_path, form, path, message)


@pytest.mark.slow
def test_wrong_bytes(tmp_path, form):
    good = form.write(form.rows(form.count))
    long_rows = form.rows(form.count)
    long_rows[1][form.text] = "x" * ((16 << 20) + 1)
    for data, message in [
        (good.replace(b"nobody", b"caf\xe9", 2), r"not (UTF-8|a CSV file in UTF-8)"),
        (b"", "holds (no|0) "),
        (b"\n\n", "holds (no|0) "),
        (form.write(long_rows), r":2: a line of more than 16 MiB|field larger than field limit"),
    ]:
        check_refused(tmp_path, form, put(tmp_path, form, data), message)


def test_a_folder_and_too_few_rows(tmp_path, form):
    (tmp_path / "folder").mkdir()
    check_refused(tmp_path, form, tmp_path / "folder", r"got a folder|no such file: .*record\.json")
    path = put(tmp_path, form, form.write(form.rows(COUNT)))
    check_refused(tmp_path, form, path, r"num_examples: task \w+ holds \d+ examples, got num_examples=30", count=30)
