"""`openended store`: what the store holds, by stage and by name of runs, and what no run names."""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from openended.harness.errors import DataError
from openended.harness.exitcodes import code_of
from openended.harness.record import RECORD, STAGES, read_record


def main(words: Sequence[str]) -> int:
    """Run the command; returns one of `exitcodes`."""
    parser = argparse.ArgumentParser(prog="openended store", description=__doc__)
    parser.add_argument("--outputs", default="outputs", metavar="DIR", help="default: outputs")
    args = parser.parse_args(words)
    return code_of("openended store", lambda: _store(Path(args.outputs)), kept="nothing was changed")


def _store(outputs: Path) -> None:
    root = outputs / "store"
    if not root.is_dir():
        raise DataError(f"no store at {root}: give --outputs DIR")
    for line in told(sizes_of(root), named_by(outputs / "runs")):
        sys.stdout.write(f"{line}\n")


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
