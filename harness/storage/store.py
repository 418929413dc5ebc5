"""The content-addressed store: what a stage made, found again by what went into it.

An entry is a folder `<root>/<stage>/<ab>/<key>/` with files and a `manifest.json`, written last. The key is a digest of
the recipe: key scheme, stage, stage version, full spec with defaults, and the content digests of the inputs. So an
upstream change that yields the same bytes costs nothing downstream.

A manifest holds the recipe, the key, the digest of each file and one of itself. An entry is believed if all of them
agree with each other and with the place where it lies; whatever does not is moved aside, said aloud, and made again.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from openended.harness.core import (
    DataError,
    Json,
    StoreError,
    digest,
    file_digest,
    read_json,
    shareable,
    sync_folder,
    temporary_files,
    to_json,
    write_json,
)
from openended.harness.storage.folders import give_name, make_room, set_aside
from openended.harness.storage.provenance import maker
from openended.harness.storage.recipe import Recipe

log = logging.getLogger(__name__)

MANIFEST = "manifest.json"
PARTIAL = ".partial"  # after the key: made in part, and gone on with the next time


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


def read_entry(folder: Path, *, only: str | None = None) -> Entry:
    """Return the entry in a folder, its bytes verified.

    Args:
        folder: `…/<stage>/<ab>/<key>`.
        only: Verify this file alone of the files (the manifest is verified always).

    Raises:
        DataError: Says what is missing or damaged.
        StoreError: If it may not be read.
    """
    return _read(folder, only)[0]


def _read(folder: Path, only: str | None) -> tuple[Entry, Json]:
    """Return a verified entry and its recipe."""
    try:
        manifest = read_json(folder / MANIFEST)
        stated = manifest.pop("digest")
        if stated != digest(manifest):
            raise DataError(f"{MANIFEST} does not agree with its own digest")
        stage, key, recipe = folder.parent.parent.name, str(manifest["key"]), manifest["recipe"]
        if key != folder.name or recipe["stage"] != stage:
            raise DataError(f"it is {recipe['stage']} {key[:8]}, of another place")
        files, meta, made_by = (dict(manifest[name]) for name in ("files", "meta", "maker"))
        if only is not None and only not in files:
            raise DataError(f"it holds no {only}")
        wrong = [name for name, sha in files.items() if only in (None, name) and not _matches(folder / name, sha)]
    except (DataError, PermissionError) as err:
        cause = err.__cause__ or err
        if isinstance(cause, PermissionError):
            raise StoreError(f"cannot read {cause.filename}: {cause.strerror}; to share: chmod -R g+rwX") from err
        raise
    except (AttributeError, KeyError, OSError, TypeError, ValueError, RecursionError) as err:
        raise DataError(f"{MANIFEST} ({type(err).__name__}: {err})") from err
    if wrong:
        raise DataError(", ".join(wrong))
    return Entry(stage, key, folder, files, meta, maker=made_by), recipe


def write_manifest(folder: Path, recipe: Json, key: str, meta: Mapping[str, Any], **facts: Any) -> Json:  # noqa: ANN401
    """Write and return the manifest of the files in a folder; `facts` (who made it, in how many seconds) go into it.

    Raises:
        StoreError: If it cannot be written.
    """
    found = sorted(p for p in folder.iterdir() if p.is_file() and not p.is_symlink() and p.name != MANIFEST)
    files = {p.name: file_digest(p) for p in found}
    made = shareable(to_json({"maker": {}, **facts, "recipe": recipe, "key": key, "files": files, "meta": meta}))
    write_json(folder / MANIFEST, {**cast("dict[str, Json]", made), "digest": digest(made)})
    return made


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
        """Return the entry, or None if there is none that can be believed; writes nothing.

        Raises:
            StoreError: If it is there and may not be read.
        """
        folder = self.place(recipe)
        found = self._look(recipe, folder)
        if isinstance(found, str):
            log.warning("store entry %s is damaged (%s); it will be made again", folder, found)
        return found if isinstance(found, Entry) else None

    def make(self, recipe: Recipe, build: Callable[[Path], Mapping[str, Any]], *, resumable: bool = False) -> Entry:
        """Return the entry, building it if it is missing or damaged.

        Args:
            recipe: What identifies it.
            build: Writes files into the folder it is given and returns the entry's `meta`.
            resumable: Keep the folder when `build` is interrupted and give it to `build` again next time.

        Raises:
            StoreError: If the store cannot be read or written.
        """
        folder = self.place(recipe)
        found = self._look(recipe, folder)
        if isinstance(found, Entry):
            return found
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
        except OSError as err:
            raise StoreError(f"cannot write to {folder.parent}: {err.strerror}; set outputs_dir=…") from err
        with self.locked(f"{recipe.stage}-{recipe.key[:32]}", f"{recipe.stage} {recipe.key[:8]}"):
            found = self._look(recipe, folder)  # another process may have made it while this one waited
            if isinstance(found, Entry):
                return found
            if found is not None:
                set_aside(folder, found)
            return self._build(recipe, folder, build, resumable)

    def _look(self, recipe: Recipe, folder: Path) -> Entry | str | None:
        """Return the entry, None if there is none, or what is wrong with it."""
        key = recipe.key
        if key in self._verified and (folder / MANIFEST).exists():
            return self._verified[key]
        if not os.path.lexists(folder):
            return None
        try:
            entry, stated = _read(folder, None)
        except DataError as err:
            return str(err)
        if stated != shareable(to_json(recipe.canonical())):
            return "its recipe is another one"
        self._verified[key] = entry
        return entry

    def _build(
        self, recipe: Recipe, folder: Path, build: Callable[[Path], Mapping[str, Any]], resumable: bool
    ) -> Entry:
        started = time.monotonic()
        temporary_files.sweep_once(folder.parent)
        kept = resumable and self._locking
        work = folder.with_name(folder.name + PARTIAL if kept else temporary_files.temporary(folder.name))
        make_room(work)
        try:
            meta = dict(build(work))
            for left in work.glob(".*"):  # temporary files of a killed run
                temporary_files.discard(left)
            seconds = round(time.monotonic() - started, 3)
            made: Any = write_manifest(work, recipe.canonical(), recipe.key, meta, maker=maker(), seconds=seconds)
            sync_folder(work)
            give_name(work, folder, MANIFEST)
        finally:
            if not kept:
                temporary_files.discard(work)
        entry = Entry(recipe.stage, recipe.key, folder, made["files"], made["meta"], maker=made["maker"])
        self._verified[recipe.key] = entry
        return replace(entry, made=True)

    @contextlib.contextmanager
    def locked(self, name: str, what: str) -> Iterator[None]:
        """Hold a lock against the other processes that share the store; `what` is made meanwhile.

        Raises:
            StoreError: If the lock's file cannot be opened.
        """
        if not self._locking:
            yield
            return
        from filelock import FileLock, Timeout

        folder = self.root / ".locks"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / f"{name}.lock"
            # Made here, so that its permissions follow the umask: filelock would set its own.
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o666))
            lock = FileLock(path, mode=path.stat().st_mode & 0o777)
            try:
                lock.acquire(timeout=0)
            except Timeout:
                log.info("another process is making %s; waiting for it", what)
                lock.acquire()
        except OSError as err:
            raise StoreError(
                f"cannot lock {folder / name}.lock: {err.strerror or err}; set outputs_dir=… or runtime.locking=false"
            ) from err
        try:
            yield
        finally:
            lock.release()


def _matches(path: Path, sha: str) -> bool:
    return path.is_file() and file_digest(path) == sha
