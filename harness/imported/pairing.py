"""Pair imported generations with the examples of a run, or import all texts of a file without prompts."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Literal

from openended.harness import models
from openended.harness.core import DataError, Generation, Stop, Thinking, Tokenizer
from openended.harness.imported.generations import ImportedText, read_generations, recognize_format
from openended.harness.imported.records import OUTPUT_TITLES, ReadSummary, TextSelection
from openended.harness.models import LengthLimit, cut_continuation, tokenize_continuation
from openended.harness.storage import Row, RowFile

LINE_DIGITS = 6  # tasks name a record that has no id by its number, `jsonl/000041`
MEMORY_SHARE = 4  # the texts of a file may take one fourth of the free memory, because they are held several times
TEXT_OVERHEAD = 1 << 10  # bytes that a text takes in addition to its characters
_PROMPTS_REMOVED = "every text began with its prompt, which was cut off"

IdSource = Literal["generated", "mixed", "retokenized"]
Pair = tuple[Row, ImportedText]  # an example and its text


@dataclass(slots=True)
class FileFacts:
    """A file of texts: what its reasoning looks like, and what is scored of it."""

    name: str
    thinking: Thinking = "drop"
    file_format: str | None = None
    tags: models.MarkupSearch = field(default_factory=models.MarkupSearch)
    is_apart: bool = False  # some records have their reasoning apart from the text

    def add(self, text: ImportedText) -> None:
        """Look for reasoning in a text."""
        prompt = text.prompt or ""
        self.is_apart = self.is_apart or text.reasoning is not None
        self.tags.add(prompt, (text.text or "").removeprefix(prompt), ended=text.stop != "length")


def import_rows(
    path: Path, prompts: Path, tokenizer: Tokenizer | None, limit: LengthLimit, selection: TextSelection
) -> "ImportedRows":
    """Read generations and pair them with the examples of a run.

    Args:
        path: The published file.
        prompts: Rows with the example ids and prompts of the run.
        tokenizer: Of the rows; None: text only, truncated by words or characters.
        limit: As for generated texts.
        selection: What of a record is scored.
    """
    summary = ReadSummary()
    texts = load_within_memory(read_generations(path, selection.field, summary, selection.role), path)
    source = FileFacts(path.name, selection.thinking, recognize_format(path))
    return _pair_and_import(texts, path, prompts, tokenizer, limit, source, summary.line())


def import_texts(
    texts: Sequence[str] | Mapping[str, str], name: str, prompts: Path, tokenizer: Tokenizer | None, limit: LengthLimit
) -> "ImportedRows":
    """Pair texts with the examples of a run: by example id, or texts without prompts row by row; as `import_rows`."""
    if isinstance(texts, Mapping):
        ids = [example for example in RowFile(prompts).ids if example in texts]
        items = [ImportedText(f"{name}, {example}", i, texts[example], example) for i, example in enumerate(ids)]
    else:
        items = [ImportedText(f"{name}, text {i}", i, text, paired=False) for i, text in enumerate(texts)]
    return _pair_and_import(items, Path(name), prompts, tokenizer, limit, FileFacts(name))


def _pair_and_import(
    texts: Sequence[ImportedText], path: Path, prompts: Path, tokenizer: Tokenizer | None, limit: LengthLimit,
    source: FileFacts, left_out: str = "",
) -> "ImportedRows":  # fmt: skip
    if not texts:
        raise DataError(f"{path}: holds no generation")
    decoded = [decode_text(text, tokenizer) for text in texts]
    for text in decoded:
        source.add(text)
    pairs, notes = _pair(decoded, list(RowFile(prompts)), path)
    if all(e.prompt and (text.text or "").startswith(e.prompt) for e, text in pairs):
        pairs = [(e, replace(text, text=(text.text or "")[len(e.prompt) :])) for e, text in pairs]
        if any(text.token_ids is None for text in texts):
            notes.append(_PROMPTS_REMOVED)
    elif any(text.text is None for text in texts):
        raise DataError(f"{path}: the texts do not begin with the prompts of the task; use its official prompt length")
    notes += filter(None, [left_out])
    return ImportedRows(partial(list, _sort_pairs(pairs)), tokenizer, limit, notes, source)


def import_unpaired(
    path: Path, name: Callable[[int], str], tokenizer: Tokenizer | None, limit: LengthLimit, *,
    count: int | None, selection: TextSelection,
) -> "ImportedRows":  # fmt: skip
    """Import the texts of a file; if every text starts with its prompt, the prompts are removed.

    The file is read twice instead of being kept in memory: first to check all texts, then to yield the rows.

    Args:
        path: The file, or a folder of them.
        name: Returns the example id of the text with a given index (from 0).
        tokenizer: Of the rows; None: text only.
        limit: As for generated texts.
        count: Number of texts, from the start; None: all.
        selection: What of a record is scored.
    """
    source = FileFacts(path.name, selection.thinking, recognize_format(path))

    def read_texts(summary: ReadSummary | None = None) -> Iterator[ImportedText]:
        for text in islice(read_generations(path, selection.field, summary, selection.role), count):
            yield decode_text(text, tokenizer)

    count_read, prompted, first, summary = 0, True, "", ReadSummary()
    seen, repeated = set[int](), 0
    any_text, any_continuation = False, False  # whether any text is not empty, with and without its prompt
    for text in read_texts(summary):
        count_read, first = count_read + 1, first or text.where
        source.add(text)
        key = hash((text.identity, text.sample))
        repeated += text.identity is not None and key in seen
        seen.add(key)
        prompted = prompted and bool(text.prompt) and (text.text or "").startswith(text.prompt or "")
        any_text = any_text or bool((text.text or "").strip()) or text.reasoning is not None
        any_continuation = any_continuation or bool((text.text or "")[len(text.prompt or "") :].strip())
    if not count_read:
        raise DataError(f"{path}: holds no text")
    if count_read < (count or 1):
        raise DataError(f"{path}: holds {count_read} texts, got num_examples={count}; num_examples=all takes them all")
    if not (any_continuation if prompted else any_text):
        raise DataError(f"{first}: all {count_read} texts of the file are empty")

    def make_pairs() -> Iterator[Pair]:
        record = -1
        for text in read_texts():
            record += text.turn == 0  # the turns of a conversation are resampled together
            start = len(text.prompt or "") if prompted else 0
            example = Row("", (), Generation(name(record), 0, "", (), "length", float("nan")))
            yield example, replace(text, text=(text.text or "")[start:], sample=text.turn)

    open_pairs: Callable[[], Iterable[Pair]] = make_pairs
    if len(name(count_read - 1)) != len(name(0)):  # ids of equal length sort in file order
        open_pairs = partial(_sort_pairs, list(make_pairs()))
    notes = [_PROMPTS_REMOVED] * prompted + list(filter(None, [summary.line()]))
    if repeated:
        notes.append(f"{repeated} of {count_read} texts have the id and sample of an earlier one; all are counted")
    return ImportedRows(open_pairs, tokenizer, limit, notes, source)


class ImportedRows:
    """Imported texts paired with examples; rows are made one by one, so that large files are not held in memory."""

    def __init__(
        self, open_pairs: Callable[[], Iterable[Pair]], tokenizer: Tokenizer | None, limit: LengthLimit,
        notes: Sequence[str], source: FileFacts,
    ) -> None:  # fmt: skip
        self._open_pairs, self._tokenizer, self._limit, self._notes = open_pairs, tokenizer, limit, notes
        self._count: Counter[str] = Counter()
        self._format, self._source = source.file_format, source
        self.reasoning = models.ReasoningCounts()  # complete once the rows were iterated
        self.has_reasoning = source.is_apart or source.tags.find() is not None

    def __iter__(self) -> Iterator[Row]:
        tokenizer = self._tokenizer
        count = self._count = Counter()
        reasoning = self.reasoning = models.ReasoningCounts()
        thinking, markup = self._source.thinking, self._source.tags.find()
        for example, item in self._open_pairs():
            parts = models.split_reasoning(item.text or "", item.reasoning, markup, item.prompt or "")
            scored = reasoning.choose(parts, thinking, item.stop or "eos")
            if scored is None:
                continue
            generated_ids = find_ids(example, item, tokenizer) if scored == (item.text or "") else None
            text, ids = scored, generated_ids
            if ids is None and tokenizer is not None:
                ids = tuple(tokenize_continuation(tokenizer, example.prompt, example.prompt_ids, text))
            text, ids, cut = cut_continuation(
                tokenizer, example.prompt, example.prompt_ids, text, ids or (), self._limit
            )
            stop: Stop = "length" if cut else item.stop or "eos"
            count["ids"] += generated_ids is not None
            count["rows"] += 1
            count["cut"] += stop == "length" and item.stop is None
            count["told"] += item.stop is not None
            count["empty"] += not text.strip()
            generation = Generation(
                example.generation.example_id, item.sample or 0, text, ids, stop, float("nan"), parts.reasoning
            )
            yield Row(example.prompt, example.prompt_ids, generation)

    @property
    def notes(self) -> list[str]:
        """Notes for the table; complete once the rows were iterated."""
        count, notes = self._count, list(self._notes)
        if self._format:
            notes.append(f"format: {self._format}")
        if self.id_source:
            notes.append(f"token ids as generated for {count['ids']} of {count['rows']} texts, else re-tokenized text")
        if count["cut"]:
            unit = "tokens" if self._tokenizer else "characters" if self._limit.by_chars else "words"
            notes.append(f"{count['cut']} of {count['rows']} texts were cut at {self._limit.most} {unit}")
        if not count["told"]:
            notes.append("the file has no stop reasons: texts that were not cut here count as complete")
        notes += self.reasoning.list_notes(self._source.thinking, self._source.name, "generate them with more tokens")
        if count["empty"]:
            notes.append(f"{count['empty']} of {count['rows']} generations are empty")
        return notes

    @property
    def id_source(self) -> IdSource | None:
        """Whether the ids of a sample file were kept; None for other formats and without a tokenizer."""
        if self._format is None or self._format in OUTPUT_TITLES or self._tokenizer is None:
            return None
        count = self._count
        if not count["ids"]:
            return "retokenized"
        return "generated" if count["ids"] == count["rows"] else "mixed"


def _pair(texts: Sequence[ImportedText], examples: Sequence[Row], path: Path) -> tuple[list[Pair], list[str]]:
    """Return (example, text) pairs and how they were paired: by ids if there are any, else by prompt, else in order."""
    if not texts[0].paired:
        _check_count(len(texts), len(examples), path)
        pairs = [(replace(e, prompt="", prompt_ids=()), text) for e, text in zip(examples, texts, strict=False)]
        return pairs, ["the texts answer no prompt: row i is compared with human text i, without prompts"]
    nameless = [text for text in texts if text.identity is None]
    if nameless and len(nameless) < len(texts):
        raise DataError(f"{nameless[0].where}: no id, though other lines have one; give every line its `id`, or none")
    pairs, notes = _pair_in_order(texts, examples, path) if nameless else _pair_by_id(texts, examples, path)
    left = len(texts) - len(pairs)
    return pairs, [*notes, f"{left} texts of the file match no example of this run"] if left else notes


def _pair_by_id(texts: Sequence[ImportedText], examples: Sequence[Row], path: Path) -> tuple[list[Pair], list[str]]:
    keys = {key: e for e in examples for key in _list_names(e.generation.example_id)}
    pairs = [(keys[text.identity], text) for text in texts if text.identity in keys]
    # Ids that count from another start would pair wrongly, so prompts decide if they are given.
    other = next((pair for pair in pairs if pair[1].prompt not in (None, pair[0].prompt)), None)
    if _can_pair_by_prompt(texts, examples) and (other or not pairs):
        return _pair_by_prompt(texts, examples, path), ["its ids do not match the task: paired by prompt"]
    if other:
        name = other[0].generation.example_id
        raise DataError(f"{other[1].where}: its prompt is not that of {name}; give both files the same ids")
    if missing := _find_missing(examples, pairs):
        strange = [str(text.identity) for text in texts if text.identity not in keys]
        of_file = f"; ids of the file that the task does not have: {_format_ids(strange)}" if strange else ""
        raise DataError(
            f"{path}: no text for {len(missing)} of {len(examples)} examples: {_format_ids(missing)}{of_file}; "
            "give both files the same ids (task.id_field names the task's)"
            + ("" if pairs else "; texts without prompts are compared by task=texts task.path=HUMAN")
        )
    by_line = all(_is_record_number(e.generation.example_id) for e in examples)
    by_line = by_line and any(text.identity != e.generation.example_id for e, text in pairs)
    return pairs, ["its ids were read as record numbers of the task, counted from 0"] if by_line else []


def _pair_in_order(texts: Sequence[ImportedText], examples: Sequence[Row], path: Path) -> tuple[list[Pair], list[str]]:
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


def _pair_by_prompt(texts: Sequence[ImportedText], examples: Sequence[Row], path: Path) -> list[Pair]:
    by_prompt = {e.prompt: e for e in examples}
    pairs = [(by_prompt[text.prompt], text) for text in texts if text.prompt in by_prompt]
    if not pairs:
        raise DataError(f"{path}: neither ids nor prompts match the task")
    if missing := _find_missing(examples, pairs):
        raise DataError(
            f"{path}: no text for the prompts of {len(missing)} of {len(examples)} examples: {_format_ids(missing)}"
        )
    return pairs


def _find_missing(examples: Sequence[Row], pairs: Sequence[Pair]) -> list[str]:
    return sorted({e.generation.example_id for e in examples} - {e.generation.example_id for e, _ in pairs})


def _format_ids(ids: Sequence[str]) -> str:
    return ", ".join(repr(i) for i in ids[:3]) + (", …" if len(ids) > 3 else "")


def _is_record_number(example_id: str) -> bool:
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


def _sort_pairs(pairs: Sequence[Pair]) -> list[Pair]:
    """Sort by example id and sample; refuse two texts with the same id and sample."""
    keys = [(example.generation.example_id, text.sample or 0) for example, text in pairs]
    times = Counter(keys)
    for (example_id, sample), (_, text) in zip(keys, pairs, strict=True):
        if times[example_id, sample] > 1:
            raise DataError(
                f"{text.where}: duplicate id: a second text for {example_id!r}; "
                "number several texts of one prompt by `sample`: 0, 1, …"
            )
    return [pair for _, pair in sorted(zip(keys, pairs, strict=True), key=lambda item: item[0])]


def load_within_memory(texts: Iterable[ImportedText], path: Path) -> list[ImportedText]:
    """Load all texts if they fit into the free memory; their number has no fixed limit."""
    loaded: list[ImportedText] = []
    free = measure_free_memory() // MEMORY_SHARE
    for text in texts:
        free -= TEXT_OVERHEAD + 4 * len(text.text or "") + 36 * len(text.token_ids or ())
        if free < 0:
            raise DataError(
                f"{path}: the texts do not fit into memory (stopped after {len(loaded):,}); "
                "reduce it to the examples of the run"
            )
        loaded.append(text)
    return loaded


def measure_free_memory() -> int:
    """Return the bytes of free memory; 1 TiB if the system does not report them."""
    try:
        meminfo = Path("/proc/meminfo").read_text(encoding="ascii")
        return 1024 * int(meminfo.partition("MemAvailable:")[2].split()[0])
    except (OSError, ValueError, IndexError):
        return 1 << 40


def decode_text(text: ImportedText, tokenizer: Tokenizer | None) -> ImportedText:
    """Return a text decoded from its token ids if it has only those; drop ids that are not those of the text."""
    if text.token_ids is None:
        return text
    if text.text is not None:
        return text if _are_ids_of(tokenizer, text.token_ids, text.text) else replace(text, token_ids=None)
    if tokenizer is None:
        raise DataError(f"{text.where}: token ids need a GPT-2 tokenizer; set scorer=gpt2 (or another GPT-2)")
    if not _has_all_ids(tokenizer, text.token_ids):
        raise DataError(
            f"{text.where}: token id {max(text.token_ids)} is not in the scorer's vocabulary; set scorer to a "
            "model with the tokenizer of the file (scorer=gpt2 for most)"
        )
    return replace(text, text=tokenizer.decode(text.token_ids))


def find_ids(example: Row, item: ImportedText, tokenizer: Tokenizer | None) -> tuple[int, ...] | None:
    """Return the continuation's token ids as generated; None if the file has none that fit."""
    if tokenizer is None or item.token_ids is None:
        return None
    size = len(example.prompt_ids)
    if item.token_ids[:size] == example.prompt_ids:
        return item.token_ids[size:]
    return item.token_ids if _are_ids_of(tokenizer, item.token_ids, item.text or "") else None


def _are_ids_of(tokenizer: Tokenizer | None, ids: Sequence[int], text: str) -> bool:
    """Return whether a text has these ids under a tokenizer; the text may lack the end tokens."""
    if tokenizer is None or not _has_all_ids(tokenizer, ids):
        return False
    ends = getattr(tokenizer, "eos_ids", ())
    if tokenizer.decode(ids) == text:
        return True
    return tokenizer.decode([i for i in ids if i not in ends]).strip() == text.strip()


def _has_all_ids(tokenizer: Tokenizer, ids: Sequence[int]) -> bool:
    size = getattr(getattr(tokenizer, "inner", None), "get_vocab_size", None)
    return size is None or max(ids, default=0) < size()
