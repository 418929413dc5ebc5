"""The content-addressed store: what a stage made, found again by what went into it.

An entry is a folder `<root>/<stage>/<ab>/<key>/` with files and a `manifest.json`, written last. The key is a digest of
the recipe: key scheme, stage, stage version, full spec with defaults, and the content digests of the inputs. So an
upstream change that yields the same bytes costs nothing downstream.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from openended.harness.errors import DataError, StoreError
from openended.harness.io import file_digest, read_json, write_json
from openended.harness.provenance import maker
from openended.harness.signature import canonical, digest
from openended.harness.types import Json

log = logging.getLogger(__name__)

KEY_SCHEME = 2  # 1 named a spec by the path of its class
MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True)
class Recipe:
    """What identifies an artefact."""

    stage: str
    version: int
    """Raised when the stage's code changes what it makes."""
    spec: Mapping[str, Any]
    """All options that can change the bytes, defaults included."""
    inputs: Mapping[str, str]
    """Name → content digest."""

    def canonical(self) -> Json:
        """Plain JSON of the recipe; the store key is its digest."""
        return canonical({"scheme": KEY_SCHEME, "stage": self.stage, "version": self.version, "spec": self.spec,
                          "inputs": self.inputs})  # fmt: skip

    @property
    def key(self) -> str:
        """SHA-256 (hex) of the recipe."""
        return digest(self.canonical())


@dataclass(frozen=True, slots=True)
class Entry:
    """A finished artefact."""

    stage: str
    key: str
    path: Path
    files: Mapping[str, str]
    """File name → SHA-256 of its bytes."""
    meta: Mapping[str, Any]
    """Facts of the making that later stages and reports show (counts, what was skipped)."""
    made: bool = False
    """True if it was made just now, not found."""
    maker: Mapping[str, Any] = field(default_factory=dict)
    """What made it: `git`, `packages` and `hardware`, as in a run record; empty where that was not noted."""

    @property
    def content(self) -> str:
        """Digest of all files."""
        return digest(self.files)

    @property
    def name(self) -> str:
        """Its place inside the store: `stage/ab/key`."""
        return f"{self.stage}/{self.key[:2]}/{self.key}"


