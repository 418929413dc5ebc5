"""Limit the memory that reading a file of somebody else may take."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


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
    with suppress(OSError, ValueError):  # no such table, or a lower limit of the system's
        used = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
