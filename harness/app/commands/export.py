"""`openended export NAME archive.zip`: pack a name with its store entries; --format: results for other tools."""

import argparse
import sys
import zipfile
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

from openended.harness import core
from openended.harness.core import OUTPUTS, Arguments, DataError, SpecError, StoreError, argument, make_main
from openended.harness.report import FORMATS, TABLES_HINT, export_results
from openended.harness.results import read_grids, resolve_report_request
from openended.harness.storage import find_named_entries

MAX_LISTED_FILES = 10
_EXAMPLE = "openended export p-sweep p-sweep.zip"
_TARGET = "a .zip (-: standard output), or with --format a folder (default: outputs/exports/NAME-FORMAT); replaced"
_FORMATS = "; ".join(f"{name}: {text}" for name, text in FORMATS.items())
_TARGET_FLAGS = ("--to", "--out", "--output", "-o", "--file", "--archive")
_ARGUMENTS: Arguments = {
    "name": argument("of runs: name=…, experiment=…"),
    "archive": argument(_TARGET, "ARCHIVE|FOLDER", type=Path, nargs="?", synonyms=_TARGET_FLAGS),
    "--format": argument(f"results for other tools instead of an archive; {_FORMATS}", "FORMAT"),
    "--organization": argument("with --format eee: who made the runs", "NAME"),
    "--dataset": argument("with --format hub: the dataset's repository", "OWNER/NAME"),
    **OUTPUTS,
    "--no-store": argument("records, reports and grids alone", action="store_true"),
}


def _export_format(args: argparse.Namespace) -> None:
    """Write the results of a name, of a grid or of run folders in the format of another tool."""
    if args.dataset is not None and args.dataset.strip("/").count("/") != 1:
        raise SpecError(f"--dataset: expected a repository as OWNER/NAME, got {args.dataset!r}")
    for option, value, used_by in (
        ("--organization", args.organization, "eee"),
        ("--dataset", args.dataset, "hub"),
        ("--no-store", args.no_store or None, "archive"),
    ):
        if value is not None and args.format != used_by:
            raise SpecError(f"{option} has no effect with --format {args.format}; leave it out")
    if str(args.archive) == "-":
        raise SpecError("-: standard output takes an archive, not the folder of --format; give a folder")
    request = resolve_report_request([args.name], args.outputs)
    folder = args.archive or args.outputs / "exports" / f"{request.name}-{args.format}"
    options = {"organization": args.organization} if args.organization else {}
    files = export_results(request.paths, folder, args.format, name=request.name, dataset=args.dataset, **options)
    for path in files[:MAX_LISTED_FILES]:
        core.print_line(str(path))
    if len(files) > MAX_LISTED_FILES:
        core.print_line(f"… and {len(files) - MAX_LISTED_FILES} more files in {folder}")


def _export_archive(args: argparse.Namespace) -> None:
    if args.archive is None:
        raise SpecError(f"missing archive, as in {_EXAMPLE}")
    if args.archive.name in FORMATS:
        raise SpecError(f"archive: {args.archive} is a format: type --format {args.archive}, or a name of a .zip")
    if args.archive.suffix not in ("", ".zip"):
        raise SpecError(f"archive: expected a name that ends in .zip, got {str(args.archive)!r}; {TABLES_HINT}")
    for option, value in (("--organization", args.organization), ("--dataset", args.dataset)):
        if value is not None:
            raise SpecError(f"{option} has no effect on an archive; add --format or leave it out")
    files = dict.fromkeys(list_files(args.name, args.outputs, store=not args.no_store))
    to_output = str(args.archive) == "-"
    with (
        nullcontext(sys.stdout.buffer) if to_output else core.open_for_replacement(args.archive, "wb") as handle,
        zipfile.ZipFile(handle, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        for path in files:
            try:
                archive.write(path, path.relative_to(args.outputs))
            except FileNotFoundError as err:
                raise StoreError(f"{path} disappeared during the export; is a grid running?") from err
    if to_output:
        return
    size = core.format_size(args.archive.stat().st_size)
    core.print_line(f"{args.archive}: {len(files):,} files, {size}; openended import {args.archive.name}")


def list_files(name: str, outputs: Path, *, store: bool) -> Iterator[Path]:
    """Yield the files of a run name."""
    runs = outputs / "runs" / name
    if name in ("", ".", "..") or "/" in name or not runs.is_dir():
        names = [p.name for p in (outputs / "runs").glob("*") if p.is_dir()]
        raise DataError(f"no runs named {name!r} in {outputs}/runs{core.suggest(name, names) if names else ''}")
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
        paths = (path for path in sorted(folder.rglob("*")) if not path.name.startswith("."))
        yield from (path for path in paths if path.is_file() and not path.is_symlink())


def _export(args: argparse.Namespace) -> None:
    (_export_archive if args.format is None else _export_format)(args)


main = make_main("export", __doc__, _ARGUMENTS, _export, example=_EXAMPLE, after="nothing was written")
