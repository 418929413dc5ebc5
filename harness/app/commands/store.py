"""`openended store [check|gc]`: what the store holds, by stage and by name; whether it is sound; what can go."""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from openended.harness.core import CommandParser, DataError, StoreError, code_of
from openended.harness.storage import RECORD, STAGES, check_store, collect_garbage, read_record


def main(words: Sequence[str]) -> int:
    """Run the command; returns one of `exit_codes`."""
    parser = CommandParser(prog="openended store", description=__doc__)
    parser.add_argument("action", nargs="?", choices=("check", "gc"), help="verify every byte; delete what can go")
    parser.add_argument("--outputs", type=Path, default=Path("outputs"), metavar="DIR", help="default: outputs")
    parser.add_argument("--dry-run", action="store_true", help="gc: say what would go, and delete nothing")
    parser.add_argument("--unnamed", action="store_true", help="gc: also what no run names (it can be made again)")
    parser.add_argument("--days", type=float, default=7.0, help="gc: what is younger stays; default: 7")
    args = parser.parse_args(words)
    return code_of("openended store", lambda: _store(args), kept="what is finished is kept")


def _store(args: argparse.Namespace) -> None:
    root = args.outputs / "store"
    if not root.is_dir():
        raise DataError(f"no store at {root}: give --outputs DIR")
    if args.action == "check":
        checked = check_store(root)
        lines = checked.lines()
    elif args.action == "gc":
        lines = _collect(args, root)
    else:
        lines = list(told(sizes_of(root), named_by(args.outputs / "runs")))
    for line in lines:
        sys.stdout.write(f"{line}\n")
    if args.action == "check" and checked.damaged:
        raise StoreError(f"{len(checked.damaged)} entries are damaged; each is made again when it is asked for")


def _collect(args: argparse.Namespace, root: Path) -> list[str]:
    """Delete, or only name, what dead processes left, what is damaged or unfinished, and what no run names if asked."""
    runs = args.outputs / "runs" if args.unnamed else None
    gone = collect_garbage(root, runs=runs, days=args.days, delete=not args.dry_run)
    said = "would be deleted" if args.dry_run else "deleted"
    return [*gone.places, f"{len(gone.places):,} {said}, {_size(gone.size)}"]


def sizes_of(root: Path) -> dict[str, int]:
    """Return place (`stage/ab/key`) → bytes of every finished entry of a store."""
    folders = [path.parent for stage in STAGES for path in (root / stage).glob("*/*/manifest.json")]
    return {
        str(folder.relative_to(root)): sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())
        for folder in folders
        if len(folder.name) == 64  # not what was moved aside
    }


def named_by(runs: Path) -> dict[str, set[str]]:
    """Return name of runs → the places in the store that their records name.

    Raises:
        DataError: If a record cannot be read.
    """
    found: dict[str, set[str]] = defaultdict(set)
    for path in sorted(runs.glob(f"*/*/{RECORD}")):
        record = read_record(path)
        places = {place for name, place in record.inputs.items() if name != "task"}
        found[path.parent.parent.name] |= places | {row.artefact for row in record.results if row.artefact}
    return dict(found)


def told(sizes: Mapping[str, int], names: Mapping[str, set[str]]) -> Iterator[str]:
    """Yield a line a stage, a line a name, and what no run names."""
    for stage in STAGES:
        own = [size for place, size in sizes.items() if place.startswith(f"{stage}/")]
        if own:
            yield f"stage      {stage:11} {len(own):7,} entries {_size(sum(own)):>10}"
    yield f"all        {'':11} {len(sizes):7,} entries {_size(sum(sizes.values())):>10}"
    for name, places in names.items():
        here = [place for place in places if place in sizes]
        others = set().union(*(more for other, more in names.items() if other != name))
        alone = sum(sizes[place] for place in here if place not in others)
        whole = sum(sizes[place] for place in here)
        yield f"runs       {name}: {len(here):,} entries, {_size(whole)}, of which {_size(alone)} no other name shares"
    free = [place for place in sizes if not any(place in places for places in names.values())]
    yield f"unnamed    {len(free):,} entries, {_size(sum(sizes[place] for place in free))}: no run names them"


def _size(count: int) -> str:
    return f"{count / 1e6:,.1f} MB" if count < 10**9 else f"{count / 1e9:,.1f} GB"
