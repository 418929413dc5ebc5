"""Verify every byte of a store (`openended store check`) and delete unneeded files (`gc`)."""

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from openended.harness.core import DataError, HarnessError, StoreError, read_json, temporary_files
from openended.harness.storage.record import RECORD
from openended.harness.storage.row_blocks import BLOCKS, list_sharing_artifacts
from openended.harness.storage.store import DAMAGED_MARK, ENTRY_NAME, MANIFEST, ROWS, read_entry

_KEY = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class StoreReport:
    """The contents of a store, classified."""

    sound: tuple[str, ...]  # names (`stage/ab/key`) of entries whose bytes are verified
    damaged: dict[str, str]  # name → what is wrong; each is computed again when it is needed
    aside: tuple[str, ...]  # entries that were moved aside as damaged
    unfinished: tuple[str, ...]  # interrupted generations; the same command resumes them
    litter: tuple[str, ...]  # temporary files of processes that have ended
    foreign: tuple[str, ...]  # everything else: temporary folders of other machines, unrelated files

    def lines(self) -> list[str]:
        """Format the report: one line per damaged entry and one with the counts."""
        lists = {"sound": self.sound, "damaged": self.damaged, "moved aside": self.aside}
        lists |= {"unfinished": self.unfinished, "left by dead processes": self.litter, "not known": self.foreign}
        counts = {what: len(names) for what, names in lists.items()}
        faults = [f"damaged    {name}: {why}" for name, why in self.damaged.items()]
        return [*faults, ", ".join(f"{count} {what}" for what, count in counts.items() if count or what == "sound")]


@dataclass(frozen=True, slots=True)
class CollectedGarbage:
    """Paths that were, or would be, deleted."""

    names: tuple[str, ...]
    size: int  # in bytes


def check_store(root: Path) -> StoreReport:
    """Verify every entry of a store without changing anything."""
    kinds: dict[str, list[str]] = {"sound": [], "aside": [], "unfinished": [], "litter": [], "foreign": []}
    damaged: dict[str, str] = {}
    for path, name, kind in _list_store(root):
        if kind != "entry":
            kinds.get(kind, []).append(name)
            continue
        try:
            read_entry(path)
        except HarnessError as err:
            damaged[name] = str(err)
        else:
            kinds["sound"].append(name)
    return StoreReport(damaged=damaged, **{kind: tuple(names) for kind, names in kinds.items()})


def collect_garbage(root: Path, *, runs: Path | None = None, days: float = 7, delete: bool = False) -> CollectedGarbage:
    """Delete abandoned temporary files, entries moved aside and old unfinished generations.

    Args:
        root: The store.
        runs: Folder of the run records; if given, entries that no record names are deleted too.
        days: Minimum age in days, except for temporary files of processes that have ended.
        delete: If false, only list what would be deleted.
    """
    if runs is not None and not runs.is_dir():
        raise DataError(f"no folder of runs at {runs}")
    named = set().union(*find_named_entries(runs).values()) if runs is not None else None
    names, size = [], 0
    for path, name, kind in list(_list_store(root)):
        unnamed = kind == "entry" and named is not None and name not in named
        old = temporary_files.compute_age_in_days(path) >= days
        is_orphan = temporary_files.MARK in path.name and not temporary_files.is_in_use(path)
        is_unused = kind == "shared" and not any(list_sharing_artifacts(path))
        if not (kind == "litter" or (old and (kind in ("aside", "unfinished") or unnamed or is_orphan or is_unused))):
            continue
        names.append(name)
        size += sum(p.lstat().st_size for p in (path.rglob("*") if path.is_dir() else [path]))
        if delete:
            temporary_files.delete_path(path)
            if path.exists():
                raise StoreError(f"cannot delete {path}: do you own it?")
    return CollectedGarbage(tuple(names), size)


def _list_store(root: Path) -> Iterator[tuple[Path, str, str]]:
    """Yield path, name and kind of everything at the depth of entries, and of stray files above."""
    if not root.is_dir():
        raise DataError(f"no store at {root}; set outputs_dir=…")
    for stage in sorted(p for p in root.iterdir() if p.name != ".locks"):
        for drawer in sorted(stage.iterdir()) if stage.is_dir() else [stage]:
            for path in sorted(drawer.iterdir()) if drawer.is_dir() and not drawer.is_symlink() else [drawer]:
                yield path, str(path.relative_to(root)), _classify(path)


def _classify(path: Path) -> str:
    if temporary_files.is_abandoned(path):
        return "litter"
    if DAMAGED_MARK in path.name:
        return "aside"
    if path.parent.parent.name == ROWS and _KEY.fullmatch(path.name):
        return "unfinished" if any(path.glob(BLOCKS)) else "shared"
    return "entry" if _KEY.fullmatch(path.name) or (path / MANIFEST).exists() else "foreign"


def find_named_entries(runs: Path) -> dict[str, set[str]]:
    """Return name of runs → names of the store entries in their records, of any version.

    Raises:
        DataError: If a record cannot be read: it may name any entry.
    """
    entries: dict[str, set[str]] = defaultdict(set)
    for record in sorted(runs.rglob(RECORD)):
        try:
            text = json.dumps(read_json(record))
        except (DataError, RecursionError) as err:
            raise DataError(f"{err}; the entries that it names are unknown, so nothing was done") from err
        entries[record.parent.parent.name].update(match[0] for match in ENTRY_NAME.finditer(text))
    return dict(entries)
