"""Files: written to a temporary name and renamed; read with errors that name file and line."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import math
import os
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import IO, Any

import numpy as np

from openended.harness.core import temporary_files
from openended.harness.core.errors import DataError, StoreError, first_line
from openended.harness.core.types import Json

# Longest line of a JSON-lines file, bytes: a guard for memory, far above any document.
MAX_LINE = 16 << 20
# A gzip file may unpack to this many bytes, and beyond that to this many times its size: prose shrinks to a third,
# texts that loop to a twentieth, a bomb to a thousandth.
UNZIPPED_FREE, UNZIPPED_RATIO = 16 << 20, 50


@contextmanager
def replacing(path: Path, mode: str = "w") -> Iterator[IO[Any]]:
    """Open a temporary sibling of `path`; it takes the name only if the block ends well.

    The file's permissions follow the umask, so that a group may share a store.

    Raises:
        StoreError: If the folder cannot be made or written.
    """
    temporary = path.with_name(temporary_files.temporary(f".{path.name[:100]}"))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary_files.sweep_once(path.parent)
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    except OSError as err:
        raise StoreError(f"cannot write {path}: {err.strerror or err}") from err
    binary = "b" in mode
    try:
        with open(fd, mode, encoding=None if binary else "utf-8", newline=None if binary else "\n") as handle:
            yield handle
            handle.flush()
            os.fsync(handle.fileno())
        temporary.replace(path)
        sync_folder(path.parent)
    except OSError as err:
        raise StoreError(f"cannot write {path}: {err.strerror or err}") from err
    finally:
        temporary.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Write a folder's names to the disk, as `fsync` does a file's bytes; nothing where the system has no such call."""
    with suppress(OSError):  # some file systems refuse it, and a reader of the files loses nothing
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text atomically."""
    with replacing(path) as handle:
        handle.write(text)


def write_json(path: Path, value: Any) -> None:  # noqa: ANN401
    """Write strict JSON atomically: sorted keys, NaN as null."""
    write_text(
        path,
        json.dumps(to_json(value), indent=2, sort_keys=True, allow_nan=False, ensure_ascii=False) + "\n",
    )


def to_json(value: Any) -> Json:  # noqa: ANN401
    """Plain JSON of a value; a float that is not finite becomes null, an array a list."""
    if isinstance(value, Mapping):
        return {str(k): to_json(v) for k, v in value.items()}
    if isinstance(value, np.ndarray):
        return to_json(value.tolist())
    if isinstance(value, (list, tuple)):
        return [to_json(v) for v in value]
    if isinstance(value, np.generic):
        return to_json(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return str(value)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Say which file it is that is not there or cannot be read.

    Raises:
        DataError: In place of an `OSError`.
    """
    try:
        yield
    except FileNotFoundError as err:
        raise DataError(f"no such file: {path}") from err
    except OSError as err:
        raise DataError(f"cannot read {path}: {err.strerror or err}") from err


