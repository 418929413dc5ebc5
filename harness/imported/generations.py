"""Read generations from files of texts, Grover's files, GPT-2's output dataset and the archive of MAUVE's authors."""

import hashlib
import io
import pickle
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NoReturn

from openended.harness.core import DataError, Stop, check_regular_file, describe_read_errors, digest
from openended.harness.imported import files
from openended.harness.imported.records import ReadSummary
from openended.harness.models import REASONING_FIELDS, limit_memory, read_messages

# Memory that reading may take: a list of small numbers takes 8 bytes for every 2 or 3 bytes of the file, but a few
# bytes that name the memo's index two billion would take 16 GiB.
FREE, RATIO = 256 << 20, 64


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str, /) -> NoReturn:
        raise pickle.UnpicklingError(f"it asks for {module_name}.{global_name}")

    def persistent_load(self, pid: Any, /) -> NoReturn:  # noqa: ANN401
        raise pickle.UnpicklingError(f"it asks for the persistent object {pid!r}")


def load_plain_pickle(stream: IO[bytes], path: Path) -> Any:  # noqa: ANN401 - nested plain data
    """Return the lists, numbers, booleans and strings of a pickle stream; `path` is for the errors."""
    size = stream.seek(0, 2)
    stream.seek(0)
    try:
        with limit_memory(FREE + RATIO * size):
            value = _PlainUnpickler(stream).load()
    except pickle.UnpicklingError as err:
        raise DataError(f"{path}: not read, because the pickle holds more than plain lists ({err})") from err
    except (EOFError, ValueError, TypeError, AttributeError, LookupError, OverflowError) as err:
        raise DataError(f"{path}: not a readable pickle ({type(err).__name__}: {err})") from err
    except (MemoryError, RecursionError) as err:
        raise DataError(f"{path}: not read, because the pickle expands beyond the memory allowed for its size") from err
    seen: set[int] = set()  # lists: one that contains itself is visited once
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, list):
            if id(item) not in seen:
                seen.add(id(item))
                waiting.extend(part for part in item if type(part) is not int)  # most of a file is lists of integers
        elif not isinstance(item, (bool, int, float, str)):
            raise DataError(f"{path}: not read, because it holds a {type(item).__name__}")
    return value


MAUVE_MD5 = "63bae977e3ce5f3c86d9e35188c1b8e6"  # of mauve_generations.tgz, stated by its authors
GROVER_FIELDS = {"article", "gens_article"}  # Grover's formats, in which other fields also mark model texts
_PICKLES = (".p", ".pkl", ".pickle")
_ENDS: Mapping[str, Stop] = {"eos": "eos", "stop": "eos", "length": "length"}
_GPT2_END = 50256
_GPT2_OUTPUT = {"ended", "length", "text"}


@dataclass(frozen=True, slots=True)
class ImportedText:
    """One imported text."""

    where: str  # file and line, for errors
    line: int  # from 0
    text: str | None  # None where only token ids are given
    identity: str | None = None
    prompt: str | None = None
    sample: int | None = None
    stop: Stop | None = None
    token_ids: tuple[int, ...] | None = None
    """Token ids of the text as generated; those of the MAUVE archive include the prompt."""
    paired: bool = True  # false: the text answers no prompt
    reasoning: str | None = None  # what the model reasoned before, where the record has it apart
    turn: int = 0  # of a conversation, among those of its role


def read_generations(
    path: Path, field: str | None = None, summary: ReadSummary | None = None, role: str | None = None
) -> Iterator[ImportedText]:
    """Yield the texts of a file in its order; the format is detected from the file.

    Args:
        path: A file or a folder of them, see `files.list_files`; or a pickle of the MAUVE authors' archive.
        field: Field with the text; None: detected in the first record.
        summary: Counts what is left out.
        role: Whose turns of conversations (`messages`) are read; None: the assistant's, if there are conversations.

    Raises:
        DataError: If the file cannot be read or a record does not fit the format; names file and line.
    """
    archive, member = split_member(path)
    if member is not None or path.suffix in _PICKLES:
        yield from _read_mauve(archive, member)
        return
    for record in files.read_records(path, summary):
        if field is None and not GROVER_FIELDS & set(record.cells):
            field = files.find_text_field(record.cells, files.TEXTS, record.where, "generations_field=")
        if field == files.MESSAGES:
            yield from read_conversation(record, role or "assistant")
        elif role is not None:
            raise DataError(
                f"generations_role={role}: expected conversations ('messages'), got texts in {path}; leave it out"
            )
        else:
            yield from _read_record(record.cells, field, record.where, record.line)


