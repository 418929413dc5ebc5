"""Rows that artifacts share: texts, losses and vectors under a key that says how a row is made, but not which rows.

A folder `<store>/rows/<ab>/<key>/` holds an empty file `<stage>-<key>` for every finished artifact that has such rows,
and the blocks of generations that were interrupted. A run with more examples reads both, and makes the missing rows.
"""

import contextlib
import hashlib
import logging
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from openended.harness import core
from openended.harness.storage.provenance import compare_environments, describe_environment
from openended.harness.storage.rows import Row, RowFile, write_in_order, write_rows
from openended.harness.storage.store import DAMAGED_MARK, Entry, create_unique_folder, read_entry

log = logging.getLogger(__name__)

BLOCKS = "block-*.arrow"
_MARKER = re.compile(r"([a-z_]+)-([0-9a-f]{64})")
_WRITING = ".block.arrow"  # a block that is not complete
_MOST_WAITING = 1 << 14  # rows that wait to be written
_COUNTS = ("n", "tokens", "ended", "samples", "replies", "answers", "reused_tokens", "parts")
_PART_FACTS = ("device", "batch_size", "batch_dependent", "served", "engine", "denoiser", "packages", "git", "hardware")
"""Facts in which the parts of one artifact can differ, because they were made at different times."""


def list_sharing_artifacts(folder: Path) -> Iterator[Entry]:
    """Yield the sound artifacts that have rows of a shared folder."""
    for marker in sorted(folder.glob("*-*")) if folder.is_dir() else ():
        if match := _MARKER.fullmatch(marker.name):
            stage, key = match.groups()
            with contextlib.suppress(core.DataError, core.StoreError):  # reported by the run that needs it; or deleted
                yield read_entry(folder.parents[2] / stage / key[:2] / key)


def share_rows(folder: Path, entry: Entry) -> None:
    """Note in a shared folder that an artifact has rows of it, and delete the blocks whose rows all are in it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{entry.stage}-{entry.key}").touch()
    blocks = list(folder.glob(BLOCKS))
    if not blocks:
        return
    files = [RowFile(entry.path / name) for name in entry.files if name.endswith(".arrow")]
    stored = {key for rows in files for key in zip(rows.ids, rows.samples, strict=True)}
    for block in blocks:
        rows = RowFile(block)
        if stored.issuperset(zip(rows.ids, rows.samples, strict=True)):
            block.unlink(missing_ok=True)


def merge_parts(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge the facts of rows that were made apart: those of the last part, and `parts` where others differ from it."""
    if not parts:
        return {}
    merged = {name: value for name, value in parts[-1].items() if name not in _COUNTS}
    every = [each for part in parts for each in (*part.get("parts", ()), part)]
    for name in ("faults", "notes"):
        if lines := dict.fromkeys(line for part in every for line in part.get(name, ())):
            merged[name] = list(lines)
    if any(part.get("batch_dependent") for part in every):
        merged["batch_dependent"] = True
    whole, *others = ({name: part[name] for name in _PART_FACTS if name in part} for part in (parts[-1], *every[:-1]))
    distinct = [facts for number, facts in enumerate(others) if facts not in ({}, whole, *others[:number])]
    return merged | ({"parts": distinct} if distinct else {})


