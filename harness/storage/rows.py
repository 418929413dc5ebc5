"""Read and write texts as memory-mapped Arrow streams, which `datasets.Dataset.from_file` can open."""

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from openended.harness.core import DataError, Example, Generation, Json, Ragged, Scope, open_for_replacement

_CHUNK = 8192
_FACTS = b"facts"  # in the metadata of a file's schema


@dataclass(frozen=True, slots=True)
class Row:
    """A generation with its prompt: one row of a generations file."""

    prompt: str
    prompt_ids: tuple[int, ...]
    generation: Generation


_OF_GENERATION = tuple(each.name for each in fields(Generation))
_IDS = pa.large_list(pa.field("item", pa.int32(), nullable=False))
_COLUMNS = pa.schema([
    ("example_id", pa.string()), ("sample", pa.int32()), ("prompt", pa.string()), ("prompt_ids", _IDS),
    ("text", pa.string()), ("token_ids", _IDS), ("stop", pa.string()), ("log_prob", pa.float64()),
    ("reasoning", pa.string()),
])  # fmt: skip


def write_rows(path: Path, rows: Iterable[Row], *, facts: Json = None) -> int:
    """Write generations in the given order with bounded memory; return their number.

    `facts` are about all rows, and are read with them: `RowFile.facts`.
    """

    def record(row: Row) -> dict[str, Any]:
        of_generation = {name: getattr(row.generation, name) for name in _OF_GENERATION}
        return {"prompt": row.prompt, "prompt_ids": row.prompt_ids, **of_generation}

    return _write(path, _add_facts(_COLUMNS, facts), (record(row) for row in rows))


def _add_facts(schema: pa.Schema, facts: Json) -> pa.Schema:
    return schema.with_metadata({_FACTS: json.dumps(facts, sort_keys=True)}) if facts else schema.remove_metadata()


def write_examples(path: Path, examples: Iterable[Example]) -> int:
    """Write examples in the given order, `meta` as JSON text; return their number."""
    rows = (
        {"id": e.id, "prompt": e.prompt, "human": e.human, "meta": json.dumps(dict(e.meta), sort_keys=True)}
        for e in examples
    )
    return _write(path, pa.schema([(name, pa.string()) for name in ("id", "prompt", "human", "meta")]), rows)


def read_examples(path: Path) -> Iterator[Example]:
    """Yield the examples of a file, with bounded memory."""
    for batch in _open(path):
        for row in batch.to_pylist():
            yield Example(row["id"], row["prompt"], row["human"], json.loads(row["meta"]))


def _write(path: Path, schema: pa.Schema, rows: Iterator[dict[str, Any]]) -> int:
    chunks = iter(lambda: list(islice(rows, _CHUNK)), [])
    return _write_batches(path, schema, (pa.RecordBatch.from_pylist(chunk, schema=schema) for chunk in chunks))


