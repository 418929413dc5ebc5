"""Download public files once into a shared cache folder, with resume and checksums.

A file is written beside its place as `.part` and takes its name only when it is whole and its checksum agrees: the one
that the source states, else the one recorded when the file was first seen (`ledger.json` in the cache folder), else it
is recorded now. A file that was put there by hand is treated the same.

The cache folder is, in this order: the option `cache_dir`, OPENENDED_CACHE, `openended/` under HF_HOME, under
XDG_CACHE_HOME, under `~/.cache`. Offline (option `offline`, OPENENDED_OFFLINE or HF_HUB_OFFLINE) nothing is fetched.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from openended.harness.core import DataError, SpecError, UnavailableFileError, read_json, write_json
from openended.harness.models import OFFLINE_VARIABLES, is_switched_off

log = logging.getLogger(__name__)
_CHUNK = 1 << 20
_TIMEOUT = 30.0
_ATTEMPTS = 5
# What must stay free on the disk after a download, bytes.
_SPARE = 64 << 20
LEDGER = "ledger.json"


@dataclass(frozen=True, slots=True)
class Remote:
    """A file at a public address."""

    url: str
    path: str
    """Where it lies in the cache folder, for example `webtext/webtext.test.jsonl`."""
    checksum: str | None = None
    """`md5:…` or `sha256:…` where the source states one; None: recorded at the first download."""
    by_hand: str = ""
    """How to get it where no program can; then it is never fetched."""

    def cache_path(self, cache_dir: str | None = None) -> Path:
        """Return the path of the file in the cache."""
        if Path(self.path).is_absolute() or ".." in Path(self.path).parts:
            raise SpecError(f"expected the name of a public file, got {self.path!r:.80}, outside the cache folder")
        return find_cache_root(cache_dir) / self.path


def find_cache_root(cache_dir: str | None = None) -> Path:
    """Return the cache folder; it need not exist."""
    if cache_dir:
        return Path(cache_dir).expanduser()
    if folder := os.environ.get("OPENENDED_CACHE"):
        return Path(folder).expanduser()
    home = os.environ.get("HF_HOME") or os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(home).expanduser() / "openended"


def is_offline(*, offline: bool = False) -> bool:
    """Return true if nothing may be downloaded."""
    return offline or is_switched_off(OFFLINE_VARIABLES)


def fetch(remote: Remote, *, cache_dir: str | None = None, offline: bool = False, progress: bool = True) -> Path:
    """Return the file, downloaded if it is not there yet, its checksum verified."""
    from filelock import FileLock

    path = remote.cache_path(cache_dir)
    if not path.is_file():
        refuse_missing(remote, path, offline=offline)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # One lock per file: a second process waits and then finds the file.
        with FileLock(f"{path}.lock"):
            if not path.is_file():
                _download(remote, path, progress=progress)
            verify(remote, cache_dir=cache_dir)
    except OSError as err:
        raise DataError(f"cannot write {path}: {err.strerror or err}; set another cache folder") from err
    return path


def refuse_missing(remote: Remote, path: Path, *, offline: bool = False, planning: bool = False) -> None:
    """Raise `UnavailableFileError` if a missing file cannot be fetched: which one, from where, and where to put it."""
    off = is_offline(offline=offline)
    how = remote.by_hand or f"get it from {remote.url}"
    if remote.by_hand or off or planning:
        why = " (offline)" if off and not remote.by_hand else ""
        message = f"missing file{why}: {path.name}; {how} and put it at {path}"
        raise UnavailableFileError(message, "" if remote.by_hand else remote.url)


def verify(remote: Remote, *, cache_dir: str | None = None, quick: bool = False) -> str:
    """Compare a file with its checksum and return its SHA-256 (hex), which is recorded the first time."""
    path = remote.cache_path(cache_dir)
    try:
        stat = path.stat()
    except FileNotFoundError as err:
        message = f"missing file: {path.name}; get it from {remote.url} and put it at {path}"
        raise UnavailableFileError(message, remote.url) from err
    stamp = [stat.st_size, stat.st_mtime_ns]
    ledger = find_cache_root(cache_dir) / LEDGER
    recorded = read_ledger(ledger).get(remote.path, {})
    if quick and recorded.get("stamp") == stamp:
        return str(recorded["sha256"])
    stated = (remote.checksum or "").partition(":")
    kinds = {"sha256", stated[0]} - {""}
    digests = _compute_digests(path, kinds)
    if stated[0] and digests[stated[0]] != stated[2]:
        raise DataError(_describe_mismatch(path, stated[0], stated[2], digests[stated[0]], "the source states"))
    if not stated[0] and recorded and recorded["sha256"] != digests["sha256"]:
        raise DataError(_describe_mismatch(path, "sha256", recorded["sha256"], digests["sha256"], "was recorded"))
    if recorded.get("stamp") != stamp and not quick:
        with edit_ledger(ledger) as entries:
            entries[remote.path] = {"url": remote.url, "sha256": digests["sha256"], "stamp": stamp}
    return digests["sha256"]


def _describe_mismatch(path: Path, kind: str, expected: str, got: str, who: str) -> str:
    return f"{path}: its {kind} is {got}, {who} {expected}; remove the file to fetch it again"


def read_ledger(path: Path) -> dict[str, Any]:
    """Return what was recorded in a cache folder; empty if nothing was."""
    if not path.is_file():
        return {}
    entries = read_json(path)
    if not isinstance(entries, dict):
        raise DataError(f"{path}: expected a JSON object")
    return entries


@contextmanager
def edit_ledger(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the entries of a ledger for changes and write them back, under a lock."""
    from filelock import FileLock

    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{path}.lock"):
        entries = read_ledger(path)
        yield entries
        write_json(path, entries)


