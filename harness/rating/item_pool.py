"""Store a study's items and answers in SQLite; each item is leased to one rater and answered once.

`synchronous=FULL`: a commit has reached the disk when it returns, and the reply to the rater is sent after it.
"""

import json
import os
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from openended.harness.core import DataError
from openended.harness.rating.answers import are_valid_choices, is_time
from openended.harness.rating.design import StudyKey

ANSWERS = "answers.db"
LEASE_SECONDS = 30 * 60.0  # an unanswered item is leased to another rater after this time
_SCHEMA = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE raters (name TEXT PRIMARY KEY, token TEXT NOT NULL UNIQUE);
CREATE TABLE tasks (
  id TEXT PRIMARY KEY, example TEXT NOT NULL, control INTEGER NOT NULL, place INTEGER NOT NULL,
  rater TEXT, lease TEXT, until REAL);
CREATE TABLE answers (
  task TEXT PRIMARY KEY REFERENCES tasks (id), rater TEXT NOT NULL, lease TEXT NOT NULL, choices TEXT NOT NULL,
  ms INTEGER NOT NULL, at REAL NOT NULL);
CREATE INDEX held ON tasks (rater);
"""
_DONE = """
SELECT count(*), coalesce(sum(control), 0) FROM answers JOIN tasks ON id = task WHERE answers.rater = ?
"""
_NEXT = """
SELECT id FROM tasks
WHERE id NOT IN (SELECT task FROM answers) AND (rater IS NULL OR until < :now)
  AND (control = 0 OR :controls > 0)
  AND example NOT IN (SELECT example FROM tasks JOIN answers ON id = task WHERE answers.rater = :rater)
ORDER BY place LIMIT 1
"""


class AnswerRefused(Exception):  # noqa: N818 - an answer to a rater, not a failure
    """An answer was not stored; carries the reason and the HTTP status."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


@dataclass(frozen=True, slots=True)
class LeasedItem:
    """The next item of a rater and the rater's progress."""

    task: str | None  # None if nothing is left for this rater
    lease: str
    done: int
    total: int
    waiting: bool = False  # true if all remaining items are leased to other raters


