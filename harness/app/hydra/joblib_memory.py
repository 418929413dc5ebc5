"""Shared memory of joblib's workers; leftovers of a killed run are removed by the next run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from openended.harness.core import temporary_files

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - where joblib and its semaphores keep their files on Linux
_NAME = "openended-joblib"


@contextmanager
def claim_shared_memory(root: Path = SHARED_MEMORY) -> Iterator[Path | None]:
    """Remove the leftovers of killed runs, and yield a folder for this run, which is deleted at its end."""
    sweep_shared_memory(root)
    folder = root / temporary_files.create_temporary_name(_NAME)
    try:
        folder.mkdir(mode=0o700)
    except OSError:
        yield None
        return
    try:
        yield folder
    finally:
        temporary_files.delete_path(folder)


def sweep_shared_memory(root: Path = SHARED_MEMORY) -> None:
    """Remove folders and semaphores of runs whose process is gone; those of living processes stay."""
    for folder in temporary_files.delete_abandoned(root):
        if folder.name.startswith(_NAME):
            pid = folder.name.split("-")[-3]  # the name ends in machine-boot-pid-start-serial
            for semaphore in root.glob(f"sem.loky-{pid}-*"):
                temporary_files.delete_path(semaphore)
