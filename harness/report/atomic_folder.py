"""A folder that is written anew beside the old one and then takes its place, so that nothing stale stays in it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from openended.harness.core import StoreError


@contextmanager
def swapped_in(target: Path, own: Sequence[str]) -> Iterator[Path]:
    """Give the block an empty folder; if it ends well, what is in it replaces what an earlier one left in `target`.

    Args:
        target: The folder; made if missing.
        own: Names that such a folder may hold. Where it holds others too (somebody keeps files there), those stay and
            only these are replaced, one after the other; else the whole folder is swapped at once.

    Raises:
        StoreError: If it cannot be written.
    """
    place = target.resolve()
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{place.name}.", dir=place.parent))
    except OSError as err:
        raise StoreError(f"cannot write {target}: {err.strerror or err}") from err
    try:
        fresh = work / "new"
        fresh.mkdir()
        yield fresh
        _swap(fresh, place, work / "old", own)
    except OSError as err:
        raise StoreError(f"cannot write {target}: {err.strerror or err}") from err
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _swap(fresh: Path, place: Path, old: Path, own: Sequence[str]) -> None:
    if not place.exists() or {p.name for p in place.iterdir()} <= set(own):
        if place.exists():
            place.rename(old)
        fresh.rename(place)
        return
    old.mkdir()
    for name in own:
        if (place / name).exists():
            (place / name).rename(old / name)
        if (fresh / name).exists():
            (fresh / name).rename(place / name)
