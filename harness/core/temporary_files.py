"""Temporary files whose names identify machine, process and its start time.

Files abandoned by a dead process can thus be told from files being written, also on a file system that several
machines share. Temporary files of other machines are left alone.
"""

import hashlib
import itertools
import os
import platform
import re
import secrets
import shutil
import time
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path

MARK = ".tmp-"  # between the name and the process tag
_TAG = re.compile(r"\.tmp-([0-9a-f]{8})-(\d+)-(\d+)-[0-9a-f]+$")
_serial = itertools.count()


def create_temporary_name(name: str) -> str:
    """Return a unique temporary name for a file or folder that will be called `name`."""
    return f"{name}{MARK}{build_process_tag()}-{next(_serial):x}{secrets.token_hex(3)}"


def build_process_tag() -> str:
    """Return the tag `machine-process-start` of this process."""
    pid = os.getpid()
    return f"{_identify_machine()}-{pid}-{_read_start_time(pid) or 0}"


def is_abandoned(path: Path) -> bool:
    """Return whether a temporary file was left by a process of this machine that has ended."""
    return _find_process_state(path) is False


def is_in_use(path: Path) -> bool:
    """Return whether a temporary file belongs to a running process of this machine."""
    return _find_process_state(path) is True


def _find_process_state(path: Path) -> bool | None:
    """Return whether the process runs; None if it is of another machine or container, or the name has no tag."""
    match = _TAG.search(path.name)
    return is_running(int(match[2]), int(match[3])) if match is not None and match[1] == _identify_machine() else None


def is_running(pid: int, start: int) -> bool:
    """Return whether the process that started at `start` (clock ticks since boot; 0: any) is still running."""
    now = _read_start_time(pid)
    return now is not None and start in (0, now)


@lru_cache(maxsize=256)  # bounded, because long grids use many folders
def delete_abandoned_once(folder: Path) -> None:
    """Delete abandoned temporary files, where possible, on this process's first use of a folder."""
    try:
        paths = [path for path in folder.iterdir() if is_abandoned(path)]
    except OSError:
        return
    for path in paths:
        delete_path(path)


def delete_path(path: Path) -> None:
    """Delete a file, folder or link (never its target); ignore errors."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
        return
    with suppress(OSError):
        path.unlink(missing_ok=True)


def compute_age_in_days(path: Path) -> float:
    """Return the days since the last change of a file, or of a folder and its files."""
    times = [path.lstat().st_mtime]
    if path.is_dir() and not path.is_symlink():
        times += [inner.lstat().st_mtime for inner in path.iterdir()]
    return (time.time() - max(times)) / 86400


@cache
def _identify_machine() -> str:
    """Return an eight-digit id of this machine and PID namespace."""
    facts = [platform.node(), _read("/etc/machine-id"), ""]
    with suppress(OSError):
        facts[2] = os.readlink("/proc/self/ns/pid")
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:8]


def _read_start_time(pid: int) -> int | None:
    """Return a process's start in clock ticks since boot; None if it is not running, 0 if the start is unknown."""
    text = _read(f"/proc/{pid}/stat")
    if text:
        fields = text.rpartition(")")[2].split()  # the process name before it can contain anything
        return None if fields[0] in "ZX" else int(fields[19])
    if Path("/proc/self/stat").exists():
        return None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except OSError:
        return 0
    return 0


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
