"""Write and read the files of the artifacts of each stage.

Keys and the store are handled by the stages.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from openended.harness.core import (
    Advance,
    DataError,
    Example,
    Generation,
    MetricResult,
    NextToken,
    Ragged,
    SpecError,
    Stop,
    Task,
    Tokenizer,
    open_for_replacement,
    read_json,
    write_json,
)
from openended.harness.decoders import Prompt
from openended.harness.models import cut_continuation, split_into_turns, tokenize_continuation
from openended.harness.run.part_files import PartFiles
from openended.harness.storage import Row, RowFile, read_examples, write_examples, write_in_order, write_rows

if TYPE_CHECKING:
    from openended.harness.decoders import GenerationRequest
    from openended.harness.models import Backend, ChatTemplate, TextVectors

log = logging.getLogger(__name__)

EXAMPLES, SPARE = "examples.arrow", "spare.arrow"
PROMPTS, HUMAN_ROWS = "prompts.arrow", "human.arrow"
MORE = "more.arrow"
DATA = "data.arrow"
CHAT = "chat.arrow"
_DRAWN = ".drawn.arrow"
VECTORS = "embeddings.npy"


def make_examples(
    folder: Path, task: Task, tokenizer: Tokenizer | None, count: int | None, more: int
) -> Mapping[str, Any]:
    """Draw `count` examples, and up to `more` for the human ceiling; all where it is None; sorted by id."""
    skipped: Counter[str] = Counter()
    most = None if count is None else count + more
    ids: list[str] = []
    unsorted = folder / _DRAWN
    write_examples(unsorted, _check_examples(islice(task.examples(tokenizer, skipped), most), task, ids))
    count = max(len(ids), 1) if count is None else count
    if len(ids) < count:
        lost = f" ({sum(skipped.values()):,} records skipped: {dict(skipped)})" if skipped else ""
        raise SpecError(
            f"num_examples: task {task.name} holds {len(ids)} examples, got num_examples={count}{lost}; "
            "set num_examples=all"
        )
    repeated = [name for name, times in Counter(ids).items() if times > 1] if len(set(ids)) < len(ids) else []
    if repeated:
        raise DataError(f"task {task.name}: duplicate example id {repeated[0]!r}")
    for name, part in ((EXAMPLES, range(count)), (SPARE, range(count, len(ids)))):
        write_in_order(folder / name, [unsorted], sorted(part, key=ids.__getitem__))
    unsorted.unlink()
    return {"n": count, "spare": len(ids) - count, "skipped": dict(sorted(skipped.items()))}


def _check_examples(examples: Iterable[Example], task: Task, ids: list[str]) -> Iterator[Example]:
    """Yield checked examples and collect their ids."""
    for example in examples:
        if task.has_human() and not example.human.strip():
            raise DataError(f"task {task.name}: example {example.id} has an empty human continuation")
        ids.append(example.id)
        yield example


def make_human(
    folder: Path, examples: Path, tokenizer: Tokenizer | None, max_new_tokens: int | None
) -> Mapping[str, Any]:
    """Write the prompts, and the human continuations cut to the length that the model may use."""

    def rows(file: Path) -> Iterator[Row]:
        return (build_human_row(e, tokenizer, max_new_tokens) for e in read_examples(file))

    count = write_rows(folder / HUMAN_ROWS, rows(examples / EXAMPLES))
    more = write_rows(folder / MORE, rows(examples / SPARE))
    human_rows = RowFile(folder / HUMAN_ROWS)
    write_rows(folder / PROMPTS, (_make_empty_answer(row) for row in human_rows))
    longest = int(human_rows.prompt_ids.lengths.max(initial=0))
    return {"n": count, "cut": int(human_rows.stops.sum()), "longest_prompt": longest, "more": more}


def _make_empty_answer(row: Row) -> Row:
    nothing = Generation(row.generation.example_id, 0, "", (), "length", float("nan"))
    return Row(row.prompt, row.prompt_ids, nothing)


def make_chat(folder: Path, examples: Path, template: ChatTemplate, tokenizer: Tokenizer) -> Mapping[str, Any]:
    """Write what the model under test reads in place of each prompt: the chat template's text, and its token ids."""
    rows = []
    dataset_examples = list(read_examples(examples / EXAMPLES))
    texts = template.render_all([split_into_turns(e.prompt, e.meta) for e in dataset_examples])
    for e, text in zip(dataset_examples, texts, strict=True):
        nothing = Generation(e.id, 0, "", (), "length", float("nan"))
        rows.append(Row(text, tuple(tokenizer.encode(text)), nothing))
    write_rows(folder / CHAT, rows)
    return {"n": len(rows), "longest_prompt": max((len(r.prompt_ids) for r in rows), default=0)}