def read_json(path: Path) -> Any:  # noqa: ANN401
    """Read a JSON file.

    Raises:
        DataError: If it is missing or not JSON.
    """
    try:
        with reading(path):
            return json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=_once)
    except RecursionError as err:
        raise DataError(f"{path}: JSON nested too deeply") from err
    except ValueError as err:  # not JSON, not UTF-8, or a number of thousands of digits
        raise DataError(f"{path}: not JSON ({err})") from err


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object of its pairs; of a key that comes twice nobody knows which value is meant."""
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {next(n for n in names if names.count(n) > 1)!r:.40} comes twice in one object")
    return made


def open_text(path: Path) -> IO[str]:
    """Open a UTF-8 text file for reading, gzip by its name's end; a BOM is dropped.

    Raises:
        DataError: If it is missing, a folder or unreadable.
    """
    return io.TextIOWrapper(_open_bytes(path), encoding="utf-8-sig", newline="\n")


def read_csv(path: Path) -> tuple[list[str], list[tuple[int, dict[str, str]]]]:
    """Read a CSV file, gzip by its name's end: its columns, and each row with its line; blank rows are passed over.

    The header tells what separates the cells: a comma, a semicolon or a tab, whichever it has most of.

    Raises:
        DataError: Names file and line where a row has more or fewer cells than the header, a column comes twice, or
            the file cannot be read.
    """
    with open_text(path) as handle:
        line = 0
        try:
            header = handle.readline()
            reader = csv.reader(chain([header], handle), delimiter=max(",;\t", key=header.count), strict=True)
            columns = [name.strip().removeprefix("\ufeff") for name in next(reader, [])]
            twice = sorted({name for name in columns if columns.count(name) > 1})
            if twice:
                raise DataError(f"{path}:1: column {twice[0]!r} is there more than once")
            rows = []
            for cells in reader:
                line = reader.line_num
                if len(cells) != len(columns) and _filled(cells):
                    raise DataError(f"{path}:{line}: expected {len(columns)} cells as in the header, got {len(cells)}")
                if _filled(cells):
                    rows.append((line, dict(zip(columns, cells, strict=True))))
            return columns, rows
        except csv.Error as err:
            raise DataError(f"{path}:{line + 1}: not CSV ({err})") from err
        except UnicodeDecodeError as err:
            raise DataError(f"{path}:{line + 1}: not UTF-8 ({err.reason}); save it as CSV in UTF-8") from err
        except (EOFError, zlib.error, OSError) as err:
            raise DataError(f"{path}:{line + 1}: cannot be read to its end ({err})") from err


def _filled(cells: list[str]) -> bool:
    return any(cell.strip() for cell in cells)


def read_jsonl(path: Path, *, unwrap: bool = False) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number from 1, object) of a JSON-lines file, gzip by its name's end; blank lines are passed over.

    A BOM and CRLF line ends are accepted; with `unwrap`, so is an object that is the only item of a list.

    Raises:
        DataError: Names file and line where a line is not a JSON object, is not UTF-8 or is longer than `MAX_LINE`
            bytes, or where the file cannot be read to its end.
    """
    number = 0
    with _open_bytes(path) as handle:
        try:
            # Lines are decoded one by one: decoding in blocks could not say which line is at fault.
            while line := handle.readline(MAX_LINE + 1):
                number += 1
                if len(line) > MAX_LINE:
                    raise DataError(f"{path}:{number}: a line of more than {MAX_LINE >> 20} MiB; is this JSON lines?")
                if line.strip(b"\r\n\t \xef\xbb\xbf"):
                    yield number, _object(line, f"{path}:{number}", unwrap=unwrap)
        except (EOFError, zlib.error, OSError) as err:
            raise DataError(f"{path}:{number + 1}: cannot be read to its end ({err})") from err


def _object(line: bytes, where: str, *, unwrap: bool) -> dict[str, Any]:
    try:
        row = json.loads(line.decode("utf-8-sig" if where.endswith(":1") else "utf-8"), object_pairs_hook=_once)
    except UnicodeDecodeError as err:
        raise DataError(f"{where}: not UTF-8 ({err.reason} at byte {err.start})") from err
    except json.JSONDecodeError as err:
        raise DataError(f"{where}: not JSON ({err.msg} at column {err.colno})") from err
    except RecursionError as err:
        raise DataError(f"{where}: JSON nested too deeply") from err
    except ValueError as err:  # a number of thousands of digits, a key that comes twice
        raise DataError(f"{where}: not JSON ({first_line(err)})") from err
    if unwrap and isinstance(row, list) and len(row) == 1:
        row = row[0]
    if not isinstance(row, dict):
        raise DataError(f"{where}: expected a JSON object, got {type(row).__name__}")
    return row


class _Unzipped(io.RawIOBase):
    """The bytes of a gzip file, of which there must not be absurdly many."""

    def __init__(self, path: Path) -> None:
        self._path, self._made = path, 0
        self._most = max(UNZIPPED_FREE, UNZIPPED_RATIO * path.stat().st_size)
        self._file = gzip.GzipFile(path, "rb")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - any writable buffer
        count = self._file.readinto(buffer)
        self._made += count
        if self._made > self._most:
            raise DataError(
                f"{self._path}: unpacks to more than {UNZIPPED_RATIO} times its size, as no text does; "
                "if it is meant, give it unpacked"
            )
        return count

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


def _open_bytes(path: Path) -> io.BufferedReader:
    with reading(path):
        if path.is_dir():
            raise DataError(f"expected a file, got a folder: {path}")
        return io.BufferedReader(_Unzipped(path), 1 << 17) if path.suffix == ".gz" else path.open("rb")


def file_digest(path: Path) -> str:
    """SHA-256 (hex) of a file's bytes."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
