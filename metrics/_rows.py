"""Rows of a CSV or JSON-lines file with their line numbers, and cells read with errors that say where."""

from __future__ import annotations

import csv
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openended.harness.errors import DataError
from openended.harness.io import file_digest, open_text, read_jsonl

_MISSING = frozenset({"", "na", "nan", "null", "none"})
_TRUE, _FALSE = frozenset({"1", "true", "yes", "model", "1.0"}), frozenset({"0", "false", "no", "human", "0.0"})


MOST = 1e15  # of any rating, length or log-probability: squares of more lose every digit


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a file."""

    where: str
    """`file:line`."""
    cells: Mapping[str, Any]

    def text(self, column: str) -> str:
        """Return a cell that must not be empty, as text."""
        value = self.cells.get(column)
        text = "" if value is None else str(value).strip()
        if not text:
            raise DataError(f"{self.where}: column {column!r} is empty")
        return text

    def number(self, column: str, *, infinite: bool = False) -> float:
        """Return a number, NaN where the cell is empty; −inf passes only if `infinite`."""
        return as_number(self.cells.get(column), f"{self.where}: column {column!r}", infinite=infinite)

    def flag(self, column: str) -> bool:
        """Return a yes/no cell (1/0, true/false, model/human)."""
        word = self.text(column).lower()
        if word in _TRUE or word in _FALSE:
            return word in _TRUE
        raise DataError(f"{self.where}: column {column!r}: expected 1 or 0, got {word!r}")


def as_number(value: Any, where: str, *, infinite: bool = False) -> float:  # noqa: ANN401
    """Return a cell's number, NaN where it is empty.

    Raises:
        DataError: If it is no number, or not finite (−inf is allowed if `infinite`).
    """
    if value is None or (isinstance(value, str) and value.strip().lower() in _MISSING):
        return math.nan
    try:
        if isinstance(value, (bool, list, dict)):
            raise ValueError
        number = float(value)
    except (TypeError, ValueError, OverflowError) as err:
        raise DataError(f"{where}: expected a number, got {value!r:.40}") from err
    if math.isinf(number) and not (infinite and number < 0):
        raise DataError(f"{where}: expected a finite number, got {value!r:.40}")
    if MOST < abs(number) < math.inf:
        raise DataError(f"{where}: expected a number of at most {MOST:g} in size, got {value!r:.40}")
    return number


def read_rows(path: Path) -> tuple[list[str], list[Row]]:
    """Read a .csv, .tsv or .jsonl file (also .gz): column names in order, and rows with their lines.

    Raises:
        DataError: If the file is missing, empty or malformed; names file and line.
    """
    kind = path.name.removesuffix(".gz").rpartition(".")[2].lower()
    if kind in ("jsonl", "ndjson"):
        rows = [Row(f"{path}:{line}", cells) for line, cells in read_jsonl(path)]
        columns = list(dict.fromkeys(name for row in rows for name in row.cells))
    elif kind in ("csv", "tsv"):
        columns, rows = _read_csv(path, "," if kind == "csv" else "\t")
    else:
        raise DataError(f"{path}: expected a .csv, .tsv or .jsonl file")
    if not rows:
        raise DataError(f"{path}: no rows")
    return columns, rows


def _read_csv(path: Path, delimiter: str) -> tuple[list[str], list[Row]]:
    with open_text(path) as handle:
        reader = csv.reader(handle, delimiter=delimiter, strict=True)
        try:
            columns = [name.strip() for name in next(reader, [])]
            twice = sorted({name for name in columns if columns.count(name) > 1})
            if twice:
                raise DataError(f"{path}:1: column {twice[0]!r} is there more than once")
            return columns, list(_csv_rows(reader, columns, path))
        except csv.Error as err:
            raise DataError(f"{path}:{reader.line_num}: not CSV ({err})") from err
        except UnicodeDecodeError as err:
            raise DataError(f"{path}:{reader.line_num + 1}: not UTF-8 ({err.reason})") from err
        except (EOFError, zlib.error, OSError) as err:
            raise DataError(f"{path}:{reader.line_num + 1}: cannot be read to its end ({err})") from err


def _csv_rows(reader: Any, columns: Sequence[str], path: Path) -> Iterator[Row]:  # noqa: ANN401
    for cells in reader:
        if not any(cell.strip() for cell in cells):
            continue
        where = f"{path}:{reader.line_num}"
        if len(cells) != len(columns):
            raise DataError(f"{where}: expected {len(columns)} cells as in the header, got {len(cells)}")
        yield Row(where, dict(zip(columns, cells, strict=True)))


def pick(columns: Sequence[str], names: Sequence[str], path: Path, *, needed: bool = True) -> str | None:
    """Return the first of `names` that is a column.

    Raises:
        DataError: If none is and one is `needed`.
    """
    for name in names:
        if name in columns:
            return name
    if needed:
        raise DataError(f"{path}: expected a column {' or '.join(map(repr, names))}, got {', '.join(columns)}")
    return None


def source_of(path: Path) -> str:
    """Return `name@abc123`: the file's name and the start of its SHA-256, for signatures."""
    return f"{path.name}@{file_digest(path)[:6]}"
