"""Run untrusted code, such as a chat template, in a child process with time and memory limits.

Within one process nothing can stop it: `'x' * 10**10` and `9 ** 9 ** 9` are single steps that no signal interrupts.
"""

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

MEMORY = 1 << 30  # bytes in addition to what this process uses
SECONDS = 10  # seconds of processor time, so that nothing is refused on a busy machine


def run_isolated(make: Callable[[], Iterator[str]], who: str, *, seconds: int | None = None) -> list[str]:
    """Return the texts that `make` yields in a child process.

    Where the system cannot copy a process (Windows), they are made here, without bounds.
    """
    if sys.platform == "win32":
        return list(make())
    reader, writer = os.pipe()
    limit = SECONDS if seconds is None else seconds
    with warnings.catch_warnings():
        # Python 3.12 warns about threads; the child uses only its own data and exits without clean-up.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        os.close(reader)
        _run_child(make, writer, limit)
    os.close(writer)
    try:
        with os.fdopen(reader, "rb") as handle:
            texts = _receive_texts(handle, who, limit)
    finally:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return texts


def _receive_texts(handle: BinaryIO, who: str, limit: int) -> list[str]:
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
    raise DataError(f"{who} takes more than {limit} s or {MEMORY >> 30} GiB of memory")


def _run_child(make: Callable[[], Iterator[str]], writer: int, limit: int) -> NoReturn:
    """Run the child process to its end; never returns."""
    report = ["error", "it failed"]
    try:
        import resource

        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
        _set_memory_limit(MEMORY)
        with os.fdopen(writer, "wb", closefd=False) as handle:
            for text in make():
                handle.write(json.dumps(["text", text]).encode() + b"\n")
        report = ["end", ""]
    except MemoryError:
        report = ["memory", ""]
    except HarnessError as err:
        report = ["error", str(err)]
    except BaseException as err:
        report = ["error", f"{type(err).__name__}: {err}"[:500]]
    finally:
        os.write(writer, json.dumps(report).encode() + b"\n")
        os._exit(0)


def _set_memory_limit(size: int) -> None:
    """Limit the memory of this process to what it uses now plus `size` bytes, where the system reports its use."""
    import resource

    with suppress(OSError, ValueError):  # no such table, or a lower limit of the system's
        used = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + size, resource.getrlimit(resource.RLIMIT_AS)[1]))


@contextmanager
def limit_memory(size: int) -> Iterator[None]:
    """Limit the memory that the block may add to this process; raises `MemoryError` beyond it.

    Works only on Linux; other systems have no limit.
    """
    try:
        import resource

        before = resource.getrlimit(resource.RLIMIT_AS)
    except (ImportError, OSError):
        yield
        return
    _set_memory_limit(size)
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