def recognize_format(path: Path) -> str | None:
    """Name the format of a file of a paper or of another framework; None for the other formats."""
    archive, member = split_member(path)
    if member is not None or archive.is_dir() or path.suffix in _PICKLES:
        return None
    title, records = files.open_records(path, ReadSummary())
    if title is None and files.IDS_FIELD in next(records, (0, {}))[1]:
        return f"JSON lines, texts with {files.IDS_FIELD!r}"
    return title


def split_member(path: Path) -> tuple[Path, str | None]:
    """Return (file, member) of `ARCHIVE#MEMBER`; the member of a plain file is None."""
    archive, mark, member = str(path).partition("#")
    return (Path(archive), member) if mark and not path.exists() else (path, None)


def compute_fingerprint(path: Path) -> str:
    """Compute the SHA-256 fingerprint of a file, or of an archive's member."""
    archive, member = split_member(path)
    if not archive.is_file() and (member is not None or not archive.is_dir()):
        raise DataError(f"generations: no such file: {archive}")
    if member is None:
        return files.digest_files(archive)
    with archive.open("rb") as handle:
        md5 = hashlib.file_digest(handle, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    if md5 != MAUVE_MD5:
        raise DataError(f"{archive}: its MD5 is {md5}, its authors state {MAUVE_MD5}; fetch it again")
    return digest(["mauve archive", md5, member])


def _read_record(row: Mapping[str, Any], field: str | None, where: str, line: int) -> Iterator[ImportedText]:
    if field is None and "article" in row and "label" in row:
        if row["label"] == "machine":
            text = files.check_text(row["article"], "article", where)
            yield ImportedText(where, line, text, identity=_read_id(row.get("ind30k"), where))
        return
    if field is None and "gens_article" in row:
        texts = row["gens_article"]
        if not isinstance(texts, list):
            raise DataError(f"{where}: field 'gens_article': expected a list of texts")
        identity = _read_id(row.get("inst_index"), where) or str(line)
        for sample, text in enumerate(texts):
            text = files.check_text(text, "gens_article", where)
            yield ImportedText(where, line, text, identity=identity, sample=sample)
        return
    row = files.expose_nested_field(row, field or "")
    if field is None or field not in row:
        raise DataError(
            f"{where}: no field {field or 'text'!r} with the text; it has {', '.join(row)}; set generations_field=NAME"
        )
    if field == files.IDS_FIELD:
        yield ImportedText(where, line, None, token_ids=_read_token_ids(row, where))
        return
    unpaired = set(row) >= _GPT2_OUTPUT and "prompt" not in row
    key = None if unpaired else next((name for name in files.IDS if row.get(name) not in (None, "")), None)
    reasoning = next((row[name] for name in REASONING_FIELDS if isinstance(row.get(name), str)), None)
    text = "" if row[field] is None and reasoning is not None else files.check_text(row[field], field, where)
    yield ImportedText(
        where, line, text, identity=_read_id(row[key], where) if key else None,
        prompt=files.check_text(row["prompt"], "prompt", where) if row.get("prompt") is not None else None,
        sample=_read_sample(row.get("sample"), where), stop=_read_stop(row, where),
        token_ids=_read_token_ids(row, where), paired=not unpaired, reasoning=reasoning,
    )  # fmt: skip


def read_conversation(record: files.TextRecord, role: str) -> Iterator[ImportedText]:
    """Yield the turns of a role; each answers the turns before it."""
    row, where = record.cells, record.where
    messages = read_messages(row[files.MESSAGES], where)
    turns = [number for number, message in enumerate(messages) if message.role == role]
    if not turns:
        roles = ", ".join(dict.fromkeys(message.role for message in messages))
        raise DataError(f"{where}: expected a message with the role {role!r}, got {roles}; choose another role")
    sample = _read_sample(row.get("sample"), where)
    if sample is not None and len(turns) > 1:
        raise DataError(f"{where}: field 'sample': expected none in a conversation of {len(turns)} turns, got {sample}")
    key = next((name for name in files.IDS if row.get(name) not in (None, "")), None)
    for turn, number in enumerate(turns):
        message = messages[number]
        yield ImportedText(
            where, record.line, files.check_text(message.text, files.MESSAGES, where),
            identity=_read_id(row[key], where) if key else None,
            prompt="\n\n".join(m.text for m in messages[:number]) if number else None,
            sample=turn if len(turns) > 1 else sample, stop=_read_stop(row, where) if turn == len(turns) - 1 else None,
            reasoning=message.reasoning, turn=turn,
        )  # fmt: skip


def _read_id(value: Any, where: str) -> str | None:  # noqa: ANN401
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (str, int)) or value == "":
        raise DataError(f"{where}: expected an id (text or a whole number), got {value!r}")
    return str(value)