class RowBlocks:
    """The rows of one generation: those that other runs have finished, and those that are generated now.

    Finished rows are in blocks: files that are never changed, in no particular order. A new block is written every
    `seconds` at the latest. Its name is a digest of its bytes and of the folder's key, so that neither a flipped bit
    nor a block of another generation is read. The final bytes do not depend on the blocks: in the end the rows are
    joined by example id and sample.
    """

    def __init__(self, folder: Path, prompts: Iterable[Row], samples: int, seconds: float, file: str) -> None:
        self._folder, self._samples, self._seconds, self._file = folder, samples, seconds, file
        self._prompts = {row.generation.example_id: row for row in prompts}
        self._waiting: list[Row] = []
        self._files: list[Path] = []
        self._numbers: dict[tuple[str, int], int] = {}  # (example id, sample) → number of the row over all files
        self._next = 0  # number of the next row
        self._facts: Mapping[str, Any] = {}  # of the rows that are generated now
        self.parts: list[Mapping[str, Any]] = []  # facts of the rows that were read
        self.count = Counter(n=0, tokens=0, ended=0)  # finished rows, their tokens, and rows that ended by themselves
        self._last = time.monotonic()
        folder.mkdir(parents=True, exist_ok=True)

    def read(self) -> None:
        """Read the rows of finished artifacts and of blocks; a damaged block is moved aside, with a warning."""
        now = describe_environment()
        for entry in list_sharing_artifacts(self._folder):
            if self._file in entry.files:
                facts = {**entry.meta, **compare_environments(entry.maker, now)}
                self._read_file(entry.path / self._file, facts)
        for path in sorted(self._folder.glob(BLOCKS)):
            if path.is_symlink() or not path.is_file() or path.name != self._name_block(core.digest_file(path)):
                aside = create_unique_folder(self._folder.with_name(f"{self._folder.name}{DAMAGED_MARK}blocks"))
                path.rename(aside / path.name)
                log.warning("%s is damaged; moved to %s, its texts are generated again", path, aside.name)
                continue
            stated = RowFile(path).facts
            self._read_file(path, {**stated["meta"], **compare_environments(stated["maker"], now)})
        if self._numbers:
            log.info("resuming after %d of %d generations", self.count["n"], len(self._prompts) * self._samples)

    def list_missing(self) -> list[tuple[str, int]]:
        """Return example id and sample of the rows that are still to be generated."""
        return [key for key in product(self._prompts, range(self._samples)) if key not in self._numbers]

    def begin(self, facts: Mapping[str, Any]) -> None:
        self._facts = facts

    def find_prompt(self, example_id: str) -> Row:
        if (row := self._prompts.get(example_id)) is None:
            raise core.DataError(f"the backend returned a text of example {example_id!r:.60}: not asked for")
        return row

    def add(self, rows: Iterable[Row]) -> None:
        """Take finished texts; they are on disk after `seconds` at the latest (once more come)."""
        for row in rows:
            self._waiting.append(row)
            self._note(row)
        if time.monotonic() - self._last > self._seconds or len(self._waiting) >= _MOST_WAITING:
            self.flush()

    def flush(self) -> None:
        """Write the rows that wait as a block."""
        writing = self._folder / _WRITING
        facts = core.make_shareable(core.to_json({"meta": self._facts, "maker": describe_environment()}))
        write_rows(writing, self._waiting, facts=facts)
        self._files.append(writing.rename(self._folder / self._name_block(core.digest_file(writing))))
        self._waiting, self._last = [], time.monotonic()

    def join(self, path: Path) -> None:
        if self._waiting or not self._files:
            self.flush()
        write_in_order(path, self._files, [self._numbers[key] for key in sorted(self._numbers)])

    def _read_file(self, path: Path, facts: Mapping[str, Any]) -> None:
        before = self.count["n"]
        for row in RowFile(path):
            self._note(row)
        self._files.append(path)
        if self.count["n"] > before:
            self.parts.append(facts)

    def _note(self, row: Row) -> None:
        """Count a row if it is one of this generation, and new."""
        generation = row.generation
        key, prompt = (generation.example_id, generation.sample), self._prompts.get(generation.example_id)
        is_wanted = prompt is not None and (prompt.prompt, prompt.prompt_ids) == (row.prompt, row.prompt_ids)
        if is_wanted and generation.sample < self._samples and key not in self._numbers:
            self._numbers[key] = self._next
            self.count.update(n=1, tokens=len(generation.token_ids), ended=generation.stop == "eos")
        self._next += 1

    def _name_block(self, digest: str) -> str:
        return f"block-{hashlib.sha256(f'{self._folder.name}:{digest}'.encode()).hexdigest()}.arrow"