def _write_batches(path: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
    count = 0
    with open_for_replacement(path, "wb") as handle, pa.ipc.new_stream(handle, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
            count += batch.num_rows
    return count


def write_in_order(
    path: Path, sources: Sequence[Path], order: Sequence[int] | NDArray[np.int64], facts: Json = None
) -> int:
    """Write rows of files in a new order; return their number. The bytes equal those of writing them in that order."""
    schema = _add_facts(_read_schema(sources[0]), facts)
    source_batches = [batch.replace_schema_metadata(None) for source in sources for batch in _open(source)]
    starts = np.cumsum([0, *(batch.num_rows for batch in source_batches)])
    row_numbers = np.asarray(order, dtype=np.int64)

    def batches() -> Iterator[pa.RecordBatch]:
        for first in range(0, len(row_numbers), _CHUNK):
            part = row_numbers[first : first + _CHUNK]
            home = np.searchsorted(starts, part, side="right") - 1
            by_home = np.argsort(home, kind="stable")
            used, begins = np.unique(home[by_home], return_index=True)
            pieces = [
                source_batches[b].take(pa.array(part[positions] - starts[b]))
                for b, positions in zip(used, np.split(by_home, begins[1:]), strict=True)
            ]
            joined = pa.Table.from_batches(pieces).combine_chunks().to_batches()[0]
            yield joined.take(pa.array(np.argsort(by_home)))

    return _write_batches(path, schema, batches())


@contextmanager
def _open_stream(path: Path) -> Iterator[Any]:
    try:
        with pa.memory_map(str(path)) as source, pa.ipc.open_stream(source) as reader:
            yield reader
    except (pa.ArrowException, OSError) as err:
        raise DataError(f"{path}: not an Arrow stream ({err})") from err


def _read_schema(path: Path) -> pa.Schema:
    with _open_stream(path) as reader:
        return reader.schema


def _open(path: Path) -> Iterator[pa.RecordBatch]:
    with _open_stream(path) as reader:
        yield from reader


class RowFile:
    """A generations file, memory-mapped; columns are loaded on first use."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def _table(self) -> pa.Table:
        with _open_stream(self.path) as reader:
            table = reader.read_all()
        if not table.schema.equals(_COLUMNS):
            raise DataError(
                f"{self.path}: expected columns {', '.join(_COLUMNS.names)}, got {', '.join(table.column_names)}"
            )
        return table

    def __len__(self) -> int:
        return int(self._table.num_rows)

    @property
    def facts(self) -> dict[str, Any]:
        """What the file says of all its rows; empty if nothing."""
        return dict(json.loads((_read_schema(self.path).metadata or {}).get(_FACTS, b"{}")))

    @cached_property
    def ids(self) -> tuple[str, ...]:
        return tuple(self._table["example_id"].to_pylist())

    @cached_property
    def samples(self) -> tuple[int, ...]:
        return tuple(self._table["sample"].to_pylist())

    @property
    def prompts(self) -> list[str]:
        return list(self.each("prompt"))

    @property
    def texts(self) -> list[str]:
        return list(self.each("text"))

    def each(self, column: Literal["example_id", "prompt", "text"]) -> Iterator[str]:
        """Yield a column row by row, with bounded memory."""
        for chunk in self._table[column].chunks:
            for start in range(0, len(chunk), _CHUNK):
                yield from chunk.slice(start, _CHUNK).to_pylist()

    @cached_property
    def prompt_ids(self) -> Ragged:
        return self._read_ragged("prompt_ids")

    @cached_property
    def token_ids(self) -> Ragged:
        return self._read_ragged("token_ids")

    def iterate_texts(self, scope: Scope) -> Iterator[str]:
        """Yield the texts, with prompts if the scope includes them, and with a bounded number of them in memory."""
        if scope == "continuation":
            return self.each("text")
        return (a + b for a, b in zip(self.each("prompt"), self.each("text"), strict=True))

    def load_tokens(self, scope: Scope) -> Ragged:
        """Return the token ids that the rows hold."""
        return self.token_ids if scope == "continuation" else join_ragged(self.prompt_ids, self.token_ids)

    @property
    def stops(self) -> NDArray[np.bool_]:
        """True where the row hit the length limit."""
        import pyarrow.compute as pc

        cut: NDArray[np.bool_] = pc.equal(self._table["stop"], "length").to_numpy()
        return cut.astype(bool)

    @property
    def has_reasoning(self) -> bool:
        return bool(self._table["reasoning"].null_count < self._table.num_rows)

    def matches(self, column: Literal["prompt", "text"], pattern: str) -> bool:
        """Return whether a pattern of RE2 is found in any row of a column."""
        import pyarrow.compute as pc

        return bool(pc.any(pc.match_substring_regex(self._table[column], pattern)).as_py())

    @property
    def log_probs(self) -> NDArray[np.float64]:
        """Log-probability of each row under the distribution that it was drawn from, nats; NaN where there is none."""
        column: NDArray[np.float64] = self._table["log_prob"].to_numpy()
        return column

    def __iter__(self) -> Iterator[Row]:
        for batch in self._table.to_batches():
            for start in range(0, batch.num_rows, _CHUNK):
                for r in batch.slice(start, _CHUNK).to_pylist():
                    of_generation = {name: r[name] for name in _OF_GENERATION} | {"token_ids": tuple(r["token_ids"])}
                    yield Row(r["prompt"], tuple(r["prompt_ids"]), Generation(**of_generation))

    def _read_ragged(self, name: str) -> Ragged:
        if self._table.num_rows == 0:
            return Ragged(np.zeros(0, np.int32), np.zeros(1, np.int64))
        column = self._table[name].combine_chunks()
        if isinstance(column, pa.ChunkedArray):
            column = column.chunk(0)
        offsets = np.asarray(column.offsets, dtype=np.int64)
        values = column.values.to_numpy(zero_copy_only=False)[offsets[0] : offsets[-1]]
        return Ragged(values, offsets - offsets[0])


class PlannedRows(RowFile):
    """Rows that are still to be made: as many as are expected, none with a text."""

    def __init__(self, count: int) -> None:
        self.count = count

    @cached_property
    def _table(self) -> pa.Table:
        return pa.Table.from_batches([], _COLUMNS)

    def __len__(self) -> int:
        return self.count

    @property
    def facts(self) -> dict[str, Any]:
        return {}


def join_ragged(left: Ragged, right: Ragged) -> Ragged:
    """Concatenate row by row: row i is row i of `left` followed by row i of `right`."""
    if len(left) != len(right):
        raise ValueError(f"expected as many rows on both sides, got {len(left)} and {len(right)}")
    offsets = left.offsets + right.offsets
    values = np.empty(offsets[-1], dtype=np.result_type(left.values, right.values))
    positions = np.arange(len(left.values)) + np.repeat(right.offsets[:-1], left.lengths)
    values[positions] = left.values
    mask = np.ones(len(values), dtype=bool)
    mask[positions] = False
    values[mask] = right.values
    return Ragged(values, offsets)
