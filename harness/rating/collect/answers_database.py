"""Read the answers that a server stored, one sheet per rater."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from openended.harness.core import DataError, escape_controls
from openended.harness.rating.collect.answers import MAX_SECONDS, AnsweredItem, AnsweredSheet, are_valid_choices
from openended.harness.rating.key import StudyKey

_HEAD = b"SQLite format 3\x00"
DATABASE_ERRORS = (sqlite3.Error, OverflowError, UnicodeDecodeError)
"""What reading a tampered database may raise."""
_MAX_NAME = 200  # characters of a rater's name
_MAX_CELL = 1 << 20  # bytes
_MAX_SECONDS_READING = 60.0


def is_database(path: Path) -> bool:
    """Return whether a file is an SQLite database, as `openended rate serve` writes."""
    if not path.is_file():
        raise DataError(f"cannot read {path}: expected a regular file")
    try:
        with path.open("rb") as handle:
            return handle.read(len(_HEAD)) == _HEAD
    except OSError as err:
        raise DataError(f"cannot read {path}: {err.strerror or err}") from err


@contextmanager
def open_database(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a database of unknown origin to read from; queries are limited in time, and cells in size."""
    deadline = time.monotonic() + _MAX_SECONDS_READING
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=30)) as base:
        base.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_CELL)
        base.set_progress_handler(lambda: time.monotonic() > deadline, 10_000)
        yield base


def read_database(path: Path, key: StudyKey) -> list[AnsweredSheet]:
    """Read the answers that a server has acknowledged; it may still be running."""
    try:
        with open_database(path) as base:
            study = base.execute("SELECT value FROM facts WHERE name = 'study'").fetchone()
            query = "SELECT rater, task, choices, ms FROM answers LIMIT ?"
            rows = base.execute(query, (len(key.tasks) + 1,)).fetchall()
    except DATABASE_ERRORS as err:
        raise DataError(f"{path}: not a database of answers ({escape_controls(str(err))})") from err
    if study is None or study[0] != key.study:
        raise DataError(
            f"{path}: of another study ({escape_controls(str(study and study[0]))}, this key is of {key.study})"
        )
    items: dict[str, dict[str, AnsweredItem]] = {}
    seen: set[str] = set()
    for row in rows:
        rater, item = _parse_row(path, row, key)
        if item.task in seen:
            raise DataError(f"{path}: item {item.task} is answered twice; expected one answer per item")
        seen.add(item.task)
        items.setdefault(rater, {})[item.task] = item
    return [
        AnsweredSheet(path, rater, tuple(by_task[task] for task in sorted(by_task)), 0)
        for rater, by_task in sorted(items.items())
    ]


def _parse_row(path: Path, row: tuple[Any, ...], key: StudyKey) -> tuple[str, AnsweredItem]:
    """Return rater and answer of a row; a database can hold anything in any column."""
    rater, task, choices, ms = row
    if not isinstance(rater, str) or not rater.isprintable() or not 0 < len(rater) <= _MAX_NAME:
        raise DataError(f"{path}: rater {rater!r:.60}: expected a name of printable characters")
    if not isinstance(task, str) or task not in key.by_id:
        raise DataError(f"{path}: answer of {rater}: this study has no item {task!r:.60}")
    if not isinstance(ms, int) or not 0 <= ms <= 1000 * MAX_SECONDS:
        raise DataError(f"{path}: answer of {rater}: ms={ms!r:.60}: expected 0 to {1000 * MAX_SECONDS} milliseconds")
    try:
        answers = json.loads(choices)
    except (TypeError, ValueError, RecursionError):
        answers = None
    questions = tuple(key.protocol.questions)
    if not isinstance(answers, dict) or not are_valid_choices(answers, questions, len(key.protocol.choices)):
        raise DataError(
            f"{path}: answer of {rater}: choices={choices!r:.60}: expected JSON with a number from 1 to "
            f"{len(key.protocol.choices)} for {', '.join(questions)}"
        )
    return rater, AnsweredItem(task, answers, ms / 1000)