def _compute_digests(path: Path, kinds: set[str]) -> dict[str, str]:
    hashes = {kind: hashlib.new(kind, usedforsecurity=False) for kind in kinds}
    with path.open("rb") as handle:
        while block := handle.read(_CHUNK):
            for hasher in hashes.values():
                hasher.update(block)
    return {kind: hasher.hexdigest() for kind, hasher in hashes.items()}


def _download(remote: Remote, path: Path, *, progress: bool) -> None:
    """Download into `.part`, resuming an earlier attempt, then rename."""
    part = path.with_name(path.name + ".part")
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            _attempt(remote.url, part, progress=progress)
        except urllib.error.HTTPError as err:
            err.close()
            if err.code == 416:
                part.unlink(missing_ok=True)
            elif err.code < 500:
                raise DataError(f"{remote.url}: HTTP {err.code} {err.reason}; put the file at {path}") from err
            reason: Exception = err
        except (urllib.error.URLError, HTTPException, TimeoutError, ConnectionError) as err:
            reason = err
        else:
            part.replace(path)
            _get_metadata_path(part).unlink(missing_ok=True)
            return
        log.warning("%s: attempt %d of %d failed (%s)", remote.url, attempt, _ATTEMPTS, reason)
        if attempt < _ATTEMPTS:
            time.sleep(min(8.0, 0.25 * 2**attempt))
    raise DataError(
        f"{remote.url}: download failed {_ATTEMPTS} times; fetch it yourself with `curl -L -o {path} {remote.url}`"
    )


def _get_metadata_path(part: Path) -> Path:
    return part.with_name(part.name + ".json")


def _attempt(url: str, part: Path, *, progress: bool) -> None:
    if urlsplit(url).scheme not in ("http", "https"):
        raise DataError(f"{url}: only http and https addresses are fetched")
    begun = part.stat().st_size if part.is_file() else 0
    tag = read_json(_get_metadata_path(part)).get("tag") if begun and _get_metadata_path(part).is_file() else None
    request = urllib.request.Request(url, headers={"User-Agent": "openended"})  # noqa: S310 - checked above
    if begun and tag:
        request.add_header("Range", f"bytes={begun}-")
        # A file that changed in between is sent whole, with status 200.
        request.add_header("If-Range", tag)
    with urllib.request.urlopen(request, timeout=_TIMEOUT) as response:  # noqa: S310
        resumed = response.status == 206
        begun = begun if resumed else 0
        size = response.headers.get("Content-Length")
        total = begun + int(size) if size is not None else None
        _check_space(part, total - begun if total is not None else 0)
        strong = response.headers.get("ETag", "")
        tag = strong if strong and not strong.startswith("W/") else response.headers.get("Last-Modified")
        write_json(_get_metadata_path(part), {"url": url, "tag": tag})
        with (
            part.open("ab" if resumed else "wb") as handle,
            _show_progress(part.stem, total, visible=progress) as advance,
        ):
            advance(begun)
            _copy(response, handle.write, advance)
    got = part.stat().st_size
    if total is not None and got != total:
        raise ConnectionError(f"{got} of {total} bytes came")


def _copy(response: HTTPResponse, write: Callable[[bytes], Any], advance: Callable[[int], None]) -> None:
    while block := response.read(_CHUNK):
        write(block)
        advance(len(block))


def _check_space(part: Path, needed: int) -> None:
    free = shutil.disk_usage(part.parent).free
    if needed + _SPARE > free:
        raise DataError(
            f"{part.parent}: {needed / 2**20:.0f} MiB are needed and {free / 2**20:.0f} MiB are free; "
            "free some, or set another cache folder"
        )


@contextmanager
def _show_progress(label: str, total: int | None, *, visible: bool) -> Iterator[Callable[[int], None]]:
    """Show bytes, speed and time left while the block runs."""
    if not visible:
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bar:
        job = bar.add_task(label, total=total)
        yield lambda count: bar.update(job, advance=count)
