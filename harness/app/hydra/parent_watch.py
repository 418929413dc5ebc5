"""End worker processes when the command that started them ends, even if it was killed."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from typing import NamedTuple

from openended.harness.core import temporary_files

POLL_SECONDS = 1.0  # interval between checks of the parent
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_watching: set[ParentProcess] = set()


class ParentProcess(NamedTuple):
    """The identity of a parent process."""

    machine: str
    pid: int
    start: int
    """Start time in clock ticks since boot; needed because process ids are reused."""


def identify_process() -> ParentProcess:
    """Return the identity of the current process, to be passed to its workers."""
    machine, boot, pid, start = temporary_files.build_process_tag().split("-")
    return ParentProcess(f"{machine}-{boot}", int(pid), int(start))


def end_with_parent(parent: ParentProcess) -> None:
    """End this process when `parent` ends; does nothing if the parent is on another machine."""
    if parent in _watching or parent.machine != identify_process().machine or parent.pid == os.getpid():
        return
    _watching.add(parent)
    if sys.platform == "linux" and os.getppid() == parent.pid:
        # The kernel ends direct children at once; the thread below covers grandchildren and other systems.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    threading.Thread(target=_watch, args=(parent,), name="end-with-parent", daemon=True).start()


def _watch(parent: ParentProcess) -> None:
    while temporary_files.is_running(parent.pid, parent.start):
        time.sleep(POLL_SECONDS)
    # An exception might not reach the main thread inside a library call. The next start removes unfinished files.
    os.kill(os.getpid(), signal.SIGKILL if sys.platform != "win32" else signal.SIGTERM)
