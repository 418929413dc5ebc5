"""`openended import archive.zip`: what `openended export` packed, put beside what is here; nothing is overwritten."""

from __future__ import annotations

import argparse
import shutil
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from openended.harness.core import CommandParser, DataError, code_of, replacing

PLACES = ("runs", "reports", "grids", "store")


def main(words: Sequence[str]) -> int:
    """Run the command; returns one of `exit_codes`."""
    parser = CommandParser(prog="openended import", description=__doc__)
    parser.add_argument("archive", type=Path)
    parser.add_argument("--outputs", type=Path, default=Path("outputs"), metavar="DIR", help="default: outputs")
    args = parser.parse_args(words)
    return code_of("openended import", lambda: _import(args), kept="what was unpacked stays; the same command goes on")


def _import(args: argparse.Namespace) -> None:
    try:
        with zipfile.ZipFile(args.archive) as packed:
            made, kept = unpack(packed, args.outputs)
    except FileNotFoundError as err:
        raise DataError(f"no such file: {args.archive}") from err
    except zipfile.BadZipFile as err:
        raise DataError(f"{args.archive}: not a sound zip archive ({err})") from err
    names = sorted({p.parts[1] for p in made if p.parts[0] == "runs"})
    said = f"; runs of {', '.join(names)}: openended report {names[0]}" if names else ""
    sys.stdout.write(f"{len(made):,} files into {args.outputs}, {kept:,} were here{said}\n")


def unpack(packed: zipfile.ZipFile, outputs: Path) -> tuple[list[PurePosixPath], int]:
    """Unpack what is not there; returns its names, and how many files were there.

    Manifests and records come last, so that an interrupted import leaves nothing that looks finished. The store
    compares every entry with its digests when it is asked for.

    Raises:
        DataError: If a name would leave `outputs`, or holds what no export packs; then nothing was unpacked.
    """
    members = [member for member in packed.infolist() if not member.is_dir()]
    for member in members:
        _check(member)
    free = shutil.disk_usage(next(p for p in (outputs, *outputs.resolve().parents) if p.exists())).free
    size = sum(member.file_size for member in members)
    if size > free:
        raise DataError(f"the archive holds {size:,} bytes, and {free:,} are free at {outputs}")
    made = []
    last = {"manifest.json", "record.json", "grid.json"}
    for member in sorted(members, key=lambda m: PurePosixPath(m.filename).name in last):
        target = outputs / member.filename
        if target.exists():
            continue
        with packed.open(member) as source, replacing(target, "wb") as handle:
            shutil.copyfileobj(source, handle)
        made.append(PurePosixPath(member.filename))
    return made, len(members) - len(made)


def _check(member: zipfile.ZipInfo) -> None:
    parts = PurePosixPath(member.filename).parts
    link = (member.external_attr >> 16) & 0o170000 == 0o120000
    if link or len(parts) < 2 or parts[0] not in PLACES or ".." in parts or "\\" in member.filename:
        raise DataError(
            f"{member.filename!r}: expected files under {', '.join(PLACES)}; was it made by openended export?"
        )
