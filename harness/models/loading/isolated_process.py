"""Somebody else's program (a chat template is one), run with an end: in a child process of bounded time and memory.

Within one process nothing bounds it: `'x' * 10**10` and `9 ** 9 ** 9` are single steps that no signal interrupts.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, NoReturn

from openended.harness.core import DataError, HarnessError

MEMORY = 1 << 30  # bytes more than this process has
SECONDS = 10  # of processor time, so that a busy machine refuses nothing


def bounded(make: Callable[[], Iterator[str]], who: str, *, seconds: int | None = None) -> list[str]:
    """Return the texts that `make` yields, made in a child process.

    Where the system cannot copy a process (Windows), they are made here, without bounds.

    Args:
        make: Yields texts.
        who: Subject of the errors.
        seconds: Processor time that it may take; None: `SECONDS`.

    Raises:
        DataError: If it takes too long or too much memory; or what `make` raises.
    """
    if sys.platform == "win32":
        return list(make())
    reader, writer = os.pipe()
    limit = SECONDS if seconds is None else seconds
    with warnings.catch_warnings():
        # Python 3.12 warns of threads; the child computes on what it has, and leaves without any clean-up.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        os.close(reader)
        _work(make, writer, limit)
    os.close(writer)
    try:
        with os.fdopen(reader, "rb") as handle:
            texts = _received(handle, who, limit)
    finally:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return texts


def _received(handle: BinaryIO, who: str, limit: int) -> list[str]:
    texts: list[str] = []
    for line in handle:
        kind, text = json.loads(line) if line.endswith(b"\n") else ("cut", "")
        if kind == "end":
            return texts
        if kind == "error":
            raise DataError(text)
        if kind == "memory":
            raise DataError(f"{who} takes more than {MEMORY >> 30} GiB of memory")
        texts.append(text)
    raise DataError(f"{who} takes more than {limit} s")


def _work(make: Callable[[], Iterator[str]], writer: int, limit: int) -> NoReturn:
    """Be the child: whatever happens, end here."""
    said = ["error", "it failed"]
    try:
        _limit(limit)
        with os.fdopen(writer, "wb", closefd=False) as handle:
            for text in make():
                handle.write(json.dumps(["text", text]).encode() + b"\n")
        said = ["end", ""]
    except MemoryError:
        said = ["memory", ""]
    except HarnessError as err:
        said = ["error", str(err)]
    except BaseException as err:
        said = ["error", f"{type(err).__name__}: {err}"[:500]]
    finally:
        os.write(writer, json.dumps(said).encode() + b"\n")
        os._exit(0)


def _limit(seconds: int) -> None:
    import resource

    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    _limit_memory(MEMORY)


def _limit_memory(size: int) -> None:
    """Let this process take so many bytes more than it has, as far as the system can say what that is."""
    import resource

    with suppress(OSError, ValueError):  # no such table, or a lower limit of the system's
        used = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + size, resource.getrlimit(resource.RLIMIT_AS)[1]))


@contextmanager
def bounded_memory(size: int) -> Iterator[None]:
    """Let the block, in this process, take at most so many bytes more; `MemoryError` where it wants to.

    Of Linux alone: elsewhere there is no limit.
    """
    try:
        import resource

        before = resource.getrlimit(resource.RLIMIT_AS)
    except (ImportError, OSError):
        yield
        return
    _limit_memory(size)
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
