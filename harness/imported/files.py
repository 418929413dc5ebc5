"""Read files of texts: JSON lines, CSV, Parquet, plain text, token ids, and folders of them, by file name.

All but Parquet may be packed (`.gz`). The files of a folder are read in the order of their names.
"""

import json
import logging
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, groupby
from pathlib import Path
from typing import Any

from openended.harness import core
from openended.harness.core import DataError, SpecError, suggest
from openended.harness.imported.records import ReadSummary, Records, may_be_framework_output
from openended.harness.models import limit_memory

log = logging.getLogger(__name__)

KINDS = (".jsonl", ".ndjson", ".csv", ".tsv", ".parquet", ".txt")
_NO_FILES_OF_TEXTS = (
    ".docx", ".odt", ".pdf", ".xls", ".xlsx", ".md", ".html", ".htm", ".yaml", ".yml", ".zip", ".tar", ".npy"
)  # fmt: skip
JSON_FIELDS = ("generated_seqs", "text_samples")
IDS_FIELD, MESSAGES = "token_ids", "messages"
TEXTS = (
    "text", "generation", "generated_text", "gen_text", "completion", "continuation", "output", "response", *JSON_FIELDS
)  # fmt: skip
HUMAN_TEXTS = ("human", "human_text", "reference", *TEXTS)
IDS = ("id", "example_id")
_NO_TEXTS = {*IDS, *"prompt sample status model system decoder split source stop finish_reason".split()}
_NPZ_FIELD = "samples"
_ROWS_AT_ONCE, _DECODED = 64, 1 << 30  # rows of Parquet that are decoded together, and bytes that they may take
_MOST_EXPANDED, _LEAST_REFUSED = 500, 1 << 28  # a file that grows by more, to more bytes, is refused
_SEPARATOR = re.compile(r"\s*(={10,}|-{10,})\s*")
_HUB_ADDRESS = re.compile(
    r"hf://(?:datasets/)?(?!datasets/)(?P<repo>[\w][\w.-]*/[\w][\w.-]*?)(?:@(?P<revision>[^/@]+))?/(?P<file>[^/].*)"
)


@dataclass(frozen=True, slots=True)
class TextRecord:
    """One record of a file of texts."""

    where: str  # file and line, for errors
    line: int  # from 0, over all files of a folder
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
        if Path(path.name.removesuffix(".gz")).suffix.lower() in _NO_FILES_OF_TEXTS:
            raise DataError(f"{path}: no file of texts; expected {', '.join(KINDS)}: save its texts as one of them")
        return [path]
    paths = sorted(p for p in path.iterdir() if p.name.removesuffix(".gz").endswith(KINDS))
    if not paths:
        raise DataError(f"{path}: no file of texts in this folder; expected {', '.join(KINDS)}")
    if len({detect_kind(p) == ".txt" for p in paths}) > 1:
        raise DataError(f"{path}: the folder has .txt and other files of texts; keep one kind")
    return paths


def digest_files(path: Path) -> str:
    """Return the SHA-256 that names the texts of a file or folder: their bytes, and in a folder their names."""
    files = list_files(path)
    return core.digest([[p.name, core.digest_file(p)] for p in files]) if path.is_dir() else core.digest_file(path)


def read_records(path: Path, summary: ReadSummary | None = None) -> Iterator[TextRecord]:
    """Yield the records of a file or folder; what is left out is counted in `summary`, and logged at the end."""
    count, summary = 0, summary or ReadSummary()
    for file in list_files(path):
        whole = path.is_dir() and detect_kind(file) == ".txt"
        one_text = "".join(line for _, line in _read_lines(file)) if whole else ""
        records = iter([(1, {"text": one_text})]) if whole else open_records(file, summary)[1]
        for number, cells in records:
            yield TextRecord(f"{file}:{number}", count, cells)
            count += 1
    if summary.dropped:
        _log_once(f"{path}: {summary.line()}")


@lru_cache(maxsize=256)
def _log_once(line: str) -> None:
    """Log a line; a file is read several times, and the line says the same each time."""
    log.warning("%s", line)


