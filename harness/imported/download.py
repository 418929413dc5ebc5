"""Download public files once into a shared cache folder, with resume and checksums.

A file gets its name only when it is whole and its checksum is the one recorded when the file was first seen
(`ledger.json` in the cache folder). A file that was put there by hand is treated the same.
"""

import json
import logging
import re
import shutil
import tarfile
import time
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from openended.harness import core
from openended.harness.core import OFFLINE_VARIABLES, DataError, SpecError, find_cache_root, is_switched_off

log = logging.getLogger(__name__)
_CHUNK = 1 << 20
_TIMEOUT = 30.0
_ATTEMPTS = 5
_SPARE = 64 << 20  # bytes that must stay free on the disk after a download
_MOST_MEMBERS = 100_000  # of an archive
LEDGER = "ledger.json"
GPT2_OUTPUT = "https://openaipublic.blob.core.windows.net/gpt-2/output-dataset/v1"
_HUB_ADDRESS = re.compile(
    r"hf://(?:datasets/)?(?!datasets/)(?P<repo>[\w][\w.-]*/[\w][\w.-]*?)(?:@(?P<revision>[^/@]+))?(?:/(?P<rest>[^/].*))?"
)
GROVER = "https://storage.googleapis.com/grover-models/generation_examples"


@dataclass(frozen=True, slots=True)
class Remote:
    """A file at a public address."""

    url: str
    path: str  # where it lies in the cache folder, for example `webtext/webtext.test.jsonl`

    def cache_path(self, cache_dir: str | None = None) -> Path:
        """Return the path of the file in the cache; refuse a name that leads out of the cache folder."""
        if Path(self.path).is_absolute() or ".." in Path(self.path).parts:
            raise SpecError(f"expected the name of a public file, got {self.path!r:.80}, outside the cache folder")
        return find_cache_root(cache_dir) / self.path


def is_offline(*, offline: bool = False) -> bool:
    """Return true if nothing may be downloaded."""
    return offline or is_switched_off(OFFLINE_VARIABLES)


def fetch(remote: Remote, *, cache_dir: str | None = None, offline: bool = False) -> Path:
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
                _download(remote.url, path)
            verify(remote, cache_dir=cache_dir)
    except OSError as err:
        raise DataError(f"cannot write {path}: {err.strerror or err}; set another cache folder") from err
    return path


def find_generations(generations: str, *, planning: bool) -> Path:
    """Return the file of the option `generations`: a path, or the address or name of a public one, downloaded once.

    `gpt2-output:xl-1542M-k40.test` is a file of the GPT-2 output dataset, `grover:mega-p0.94` Grover's;
    `hf://datasets/OWNER/NAME/FILE` is a file of the hub, and `hf://datasets/OWNER/NAME/CONFIG/SPLIT` (or `…/SPLIT`) a
    dataset that the library `datasets` reads.
    """
    kind, _, name = generations.partition(":")
    is_address = re.match(r"\w+://", generations) is not None
    if kind == "gpt2-output" and name:
        remote = Remote(f"{GPT2_OUTPUT}/{name}.jsonl", f"webtext/{name}.jsonl")
    elif kind == "grover" and name:
        model, _, decoder = name.partition("-")
        file = f"generator={model}~dataset={decoder}.jsonl"
        remote = Remote(f"{GROVER}/{file}", f"realnews/{file}")
    elif generations.startswith(("http://", "https://")):
        name = urlsplit(generations).path.rpartition("/")[2] or "texts"
        remote = Remote(generations, f"files/{core.digest(generations)[:8]}/{name}")
    elif is_address and kind != "hf":
        raise SpecError(f"{generations}: download it first; https:// and hf://datasets/OWNER/NAME/FILE are fetched")
    elif is_address:
        return _find_on_hub(generations, planning=planning)
    else:
        return Path(generations)
    if not planning:
        return fetch(remote)
    path = remote.cache_path()
    if not path.is_file():
        refuse_missing(remote, path, planning=True)
    return path


