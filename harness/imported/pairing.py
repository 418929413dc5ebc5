"""Pair imported generations with the examples of a run.

| form | told by | texts | paired by |
| --- | --- | --- | --- |
| a file of texts (see `files`) | a field below | its own | `id` or `example_id`, else `prompt`, else order |
| GPT-2 output dataset | `text`, `ended`, `length` | documents without a prompt | nothing: row by row |
| Grover's generation files | `article`, `label` | the machine articles | `ind30k` |
| output of Grover's generator | `gens_article` | each of its articles | `inst_index`, else line |
| outputs of other frameworks, batch files | see `framework_outputs` | their responses | as any file of texts |
| sample files of the papers on diffusion models | see `sample_files` | texts or token ids | as any file of texts |
| MAUVE authors' archive | `.p`, or `ARCHIVE.tgz#MEMBER.p` | GPT-2 token ids, prompts included | line |

Fields of the text: `text`, `generation`, `generated_text`, `gen_text`, `completion`, `continuation`. A prompt that
stands at the start of every text is cut off. A member of the MAUVE authors' archive is read from the archive itself,
whose MD5 is the one that they state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from openended.harness.core import DataError, Generation, Stop, Tokenizer
from openended.harness.imported.formats import ImportedText, read_generations, recognize_format
from openended.harness.imported.framework_outputs import OUTPUT_TITLES
from openended.harness.imported.memory_limit import load_within_memory
from openended.harness.imported.token_ids import IdSource, decode_text, find_ids
from openended.harness.models import cut_continuation, tokenize_continuation
from openended.harness.storage import Row, RowFile

LINE_DIGITS = 6  # tasks name a record that has no id by its number, `jsonl/000041`


def import_rows(
    path: Path, prompts: Path, tokenizer: Tokenizer | None, max_new_tokens: int | None, field: str | None = None
) -> ImportedRows:
    """Read generations and pair them with the examples of a run.

    Args:
        path: The published file.
        prompts: Rows with the example ids and prompts of the run.
        tokenizer: Tokenizes and truncates to `max_new_tokens`; None: text only, truncated to as many words.
        max_new_tokens: As for generations of our own.
        field: Where a record has its text; None: guessed.

    Raises:
        DataError: If an example has no text, or a text comes twice.
    """
    texts = load_within_memory(read_generations(path, field), path)
    return _import(texts, path, prompts, tokenizer, max_new_tokens, recognize_format(path))


def import_texts(
    texts: Sequence[str], name: str, prompts: Path, tokenizer: Tokenizer | None, max_new_tokens: int | None
) -> ImportedRows:
    """Pair texts without prompts with the examples of a run, row by row; otherwise as `import_rows`."""
    items = [ImportedText(f"{name}, text {i}", i, text, paired=False) for i, text in enumerate(texts)]
    return _import(items, Path(name), prompts, tokenizer, max_new_tokens)


def _import(
    texts: Sequence[ImportedText],
    path: Path,
    prompts: Path,
    tokenizer: Tokenizer | None,
    max_new_tokens: int | None,
    file_format: str | None = None,
) -> ImportedRows:
    examples = list(RowFile(prompts))
    if not texts:
        raise DataError(f"{path}: holds no generation")
    notes: list[str] = []
    decoded = [decode_text(text, tokenizer) for text in texts]
    pairs, how = _pair(decoded, examples, path)
    notes += how
    if _all_start_with_prompt(pairs):
        pairs = [(example, _remove_prompt(text, example.prompt)) for example, text in pairs]
        if any(text.token_ids is None for text in texts):
            notes.append("every text began with its prompt, which was cut off")
    elif any(text.text is None for text in texts):
        raise DataError(f"{path}: the texts do not begin with the prompts of the task; use its official prompt length")
    return ImportedRows(sort_pairs(pairs), tokenizer, max_new_tokens, notes, file_format)


class ImportedRows:
    """Imported texts paired with examples; rows are made one by one, so that large files are not held in memory."""

    def __init__(
        self,
        pairs: Iterable[tuple[Row, ImportedText]],
        tokenizer: Tokenizer | None,
        max_new_tokens: int | None,
        notes: Sequence[str],
        file_format: str | None = None,
    ) -> None:
        self._pairs, self._tokenizer, self._most, self._notes = pairs, tokenizer, max_new_tokens, notes
        self._count: Counter[str] = Counter()
        self._format = file_format

    def __iter__(self) -> Iterator[Row]:
        """Yield the rows, cut to their length."""
        count = self._count = Counter()
        for example, text in self._pairs:
            ids = find_ids(example, text, self._tokenizer)
            row = _make_row(example, text, ids, self._tokenizer, self._most)
            count["ids"] += ids is not None
            count["rows"] += 1
            count["cut"] += row.generation.stop == "length" and text.stop is None
            count["told"] += text.stop is not None
            count["empty"] += not row.generation.text.strip()
            yield row

    @property
    def notes(self) -> list[str]:
        """Notes for the table; complete once the rows were iterated."""
        count, notes = self._count, list(self._notes)
        if self._format:
            notes.append(f"format: {self._format}")
        if self.id_source:
            notes.append(f"token ids as generated for {count['ids']} of {count['rows']} texts, else re-tokenized text")
        if count["cut"]:
            unit = "tokens" if self._tokenizer else "words"
            notes.append(f"{count['cut']} of {count['rows']} texts were cut at {self._most} {unit}")
        if not count["told"]:
            notes.append("no stop reasons in the file; texts not truncated here count as complete")
        if count["empty"]:
            notes.append(f"{count['empty']} of {count['rows']} generations are empty")
        return notes

    @property
    def id_source(self) -> IdSource | None:
        """Whether the ids of a sample file were kept; None for other formats and without a tokenizer."""
        if self._format is None or self._format in OUTPUT_TITLES or self._tokenizer is None:
            return None
        count = self._count
        return "generated" if count["ids"] == count["rows"] else "mixed" if count["ids"] else "retokenized"


def _pair(
    texts: Sequence[ImportedText], examples: Sequence[Row], path: Path
) -> tuple[list[tuple[Row, ImportedText]], list[str]]:
    """Return (example, text) pairs and how they were paired: by ids if there are any, else by prompt, else in order."""
    if not texts[0].paired:
        _check_count(len(texts), len(examples), path)
        pairs = [(replace(e, prompt="", prompt_ids=()), text) for e, text in zip(examples, texts, strict=False)]
        return pairs, ["the texts answer no prompt: set beside the human texts row by row, the prompts left out"]
    nameless = [text for text in texts if text.identity is None]
    if nameless and len(nameless) < len(texts):
        raise DataError(f"{nameless[0].where}: no id, though other lines have one; give every line its `id`, or none")
    pairs, notes = _pair_in_order(texts, examples, path) if nameless else _pair_by_id(texts, examples, path)
    left = len(texts) - len(pairs)
    return pairs, [*notes, f"{left} texts of the file answer no example of this run"] if left else notes


def _pair_by_id(
    texts: Sequence[ImportedText], examples: Sequence[Row], path: Path
) -> tuple[list[tuple[Row, ImportedText]], list[str]]:
    keys = {key: e for e in examples for key in _list_names(e.generation.example_id)}
    pairs = [(keys[text.identity], text) for text in texts if text.identity in keys]
    # Ids that count from another start would pair wrongly, so prompts decide if they are given.
    other = next((pair for pair in pairs if pair[1].prompt not in (None, pair[0].prompt)), None)
    if _can_pair_by_prompt(texts, examples) and (other or not pairs):
        return _pair_by_prompt(texts, examples, path), ["its ids are not those of the task: paired by prompt"]
    if other:
        name = other[0].generation.example_id
        raise DataError(f"{other[1].where}: its prompt is not that of {name}; give both files the same ids")
    missing = sorted({e.generation.example_id for e in examples} - {e.generation.example_id for e, _ in pairs})
    if missing:
        strange = [str(text.identity) for text in texts if text.identity not in keys]
        of_file = f"; ids of the file that are none of the task: {_format_ids(strange)}" if strange else ""
        raise DataError(
            f"{path}: no text for {len(missing)} of {len(examples)} examples: {_format_ids(missing)}{of_file}; "
            "give both files the same ids (task.id_field names the task's)"
        )
    by_line = all(_is_record_number(e.generation.example_id) for e in examples)
    return pairs, ["its ids were taken for numbers of the task's records, counted from 0"] if by_line else []


def _pair_in_order(
    texts: Sequence[ImportedText], examples: Sequence[Row], path: Path
) -> tuple[list[tuple[Row, ImportedText]], list[str]]:
    if _can_pair_by_prompt(texts, examples):
        return _pair_by_prompt(texts, examples, path), []
    if not all(_is_record_number(e.generation.example_id) for e in examples):
        raise DataError(
            f"{path}: the examples have ids ({_format_ids([e.generation.example_id for e in examples])}), its "
            "lines have neither `id` nor `prompt`; add `id` to each line"
        )
    numbers = {text.line: text for text in texts}
    lines = [int(_list_names(e.generation.example_id)[-1]) for e in examples]
    _check_count(len(texts), max(lines) + 1, path)
    pairs = [(e, numbers[line]) for e, line in zip(examples, lines, strict=True)]
    for e, text in pairs:
        if text.prompt not in (None, e.prompt):
            raise DataError(f"{text.where}: its prompt is not that of {e.generation.example_id}; give both files ids")
    return pairs, ["paired by order: neither file has ids, so line i answers record i"]


def _can_pair_by_prompt(texts: Sequence[ImportedText], examples: Sequence[Row]) -> bool:
    """Return true if every text has a prompt and no two examples share theirs."""
    return len({e.prompt for e in examples}) == len(examples) and all(text.prompt is not None for text in texts)


def _pair_by_prompt(
    texts: Sequence[ImportedText], examples: Sequence[Row], path: Path
) -> list[tuple[Row, ImportedText]]:
    by_prompt = {e.prompt: e for e in examples}
    pairs = [(by_prompt[text.prompt], text) for text in texts if text.prompt in by_prompt]
    missing = sorted({e.generation.example_id for e in examples} - {e.generation.example_id for e, _ in pairs})
    if not pairs:
        raise DataError(f"{path}: neither its ids nor its prompts are those of the task")
    if missing:
        raise DataError(
            f"{path}: no text for the prompts of {len(missing)} of {len(examples)} examples: {_format_ids(missing)}"
        )
    return pairs


def _format_ids(ids: Sequence[str]) -> str:
    return ", ".join(repr(i) for i in ids[:3]) + (", …" if len(ids) > 3 else "")


def _is_record_number(example_id: str) -> bool:
    """Return whether an id is the number of a record."""
    tail = example_id.rpartition("/")[2]
    return len(tail) >= LINE_DIGITS and tail.isdigit()


def _check_count(count: int, needed: int, path: Path) -> None:
    if count < needed:
        raise DataError(f"{path}: holds {count} texts for {needed} examples; set num_examples={count}")


def _list_names(example_id: str) -> list[str]:
    """Return what a file may call an example: its id, the part after the task's name, and that without zeros."""
    short = example_id.partition("/")[2] or example_id
    plain = short.lstrip("0") or "0" if short.isdigit() else short
    return [example_id, short, plain]