class ItemPool:
    """The database of a study on a server; every method is a transaction, callable from any thread."""

    def __init__(self, path: Path, key: StudyKey, clock: Callable[[], float] = time.time) -> None:
        self.path, self.key, self.clock = path, key, clock
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        try:
            with self._open_transaction() as base:
                if base.execute("SELECT 1 FROM sqlite_master").fetchone() is None:
                    self._fill(base)
                row = base.execute("SELECT value FROM facts WHERE name = 'study'").fetchone()
        except sqlite3.Error as err:
            raise DataError(f"{path}: not a database of answers ({err}); move it away, or restore a copy") from err
        if row is None or row[0] != key.study:
            raise DataError(f"{path}: holds the answers of another study; move it away, or serve its own folder")

    def _fill(self, base: sqlite3.Connection) -> None:
        for statement in _SCHEMA.split(";"):
            base.execute(statement)
        base.execute("INSERT INTO facts VALUES ('study', ?)", (self.key.study,))
        rows = [(t.id, t.example, int(t.is_control), i) for i, t in enumerate(self.key.tasks)]
        base.executemany("INSERT INTO tasks (id, example, control, place) VALUES (?, ?, ?, ?)", rows)

    @contextmanager
    def _open_transaction(self) -> Iterator[sqlite3.Connection]:
        """Open a transaction, which is committed to the disk if the block succeeds."""
        with closing(sqlite3.connect(self.path, timeout=60, isolation_level=None)) as base:
            base.execute("PRAGMA journal_mode = WAL")
            base.execute("PRAGMA synchronous = FULL")
            base.execute("BEGIN IMMEDIATE")
            try:
                yield base
                base.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    base.execute("ROLLBACK")
                raise

    def add_raters(self, count: int) -> list[tuple[str, str]]:
        """Return the raters and their tokens, `count` of them or more; those of an earlier start stay."""
        wide = max(2, len(str(count)))
        raters = [(f"served-{number:0{wide}d}", secrets.token_urlsafe(32)) for number in range(1, count + 1)]
        with self._open_transaction() as base:
            base.executemany("INSERT OR IGNORE INTO raters VALUES (?, ?)", raters)
            return base.execute("SELECT name, token FROM raters ORDER BY name").fetchall()

    def find_rater(self, token: str) -> str | None:
        with closing(sqlite3.connect(self.path, timeout=60)) as base:
            row = base.execute("SELECT name FROM raters WHERE token = ?", (token,)).fetchone()
        return None if row is None else str(row[0])

    def next_item(self, rater: str) -> LeasedItem:
        """Return the item leased to a rater, or lease a new one whose prompt the rater has not seen."""
        protocol, now = self.key.protocol, self.clock()
        with self._open_transaction() as base:
            done, checked = base.execute(_DONE, (rater,)).fetchone()
            left = base.execute("SELECT count(*) FROM tasks WHERE id NOT IN (SELECT task FROM answers)").fetchone()[0]
            total = min(protocol.items_a_sheet, done + left)
            lease_row = base.execute(
                "SELECT id, lease FROM tasks WHERE rater = ? AND id NOT IN (SELECT task FROM answers)", (rater,)
            ).fetchone()
            if lease_row is not None:
                base.execute("UPDATE tasks SET until = ? WHERE id = ?", (now + LEASE_SECONDS, lease_row[0]))
                return LeasedItem(lease_row[0], lease_row[1], done, total)
            if done >= protocol.items_a_sheet:
                return LeasedItem(None, "", done, total)
            parameters = {"now": now, "rater": rater, "controls": protocol.controls_a_sheet - checked}
            task_row = base.execute(_NEXT, parameters).fetchone()
            if task_row is None:
                waiting = base.execute(
                    "SELECT count(*) FROM tasks WHERE until >= ? AND id NOT IN (SELECT task FROM answers)", (now,)
                ).fetchone()[0]
                return LeasedItem(None, "", done, total if waiting else done, waiting=bool(waiting))
            lease = secrets.token_urlsafe(12)
            base.execute(
                "UPDATE tasks SET rater = ?, lease = ?, until = ? WHERE id = ?",
                (rater, lease, now + LEASE_SECONDS, task_row[0]),
            )
            return LeasedItem(task_row[0], lease, done, total)

    def store(self, rater: str, task: object, lease: object, choices: object, ms: object) -> bool:
        """Store an answer; it is on the disk when this returns. The same answer twice is stored once."""
        questions, most = tuple(self.key.protocol.questions), len(self.key.protocol.choices)
        if not isinstance(task, str) or task not in self.key.by_id or not isinstance(lease, str):
            raise AnswerRefused(404, "There is no such item.")
        if not is_time(ms):
            raise AnswerRefused(400, "The time is no number of milliseconds.")
        if not are_valid_choices(choices, questions, most) or len(choices) < len(questions):
            raise AnswerRefused(400, "Every question needs one of its answers.")
        stored_choices = json.dumps(choices, sort_keys=True)
        with self._open_transaction() as base:
            stored_row = base.execute("SELECT rater, lease, choices FROM answers WHERE task = ?", (task,)).fetchone()
            if stored_row is not None:
                if stored_row == (rater, lease, stored_choices):
                    return False
                raise AnswerRefused(409, "This item was answered already; the first answer is kept.")
            if base.execute("SELECT rater, lease FROM tasks WHERE id = ?", (task,)).fetchone() != (rater, lease):
                raise AnswerRefused(
                    409, "Your time for this item ran out and it went to another rater; this answer does not count."
                )
            base.execute(
                "INSERT INTO answers VALUES (?, ?, ?, ?, ?, ?)", (task, rater, lease, stored_choices, ms, self.clock())
            )
        return True

    def counts(self) -> Sequence[int]:
        with closing(sqlite3.connect(self.path, timeout=60)) as base:
            return tuple(base.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in ("answers", "tasks"))  # noqa: S608
