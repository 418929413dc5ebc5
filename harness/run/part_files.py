"""Part files with the finished rows of a generation in progress; verified when an interrupted run resumes.

A part's name ends in a digest of its bytes and of the artifact it belongs to, so that neither a flipped bit nor a part
of another generation is opened.
"""

from __future__ import annotations

import hashlib
import logging
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from openended.harness.core import digest_file
from openended.harness.storage import DAMAGED_MARK, Row, RowFile, create_unique_folder, write_in_order, write_rows

log = logging.getLogger(__name__)

_NAME = re.compile(r"part-(\d{6,})-([0-9a-f]{64})\.arrow")
_MOST = 1 << 14  # rows that wait to be written


class PartFiles:
    """The part files in the folder of an artifact; one is written every `seconds` at the latest."""

    def __init__(self, folder: Path, seconds: float) -> None:
        self._folder, self._seconds = folder, seconds
        self._waiting: list[Row] = []
        self._written: list[Path] = []
        self.count: Counter[str] = Counter(n=0, tokens=0, ended=0)
        """Counts of rows read or added, of their tokens, and of rows that ended with an end token."""
        self._next = 0
        self._last = time.monotonic()

    def read(self) -> Iterator[Row]:
        """Yield the rows of an interrupted call; a part that is damaged is moved aside, with a remark."""
        for path in sorted(self._folder.glob("part-*")):
            named = _NAME.fullmatch(path.name)
            if named is None or path.is_symlink() or not path.is_file() or self._digest(path) != named[2]:
                aside = create_unique_folder(self._folder.with_name(f"{self._folder.name}{DAMAGED_MARK}parts"))
                path.rename(aside / path.name)
                log.warning("%s is damaged; moved to %s, its texts are generated again", path, aside.name)
                continue
            self._written.append(path)
            self._next = max(self._next, int(named[1]) + 1)
            for row in RowFile(path):
                self._count([row])
                yield row

    def add(self, rows: Sequence[Row]) -> None:
        """Take rows that are finished; they are on disk after `seconds` at the latest (once more rows come)."""
        self._waiting += rows
        self._count(rows)
        if time.monotonic() - self._last > self._seconds or len(self._waiting) >= _MOST:
            self._flush()

    def join(self, path: Path) -> None:
        """Write all rows, those that were read too, by example id and sample; the parts are deleted then."""
        if self._waiting or not self._written:
            self._flush()
        parts = [RowFile(part) for part in self._written]
        keys = [key for rows in parts for key in zip(rows.ids, rows.samples, strict=True)]
        write_in_order(path, self._written, sorted(range(len(keys)), key=keys.__getitem__))
        for part in self._folder.glob("part-*.arrow"):
            part.unlink()

    def _count(self, rows: Iterable[Row]) -> None:
        for row in rows:
            self.count["n"] += 1
            self.count["tokens"] += len(row.generation.token_ids)
            self.count["ended"] += row.generation.stop == "eos"

    def _flush(self) -> None:
        writing = self._folder / ".part.arrow"
        write_rows(writing, self._waiting)
        part = self._folder / f"part-{self._next:06d}-{self._digest(writing)}.arrow"
        writing.rename(part)
        self._written.append(part)
        self._next += 1
        self._waiting = []
        self._last = time.monotonic()

    def _digest(self, path: Path) -> str:
        return hashlib.sha256(f"{self._folder.name}:{digest_file(path)}".encode()).hexdigest()