def _all_start_with_prompt(pairs: Sequence[tuple[Row, ImportedText]]) -> bool:
    """Return true if every text begins with its prompt."""
    return all(e.prompt and (text.text or "").startswith(e.prompt) for e, text in pairs)


def _remove_prompt(text: ImportedText, prompt: str) -> ImportedText:
    return replace(text, text=(text.text or "")[len(prompt) :])


def _make_row(
    example: Row,
    item: ImportedText,
    ids: tuple[int, ...] | None,
    tokenizer: Tokenizer | None,
    max_new_tokens: int | None,
) -> Row:
    text = item.text or ""
    if ids is None and tokenizer is not None:
        ids = tuple(tokenize_continuation(tokenizer, example.prompt, example.prompt_ids, text))
    ids = ids or ()
    text, ids, cut = cut_continuation(tokenizer, example.prompt_ids, text, ids, max_new_tokens)
    stop: Stop = "length" if cut else item.stop or "eos"
    generation = Generation(example.generation.example_id, item.sample or 0, text, ids, stop, float("nan"))
    return Row(example.prompt, example.prompt_ids, generation)


def sort_pairs(pairs: Sequence[tuple[Row, ImportedText]]) -> list[tuple[Row, ImportedText]]:
    """Sort by example id and sample; refuse two texts with the same id and sample."""
    times = Counter(map(_make_sort_key, pairs))
    twice = next((pair for pair in pairs if times[_make_sort_key(pair)] > 1), None)
    if twice is not None:
        raise DataError(
            f"{twice[1].where}: duplicate id: a second text for {_make_sort_key(twice)[0]!r}; "
            "number several texts of one prompt by `sample`: 0, 1, …"
        )
    return sorted(pairs, key=_make_sort_key)


def _make_sort_key(pair: tuple[Row, ImportedText]) -> tuple[str, int]:
    return pair[0].generation.example_id, pair[1].sample or 0
