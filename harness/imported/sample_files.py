"""Sample files of the papers on diffusion language models, detected from their content.

| file | texts |
| --- | --- |
| `.json` with `generated_seqs` (MDLM, Duo) or `text_samples` (ReMDM) | a list of texts under that name |
| `.npz` with `samples` (SDTT) | an array of token ids, one row per text; never unpickled |
| JSON lines with `text` and `token_ids` (dLMbench) | texts with the ids as generated |
| `.txt` with lines of ten or more `=` or `-` | the blocks between these lines, which may have several lines |
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from openended.harness.core import DataError, open_text, read_json

JSON_FIELDS = ("generated_seqs", "text_samples")
IDS_FIELD = "token_ids"
_NPZ_FIELD = "samples"
_SEPARATOR = re.compile(r"\s*(={10,}|-{10,})\s*")


def describe_format(path: Path, first: Mapping[str, Any]) -> str | None:
    """Name the format of a sample file for people; None for the other formats."""
    if is_npz(path):
        return f"NPZ, token ids under {_NPZ_FIELD!r}"
    field = next((name for name in JSON_FIELDS if name in first), None)
    if field is not None and path.suffix == ".json":
        return f"JSON, texts under {field!r}"
    if IDS_FIELD in first:
        return f"JSON lines, texts with {IDS_FIELD!r}"
    if path.suffix == ".txt" and path.is_file() and has_blocks(path):
        return "plain text in blocks"
    return None


def is_npz(path: Path) -> bool:
    """Return whether a file is an archive of arrays by its name."""
    return path.suffix == ".npz"


def read_json_samples(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]] | None:
    """Return the texts of a JSON object with a list of them; None if the file is something else (JSON lines, say)."""
    if path.suffix != ".json" or not _may_hold_samples(path):
        return None
    try:
        content = read_json(path)
    except DataError as err:
        if isinstance(err.__cause__, json.JSONDecodeError):
            return None
        raise
    field = next((name for name in JSON_FIELDS if isinstance(content, dict) and name in content), None)
    if field is None:
        return None
    texts = content[field]
    if not isinstance(texts, list) or not texts:
        raise DataError(f"{path}: field {field!r}: expected a list of texts, got {texts!r:.40}")
    return ((number, {field: text}) for number, text in enumerate(texts, start=1))


def _may_hold_samples(path: Path) -> bool:
    """Return whether a file begins like a JSON object."""
    with open_text(path) as handle:
        try:
            head = handle.read(64)
        except (UnicodeDecodeError, OSError, EOFError) as err:
            raise DataError(f"{path}: cannot be read ({err})") from err
    return head.lstrip("\ufeff \t\r\n").startswith("{")


def read_npz_samples(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the token ids of an archive of arrays, one row per text."""
    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as arrays:
            if _NPZ_FIELD not in arrays.files:
                names = ", ".join(arrays.files)
                raise DataError(f"{path}: expected an array {_NPZ_FIELD!r} of token ids, got {names or 'nothing'}")
            samples = arrays[_NPZ_FIELD]
    except (OSError, ValueError, EOFError, MemoryError, zipfile.BadZipFile) as err:
        raise DataError(f"{path}: not a readable .npz of plain numbers ({err})") from err
    if samples.ndim != 2 or samples.dtype.kind not in "iu":
        raise DataError(
            f"{path}: {_NPZ_FIELD!r}: expected whole numbers of shape (texts, tokens), got {samples.dtype} "
            f"{samples.shape}"
        )
    for number, row in enumerate(samples, start=1):
        yield number, {IDS_FIELD: row.tolist()}


def has_blocks(path: Path) -> bool:
    """Return whether a plain text has lines that separate blocks."""
    with open_text(path) as handle:
        try:
            return any(_SEPARATOR.fullmatch(line.rstrip("\r\n")) for line in handle)
        except (UnicodeDecodeError, EOFError, OSError) as err:
            raise DataError(f"{path}: cannot be read to its end ({err})") from err


def read_blocks(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the blocks of a plain text that are not empty, each with the number of its first line."""
    with open_text(path) as handle:
        lines: list[str] = []
        number = 0
        for number, line in enumerate(handle, start=1):
            if not _SEPARATOR.fullmatch(line.rstrip("\r\n")):
                lines.append(line)
                continue
            if text := "".join(lines).strip("\r\n"):
                yield number - len(lines), {"text": text}
            lines = []
        if text := "".join(lines).strip("\r\n"):
            yield number - len(lines) + 1, {"text": text}


def read_token_ids(row: Mapping[str, Any], where: str) -> tuple[int, ...] | None:
    """Return the token ids of a record; None if it has none."""
    value = row.get(IDS_FIELD)
    if value is None:
        return None
    if not isinstance(value, list) or not all(type(i) is int and i >= 0 for i in value):
        raise DataError(f"{where}: field {IDS_FIELD!r}: expected a list of token ids, got {value!r:.40}")
    return tuple(value)
