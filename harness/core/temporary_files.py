"""Who made a temporary file: its name says the machine, its boot, the process and when that began.

So what a dead process left can be told from what a living one is still writing, also on a file system that several
machines share; of another machine's processes nothing is known, and theirs are left alone.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import platform
import re
import secrets
import shutil
import time
from functools import cache, lru_cache
from pathlib import Path

MARK = ".tmp-"  # between a name and its maker
_TAG = re.compile(r"\.tmp-([0-9a-f]{8})-([0-9a-f]{8})-(\d+)-(\d+)-[0-9a-f]+$")
_serial = itertools.count()


def temporary(name: str) -> str:
    """Return a name for something unfinished that will be called `name`; no other process or call gets the same."""
    return f"{name}{MARK}{tag()}-{next(_serial):x}{secrets.token_hex(3)}"


def tag() -> str:
    """Return `machine-boot-process-start` of this process."""
    pid = os.getpid()
    return f"{_machine()}-{_boot()}-{pid}-{_started(pid) or 0}"


def dead(path: Path) -> bool:
    """Say whether something temporary was left by a process that is certainly gone.

    False where it cannot be known: another machine, another container, a name of somebody else's making. Machines that
    are copies of each other look like one machine that was started again, so then a day without a touch is asked too.
    """
    found = _TAG.search(path.name)
    if found is None or found[1] != _machine():
        return False
    if found[2] != _boot():
        return days_old(path) > 1
    return not running(int(found[3]), int(found[4]))


def alive(path: Path) -> bool:
    """Say whether something temporary is a living process's of this machine."""
    found = _TAG.search(path.name)
    here = found is not None and (found[1], found[2]) == (_machine(), _boot())
    return here and found is not None and running(int(found[3]), int(found[4]))


def running(pid: int, start: int) -> bool:
    """Say whether the process of this machine that began at `start` (clock ticks since the boot; 0: any) still runs."""
    now = _started(pid)
    return now is not None and start in (0, now)


def sweep(folder: Path) -> list[Path]:
    """Delete what dead processes left in a folder; returns what was deleted. What cannot be deleted stays."""
    try:
        found = [path for path in folder.iterdir() if dead(path)]
    except OSError:
        return []
    for path in found:
        discard(path)
    return found


@lru_cache(maxsize=256)  # bounded: a process of a long grid sees very many folders
def sweep_once(folder: Path) -> None:
    """Sweep a folder the first time that this process meets it."""
    sweep(folder)


def discard(path: Path) -> None:
    """Delete a file or a folder, never what a link points to; what cannot be deleted stays."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
        return
    try:
        path.unlink(missing_ok=True)
    except OSError:
        return


def days_old(path: Path) -> float:
    """Return for how many days nothing was written to a file, or in a folder and the files in it."""
    times = [path.lstat().st_mtime]
    if path.is_dir() and not path.is_symlink():
        times += [inner.lstat().st_mtime for inner in path.iterdir()]
    return (time.time() - max(times)) / 86400


@cache
def _machine() -> str:
    """Return eight digits for this machine and, in a container, for its own table of processes."""
    facts = [platform.node(), _read("/etc/machine-id")]
    try:
        facts.append(os.readlink("/proc/self/ns/pid"))
    except OSError:
        facts.append("")
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:8]


@cache
def _boot() -> str:
    return hashlib.sha256(_read("/proc/sys/kernel/random/boot_id").encode()).hexdigest()[:8]


def _started(pid: int) -> int | None:
    """Return when a process began, in clock ticks since the boot; None if there is none, 0 if only that is known.

    A number of a process is given again after a while, so it alone says little.
    """
    text = _read(f"/proc/{pid}/stat")
    if text:
        fields = text.rpartition(")")[2].split()  # the name before may hold anything
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
