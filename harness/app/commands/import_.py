"""`openended import archive.zip`: unpack what `openended export` packed into a folder of its own with its own store."""

import argparse
import os
import re
import shutil
import zipfile
import zlib
from pathlib import Path, PurePosixPath

from openended.harness import core, run
from openended.harness.core import OUTPUTS, DataError, HarnessError, argument, make_main
from openended.harness.results import ARCHIVES
from openended.harness.storage import ENTRY_NAME, GRID, MANIFEST, RECORD

FOLDERS = ("runs", "reports", "grids", "store")
SKIPPED = "reports"  # pages hold scripts, and tables are believed: openended report makes both from the records
MAX_FILES = 1_000_000
_PLACES = frozenset({("store", MANIFEST), ("runs", RECORD), ("grids", GRID)})
_LAST = frozenset(name for _, name in _PLACES)  # written last, so that an interrupted import looks unfinished
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, OverflowError)


_RESUMES = "unpacked files are kept; the same command resumes"
_ARGUMENTS = {
    "archive": {"type": Path},
    **OUTPUTS,
    "--name": argument(f"of its folder in outputs/{ARCHIVES}; default: that of the archive", "NAME"),
}


def _import(args: argparse.Namespace) -> None:
    core.check_regular_file(args.archive)
    name = args.name or args.archive.stem
    run.check_name(name)
    folder = args.outputs / ARCHIVES / name
    try:
        with zipfile.ZipFile(args.archive) as archive:
            core.check_unpacked_size(args.archive, sum(member.file_size for member in archive.infolist()))
            count, existing = unpack(archive, folder)
    except HarnessError:
        raise
    except _DAMAGE as err:
        raise DataError(f"{args.archive}: not a sound zip archive ({err})") from err
    core.print_line(f"{count:,} files into {folder}, {existing:,} existed already; openended report {name}")


def unpack(archive: zipfile.ZipFile, folder: Path) -> tuple[int, int]:
    """Unpack the files that do not exist yet, but no reports; return their number and that of existing files."""
    members = [member for member in archive.infolist() if not member.is_dir()]
    file_names = [member.filename for member in members]
    if len(file_names) > MAX_FILES:
        raise DataError(f"expected an archive of at most {MAX_FILES:,} files, got {len(file_names):,}")
    if twice := core.find_repeated(file_names):
        raise DataError(f"{twice!r}: appears more than once in the archive")
    free = shutil.disk_usage(next(p for p in (folder, *folder.resolve().parents) if p.exists())).free
    size = sum(member.file_size for member in members)
    if size > free:
        raise DataError(f"the archive holds {size:,} bytes, but only {free:,} are free at {folder}")
    for member in members:
        _check_member(member, folder)
    members = [member for member in members if not member.filename.startswith(f"{SKIPPED}/")]
    pending = [member for member in members if not os.path.lexists(folder / member.filename)]
    for member in members:
        if member not in pending and (folder / member.filename).stat().st_size != member.file_size:
            raise DataError(
                f"{folder / member.filename}: belongs to another archive; give this one its own folder: --name NAME"
            )
    flushed = False
    for member in sorted(pending, key=lambda m: PurePosixPath(m.filename).name in _LAST):
        target = folder / member.filename
        if PurePosixPath(member.filename).name in _LAST and not flushed:
            os.sync()  # once for all files that the manifests and records refer to
            flushed = True
        with archive.open(member) as source, core.open_for_replacement(target, "wb", sync=False) as handle:
            shutil.copyfileobj(source, handle)
    return len(pending), len(members) - len(pending)


def _check_member(member: zipfile.ZipInfo, folder: Path) -> None:
    """Check a member's name, type, compression and target."""
    name, parts = member.filename, PurePosixPath(member.filename).parts
    is_link = (member.external_attr >> 16) & 0o170000 not in (0, 0o100000)
    is_odd = any(part.startswith(".") for part in parts) or re.search(r"[\\\x00-\x1f]", name)
    in_entry = len(parts) == 5 and ENTRY_NAME.fullmatch("/".join(parts[1:4]))
    has_place = len(parts) > 1 and (parts[-1] not in _LAST or (parts[0], parts[-1]) in _PLACES)
    is_known = has_place and name == "/".join(parts) and (in_entry if parts[0] == "store" else parts[0] in FOLDERS)
    if is_link or is_odd or not is_known:
        raise DataError(f"{name!r}: expected files under {', '.join(FOLDERS)}; was it made by openended export?")
    if member.flag_bits & 0x1:
        raise DataError(f"{name!r}: the archive is encrypted; decrypt it first")
    if member.compress_type not in _METHODS:
        raise DataError(f"{name!r}: expected deflated or stored files, got compression method {member.compress_type}")
    target = folder
    for part in ("", *parts):
        target = target / part
        if target.is_symlink():
            raise DataError(f"{target}: is a link; import writes through no links, so delete it or give --outputs DIR")


main = make_main("import", __doc__, _ARGUMENTS, _import, example="openended import p-sweep.zip", after=_RESUMES)
