"""Load a file's texts within the free memory, without a fixed limit on their number."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from openended.harness.core import DataError
from openended.harness.imported.formats import ImportedText

MEMORY_SHARE = 4  # the texts of a file may take one fourth of the free memory, because they are held several times
TEXT_OVERHEAD = 1 << 10  # bytes that a text takes in addition to its characters


def load_within_memory(texts: Iterable[ImportedText], path: Path) -> list[ImportedText]:
    """Load all texts, if they fit into the free memory."""
    loaded: list[ImportedText] = []
    free = measure_free_memory() // MEMORY_SHARE
    for text in texts:
        free -= TEXT_OVERHEAD + 4 * len(text.text or "") + 36 * len(text.token_ids or ())
        if free < 0:
            raise DataError(
                f"{path}: its texts are more than the memory of this machine holds (stopped after {len(loaded):,}); "
                "cut it to the examples of the run"
            )
        loaded.append(text)
    return loaded


def measure_free_memory() -> int:
    """Return the bytes of free memory; 1 TiB if the system does not report them."""
    try:
        meminfo = Path("/proc/meminfo").read_text(encoding="ascii")
        return 1024 * int(meminfo.partition("MemAvailable:")[2].split()[0])
    except (OSError, ValueError, IndexError):
        return 1 << 40
