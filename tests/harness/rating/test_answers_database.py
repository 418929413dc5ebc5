"""Tampered databases and keys: an error of one line."""

import json
import os
import re
import sqlite3

import pytest

from openended.harness.core.errors import DataError
from openended.harness.rating.answers import gather_answers, is_database
from openended.harness.rating.design import read_key
from openended.harness.rating.item_pool import ItemPool
from tests.harness.rating.studies import study, whole


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("ms", -5, "ms=-5: expected 0 to"), ("ms", "x", "ms='x': expected 0 to"), ("ms", 10**15, "expected 0 to"),
        ("rater", "a\x1b[31m\nb", "expected a name of printable characters"), ("rater", "", "expected a name"),
        ("rater", b"\xff", "expected a name"), ("task", "x", "this study has no item 'x'"),
        ("choices", "{", "expected JSON with a number from 1 to 5"), ("choices", "[1]", "expected JSON"),
        ("choices", '{"sensible": 9}', "expected JSON"), ("choices", b"\xff", "expected JSON"),
        ("choices", "[" * 20_000, "expected JSON"),
    ],
)  # fmt: skip
def test_a_tampered_answer_is_one_line(pool, column, value, said):
    rater = next(iter(pool.tokens))
    item = pool.next_item(rater)
    pool.store(rater, item.task, item.lease, whole(pool), 5)
    with sqlite3.connect(pool.path) as base:
        base.execute(f"UPDATE answers SET {column} = ?", (value,))
    with pytest.raises(DataError, match=re.escape(said)) as caught:
        gather_answers([pool.path], pool.key, leave_out=False)
    assert "\n" not in str(caught.value)
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize("name", ["a\x1bb", "../../x", "a\nb"])
def test_a_sheet_has_a_plain_name(tmp_path, name):
    key = study(tmp_path)
    content = json.loads((tmp_path / "key.json").read_text())
    content["sheets"][name] = content["sheets"].pop(next(iter(key.sheets)))
    (tmp_path / "key.json").write_text(json.dumps(content))
    with pytest.raises(DataError, match="expected printable characters without /"):
        read_key(tmp_path)


def test_a_tampered_database_is_not_served(pool):
    with sqlite3.connect(pool.path) as base:
        base.execute("UPDATE tasks SET id = 'x' WHERE place = 0")
    with pytest.raises(DataError, match="its items are not those of"):
        ItemPool(pool.path, pool.key)
    with sqlite3.connect(pool.path) as base:
        base.execute("ALTER TABLE tasks DROP COLUMN lease")
    with pytest.raises(DataError, match=r"not a database of answers \(no such column: lease\)"):
        ItemPool(pool.path, pool.key)


@pytest.mark.parametrize("kind", ["fifo", "folder"])
def test_a_database_is_a_regular_file(tmp_path, kind):
    key = study(tmp_path / "study")
    path = tmp_path / "answers.db"
    os.mkfifo(path) if kind == "fifo" else path.mkdir()
    with pytest.raises(DataError, match="expected a regular file"):
        ItemPool(path, key)
    with pytest.raises(DataError, match="expected a regular file"):
        is_database(path)