def is_valid_text(text: str) -> bool:
    """Return true if a text can be written as UTF-8 (JSON can hold halves of surrogate pairs)."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_text(value: Any, field: str, where: str) -> str:  # noqa: ANN401 - whatever a record holds
    """Return a value that must be a text that can be written as UTF-8."""
    if not isinstance(value, str):
        got = "null" if value is None else type(value).__name__
        inner = list(value)[:1] if isinstance(value, Mapping) else [0] if isinstance(value, list) and value else []
        hint = f"; what is in it is named by a path, as {field}.{inner[0]}" if inner else ""
        raise DataError(f"{where}: field {field!r}: expected text, got {got}{hint}")
    if not is_valid_text(value):
        raise DataError(f"{where}: field {field!r} holds half of a surrogate pair; it is not valid text")
    return value


def expose_nested_field(cells: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    """Return a record that has a value inside it (`answers.text.0`) as a field of that name, where there is one."""
    value: Any = cells
    for name in field.split(".") if field not in cells else ():
        if isinstance(value, Mapping) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        else:
            return cells
    return cells if value is cells else {**cells, field: value}


def find_text_field(cells: Mapping[str, Any], names: Sequence[str], where: str, option: str) -> str:
    """Return the field that holds the text: the first of `names`, else the only one that can be a text.

    Args:
        cells: The first record.
        names: Usual names of the field.
        where: File and line, for errors.
        option: What a user types before the name of the field, for errors: `task.text_field=`, `--field `.
    """
    present = next((name for name in names if name in cells), None)
    if present is not None:
        return present
    candidates = [name for name, value in cells.items() if isinstance(value, str) and name not in _NO_TEXTS]
    if len(candidates) == 1:
        return candidates[0]
    for field in (IDS_FIELD, MESSAGES):
        if field in cells and not candidates:
            return field
    if not cells:
        raise DataError(f"{where}: an empty record; expected an object with a text in one of {', '.join(names)}")
    example = (candidates or ["NAME"])[0]
    if " " in example:
        example = "NAME (is its first line a header with names?)"
    raise DataError(
        f"{where}: no field with the text; expected one of {', '.join(names)}, got {', '.join(cells)}; "
        f"name it: {option}{example}"
    )


def choose_text_field(path: Path, names: Sequence[str], field: str | None, option: str) -> str:
    """Return the field that holds the texts of a file, by its first record; a given one is only checked."""
    first = next(read_records(path), None)
    if first is None:
        raise DataError(f"{path}: holds no text")
    if field is None:
        return find_text_field(first.cells, names, first.where, option)
    if field not in expose_nested_field(first.cells, field):
        raise SpecError(f"{first.where}: no field {field!r}{suggest(field, map(str, first.cells))}; set {option}NAME")
    return field


def holds_conversations(path: str, field: str | None) -> bool:
    """Return whether the first record of a file is a conversation (`messages`), and no other field is chosen."""
    try:
        return choose_text_field(Path(path), HUMAN_TEXTS, field, "") == MESSAGES
    except (DataError, SpecError):
        return False


def download_if_on_hub(path: str) -> str:
    """Return the path of a file; one named `hf://datasets/OWNER/NAME/FILE` is downloaded into the Hub's cache first."""
    if re.match(r"\w+://", path) and not path.startswith("hf://"):
        raise SpecError(f"{path}: download it first; only hf://datasets/OWNER/NAME/FILE is fetched")
    if not path.startswith("hf://"):
        return path
    address = _HUB_ADDRESS.fullmatch(path)
    if address is None:
        raise SpecError(f"expected hf://datasets/OWNER/NAME/FILE, got {path!r}")
    core.require_package("huggingface_hub", "hub")
    from huggingface_hub import hf_hub_download

    try:
        return str(hf_hub_download(address["repo"], address["file"], repo_type="dataset", revision=address["revision"]))
    except Exception as err:  # the errors of its HTTP client have no common base
        raise DataError(f"{path}: cannot be downloaded ({type(err).__name__}: {core.format_error(err)})") from err


def open_records(file: Path, summary: ReadSummary) -> tuple[str | None, Records]:
    """Return the records of a file, and the title of its format if it is one of a paper or of another framework."""
    kind = detect_kind(file)
    if kind in (".csv", ".tsv"):
        return None, iter(core.read_csv(file)[1])
    if kind == ".parquet":
        return None, _read_parquet(file)
    if kind == ".txt":
        if any(_SEPARATOR.fullmatch(line) for _, line in _read_lines(file)):
            return "plain text in blocks", _read_blocks(file)
        return None, ((number, {"text": line.rstrip("\r\n")}) for number, line in _read_lines(file) if line.strip())
    if file.suffix == ".npz":
        return f"NPZ, token ids under {_NPZ_FIELD!r}", _read_npz(file)
    if file.suffix == ".eval":
        from openended.harness.imported.framework_outputs import INSPECT, read_inspect_texts

        return INSPECT.title, read_inspect_texts(file, summary)
    if file.suffix == ".json" and (document := _open_document(file, summary)):
        return document
    try:
        rows = core.read_jsonl(file, unwrap=True)
        first = next(rows, None)
        rows = chain([first], rows) if first else rows
        if first is None or not may_be_framework_output(first[1]):
            return None, rows
        from openended.harness.imported.framework_outputs import open_json_lines

        return open_json_lines(file, first[1], rows, summary)
    except DataError as err:
        if Path(file.name.removesuffix(".gz")).suffix in (*KINDS, ".json"):
            raise
        raise DataError(f"{err}; a file of this name is read as JSON lines: rename plain text to NAME.txt") from err


