"""Create, publish and move aside whole folders, safely with several processes."""

from __future__ import annotations

import errno
import itertools
import logging
import os
import tempfile
from pathlib import Path

from openended.harness.core import StoreError, sync_folder, temporary_files

log = logging.getLogger(__name__)

DAMAGED_MARK = ".damaged-"  # suffix of damaged entries that were moved aside


def create_unique_folder(preferred: Path) -> Path:
    """Create a new folder with the preferred name, or with `-2`, `-3`, … appended."""
    try:
        preferred.parent.mkdir(parents=True, exist_ok=True)
        for number in itertools.count(1):
            folder = preferred if number == 1 else preferred.with_name(f"{preferred.name}-{number}")
            try:
                folder.mkdir()
            except FileExistsError:
                continue
            return folder
    except OSError as err:
        raise StoreError(f"cannot write {preferred}: {err.strerror or err}; set outputs_dir=…") from err
    raise AssertionError


def check_writable(folder: Path) -> None:
    """Raise `StoreError` if nothing can be written under `folder` (which need not exist yet)."""
    parent = folder
    while not parent.exists() and parent != parent.parent:
        parent = parent.parent
    if not parent.is_dir():
        raise StoreError(f"outputs_dir: {parent} is not a folder; set outputs_dir=…")
    try:
        with tempfile.TemporaryFile(dir=parent):
            pass
    except OSError as err:
        raise StoreError(f"outputs_dir: cannot write to {parent}: {err.strerror}; set outputs_dir=…") from err


def create_work_folder(work: Path) -> None:
    """Create the working folder of an entry. An existing folder is resumed."""
    if work.is_symlink() or (work.exists() and not work.is_dir()):
        raise StoreError(f"{work}: expected a folder, got a link or a file; delete it")
    try:
        work.mkdir(exist_ok=True)
    except OSError as err:
        raise StoreError(f"cannot write {work}: {err.strerror or err}; set outputs_dir=…") from err


def move_aside(folder: Path, wrong: str) -> None:
    """Rename a damaged folder and log a warning."""
    aside = next(
        name
        for n in itertools.count(1)
        if not os.path.lexists(name := folder.with_name(f"{folder.name}{DAMAGED_MARK}{n}"))
    )
    log.warning("store entry %s is not usable (%s); moved to %s and computed again", folder, wrong, aside.name)
    try:
        folder.rename(aside)
    except FileNotFoundError:  # without locks another process may have been faster
        return
    except OSError as err:
        raise StoreError(f"cannot move {folder}: {err.strerror or err}") from err


def publish_folder(work: Path, folder: Path, proof: str) -> None:
    """Rename a finished folder to its final name; if another process was first, keep the other's entry."""
    if os.path.lexists(folder) and not (folder / proof).exists():
        move_aside(folder, f"no {proof}")
    try:
        work.rename(folder)
    except OSError as err:
        if err.errno not in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR) or not (folder / proof).exists():
            raise StoreError(f"cannot write {folder}: {err.strerror}") from err
        log.info("another process computed %s first; its copy is kept", folder.name[:8])
        temporary_files.delete_path(work)
    sync_folder(folder.parent)