def _find_on_hub(name: str, *, planning: bool) -> Path:
    """Return a file of the hub, downloaded, or a dataset that `datasets` reads as a stream into JSON lines, once."""
    address = _HUB_ADDRESS.fullmatch(name)
    if address is None:
        raise SpecError(f"expected hf://datasets/OWNER/NAME/FILE, got {name!r}")
    repo, revision, rest = address["repo"], address["revision"], address["rest"] or ""
    file = f"files/{core.digest(name)[:8]}/{repo.replace('/', '-')}.jsonl"
    cached = Remote(f"https://huggingface.co/datasets/{repo}", file)
    path, is_file = cached.cache_path(), "." in rest.rpartition("/")[2]
    is_local = planning or is_offline()
    if not is_file and path.is_file():
        return path
    if not is_file and is_local:
        refuse_missing(cached, path, planning=True)
    core.require_package("huggingface_hub" if is_file else "datasets", "hub")
    try:
        if is_file:
            from huggingface_hub import hf_hub_download

            local: dict[str, Any] = {"local_files_only": True} if is_local else {}
            return Path(hf_hub_download(repo, rest, repo_type="dataset", revision=revision, **local))
        _stream_dataset(repo, revision, rest, path)
    except SpecError:
        raise
    except Exception as err:  # the errors of its HTTP client have no common base
        if is_local:
            raise core.UnavailableFileError(f"missing file: {name}; it is downloaded by a run", cached.url) from err
        raise DataError(f"{name}: cannot be downloaded ({type(err).__name__}: {core.shorten_error(err)})") from err
    return path


def _stream_dataset(repo: str, revision: str | None, rest: str, path: Path) -> None:
    """Write a split of a dataset as JSON lines."""
    import datasets

    config, _, split = rest.rpartition("/")
    splits: Any = datasets.load_dataset(repo, config or None, revision=revision, streaming=True)
    if split not in splits and (split or len(splits) > 1):
        got = split or "none"
        raise SpecError(f"expected a split, {', '.join(splits)}, as hf://datasets/{repo}/{[*splits][-1]}, got {got}")
    split = split or next(iter(splits))
    count = 0
    with (
        core.open_for_replacement(path) as handle,
        core.show_progress(repo, None, unit="rows", enabled=True) as advance,
    ):
        for row in splits[split]:
            handle.write(f"{json.dumps(row, ensure_ascii=False, default=str)}\n")
            advance(1)
            count += 1
    log.warning("%s: %d rows of %r read by datasets %s, kept at %s", repo, count, split, datasets.__version__, path)


ARCHIVES = (".zip", ".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz")


@lru_cache(maxsize=16)
def unpack(path: Path, stamp: tuple[int, int]) -> Path:
    """Return the folder of an unpacked archive in the cache, or the file in it if it is the only one."""
    del stamp
    folder = find_cache_root() / "files" / core.digest_file(path)[:8] / path.name.partition(".")[0]
    if not folder.is_dir():
        temporary = folder.with_name(core.temporary_files.create_temporary_name(folder.name))
        try:
            size, is_zip = 0, path.suffix == ".zip"
            opened: Any = zipfile.ZipFile(path) if is_zip else tarfile.open(path)  # noqa: SIM115 - closed below
            with opened as archive:
                for count, member in enumerate(archive.infolist() if is_zip else archive):
                    size += member.file_size if is_zip else member.size
                    core.check_unpacked_size(path, size)
                    if count == _MOST_MEMBERS:
                        raise DataError(f"{path}: expected at most {_MOST_MEMBERS} files, got more; unpack it yourself")
            shutil.unpack_archive(path, temporary, filter=None if is_zip else "data")
            temporary.rename(folder)
        except (OSError, EOFError, zlib.error, RuntimeError, tarfile.TarError, zipfile.BadZipFile) as err:
            raise DataError(f"{path}: cannot be unpacked ({core.shorten_error(err)})") from err
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    files = [file for file in folder.rglob("*") if file.is_file() and "__MACOSX" not in file.parts]
    return files[0] if len(files) == 1 else folder


def refuse_missing(remote: Remote, path: Path, *, offline: bool = False, planning: bool = False) -> None:
    """Raise `UnavailableFileError` if a missing file may not be fetched now: from where, and where to put it."""
    is_off = is_offline(offline=offline)
    if is_off or planning:
        why = " (offline)" if is_off else ""
        message = f"missing file{why}: {path.name}; get it from {remote.url} and put it at {path}"
        raise core.UnavailableFileError(message, remote.url)