def _read_lines(file: Path) -> Iterator[tuple[int, str]]:
    with core.open_text(file) as handle:
        try:
            yield from enumerate(handle, start=1)
        except UnicodeDecodeError as err:
            raise DataError(f"{file}: not UTF-8 ({err.reason}); {core.suggest_encoding(err.object)}") from err
        except (EOFError, OSError, zlib.error) as err:
            raise DataError(f"{file}: cannot be read to its end ({err})") from err


def _read_blocks(file: Path) -> Records:
    """Yield the blocks of a plain text that are not empty, each with the number of its first line."""
    for is_separator, lines in groupby(_read_lines(file), lambda line: _SEPARATOR.fullmatch(line[1]) is not None):
        block = list(lines)
        text = "".join(line for _, line in block).strip("\r\n")
        if text and not is_separator:
            yield block[0][0], {"text": text}


def _read_parquet(file: Path) -> Records:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        number, size, most = 0, 0, max(_MOST_EXPANDED * file.stat().st_size, _LEAST_REFUSED)
        with pq.ParquetFile(file, pre_buffer=False) as table:
            batches = table.iter_batches(batch_size=_ROWS_AT_ONCE, use_threads=False)
            while True:
                with limit_memory(_DECODED):  # a value that is stored once may come in every row
                    batch = next(batches, None)
                    rows = batch.to_pylist() if batch is not None else []
                if batch is None:
                    return
                size += sum(len(value) for row in rows for value in row.values() if isinstance(value, str))
                if size > most:
                    raise DataError(
                        f"{file}: {number + len(rows)} rows of texts take {size >> 20} MiB, more than {_MOST_EXPANDED} "
                        "times the file; write it without repeated texts, or as JSON lines"
                    )
                for row in rows:
                    number += 1
                    yield number, row
    except MemoryError as err:
        raise DataError(f"{file}: {_ROWS_AT_ONCE} rows after row {number} take more than {_DECODED >> 30} GiB") from err
    except (pa.ArrowException, OSError, ValueError) as err:
        raise DataError(f"{file}: not a readable Parquet file ({core.shorten_error(err)})") from err


def _read_npz(path: Path) -> Records:
    import numpy as np

    try:
        with limit_memory(_DECODED), np.load(path, allow_pickle=False) as arrays:
            if _NPZ_FIELD not in arrays.files:
                names = ", ".join(arrays.files)
                raise DataError(f"{path}: expected an array {_NPZ_FIELD!r} of token ids, got {names or 'nothing'}")
            samples = arrays[_NPZ_FIELD]
    except DataError:
        raise
    except Exception as err:  # a damaged archive raises anything
        raise DataError(f"{path}: not a readable .npz of plain numbers ({core.shorten_error(err)})") from err
    if samples.ndim != 2 or samples.dtype.kind not in "iu":
        raise DataError(
            f"{path}: {_NPZ_FIELD!r}: expected whole numbers of shape (texts, tokens), got {samples.dtype} "
            f"{samples.shape}"
        )
    for number, row in enumerate(samples, start=1):
        yield number, {IDS_FIELD: row.tolist()}


def _open_document(file: Path, summary: ReadSummary) -> tuple[str, Records] | None:
    """Return title and records of a file that is one JSON value; None if it is something else (JSON lines, say)."""
    with core.open_text(file) as handle:
        try:
            begin = handle.read(64).lstrip("\ufeff \t\r\n")[:1]
        except (UnicodeDecodeError, OSError, EOFError) as err:
            raise DataError(f"{file}: cannot be read ({err})") from err
    if begin not in ("{", "["):
        return None
    try:
        content = core.read_json(file)
    except DataError as err:
        if isinstance(err.__cause__, json.JSONDecodeError):
            return None
        raise
    field = next((name for name in JSON_FIELDS if isinstance(content, dict) and name in content), None)
    if field is None:
        if not may_be_framework_output(content):
            return None
        from openended.harness.imported.framework_outputs import open_output_document

        return open_output_document(content, file, summary)
    texts = content[field]
    if not isinstance(texts, list) or not texts:
        raise DataError(f"{file}: field {field!r}: expected a list of texts, got {texts!r:.40}")
    return f"JSON, texts under {field!r}", ((number, {field: text}) for number, text in enumerate(texts, start=1))
