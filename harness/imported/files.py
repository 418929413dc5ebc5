"""Read files of texts: JSON lines, CSV, Parquet, plain text, and folders of them, by file name.

| name ends in | texts |
| --- | --- |
| `.jsonl`, any other name | one JSON object a line |
| `.csv`, `.tsv` | a row each, below a header; commas, semicolons or tabs |
| `.parquet` | a row each |
| `.txt` | a line each, or the blocks between lines of `=` or `-`; in a folder, a file each |
| `.json`, `.npz` | the sample files of `sample_files`; other `.json` is read as JSON lines |
| `.jsonl`, `.json`, `.eval` | the outputs of other frameworks, see `framework_outputs` |

All but Parquet may be packed (`.gz`). The files of a folder are read in the order of their names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openended.harness.core import DataError, SpecError, digest, digest_file, open_text, read_csv, read_jsonl, suggest
from openended.harness.imported.framework_outputs import convert_outputs, read_output_list
from openended.harness.imported.sample_files import (
    IDS_FIELD,
    JSON_FIELDS,
    has_blocks,
    is_npz,
    read_blocks,
    read_json_samples,
    read_npz_samples,
)

KINDS = (".jsonl", ".ndjson", ".csv", ".tsv", ".parquet", ".txt")
TEXTS = (
    "text",
    "generation",
    "generated_text",
    "gen_text",
    "completion",
    "continuation",
    "output",
    "response",
    *JSON_FIELDS,
)
HUMAN_TEXTS = ("human", "human_text", "reference", *TEXTS)
IDS = ("id", "example_id")
_NO_TEXTS = {*IDS, "prompt", "model", "system", "decoder", "split", "source", "stop", "finish_reason"}


@dataclass(frozen=True, slots=True)
class TextRecord:
    """One record of a file of texts."""

    where: str
    """File and line, for errors."""
    line: int
    """From 0, over all files of a folder."""
    cells: Mapping[str, Any]


def detect_kind(path: Path) -> str:
    """Return the format of a file as its suffix without `.gz`; `.jsonl` for an unknown suffix."""
    suffix = Path(path.name.removesuffix(".gz")).suffix.lower()
    return suffix if suffix in KINDS else ".jsonl"


def list_files(path: Path) -> list[Path]:
    """Return the file, or the files of a folder that hold texts, by name."""
    if not path.is_dir():
        if not path.is_file():
            raise DataError(f"no such file: {path}")
        return [path]
    paths = sorted(p for p in path.iterdir() if p.is_file() and p.name.removesuffix(".gz").endswith(KINDS))
    plain = {detect_kind(p) == ".txt" for p in paths}
    if not paths:
        raise DataError(f"{path}: no file of texts in this folder; expected {', '.join(KINDS)}")
    if len(plain) > 1:
        raise DataError(f"{path}: .txt beside other files of texts; give the folder one kind")
    return paths


def digest_files(path: Path) -> str:
    """SHA-256 that names the texts of a file or folder: their bytes, and in a folder their names.

    Raises:
        DataError: As `list_files`.
    """
    files = list_files(path)
    return digest([[p.name, digest_file(p)] for p in files]) if path.is_dir() else digest_file(path)


def read_records(path: Path) -> Iterator[TextRecord]:
    """Yield the records of a file or folder.

    Raises:
        DataError: If a file cannot be read; names file and line.
    """
    count = 0
    for file in list_files(path):
        for number, cells in _read_file(file, one_text_per_file=path.is_dir()):
            yield TextRecord(f"{file}:{number}", count, cells)
            count += 1


def find_text_field(cells: Mapping[str, Any], names: Sequence[str], where: str, option: str) -> str:
    """Return the field that holds the text: the first of `names`, else the only one that can be a text.

    Args:
        cells: The first record.
        names: Usual names of the field.
        where: File and line, for errors.
        option: What a user types before the name of the field, for errors: `task.field=`, `--field `.

    Raises:
        DataError: If there is none, or several; lists them.
    """
    present = next((name for name in names if name in cells), None)
    if present is not None:
        return present
    candidates = [name for name, value in cells.items() if isinstance(value, str) and name not in _NO_TEXTS]
    if len(candidates) == 1:
        return candidates[0]
    if IDS_FIELD in cells and not candidates:
        return IDS_FIELD
    example = (candidates or ["NAME"])[0]
    raise DataError(
        f"{where}: no field with the text; expected one of {', '.join(names)}, got {', '.join(cells)}; "
        f"name it: {option}{example}"
    )


def choose_text_field(path: Path, names: Sequence[str], field: str | None, option: str) -> str:
    """Return the field that holds the texts of a file, by its first record; a given one is only checked.

    Raises:
        DataError: If the file is empty or cannot be read, or as `text_field`.
        SpecError: If the given field is not there.
    """
    first = next(read_records(path), None)
    if first is None:
        raise DataError(f"{path}: holds no text")
    if field is None:
        return find_text_field(first.cells, names, first.where, option)
    if field not in first.cells:
        raise SpecError(f"{first.where}: no field {field!r}{suggest(field, map(str, first.cells))}; set {option}NAME")
    return field


def _read_file(file: Path, *, one_text_per_file: bool) -> Iterator[tuple[int, Mapping[str, Any]]]:
    kind = detect_kind(file)
    if kind in (".csv", ".tsv"):
        yield from read_csv(file)[1]
    elif kind == ".parquet":
        yield from _read_parquet(file)
    elif kind == ".txt":
        yield from _read_plain(file, one_text_per_file=one_text_per_file)
    elif is_npz(file):
        yield from read_npz_samples(file)
    else:
        rows = read_json_samples(file) or read_output_list(file)
        yield from rows or convert_outputs(read_jsonl(file, unwrap=True), file)


def _read_plain(file: Path, *, one_text_per_file: bool) -> Iterator[tuple[int, Mapping[str, Any]]]:
    if not one_text_per_file and has_blocks(file):
        yield from read_blocks(file)
        return
    with open_text(file) as handle:
        try:
            if one_text_per_file:
                yield 1, {"text": handle.read()}
                return
            for number, line in enumerate(handle, start=1):
                if line.strip():
                    yield number, {"text": line.rstrip("\r\n")}
        except (UnicodeDecodeError, EOFError, OSError) as err:
            raise DataError(f"{file}: cannot be read to its end ({err})") from err


def _read_parquet(file: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        number = 0
        with pq.ParquetFile(file) as table:
            for batch in table.iter_batches():
                for row in batch.to_pylist():
                    number += 1
                    yield number, row
    except (pa.ArrowException, OSError) as err:
        raise DataError(f"{file}: not a readable Parquet file ({err})") from err
