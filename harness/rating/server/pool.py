"""The items of a study in a database: dealt one by one, answered once; what was acknowledged is on the disk.

SQLite in WAL mode with `synchronous=FULL`: a commit has reached the disk when it returns, and the reply to the rater is
sent after it. A killed server loses nothing that it has acknowledged.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import sqlite3
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from openended.harness.core import DataError
from openended.harness.rating.collect.answers import valid_choices
from openended.harness.rating.key import StudyKey

ANSWERS = "answers.db"
LEASE_SECONDS = 30 * 60.0  # an item that was not answered for so long goes to somebody else
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


class Refused(Exception):  # noqa: N818 - an answer to a rater, not a failure
    """An answer that is not stored; says why, and with which HTTP status."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


@dataclass(frozen=True, slots=True)
class DealtItem:
    """What a rater gets next."""

    task: str | None
    """None: there is nothing (more) for this rater."""
    lease: str
    done: int
    total: int
    waiting: bool = False
    """True where others hold what is left: some of it may come back."""


class ItemPool:
    """The database of a study on a server; every method is a transaction, callable from any thread."""

    def __init__(self, path: Path, key: StudyKey, clock: Callable[[], float] = time.time) -> None:
        self.path, self.key, self.clock = path, key, clock
        if not path.exists():
            self._create()
        with self._transaction() as base:
            row = base.execute("SELECT value FROM facts WHERE name = 'study'").fetchone()
        if row is None or row[0] != key.study:
            raise DataError(f"{path}: the answers of another study; move it away, or serve its own folder")

    def _create(self) -> None:
        """Write an empty database beside its place, then give it the name: a kill leaves none that is half made."""
        temporary = self.path.with_name(f".{self.path.name}.{secrets.token_hex(4)}")
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        try:
            with closing(sqlite3.connect(temporary)) as base:
                base.executescript(_SCHEMA)
                base.execute("INSERT INTO facts VALUES ('study', ?)", (self.key.study,))
                rows = [(t.id, t.example, int(t.is_control), i) for i, t in enumerate(self.key.tasks)]
                base.executemany("INSERT INTO tasks (id, example, control, place) VALUES (?, ?, ?, ?)", rows)
                base.commit()
                base.execute("PRAGMA journal_mode = WAL")
            temporary.rename(self.path)
        finally:
            temporary.unlink(missing_ok=True)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Open, begin, and commit where the block ends well; the commit is on the disk when this returns."""
        with closing(sqlite3.connect(self.path, timeout=60, isolation_level=None)) as base:
            base.execute("PRAGMA synchronous = FULL")
            base.execute("BEGIN IMMEDIATE")
            try:
                yield base
                base.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    base.execute("ROLLBACK")
                raise

    def add_raters(self, count: int, linked: Collection[str] = ()) -> list[tuple[str, str]]:
        """Make raters with tokens that nobody can guess.

        The database keeps digests: who reads it cannot answer in anybody's name.

        Args:
            count: How many raters there shall be, at least.
            linked: Raters whose tokens are known; of others the tokens are lost, and made anew.

        Returns:
            Name and token of those who got one.
        """
        wide = max(2, len(str(count)))
        with self._transaction() as base:
            known = {str(name) for (name,) in base.execute("SELECT name FROM raters")}
            wanted = known | {f"served-{number:0{wide}d}" for number in range(1, count + 1)}
            made = [(name, secrets.token_urlsafe(32)) for name in sorted(wanted - set(linked))]
            base.executemany("INSERT OR REPLACE INTO raters VALUES (?, ?)", [(n, _digest(t)) for n, t in made])
        return made

    def rater_of(self, token: str) -> str | None:
        """Return whose token it is; None where it is nobody's."""
        with closing(sqlite3.connect(self.path, timeout=60)) as base:
            row = base.execute("SELECT name FROM raters WHERE token = ?", (_digest(token),)).fetchone()
        return None if row is None else str(row[0])

    def next_item(self, rater: str) -> DealtItem:
        """Deal the item that a rater holds, or a new one: of a prompt that he has not seen, held by nobody else."""
        protocol, now = self.key.protocol, self.clock()
        with self._transaction() as base:
            done, checked = base.execute(_DONE, (rater,)).fetchone()
            left = base.execute("SELECT count(*) FROM tasks WHERE id NOT IN (SELECT task FROM answers)").fetchone()[0]
            total = min(protocol.items_a_sheet, done + left)
            held = base.execute(
                "SELECT id, lease FROM tasks WHERE rater = ? AND id NOT IN (SELECT task FROM answers)", (rater,)
            ).fetchone()
            if held is not None:
                base.execute("UPDATE tasks SET until = ? WHERE id = ?", (now + LEASE_SECONDS, held[0]))
                return DealtItem(held[0], held[1], done, total)
            if done >= protocol.items_a_sheet:
                return DealtItem(None, "", done, total)
            asked = {"now": now, "rater": rater, "controls": protocol.controls_a_sheet - checked}
            found = base.execute(_NEXT, asked).fetchone()
            if found is None:
                waiting = base.execute(
                    "SELECT count(*) FROM tasks WHERE until >= ? AND id NOT IN (SELECT task FROM answers)", (now,)
                ).fetchone()[0]
                return DealtItem(None, "", done, total if waiting else done, waiting=bool(waiting))
            lease = secrets.token_urlsafe(12)
            base.execute(
                "UPDATE tasks SET rater = ?, lease = ?, until = ? WHERE id = ?",
                (rater, lease, now + LEASE_SECONDS, found[0]),
            )
            return DealtItem(found[0], lease, done, total)

    def store(self, rater: str, task: object, lease: object, choices: object, ms: object) -> bool:
        """Store an answer; it is on the disk when this returns. The same answer twice is stored once.

        Returns:
            True if it is new, false if it was stored before.

        Raises:
            Refused: If it is no whole answer, the item went to somebody else, or another answer is stored.
        """
        told = self._checked(task, lease, choices, ms)
        with self._transaction() as base:
            known = base.execute("SELECT rater, lease, choices FROM answers WHERE task = ?", (task,)).fetchone()
            if known is not None:
                if known == (rater, lease, told):
                    return False
                raise Refused(409, "This item is answered already; the first answer stands.")
            held = base.execute("SELECT rater, lease FROM tasks WHERE id = ?", (task,)).fetchone()
            if held != (rater, lease):
                raise Refused(409, "This item was yours too long ago and went to another rater; it does not count.")
            base.execute("INSERT INTO answers VALUES (?, ?, ?, ?, ?, ?)", (task, rater, lease, told, ms, self.clock()))
        return True

    def _checked(self, task: object, lease: object, choices: object, ms: object) -> str:
        """Return the answers as they are stored."""
        questions = tuple(self.key.protocol.questions)
        if not isinstance(task, str) or task not in self.key.by_id or not isinstance(lease, str):
            raise Refused(404, "There is no such item.")
        if not isinstance(ms, int) or isinstance(ms, bool) or not 0 <= ms <= 7 * 24 * 3600 * 1000:
            raise Refused(400, "The time is no number of milliseconds.")
        most = len(self.key.protocol.choices)
        whole = isinstance(choices, Mapping) and set(choices) == set(questions)
        if not whole or not valid_choices(choices, questions, most):  # type: ignore[arg-type] # a Mapping by then
            raise Refused(400, "Every question needs one of its answers.")
        return json.dumps(choices, sort_keys=True)

    def counts(self) -> Sequence[int]:
        """Return the number of answers and of items."""
        with closing(sqlite3.connect(self.path, timeout=60)) as base:
            return tuple(base.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in ("answers", "tasks"))  # noqa: S608


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