def build_human_row(example: Example, tokenizer: Tokenizer | None, max_new_tokens: int | None) -> Row:
    """Tokenize an example's human side and cut it, by words without a tokenizer; `stop` is `length` if it was cut."""
    ids: tuple[int, ...] = ()
    prompt_ids: tuple[int, ...] = ()
    if tokenizer is not None:
        prompt_ids = tuple(tokenizer.encode(example.prompt))
        ids = tuple(tokenize_continuation(tokenizer, example.prompt, prompt_ids, example.human))
    text, ids, cut = cut_continuation(tokenizer, prompt_ids, example.human, ids, max_new_tokens)
    stop: Stop = "length" if cut else "eos"
    return Row(example.prompt, prompt_ids, Generation(example.id, 0, text, ids, stop, float("nan")))


def make_generations(
    folder: Path,
    lm: Backend,
    request: GenerationRequest,
    prompts: Path,
    *,
    chat: Path | None = None,
    samples: int,
    flush_seconds: float,
    advance: Advance,
    recode: Tokenizer | None = None,
) -> Mapping[str, Any]:
    """Generate for every prompt; finished rows of an interrupted call found in `folder` are kept.

    `request` comes without prompts and gets those of the file that are not finished yet, `samples` times each. The
    final bytes do not depend on interruptions: rows are merged in canonical order at the end. With `chat`, the model
    reads the token ids of that file; the rows keep the plain prompts, which scorer and embedder read. A model without a
    tokenizer writes texts alone: `recode` makes their ids.
    """
    prompt_rows = {row.generation.example_id: row for row in RowFile(prompts)}
    parts = PartFiles(folder, flush_seconds)
    have = {(row.generation.example_id, row.generation.sample) for row in parts.read()}
    if have:
        log.info("resuming after %d of %d generations of an interrupted run", len(have), len(prompt_rows) * samples)
        advance(parts.count["tokens"])
    read = {row.generation.example_id: row.prompt_ids for row in RowFile(chat)} if chat else {}
    todo = [
        Prompt(i, s, read[i] if chat else row.prompt_ids, row.prompt)
        for i, row in prompt_rows.items()
        for s in range(samples)
        if (i, s) not in have
    ]

    def _add_ids(generation: Generation, row: Row) -> Generation:
        if lm.tokenizer is not None or recode is None:
            return generation
        return replace(
            generation, token_ids=tuple(tokenize_continuation(recode, row.prompt, row.prompt_ids, generation.text))
        )

    def emit(generations: list[Generation]) -> None:
        prompts_of = ((prompt_rows[g.example_id], g) for g in generations)
        parts.add([Row(prompt.prompt, prompt.prompt_ids, _add_ids(g, prompt)) for prompt, g in prompts_of])

    lm.generate(replace(request, prompts=todo), emit, advance)
    parts.join(folder / DATA)
    return {**parts.count, "batch_size": request.batch_size, "device": str(lm.device), **lm.provenance()}


def save_ragged(folder: Path, ragged: Ragged) -> None:
    """Write a ragged array as two `.npy` files."""
    save_array(folder / "values.npy", ragged.values)
    save_array(folder / "offsets.npy", ragged.offsets)


def load_ragged(folder: Path) -> Ragged:
    """Read what `save_ragged` wrote, by memory map."""
    return Ragged(load_array(folder / "values.npy"), load_array(folder / "offsets.npy"))


def save_embedded(folder: Path, embedded: TextVectors) -> Mapping[str, Any]:
    """Write vectors as a `.npy` file; returns their shape and how many texts were cut."""
    save_array(folder / VECTORS, embedded.vectors)
    return {"n": len(embedded.vectors), "d": int(embedded.vectors.shape[1]), "truncated": embedded.truncated}


