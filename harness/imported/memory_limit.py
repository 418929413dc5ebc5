"""Holding a file's texts, as many as there is memory for: how many are legitimate is not for a number to say."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from openended.harness.core import DataError
from openended.harness.imported.formats import Published

MEMORY_SHARE = 4  # of the memory that is free, a file's texts may take so manieth a part: they are held several times
A_TEXT = 1 << 10  # bytes that a text takes beside its letters


def held(texts: Iterable[Published], path: Path) -> list[Published]:
    """Return the texts, as many as the memory holds.

    Raises:
        DataError: If there are more.
    """
    found: list[Published] = []
    room = available() // MEMORY_SHARE
    for one in texts:
        room -= A_TEXT + 4 * len(one.text or "") + 36 * len(one.token_ids or ())
        if room < 0:
            raise DataError(
                f"{path}: its texts are more than the memory of this machine holds (stopped after {len(found):,}); "
                "cut it to the examples of the run"
            )
        found.append(one)
    return found


def available() -> int:
    """Return the bytes of memory that are free; where the system does not say, a great many."""
    try:
        told = Path("/proc/meminfo").read_text(encoding="ascii")
        return 1024 * int(told.partition("MemAvailable:")[2].split()[0])
    except (OSError, ValueError, IndexError):
        return 1 << 40
