"""`openended store check` and `gc`: is every byte of a store what it was, and what in it does nobody need?"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from openended.harness.core import DataError, HarnessError, StoreError, temporary_files
from openended.harness.storage.folders import ASIDE
from openended.harness.storage.store import MANIFEST, PARTIAL, read_entry

_ENTRY = re.compile(r"[\w-]+/[0-9a-f]{2}/[0-9a-f]{64}")
_KEY = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Checked:
    """What lies in a store."""

    sound: tuple[str, ...]
    """Places (`stage/ab/key`) of the entries whose every byte is verified."""
    damaged: dict[str, str]
    """Place → what is wrong; each is made again when it is asked for."""
    aside: tuple[str, ...]
    """What was moved aside as damaged."""
    unfinished: tuple[str, ...]
    """Generations that were interrupted; the same command goes on with them."""
    litter: tuple[str, ...]
    """What dead processes left."""
    foreign: tuple[str, ...]
    """What is none of these: another machine's temporary folders, somebody's files."""

    def lines(self) -> list[str]:
        """Return the result in words, a line a fault and one with the counts."""
        counts = {
            "sound": len(self.sound), "damaged": len(self.damaged), "moved aside": len(self.aside),
            "unfinished": len(self.unfinished), "left by dead processes": len(self.litter),
            "not known": len(self.foreign),
        }  # fmt: skip
        faults = [f"damaged    {place}: {why}" for place, why in self.damaged.items()]
        return [*faults, ", ".join(f"{count} {what}" for what, count in counts.items() if count or what == "sound")]


@dataclass(frozen=True, slots=True)
class Collected:
    """What was, or would be, deleted."""

    places: tuple[str, ...]
    size: int
    """In bytes."""


def check_store(root: Path) -> Checked:
    """Verify every entry of a store; changes nothing.

    Raises:
        DataError: If there is no store.
    """
    kinds: dict[str, list[str]] = {"sound": [], "aside": [], "unfinished": [], "litter": [], "foreign": []}
    damaged: dict[str, str] = {}
    for path in _everything(root):
        place = str(path.relative_to(root))
        kind = _kind(path)
        if kind != "entry":
            kinds[kind].append(place)
            continue
        try:
            read_entry(path)
        except HarnessError as err:
            damaged[place] = str(err)
        else:
            kinds["sound"].append(place)
    return Checked(damaged=damaged, **{name: tuple(places) for name, places in kinds.items()})


def collect_garbage(root: Path, *, runs: Path | None = None, days: float = 7, delete: bool = False) -> Collected:
    """Delete what nobody needs: what dead processes left, what was moved aside, and what was long interrupted.

    Args:
        root: The store.
        runs: Folder of the run records; with it, entries that no record names go too (they cost their making again).
        days: What was touched since stays, whatever it is but a dead process's.
        delete: False: only say what would go.

    Raises:
        DataError: If there is no store or no folder of runs, or a record cannot be read (what it names is not known).
        StoreError: If something cannot be deleted.
    """
    named = _named(runs) if runs is not None else None
    places, size = [], 0
    for path in list(_everything(root)):
        kind, place = _kind(path), str(path.relative_to(root))
        unnamed = kind == "entry" and named is not None and place not in named
        old = temporary_files.days_old(path) >= days
        if not (kind == "litter" or (old and (kind in ("aside", "unfinished") or unnamed or _is_temporary(path)))):
            continue
        places.append(place)
        size += sum(p.lstat().st_size for p in (path.rglob("*") if path.is_dir() else [path]))
        if delete:
            temporary_files.discard(path)
            if path.exists():
                raise StoreError(f"cannot delete {path}: is it somebody else's?")
    return Collected(tuple(places), size)


def _everything(root: Path) -> Iterator[Path]:
    """Yield what lies at the depth of entries, and stray files above."""
    if not root.is_dir():
        raise DataError(f"no store at {root}; set outputs_dir=…")
    for stage in sorted(p for p in root.iterdir() if p.name != ".locks"):
        for drawer in sorted(stage.iterdir()) if stage.is_dir() else [stage]:
            yield from sorted(drawer.iterdir()) if drawer.is_dir() and not drawer.is_symlink() else [drawer]


def _kind(path: Path) -> str:
    if temporary_files.dead(path):
        return "litter"
    if ASIDE in path.name:
        return "aside"
    if path.name.endswith(PARTIAL) and path.is_dir() and not path.is_symlink():
        return "unfinished"
    return "entry" if _KEY.fullmatch(path.name) or (path / MANIFEST).exists() else "foreign"


def _is_temporary(path: Path) -> bool:
    """Say whether a harness made it, on another machine perhaps: then nobody can tell whether that process lives."""
    return temporary_files.MARK in path.name and not temporary_files.alive(path)


def _named(runs: Path) -> set[str]:
    """Return every place that a record names."""
    if not runs.is_dir():
        raise DataError(f"no folder of runs at {runs}")
    found: set[str] = set()
    for record in runs.rglob("record.json"):
        try:
            text = record.read_text(encoding="utf-8")
            json.loads(text)
        except (OSError, ValueError, RecursionError) as err:
            raise DataError(f"{record}: cannot be read ({err}); what it names is not known, so nothing goes") from err
        found.update(_ENTRY.findall(text))
    return found
