"""Replace a folder atomically, so that no stale file remains in it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from openended.harness.core import StoreError


@contextmanager
def replace_folder(target: Path, names: Sequence[str]) -> Iterator[Path]:
    """Yield an empty folder whose content replaces that of `target` if the block succeeds."""
    real_target = target.resolve()
    try:
        real_target.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{real_target.name}.", dir=real_target.parent))
    except OSError as err:
        raise StoreError(f"cannot write {target}: {err.strerror or err}") from err
    try:
        fresh = work / "new"
        fresh.mkdir()
        yield fresh
        _swap(fresh, real_target, work / "old", names)
    except OSError as err:
        raise StoreError(f"cannot write {target}: {err.strerror or err}") from err
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _swap(fresh: Path, real_target: Path, old: Path, names: Sequence[str]) -> None:
    if not real_target.exists() or {p.name for p in real_target.iterdir()} <= set(names):
        if real_target.exists():
            real_target.rename(old)
        fresh.rename(real_target)
        return
    old.mkdir()
    for name in names:
        if (real_target / name).exists():
            (real_target / name).rename(old / name)
        if (fresh / name).exists():
            (fresh / name).rename(real_target / name)