def save_array(path: Path, array: np.ndarray[Any, Any]) -> None:
    """Write one `.npy` file atomically."""
    with open_for_replacement(path, "wb") as handle:
        np.save(handle, array, allow_pickle=False)


def load_array(path: Path) -> np.ndarray[Any, Any]:
    """Map one `.npy` file into memory, read only.

    By Arrow, because `np.memmap` holds a descriptor as long as the array lives: a long grid would run out of them.
    """
    import pyarrow as pa

    try:
        with path.open("rb") as handle:
            version = np.lib.format.read_magic(handle)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, fortran, dtype = read(handle)
            start = handle.tell()
        if dtype.hasobject:
            raise ValueError("it holds Python objects")
        with pa.memory_map(str(path)) as source:
            buffer = source.read_buffer()
        array: np.ndarray[Any, Any] = np.frombuffer(buffer, dtype, math.prod(shape), start)
        return array.reshape(shape, order="F" if fortran else "C")
    except (ValueError, OSError) as err:
        raise DataError(f"{path}: not an array ({err})") from err


_NEXT = ("offsets", "gold_prob", "sum_sq", "support", "argmax", "gold")


def save_next_token(folder: Path, stats: NextToken) -> Mapping[str, Any]:
    """Write the statistics of Q as `.npy` files; returns the facts that are no arrays."""
    for name in _NEXT:
        save_array(folder / f"{name}.npy", getattr(stats, name))
    save_ragged(folder, stats.context)
    (folder / "values.npy").rename(folder / "context_values.npy")
    (folder / "offsets.npy").rename(folder / "context_offsets.npy")
    save_array(folder / "offsets.npy", stats.offsets)
    return {"vocab_size": stats.vocab_size, "n": len(stats.offsets) - 1}


def load_next_token(folder: Path, meta: Mapping[str, Any]) -> NextToken:
    """Read what `save_next_token` wrote."""
    arrays = {name: load_array(folder / f"{name}.npy") for name in _NEXT}
    context = Ragged(load_array(folder / "context_values.npy"), load_array(folder / "context_offsets.npy"))
    return NextToken(**arrays, context=context, vocab_size=int(meta["vocab_size"]))


def save_result(folder: Path, result: MetricResult) -> Mapping[str, Any]:
    """Write a metric's result as strict JSON and its arrays as safetensors."""
    from safetensors.numpy import save

    arrays = {f"arrays/{k}": np.ascontiguousarray(v) for k, v in result.arrays.items()}
    arrays |= {f"per_example/{k}": np.ascontiguousarray(v) for k, v in result.per_example.items()}
    arrays |= {f"draws/{k}": np.ascontiguousarray(v) for k, v in result.draws.items()}
    with open_for_replacement(folder / "arrays.safetensors", "wb") as handle:
        handle.write(save(dict(sorted(arrays.items()))))
    row = {name: getattr(result, name) for name in _RESULT}
    if result.intervals:
        row["intervals"] = result.intervals
    write_json(folder / "result.json", row)
    return {"metric": result.metric}


def load_result_arrays(folder: Path) -> Mapping[str, np.ndarray[Any, Any]]:
    """Read the arrays that `save_result` wrote beside a result, without what they are of each example."""
    from safetensors.numpy import load_file

    stored: Mapping[str, np.ndarray[Any, Any]] = load_file(folder / "arrays.safetensors")
    return {name.removeprefix("arrays/"): v for name, v in stored.items() if name.startswith("arrays/")}


_RESULT = ("metric", "signature", "primary", "values", "sd", "n_human", "n_model", "status", "notes")


def load_result(folder: Path) -> MetricResult:
    """Read what `save_result` wrote, without the arrays; null becomes NaN."""
    row = read_json(folder / "result.json")
    values = {k: float("nan") if v is None else v for k, v in row["values"].items()}
    sd = {k: float("nan") if v is None else v for k, v in row["sd"].items()}
    return MetricResult(**{**row, "values": values, "sd": sd, "notes": tuple(row["notes"])})
