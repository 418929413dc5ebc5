"""`openended store [check|gc|push URL|pull URL]`: list, verify, clean up or share the store."""

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path

from openended.harness.core import OUTPUTS, DataError, StoreError, argument, format_size, make_main, print_line
from openended.harness.storage import STAGES, RemoteStore, check_store, collect_garbage, find_named_entries

_ACTIONS = "verify every byte; delete what can go; copy what is missing to a URL, or from it"
_ARGUMENTS = {
    "action": argument(_ACTIONS, nargs="?", choices=("check", "gc", "push", "pull")),
    "url": argument("push, pull: a folder or what fsspec reads, such as s3://bucket/store", nargs="?"),
    **OUTPUTS,
    "--dry-run": argument("gc: list what would be deleted, and delete nothing", action="store_true"),
    "--unnamed": argument("gc: also delete entries that no run names", action="store_true"),
    "--days": argument("gc: keep what is younger; default: 7", type=float),
}
_READERS = {"days": "gc", "unnamed": "gc", "dry_run": "gc"}  # option → the action that reads it


def _store(args: argparse.Namespace) -> None:
    root = args.outputs / "store"
    for option, action in _READERS.items():
        if getattr(args, option) not in (None, False) and args.action != action:
            raise DataError(f"--{option.replace('_', '-')}: used by openended store {action} alone; leave it out")
    if (args.action in ("push", "pull")) != (args.url is not None):
        missing = f"{args.action}: expected a URL, as in openended store {args.action} s3://bucket/store"
        raise DataError(missing if args.url is None else f"{args.url}: only push and pull take a URL; leave it out")
    if not root.is_dir() and args.action != "pull":
        raise DataError(f"no store at {root}: give --outputs DIR")
    damaged = 0
    if args.action == "check":
        checked = check_store(root)
        lines, damaged = checked.lines(), len(checked.damaged)
    elif args.action == "gc":
        days = 7.0 if args.days is None else args.days
        if not days >= 0:  # NaN too
            raise DataError(f"--days: expected 0 or more, got {days:g}")
        runs = args.outputs / "runs" if args.unnamed else None
        deleted = collect_garbage(root, runs=runs, days=days, delete=not args.dry_run)
        outcome = "would be deleted" if args.dry_run else "deleted"
        lines = [*deleted.names, f"{len(deleted.names):,} {outcome}, {format_size(deleted.size)}"]
    elif args.url is not None:
        shared = RemoteStore(args.url)
        count = shared.push(root) if args.action == "push" else shared.pull(root)
        done = f"{count:,} entries copied to {shared.url}, {len(shared.names):,} existed"
        pulled = f"{count:,} of {len(shared.names):,} entries copied from {shared.url}"
        lines = [pulled if args.action == "pull" else done]
    else:
        lines = list(format_sizes(measure_entries(root), find_named_entries(args.outputs / "runs")))
    for line in lines:
        print_line(line)
    if damaged:
        raise StoreError(f"{damaged} entries are damaged; each is computed again when it is needed")


def measure_entries(root: Path) -> dict[str, int]:
    """Return entry name (`stage/ab/key`) → bytes of every finished entry of a store."""
    folders = [path.parent for stage in STAGES for path in (root / stage).glob("*/*/manifest.json")]
    return {
        str(folder.relative_to(root)): sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())
        for folder in folders
        if len(folder.name) == 64  # not what was moved aside
    }


def format_sizes(sizes: Mapping[str, int], names: Mapping[str, set[str]]) -> Iterator[str]:
    """Format sizes: one line per stage, one per run name, and one for entries that no run names."""
    for stage in STAGES:
        stage_sizes = [size for entry, size in sizes.items() if entry.startswith(f"{stage}/")]
        if stage_sizes:
            yield f"stage      {stage:11} {len(stage_sizes):7,} entries {format_size(sum(stage_sizes)):>10}"
    yield f"all        {'':11} {len(sizes):7,} entries {format_size(sum(sizes.values())):>10}"
    for name, entries in names.items():
        here = [entry for entry in entries if entry in sizes]
        others = set().union(*(more for other, more in names.items() if other != name))
        alone = sum(sizes[entry] for entry in here if entry not in others)
        total = sum(sizes[entry] for entry in here)
        yield f"runs       {name}: {len(here):,} entries, {format_size(total)}, {format_size(alone)} of it not shared"
    free = [entry for entry in sizes if not any(entry in entries for entries in names.values())]
    yield f"unnamed    {len(free):,} entries, {format_size(sum(sizes[entry] for entry in free))}: no run names them"


main = make_main("store", __doc__, _ARGUMENTS, _store, after="finished work is kept")
