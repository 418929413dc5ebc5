"""Workers end with the command that started them, however it ended: also where it could say nothing any more."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from typing import NamedTuple

from openended.harness.core import temporary_files

LOOK = 1.0  # seconds between two looks at the parent
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_watching: set[Parent] = set()


class Parent(NamedTuple):
    """A process that others end with."""

    machine: str
    pid: int
    start: int
    """Clock ticks since the boot: a number of a process is given again after a while."""


def this_process() -> Parent:
    """Return the process that calls, for its workers."""
    machine, boot, pid, start = temporary_files.tag().split("-")
    return Parent(f"{machine}-{boot}", int(pid), int(start))


def end_with(parent: Parent) -> None:
    """Let this process end when `parent` does; nothing where that is another machine's (a cluster's jobs go on)."""
    if parent in _watching or parent.machine != this_process().machine or parent.pid == os.getpid():
        return
    _watching.add(parent)
    if sys.platform == "linux" and os.getppid() == parent.pid:
        # At once, by the kernel; the thread below does the same for grandchildren and for other systems.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    threading.Thread(target=_watch, args=(parent,), name="end-with-parent", daemon=True).start()


def _watch(parent: Parent) -> None:
    while temporary_files.running(parent.pid, parent.start):
        time.sleep(LOOK)
    # Not by an exception: the main thread may be deep in a library. What is half-made is swept at the next start.
    os.kill(os.getpid(), signal.SIGKILL if sys.platform != "win32" else signal.SIGTERM)