def verify(remote: Remote, *, cache_dir: str | None = None, quick: bool = False) -> str:
    """Return the SHA-256 of a file; refuse one that is not the recorded one, and record a new one.

    `quick`, for planning, trusts the recorded digest where size and time of the file are the recorded ones, and records
    nothing.
    """
    path = remote.cache_path(cache_dir)
    stat = path.stat()
    stamp = [stat.st_size, stat.st_mtime_ns]
    ledger = find_cache_root(cache_dir) / LEDGER
    recorded = read_ledger(ledger).get(remote.path, {})
    if quick and recorded.get("stamp") == stamp:
        return str(recorded["sha256"])
    sha256 = core.digest_file(path)
    if recorded and recorded["sha256"] != sha256:
        raise DataError(
            f"{path}: its sha256 is {sha256}, was recorded {recorded['sha256']}; remove the file to fetch it again"
        )
    if recorded.get("stamp") != stamp and not quick:
        with edit_ledger(ledger) as entries:
            entries[remote.path] = {"url": remote.url, "sha256": sha256, "stamp": stamp}
    return sha256


def read_ledger(path: Path) -> dict[str, Any]:
    """Return what was recorded in a cache folder; empty if nothing was."""
    if not path.is_file():
        return {}
    entries = core.read_json(path)
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
        core.write_json(path, entries)


def _download(url: str, path: Path) -> None:
    """Download into `.part`, resuming an earlier attempt, then rename."""
    if urlsplit(url).scheme not in ("http", "https"):
        raise DataError(f"{url}: only http and https addresses are fetched")
    part = path.with_name(path.name + ".part")
    notes = part.with_name(part.name + ".json")
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            _attempt(url, part, notes)
        except urllib.error.HTTPError as err:
            err.close()
            if err.code == 416:
                part.unlink(missing_ok=True)
            elif err.code < 500:
                raise DataError(f"{url}: HTTP {err.code} {err.reason}; put the file at {path}") from err
            reason: Exception = err
        except (urllib.error.URLError, HTTPException, TimeoutError, ConnectionError) as err:
            reason = err
        else:
            part.replace(path)
            notes.unlink(missing_ok=True)
            return
        log.warning("%s: attempt %d of %d failed (%s)", url, attempt, _ATTEMPTS, reason)
        if attempt < _ATTEMPTS:
            time.sleep(min(8.0, 0.25 * 2**attempt))
    raise DataError(f"{url}: download failed {_ATTEMPTS} times; fetch it yourself with `curl -L -o {path} {url}`")


def _attempt(url: str, part: Path, notes: Path) -> None:
    """Download what is missing of `part`; only the file whose ETag or date is in `notes` is resumed."""
    begun = part.stat().st_size if part.is_file() else 0
    tag = core.read_json(notes).get("tag") if begun and notes.is_file() else None
    request = urllib.request.Request(url, headers={"User-Agent": "openended"})  # noqa: S310 - checked by the caller
    if tag:
        request.add_header("Range", f"bytes={begun}-")
        # A file that changed in between is sent whole, with status 200.
        request.add_header("If-Range", tag)
    with urllib.request.urlopen(request, timeout=_TIMEOUT) as response:  # noqa: S310
        is_resumed = response.status == 206
        begun = begun if is_resumed else 0
        size = response.headers.get("Content-Length")
        needed = int(size or 0)
        free = shutil.disk_usage(part.parent).free
        if needed + _SPARE > free:
            raise DataError(
                f"{part.parent}: {needed / 2**20:.0f} MiB are needed and {free / 2**20:.0f} MiB are free; "
                "free some, or set another cache folder"
            )
        strong = response.headers.get("ETag", "")
        tag = strong if strong and not strong.startswith("W/") else response.headers.get("Last-Modified")
        core.write_json(notes, {"url": url, "tag": tag})
        total = None if size is None else begun + needed
        in_kib = None if total is None else total >> 10
        with (
            part.open("ab" if is_resumed else "wb") as handle,
            core.show_progress(part.stem, in_kib, unit="KiB", enabled=True) as advance,
        ):
            advance(begun >> 10)
            while block := response.read(_CHUNK):
                handle.write(block)
                advance(len(block) >> 10)
    written = part.stat().st_size
    if total is not None and written != total:
        raise ConnectionError(f"{written} of {total} bytes were received")