class Store:
    """Entries under one root folder.

    Args:
        root: Folder of the store; made when the first entry is.
        locking: Take a file lock while an entry is made, so that a second process waits and finds it. Without the lock
            (file systems that have none) both make it and the loser's copy is dropped.
    """

    def __init__(self, root: Path, *, locking: bool = True) -> None:
        self.root = root
        self._locking = locking
        self._verified: dict[str, Entry] = {}

    def place(self, recipe: Recipe) -> Path:
        """Return the folder of a recipe's entry, present or not."""
        return self.root / recipe.stage / recipe.key[:2] / recipe.key

    def find(self, recipe: Recipe) -> Entry | None:
        """Return the entry, or None if there is none or its bytes disagree with its manifest (then moved aside)."""
        key = recipe.key
        if key in self._verified and (self._verified[key].path / MANIFEST).exists():
            return self._verified[key]
        folder = self.place(recipe)
        if not (folder / MANIFEST).exists():
            return None
        try:
            manifest = read_json(folder / MANIFEST)
            files = dict(manifest["files"])
            wrong = [name for name, sha in files.items() if not _matches(folder / name, sha)]
            entry = Entry(recipe.stage, key, folder, files, manifest["meta"], maker=manifest.get("maker", {}))
        except (DataError, KeyError, TypeError, ValueError) as err:
            wrong, entry = [f"{MANIFEST} ({err})"], None
        if wrong or entry is None:
            self._set_aside(folder, wrong)
            return None
        self._verified[key] = entry
        return entry

    def make(self, recipe: Recipe, build: Callable[[Path], Mapping[str, Any]], *, resumable: bool = False) -> Entry:
        """Return the entry, building it if it is missing.

        Args:
            recipe: What identifies it.
            build: Writes files into the folder it is given and returns the entry's `meta`.
            resumable: Keep the folder when `build` is interrupted and give it to `build` again next time.

        Raises:
            StoreError: If the store cannot be written.
        """
        found = self.find(recipe)
        if found is not None:
            return found
        folder = self.place(recipe)
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
        except OSError as err:
            raise StoreError(f"cannot write to {folder.parent}: {err.strerror}; set outputs_dir=…") from err
        with self.locked(f"{recipe.stage}-{recipe.key[:32]}", f"{recipe.stage} {recipe.key[:8]}"):
            found = self.find(recipe)  # another process may have made it while this one waited
            if found is not None:
                return found
            return self._build(recipe, folder, build, resumable)

    def _build(
        self, recipe: Recipe, folder: Path, build: Callable[[Path], Mapping[str, Any]], resumable: bool
    ) -> Entry:
        started = time.monotonic()
        if resumable and self._locking:
            work = folder.with_name(folder.name + ".partial")
            work.mkdir(exist_ok=True)
        else:
            work = Path(tempfile.mkdtemp(prefix=f"{folder.name}.tmp-", dir=folder.parent))
        try:
            meta = dict(build(work))
        except BaseException:
            if not work.name.endswith(".partial"):
                shutil.rmtree(work, ignore_errors=True)
            raise
        for left in work.glob(".*"):  # temporary files of a killed run
            left.unlink()
        files = {p.name: file_digest(p) for p in sorted(work.iterdir()) if p.is_file() and p.name != MANIFEST}
        write_json(
            work / MANIFEST,
            {
                "recipe": recipe.canonical(),
                "files": files,
                "meta": meta,
                "maker": maker(),
                "seconds": round(time.monotonic() - started, 3),
            },
        )
        _rename_or_drop(work, folder)
        entry = Entry(recipe.stage, recipe.key, folder, files, meta, maker=maker())
        self._verified[recipe.key] = entry
        return replace(entry, made=True)

    def _set_aside(self, folder: Path, wrong: list[str]) -> None:
        for number in itertools.count(1):
            aside = folder.with_name(f"{folder.name}.damaged-{number}")
            if not aside.exists():
                break
        log.warning("store entry %s is damaged (%s); moved to %s and made again", folder, ", ".join(wrong), aside.name)
        folder.rename(aside)

    @contextlib.contextmanager
    def locked(self, name: str, what: str) -> Iterator[None]:
        """Hold a lock against the other processes that share the store; `what` is made meanwhile."""
        if not self._locking:
            yield
            return
        from filelock import FileLock, Timeout

        folder = self.root / ".locks"
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / f"{name}.lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            log.info("another process is making %s; waiting for it", what)
            lock.acquire()
        try:
            yield
        finally:
            lock.release()


def check_writable(folder: Path) -> None:
    """Raise `StoreError` if nothing can be written under `folder` (which need not exist yet)."""
    parent = folder
    while not parent.exists() and parent != parent.parent:
        parent = parent.parent
    if not parent.is_dir():
        raise StoreError(f"outputs_dir: {parent} is not a folder; set outputs_dir=…")
    try:
        with tempfile.TemporaryFile(dir=parent):
            pass
    except OSError as err:
        raise StoreError(f"outputs_dir: cannot write to {parent}: {err.strerror}; set outputs_dir=…") from err


def _matches(path: Path, sha: str) -> bool:
    return path.is_file() and file_digest(path) == sha


def _rename_or_drop(work: Path, folder: Path) -> None:
    """Give the finished folder its name; if another process was first, its equal entry stays and ours goes."""
    try:
        os.rename(work, folder)
    except OSError as err:
        if err.errno not in (errno.EEXIST, errno.ENOTEMPTY) or not (folder / MANIFEST).exists():
            raise StoreError(f"cannot write {folder}: {err.strerror}") from err
        log.info("another process made %s first; its copy stays", folder.name[:8])
        shutil.rmtree(work, ignore_errors=True)
