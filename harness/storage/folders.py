"""Folders as wholes: made by one process alone, renamed when they are finished, moved aside when they are damaged."""

from __future__ import annotations

import errno
import itertools
import logging
import os
import tempfile
from pathlib import Path

from openended.harness.core import StoreError, sync_folder, temporary_files

log = logging.getLogger(__name__)

ASIDE = ".damaged-"  # after a name: what could not be believed


def new_folder(wanted: Path) -> Path:
    """Make a folder that nobody else made: the name wanted, or with `-2`, `-3`, … after it.

    Raises:
        StoreError: If none can be made.
    """
    try:
        wanted.parent.mkdir(parents=True, exist_ok=True)
        for number in itertools.count(1):
            folder = wanted if number == 1 else wanted.with_name(f"{wanted.name}-{number}")
            try:
                folder.mkdir()
            except FileExistsError:
                continue
            return folder
    except OSError as err:
        raise StoreError(f"cannot write {wanted}: {err.strerror or err}; set outputs_dir=…") from err
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


def make_room(work: Path) -> None:
    """Make the folder of an entry that is about to be made; one that is there is gone on with.

    Raises:
        StoreError: If a link or a file stands in its place (what a link points to is not ours), or it cannot be made.
    """
    if work.is_symlink() or (work.exists() and not work.is_dir()):
        raise StoreError(f"{work}: expected a folder that the harness made, got a link or a file; delete it")
    try:
        work.mkdir(exist_ok=True)
    except OSError as err:
        raise StoreError(f"cannot write {work}: {err.strerror or err}; set outputs_dir=…") from err


def set_aside(folder: Path, wrong: str) -> None:
    """Move what cannot be believed out of the way, with a remark.

    Raises:
        StoreError: If it cannot be moved.
    """
    aside = next(
        name for n in itertools.count(1) if not os.path.lexists(name := folder.with_name(f"{folder.name}{ASIDE}{n}"))
    )
    log.warning("store entry %s is damaged (%s); moved to %s and made again", folder, wrong, aside.name)
    try:
        folder.rename(aside)
    except FileNotFoundError:  # without locks another process may have been faster
        return
    except OSError as err:
        raise StoreError(f"cannot move {folder}: {err.strerror or err}") from err


def give_name(work: Path, folder: Path, proof: str) -> None:
    """Give a finished folder its name; if another process was first, its equal entry stays and ours goes.

    Args:
        work: The finished folder.
        folder: Its name; what lies there without `proof` is moved aside.
        proof: The file that a finished folder holds.

    Raises:
        StoreError: If it cannot be renamed.
    """
    if os.path.lexists(folder) and not (folder / proof).exists():
        set_aside(folder, f"no {proof}")
    try:
        work.rename(folder)
    except OSError as err:
        if err.errno not in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR) or not (folder / proof).exists():
            raise StoreError(f"cannot write {folder}: {err.strerror}") from err
        log.info("another process made %s first; its copy stays", folder.name[:8])
        temporary_files.discard(work)
    sync_folder(folder.parent)
