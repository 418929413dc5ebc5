"""Open input files safely: regular files only, limited decompression and limited line length."""

from __future__ import annotations

import gzip
import io
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from openended.harness.core.errors import DataError

# Longest line of a JSON-lines file, bytes: a guard for memory, far above any document.
MAX_LINE = 16 << 20
# A gzip file may decompress to UNZIPPED_FREE bytes or UNZIPPED_RATIO times its size, whichever is more. Prose shrinks
# to a third, looping texts to a twentieth, gzip bombs to a thousandth.
UNZIPPED_FREE, UNZIPPED_RATIO = 16 << 20, 50


# Largest JSON file, bytes: records and manifests have kilobytes.
MAX_JSON = 128 << 20


@contextmanager
def describe_read_errors(path: Path) -> Iterator[None]:
    """Turn an `OSError` of the block into a one-line error that names the file.

    Raises:
        DataError: In place of an `OSError`.
    """
    try:
        yield
    except FileNotFoundError as err:
        raise DataError(f"no such file: {path}") from err
    except OSError as err:
        raise DataError(f"cannot read {path}: {err.strerror or err}") from err


def check_regular_file(path: Path) -> None:
    """Check that a path is a regular file: reading a named pipe or a device could hang or never end.

    Raises:
        DataError: If it is missing or something else.
    """
    kind = describe_kind(path)
    if kind != "file":
        raise DataError(f"expected a file, got a {kind}: {path}")


def describe_kind(path: Path) -> str:
    """Return what a path is, links followed: file, folder, named pipe, socket or device."""
    with describe_read_errors(path):
        mode = path.stat().st_mode
    kinds = {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFIFO: "named pipe", stat.S_IFSOCK: "socket"}
    return kinds.get(stat.S_IFMT(mode), "device")


class _LimitedLines(io.TextIOWrapper):
    """A text file whose lines have at most `MAX_LINE` characters."""

    def __init__(self, path: Path, handle: io.BufferedReader) -> None:
        super().__init__(handle, encoding="utf-8-sig", newline="\n")
        self._path, self._number = path, 0

    def readline(self, size: int = -1, /) -> str:  # type: ignore[override] # as in the base class
        """Return the next line."""
        line = super().readline(MAX_LINE + 1 if size < 0 else size)
        self._number += 1
        if len(line) > MAX_LINE:
            raise DataError(f"{self._path}:{self._number}: a line of more than {MAX_LINE >> 20} Mi characters")
        return line

    def __next__(self) -> str:  # type: ignore[override] # as in the base class
        if not (line := self.readline()):
            raise StopIteration
        return line


def open_text(path: Path) -> IO[str]:
    """Open a UTF-8 text file for reading, decompressing `.gz`; a BOM is dropped and lines are limited in length.

    Raises:
        DataError: If it is missing, unreadable or not a regular file.
    """
    return _LimitedLines(path, open_bytes(path))


def open_bytes(path: Path) -> io.BufferedReader:
    """Open a file for reading bytes, decompressing `.gz`."""
    check_regular_file(path)
    with describe_read_errors(path):
        return io.BufferedReader(_Unzipped(path), 1 << 17) if path.suffix == ".gz" else path.open("rb")


class _Unzipped(io.RawIOBase):
    """The decompressed bytes of a gzip file, limited in number."""

    def __init__(self, path: Path) -> None:
        self._path, self._count = path, 0
        self._limit = max(UNZIPPED_FREE, UNZIPPED_RATIO * path.stat().st_size)
        self._file = gzip.GzipFile(path, "rb")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - any writable buffer
        count = self._file.readinto(buffer)
        self._count += count
        if self._count > self._limit:
            raise DataError(
                f"{self._path}: unpacks to more than {UNZIPPED_RATIO} times its size, as no text does; "
                "if that is intended, decompress it first"
            )
        return count

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()
