"""`openended export NAME archive.zip`: runs, reports and grids of a name, with what they have in the store."""

from __future__ import annotations

import argparse
import sys
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from openended.harness.app.commands.store import named_by
from openended.harness.core import CommandParser, DataError, StoreError, code_of, replacing, suggest
from openended.harness.results import grids_of


def main(words: Sequence[str]) -> int:
    """Run the command; returns one of `exit_codes`."""
    parser = CommandParser(prog="openended export", description=__doc__)
    parser.add_argument("name", help="of runs: name=…, experiment=…")
    parser.add_argument("archive", type=Path, help="a .zip; one of this name is replaced")
    parser.add_argument("--outputs", type=Path, default=Path("outputs"), metavar="DIR", help="default: outputs")
    parser.add_argument("--no-store", action="store_true", help="records, reports and grids alone")
    args = parser.parse_args(words)
    return code_of("openended export", lambda: _export(args), kept="no archive was written")


def _export(args: argparse.Namespace) -> None:
    files = dict.fromkeys(files_of(args.name, args.outputs, store=not args.no_store))
    with replacing(args.archive, "wb") as handle, zipfile.ZipFile(handle, "w", zipfile.ZIP_DEFLATED) as made:
        for path in files:
            try:
                made.write(path, path.relative_to(args.outputs))
            except FileNotFoundError as err:
                raise StoreError(f"{path} vanished while it was packed: is a grid running?") from err
    size = args.archive.stat().st_size / 1e6
    sys.stdout.write(f"{args.archive}: {len(files):,} files, {size:,.1f} MB; openended import {args.archive.name}\n")


def files_of(name: str, outputs: Path, *, store: bool) -> Iterator[Path]:
    """Yield every file that belongs to a name.

    Raises:
        DataError: If there are no runs of this name.
    """
    runs = outputs / "runs" / name
    if not runs.is_dir():
        known = [p.name for p in (outputs / "runs").glob("*") if p.is_dir()]
        raise DataError(f"no runs of the name {name!r} in {outputs}/runs{suggest(name, known) if known else ''}")
    folders = [runs, outputs / "reports" / name, *(g.folder for g in grids_of(outputs) if name in (g.name, *g.reports))]
    if store:
        folders += [outputs / "store" / place for place in sorted(named_by(outputs / "runs")[name])]
    for folder in folders:
        yield from (path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink())
