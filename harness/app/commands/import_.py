"""`openended import archive.zip`: unpack what `openended export` packed; existing files are not overwritten."""

import argparse
import os
import re
import shutil
import zipfile
import zlib
from pathlib import Path, PurePosixPath
from typing import Any

from openended.harness import core
from openended.harness.core import OUTPUTS, DataError, HarnessError, make_main
from openended.harness.storage import ENTRY_NAME, GRID, MANIFEST, RECORD, mark_manifest, mark_record

FOLDERS = ("runs", "reports", "grids", "store")
MAX_FILES = 1_000_000
_MARKED = frozenset({("store", MANIFEST), ("runs", RECORD), ("grids", GRID)})
_LAST = frozenset(name for _, name in _MARKED)  # written last, so that an interrupted import looks unfinished
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, OverflowError)


_AFTER = "unpacked files are kept; the same command resumes"
_ARGUMENTS = {
    "archive": {"type": Path},
    **OUTPUTS,
    "--trust": {"action": "store_true", "help": "let your own runs reuse the imported store entries"},
}


def _import(args: argparse.Namespace) -> None:
    core.check_regular_file(args.archive)
    try:
        with zipfile.ZipFile(args.archive) as archive:
            core.check_unpacked_size(args.archive, sum(member.file_size for member in archive.infolist()))
            paths, existing = unpack(archive, args.outputs, args.archive.name, trust=args.trust)
    except HarnessError:
        raise
    except _DAMAGE as err:
        raise DataError(f"{args.archive}: not a sound zip archive ({err})") from err
    names = sorted({p.parts[1] for p in paths if p.parts[0] == "runs"})
    hint = f"; runs of {', '.join(names)}: openended report {names[0]}" if names else ""
    core.print_line(f"{len(paths):,} files into {args.outputs}, {existing:,} existed already{hint}")


def unpack(archive: zipfile.ZipFile, outputs: Path, name: str, *, trust: bool) -> tuple[list[PurePosixPath], int]:
    """Unpack the files that do not exist yet; return their names and the number of existing files.

    Store entries, records and grids are marked as imported from the archive `name`.
    """
    members = [member for member in archive.infolist() if not member.is_dir()]
    file_names = [member.filename for member in members]
    if len(file_names) > MAX_FILES:
        raise DataError(f"expected an archive of at most {MAX_FILES:,} files, got {len(file_names):,}")
    if twice := core.find_repeated(file_names):
        raise DataError(f"{twice!r}: appears more than once in the archive")
    free = shutil.disk_usage(next(p for p in (outputs, *outputs.resolve().parents) if p.exists())).free
    size = sum(member.file_size for member in members)
    if size > free:
        raise DataError(f"the archive holds {size:,} bytes, but only {free:,} are free at {outputs}")
    for member in members:
        _check_member(member, outputs)
    pending = [member for member in members if not os.path.lexists(outputs / member.filename)]
    marked = {m.filename: _mark(archive, m, {"archive": name, "trusted": trust}) for m in pending if _is_marked(m)}
    flushed = False
    for member in sorted(pending, key=lambda m: PurePosixPath(m.filename).name in _LAST):
        target = outputs / member.filename
        if PurePosixPath(member.filename).name in _LAST and not flushed:
            os.sync()  # once for all files that the manifests and records refer to
            flushed = True
        if member.filename in marked:
            core.write_json(target, marked[member.filename])
            continue
        with archive.open(member) as source, core.open_for_replacement(target, "wb", sync=False) as handle:
            shutil.copyfileobj(source, handle)
    return [PurePosixPath(member.filename) for member in pending], len(members) - len(pending)


def _check_member(member: zipfile.ZipInfo, outputs: Path) -> None:
    """Check a member's name, type, compression and target."""
    name, parts = member.filename, PurePosixPath(member.filename).parts
    is_link = (member.external_attr >> 16) & 0o170000 not in (0, 0o100000)
    is_odd = any(part.startswith(".") for part in parts) or re.search(r"[\\\x00-\x1f]", name)
    in_entry = len(parts) == 5 and ENTRY_NAME.fullmatch("/".join(parts[1:4]))
    is_marked = len(parts) > 1 and (parts[-1] not in _LAST or _is_marked(member))  # each of these has its folder
    is_known = is_marked and name == "/".join(parts) and (in_entry if parts[0] == "store" else parts[0] in FOLDERS)
    if is_link or is_odd or not is_known:
        raise DataError(f"{name!r}: expected files under {', '.join(FOLDERS)}; was it made by openended export?")
    if member.flag_bits & 0x1:
        raise DataError(f"{name!r}: the archive is encrypted; decrypt it first")
    if member.compress_type not in _METHODS:
        raise DataError(f"{name!r}: expected deflated or stored files, got compression method {member.compress_type}")
    target = outputs
    for part in parts:
        target = target / part
        if target.is_symlink():
            raise DataError(f"{target}: is a link; import writes through no links, so delete it or give --outputs DIR")


def _is_marked(member: zipfile.ZipInfo) -> bool:
    parts = PurePosixPath(member.filename).parts
    return (parts[0], parts[-1]) in _MARKED


def _mark(archive: zipfile.ZipFile, member: zipfile.ZipInfo, mark: dict[str, Any]) -> dict[str, Any]:
    """Return a manifest, record or grid file, marked as imported."""
    if member.file_size > core.MAX_JSON:
        raise DataError(
            f"{member.filename!r}: expected at most {core.MAX_JSON >> 20} MiB, got {member.file_size:,} bytes"
        )
    value = core.parse_json(archive.read(member), repr(member.filename))
    parts = PurePosixPath(member.filename).parts
    if parts[-1] == GRID:
        if not isinstance(value, dict):
            raise DataError(f"{member.filename!r}: expected a JSON object")
        return {**value, "imported": str(mark["archive"])}
    if parts[-1] == RECORD:
        return mark_record(value, mark, repr(member.filename))
    return mark_manifest(value, mark, "/".join(parts[1:4]), repr(member.filename))


main = make_main("import", __doc__, _ARGUMENTS, _import, example="openended import p-sweep.zip", after=_AFTER)