def _read_sample(value: Any, where: str) -> int | None:  # noqa: ANN401
    if isinstance(value, str) and value.isdecimal() and len(value) < 20:  # a CSV has nothing but text
        value = int(value)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 31):
        raise DataError(f"{where}: field 'sample': expected 0, 1, … 2147483647, got {value!r:.40}")
    return value


def _read_stop(row: Mapping[str, Any], where: str) -> Stop | None:
    ended = row.get("ended")
    if isinstance(ended, str):  # of a CSV
        ended = {"true": True, "false": False, "": None}.get(ended.strip().lower(), ended)
    if isinstance(ended, bool):
        return "eos" if ended else "length"
    if ended is not None:
        raise DataError(f"{where}: field 'ended': expected true or false, got {ended!r:.40}")
    value = row.get("stop", row.get("finish_reason"))
    if value in (None, ""):
        return None
    if not isinstance(value, str) or value not in _ENDS:
        raise DataError(f"{where}: field 'stop': expected eos or length, got {value!r:.40}")
    return _ENDS[value]


def _read_token_ids(row: Mapping[str, Any], where: str) -> tuple[int, ...] | None:
    value = row.get(files.IDS_FIELD)
    if value is None:
        return None
    if not isinstance(value, list) or not all(type(i) is int and i >= 0 for i in value):
        raise DataError(f"{where}: field {files.IDS_FIELD!r}: expected a list of token ids, got {value!r:.40}")
    return tuple(value)


def _read_mauve(path: Path, member: str | None) -> Iterator[ImportedText]:
    if member is None:
        check_regular_file(path)
        with describe_read_errors(path), path.open("rb") as handle:
            value = load_plain_pickle(handle, path)
    else:
        value = load_plain_pickle(_open_member(path, member), path)
    name = f"{path}#{member}" if member else str(path)
    rows = value[0] if isinstance(value, list) and value else None
    if not isinstance(rows, list):
        raise DataError(f"{name}: expected a list whose first item is a list of texts as token ids")
    for line, ids in enumerate(rows):
        where = f"{name}, text {line}"
        if not isinstance(ids, list) or not all(type(i) is int and 0 <= i <= _GPT2_END for i in ids):
            raise DataError(f"{where}: expected a list of GPT-2 token ids")
        # The end token also fills up shorter texts: what follows the first one is no text.
        end = ids.index(_GPT2_END, 1) if _GPT2_END in ids[1:] else len(ids)
        token_ids = tuple(i for i in ids[:end] if i != _GPT2_END)
        yield ImportedText(where, line, None, token_ids=token_ids, stop="eos" if end < len(ids) else "length")


def _open_member(path: Path, member: str) -> io.BytesIO:
    try:
        with tarfile.open(path, "r:*") as archive:
            for entry in archive:
                if entry.isfile() and (entry.name == member or entry.name.endswith("/" + member)):
                    stream = archive.extractfile(entry)
                    return io.BytesIO(stream.read() if stream else b"")
    except (OSError, EOFError, tarfile.TarError) as err:
        raise DataError(f"{path}: not a readable archive ({err})") from err
    raise DataError(f"{path}: holds no {member}")


def digest_corpus(path: Path) -> str:
    """Return the digest of the file or folder that the user names for metrics of novelty."""
    if not path.exists():
        raise DataError(f"metric.novelty.corpus: no such file: {path}; expected references, or a file of texts")
    return compute_fingerprint(path)


def load_corpus(path: Path) -> list[str]:
    """Return the texts of that file, in its order."""
    return [text.text or "" for text in read_generations(path)]
