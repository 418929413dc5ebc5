"""Answers that a server stored, read as if each rater had sent a file."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

from openended.harness.core import DataError
from openended.harness.rating.collect.answers import AnsweredItem, AnsweredSheet, valid_choices
from openended.harness.rating.key import StudyKey

_HEAD = b"SQLite format 3\x00"


def is_database(path: Path) -> bool:
    """Say whether a file is a database of `openended rate serve`."""
    try:
        with path.open("rb") as handle:
            return handle.read(len(_HEAD)) == _HEAD
    except OSError as err:
        raise DataError(f"cannot read {path}: {err.strerror or err}") from err


def read_database(path: Path, key: StudyKey) -> list[AnsweredSheet]:
    """Read the answers that a server has acknowledged; it may still be running.

    Raises:
        DataError: If the database is of another study, or damaged.
    """
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30)) as base:
            study = base.execute("SELECT value FROM facts WHERE name = 'study'").fetchone()
            rows = base.execute("SELECT rater, task, choices, ms FROM answers ORDER BY rater, task").fetchall()
    except sqlite3.Error as err:
        raise DataError(f"{path}: not a database of answers ({err})") from err
    if study is None or study[0] != key.study:
        raise DataError(f"{path}: of another study ({study and study[0]}, this key is of {key.study})")
    found: dict[str, list[AnsweredItem]] = {}
    questions = tuple(key.protocol.questions)
    for rater, task, choices, ms in rows:
        told = json.loads(choices)
        if task not in key.by_id or not valid_choices(told, questions, len(key.protocol.choices)):
            raise DataError(f"{path}: an answer of {rater} is none that this study has")
        found.setdefault(rater, []).append(AnsweredItem(task, told, ms / 1000))
    return [AnsweredSheet(path, rater, tuple(items), 0) for rater, items in found.items()]
