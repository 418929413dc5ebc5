"""`openended export NAME archive.zip`: pack runs, reports and grids of a name, with their store entries."""

from __future__ import annotations

import argparse
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from openended.harness.app.commands.store import find_named_entries
from openended.harness.core import (
    CommandParser,
    DataError,
    StoreError,
    open_for_replacement,
    print_line,
    run_command,
    suggest,
)
from openended.harness.results import read_grids


def main(words: Sequence[str]) -> int:
    """Run the command; returns one of `exit_codes`."""
    parser = CommandParser(prog="openended export", description=__doc__, example="openended export p-sweep p-sweep.zip")
    parser.add_argument("name", help="of runs: name=…, experiment=…")
    parser.add_argument("archive", type=Path, help="a .zip; one of this name is replaced")
    parser.add_argument("--outputs", type=Path, default=Path("outputs"), metavar="DIR", help="default: outputs")
    parser.add_argument("--no-store", action="store_true", help="records, reports and grids alone")
    args = parser.parse_args(words)
    return run_command("openended export", lambda: _export(args), after_interrupt="no archive was written")


def _export(args: argparse.Namespace) -> None:
    files = dict.fromkeys(list_files(args.name, args.outputs, store=not args.no_store))
    with (
        open_for_replacement(args.archive, "wb") as handle,
        zipfile.ZipFile(handle, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        for path in files:
            try:
                archive.write(path, path.relative_to(args.outputs))
            except FileNotFoundError as err:
                raise StoreError(f"{path} disappeared during the export; is a grid running?") from err
    size = args.archive.stat().st_size / 1e6
    print_line(f"{args.archive}: {len(files):,} files, {size:,.1f} MB; openended import {args.archive.name}")


def list_files(name: str, outputs: Path, *, store: bool) -> Iterator[Path]:
    """Yield the files of a run name.

    Raises:
        DataError: If there are no runs of this name.
    """
    runs = outputs / "runs" / name
    if name in ("", ".", "..") or "/" in name or not runs.is_dir():
        names = [p.name for p in (outputs / "runs").glob("*") if p.is_dir()]
        raise DataError(f"no runs named {name!r} in {outputs}/runs{suggest(name, names) if names else ''}")
    folders = [
        runs,
        outputs / "reports" / name,
        *(g.folder for g in read_grids(outputs) if name in (g.name, *g.reports)),
    ]
    if store:
        root = (outputs / "store").resolve()
        entries = [outputs / "store" / entry for entry in sorted(find_named_entries(outputs / "runs")[name])]
        folders += [folder for folder in entries if folder.resolve().is_relative_to(root)]
    for folder in folders:
        yield from (path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink())
