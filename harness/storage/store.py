"""The content-addressed store: results of stages, looked up by everything they were computed from.

An entry is a folder `<root>/<stage>/<ab>/<key>/` with files and a `manifest.json`, written last. The key is a digest of
the recipe: key scheme, stage, stage version, full spec with defaults, and the content digests of the inputs. An
upstream change that yields the same bytes therefore costs nothing downstream.

A manifest holds the recipe, the key, the digest of each file and its own digest. An entry is used only if all of them
agree with each other and with its path, and its files can be read; otherwise it is moved aside with a warning and
computed again. Entries that `openended import` unpacked are marked and used only if they were imported with `--trust`.
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
    digest_file,
    make_shareable,
    read_json,
    sync_folder,
    temporary_files,
    to_json,
    write_json,
)
from openended.harness.storage.contents import check_contents, check_stage_facts, check_stage_files
from openended.harness.storage.folders import create_work_folder, move_aside, publish_folder
from openended.harness.storage.provenance import describe_environment
from openended.harness.storage.recipe import Recipe

log = logging.getLogger(__name__)

MANIFEST = "manifest.json"
PARTIAL = ".partial"  # suffix of unfinished entries, which are resumed


@dataclass(frozen=True, slots=True)
class Entry:
    """A finished artifact."""

    stage: str
    key: str
    path: Path
    files: Mapping[str, str]
    """File name → SHA-256 of its bytes."""
    meta: Mapping[str, Any]
    """Facts that later stages and reports show (counts, numbers of skipped records)."""
    computed: bool = False
    """True if it was computed now, False if it was cached."""
    maker: Mapping[str, Any] = field(default_factory=dict)
    """Environment that computed it: `git`, `packages`, `hardware`, `imported`; empty if not recorded."""

    @property
    def content(self) -> str:
        """Digest of all its files."""
        return digest(self.files)

    @property
    def is_untrusted(self) -> bool:
        """True if it was imported without `--trust`, so that runs compute it again."""
        mark = self.maker.get("imported")
        return mark is not None and not (isinstance(mark, Mapping) and mark.get("trusted") is True)

    @property
    def name(self) -> str:
        """Its path inside the store: `stage/ab/key`."""
        return f"{self.stage}/{self.key[:2]}/{self.key}"


def read_entry(folder: Path, *, only: str | None = None) -> Entry:
    """Return the entry in a folder after verifying its bytes.

    Args:
        folder: `…/<stage>/<ab>/<key>`.
        only: Verify and read only this file (the manifest is always verified).

    Raises:
        DataError: Names what is missing or damaged.
        StoreError: If its files may not be read.
    """
    return _read(folder, only)[0]


def _read(folder: Path, only: str | None) -> tuple[Entry, Json]:
    """Return a verified entry and its recipe."""
    try:
        manifest = read_json(folder / MANIFEST)
        stated = manifest.pop("digest")
        if stated != digest(manifest):
            raise DataError(f"{MANIFEST} does not match its own digest")
        stage, key, recipe = folder.parent.parent.name, str(manifest["key"]), manifest["recipe"]
        if key != folder.name or recipe["stage"] != stage:
            raise DataError(f"it is {recipe['stage']} {key[:8]}, in the wrong folder")
        files, meta, environment = (manifest[name] for name in ("files", "meta", "maker"))
        if not all(isinstance(value, dict) for value in (files, meta, environment)):
            raise DataError(f"{MANIFEST}: expected objects as files, meta and maker")
        if only is not None and only not in files:
            raise DataError(f"it holds no {only}")
        wrong = [name for name, sha in files.items() if only in (None, name) and not _has_digest(folder / name, sha)]
    except (DataError, PermissionError) as err:
        cause = err.__cause__ or err
        if isinstance(cause, PermissionError):
            raise StoreError(f"cannot read {cause.filename}: {cause.strerror}; to share: chmod -R g+rwX") from err
        raise
    except (AttributeError, KeyError, OSError, TypeError, ValueError, RecursionError) as err:
        raise DataError(f"{MANIFEST} ({type(err).__name__}: {err})") from err
    if wrong:
        raise DataError(", ".join(wrong))
    if only is None:
        check_stage_files(stage, files)
        check_stage_facts(stage, meta)
    check_contents(folder, files if only is None else [only])
    return Entry(stage, key, folder, files, meta, maker=environment), recipe


def write_manifest(folder: Path, recipe: Json, key: str, meta: Mapping[str, Any], **facts: Any) -> Json:  # noqa: ANN401
    """Write and return the manifest of the files in a folder; `facts` (environment, seconds) are added to it."""
    paths = sorted(p for p in folder.iterdir() if p.is_file() and not p.is_symlink() and p.name != MANIFEST)
    files = {p.name: digest_file(p) for p in paths}
    manifest = make_shareable(
        to_json({"maker": {}, **facts, "recipe": recipe, "key": key, "files": files, "meta": meta})
    )
    write_json(folder / MANIFEST, {**cast("dict[str, Json]", manifest), "digest": digest(manifest)})
    return manifest


def mark_manifest(value: Any, mark: Mapping[str, Json], name: str, where: str) -> dict[str, Json]:  # noqa: ANN401
    """Return the JSON of an imported manifest with the mark, sealed again.

    Raises:
        DataError: If it is not the sound manifest of the entry `name` (`stage/ab/key`).
    """
    try:
        manifest = dict(value)
        if manifest.pop("digest") != digest(manifest):
            raise DataError(f"{where}: damaged: its digest does not match")
        stage, key = name.split("/", maxsplit=1)[0], name.split("/")[2]
        if (manifest["recipe"]["stage"], manifest["key"]) != (stage, key):
            raise DataError(f"{where}: is the manifest of another entry")
        check_stage_files(stage, manifest["files"])
        manifest["maker"] = {**manifest["maker"], "imported": dict(mark)}
        return {**manifest, "digest": digest(manifest)}
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as err:
        raise DataError(f"{where}: not a manifest ({type(err).__name__}: {err})") from err


class Store:
    """Entries under one root folder.

    Args:
        root: Folder of the store; created with the first entry.
        locking: Take a file lock while an entry is computed, so that a second process waits for it. Without locks (on
            file systems that have none) both compute it and the later copy is dropped.
    """

    def __init__(self, root: Path, *, locking: bool = True) -> None:
        self.root = root
        self._locking = locking
        self._verified: dict[str, Entry] = {}

    def get_entry_path(self, recipe: Recipe) -> Path:
        """Return the path of a recipe's entry, which may not exist."""
        return self.root / recipe.stage / recipe.key[:2] / recipe.key

    def find(self, recipe: Recipe) -> Entry | None:
        """Return the cached entry, or None if there is no valid one; writes nothing.

        Raises:
            StoreError: If it exists and may not be read.
        """
        folder = self.get_entry_path(recipe)
        result = self._check_entry(recipe, folder)
        if isinstance(result, str):
            log.warning("store entry %s is not usable (%s); it will be computed again", folder, result)
        return result if isinstance(result, Entry) else None

    def make(self, recipe: Recipe, build: Callable[[Path], Mapping[str, Any]], *, resumable: bool = False) -> Entry:
        """Return the entry, building it if it is missing or damaged.

        Args:
            recipe: What identifies it.
            build: Writes files into the folder it is given and returns the entry's `meta`.
            resumable: Keep the folder when `build` is interrupted and give it to `build` again next time.

        Raises:
            StoreError: If the store cannot be read or written.
        """
        folder = self.get_entry_path(recipe)
        result = self._check_entry(recipe, folder)
        if isinstance(result, Entry):
            return result
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
        except OSError as err:
            raise StoreError(f"cannot write to {folder.parent}: {err.strerror}; set outputs_dir=…") from err
        with self.hold_lock(f"{recipe.stage}-{recipe.key[:32]}", f"{recipe.stage} {recipe.key[:8]}"):
            result = self._check_entry(recipe, folder)  # another process may have computed it meanwhile
            if isinstance(result, Entry):
                return result
            if result is not None:
                move_aside(folder, result)
            return self._build(recipe, folder, build, resumable)

    def _check_entry(self, recipe: Recipe, folder: Path) -> Entry | str | None:
        """Return the entry, None if there is none, or the reason why it is not usable."""
        key = recipe.key
        if key in self._verified and (folder / MANIFEST).exists():
            return self._verified[key]
        if not os.path.lexists(folder):
            return None
        try:
            entry, stated = _read(folder, None)
        except DataError as err:
            return str(err)
        if stated != make_shareable(to_json(recipe.canonical())):
            return "its recipe differs"
        if entry.is_untrusted:
            return "it was imported, not computed here; `openended import --trust` allows reuse"
        self._verified[key] = entry
        return entry

    def _build(
        self, recipe: Recipe, folder: Path, build: Callable[[Path], Mapping[str, Any]], resumable: bool
    ) -> Entry:
        started = time.monotonic()
        temporary_files.delete_abandoned_once(folder.parent)
        resumes = resumable and self._locking
        work = folder.with_name(
            folder.name + PARTIAL if resumes else temporary_files.create_temporary_name(folder.name)
        )
        create_work_folder(work)
        try:
            meta = dict(build(work))
            for left in work.glob(".*"):  # temporary files of a killed run
                temporary_files.delete_path(left)
            seconds = round(time.monotonic() - started, 3)
            manifest: Any = write_manifest(
                work, recipe.canonical(), recipe.key, meta, maker=describe_environment(), seconds=seconds
            )
            sync_folder(work)
            publish_folder(work, folder, MANIFEST)
        finally:
            if not resumes:
                temporary_files.delete_path(work)
        entry = Entry(recipe.stage, recipe.key, folder, manifest["files"], manifest["meta"], maker=manifest["maker"])
        self._verified[recipe.key] = entry
        return replace(entry, computed=True)

    @contextlib.contextmanager
    def hold_lock(self, name: str, what: str) -> Iterator[None]:
        """Hold a lock against other processes that share the store; `what` names the work in messages.

        Raises:
            StoreError: If the lock file cannot be opened.
        """
        if not self._locking:
            yield
            return
        from filelock import FileLock, Timeout

        folder = self.root / ".locks"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / f"{name}.lock"
            # Created here, so that its permissions follow the umask; filelock sets its own.
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o666))
            lock = FileLock(path, mode=path.stat().st_mode & 0o777)
            try:
                lock.acquire(timeout=0)
            except Timeout:
                log.info("another process is computing %s; waiting for it", what)
                lock.acquire()
        except OSError as err:
            raise StoreError(
                f"cannot lock {folder / name}.lock: {err.strerror or err}; set outputs_dir=… or runtime.locking=false"
            ) from err
        try:
            yield
        finally:
            lock.release()


def _has_digest(path: Path, sha: str) -> bool:
    return path.is_file() and digest_file(path) == sha
