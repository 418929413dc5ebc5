"""Texts that somebody else generated, as a system: no model is needed.

| form | told by | texts | paired by |
| --- | --- | --- | --- |
| a file of texts (see `files`) | a field below | its own | `id` or `example_id`, else `prompt`, else order |
| GPT-2 output dataset | `text`, `ended`, `length` | documents without a prompt | nothing: row by row |
| Grover's generation files | `article`, `label` | the machine articles | `ind30k` |
| output of Grover's generator | `gens_article` | each of its articles | `inst_index`, else line |
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
from openended.harness.imported.formats import Published, read_generations
from openended.harness.imported.memory_limit import held
from openended.harness.models import continuation_ids, cut_continuation
from openended.harness.storage import Row, Rows

LINE_DIGITS = 6  # tasks name a record that has no id by its number, `jsonl/000041`


def import_rows(
    path: Path, prompts: Path, tokenizer: Tokenizer | None, max_new_tokens: int | None, field: str | None = None
) -> Taken:
    """Pair a published system with the examples of a run.

    Args:
        path: The published file.
        prompts: Rows with the example ids and prompts of the run.
        tokenizer: Makes the token ids, and cuts at `max_new_tokens`; None: texts alone, cut at as many words.
        max_new_tokens: As for generations of our own.
        field: Where a record has its text; None: guessed.

    Raises:
        DataError: If an example has no text, or a text comes twice.
    """
    found = held(read_generations(path, field), path)
    return _import(found, path, prompts, tokenizer, max_new_tokens)


def import_texts(
    texts: Sequence[str], name: str, prompts: Path, tokenizer: Tokenizer | None, max_new_tokens: int | None
) -> Taken:
    """Set texts that answer no prompt beside the examples of a run, row by row; otherwise as `import_rows`."""
    found = [Published(f"{name}, text {i}", i, text, paired=False) for i, text in enumerate(texts)]
    return _import(found, Path(name), prompts, tokenizer, max_new_tokens)


def _import(
    found: Sequence[Published], path: Path, prompts: Path, tokenizer: Tokenizer | None, max_new_tokens: int | None
) -> Taken:
    examples = list(Rows(prompts))
    if not found:
        raise DataError(f"{path}: holds no generation")
    notes: list[str] = []
    decoded = [with_text(one, tokenizer) for one in found]
    pairs, how = _pair(decoded, examples, path)
    notes += how
    if _prompts_included(pairs):
        pairs = [(example, _without_prompt(one, example.prompt)) for example, one in pairs]
        if any(one.token_ids is None for one in found):
            notes.append("every text began with its prompt, which was cut off")
    elif any(one.token_ids is not None for one in found):
        raise DataError(f"{path}: the texts do not begin with the prompts of the task; use its official prompt length")
    return Taken(in_order(pairs), tokenizer, max_new_tokens, notes)


class Taken:
    """Texts beside their examples, of which rows are made one by one: a million of them are never held.

    Args:
        pairs: By example id and sample.
        tokenizer: As for `import_rows`.
        max_new_tokens: As for `import_rows`.
        notes: What a reader must know already.
    """

    def __init__(
        self,
        pairs: Iterable[tuple[Row, Published]],
        tokenizer: Tokenizer | None,
        max_new_tokens: int | None,
        notes: Sequence[str],
    ) -> None:
        self._pairs, self._tokenizer, self._most, self._notes = pairs, tokenizer, max_new_tokens, notes
        self._count: Counter[str] = Counter()

    def __iter__(self) -> Iterator[Row]:
        """Yield the rows, cut to their length."""
        count = self._count = Counter()
        for example, one in self._pairs:
            row = _row(example, one, self._tokenizer, self._most)
            count["rows"] += 1
            count["cut"] += row.generation.stop == "length" and one.stop is None
            count["told"] += one.stop is not None
            count["empty"] += not row.generation.text.strip()
            yield row

    @property
    def notes(self) -> list[str]:
        """What a reader of the table must know, once the rows were made."""
        count, notes = self._count, list(self._notes)
        if count["cut"]:
            unit = "tokens" if self._tokenizer else "words"
            notes.append(f"{count['cut']} of {count['rows']} texts were cut at {self._most} {unit}")
        if not count["told"]:
            notes.append("the file does not say how texts ended: those not cut here count as ended")
        if count["empty"]:
            notes.append(f"{count['empty']} of {count['rows']} generations are empty")
        return notes


def with_text(one: Published, tokenizer: Tokenizer | None) -> Published:
    """Return a text with its words, which a file of token ids does not hold."""
    if one.token_ids is None:
        return one
    if tokenizer is None:
        raise DataError(f"{one.where}: token ids need a GPT-2 tokenizer; set scorer=gpt2 (or another GPT-2)")
    return replace(one, text=tokenizer.decode(one.token_ids))


def _pair(
    found: Sequence[Published], examples: Sequence[Row], path: Path
) -> tuple[list[tuple[Row, Published]], list[str]]:
    """Return (example, text) pairs, and how they were found: by ids where there are any, else by prompt, else in order.

    Raises:
        DataError: If the file is of two minds about ids, or they, or its prompts, are not those of the task.
    """
    if not found[0].paired:
        _enough(len(found), len(examples), path)
        pairs = [(replace(e, prompt="", prompt_ids=()), one) for e, one in zip(examples, found, strict=False)]
        return pairs, ["the texts answer no prompt: set beside the human texts row by row, the prompts left out"]
    nameless = [one for one in found if one.identity is None]
    if nameless and len(nameless) < len(found):
        raise DataError(f"{nameless[0].where}: no id, though other lines have one; give every line its `id`, or none")
    pairs, notes = _in_order(found, examples, path) if nameless else _by_id(found, examples, path)
    left = len(found) - len(pairs)
    return pairs, [*notes, f"{left} texts of the file answer no example of this run"] if left else notes


def _by_id(
    found: Sequence[Published], examples: Sequence[Row], path: Path
) -> tuple[list[tuple[Row, Published]], list[str]]:
    keys = {key: e for e in examples for key in _names(e.generation.example_id)}
    pairs = [(keys[one.identity], one) for one in found if one.identity in keys]
    # Ids that count from elsewhere would pair wrongly: where prompts are given, they decide.
    other = next((pair for pair in pairs if pair[1].prompt not in (None, pair[0].prompt)), None)
    if _tells_prompts(found, examples) and (other or not pairs):
        return _by_prompt(found, examples, path), ["its ids are not those of the task: paired by prompt"]
    if other:
        name = other[0].generation.example_id
        raise DataError(f"{other[1].where}: its prompt is not that of {name}; give both files the same ids")
    missing = sorted({e.generation.example_id for e in examples} - {e.generation.example_id for e, _ in pairs})
    if missing:
        strange = [str(one.identity) for one in found if one.identity not in keys]
        of_file = f"; ids of the file that are none of the task: {_some(strange)}" if strange else ""
        raise DataError(
            f"{path}: no text for {len(missing)} of {len(examples)} examples: {_some(missing)}{of_file}; "
            "give both files the same ids (task.id_field names the task's)"
        )
    by_line = all(_is_line(e.generation.example_id) for e in examples)
    return pairs, ["its ids were taken for numbers of the task's records, counted from 0"] if by_line else []


def _in_order(
    found: Sequence[Published], examples: Sequence[Row], path: Path
) -> tuple[list[tuple[Row, Published]], list[str]]:
    if _tells_prompts(found, examples):
        return _by_prompt(found, examples, path), []
    if not all(_is_line(e.generation.example_id) for e in examples):
        raise DataError(
            f"{path}: the examples have ids ({_some([e.generation.example_id for e in examples])}), its lines have "
            "neither `id` nor `prompt`; add `id` to each line"
        )
    numbers = {one.line: one for one in found}
    lines = [int(_names(e.generation.example_id)[-1]) for e in examples]
    _enough(len(found), max(lines) + 1, path)
    pairs = [(e, numbers[line]) for e, line in zip(examples, lines, strict=True)]
    for e, one in pairs:
        if one.prompt not in (None, e.prompt):
            raise DataError(f"{one.where}: its prompt is not that of {e.generation.example_id}; give both files ids")
    return pairs, ["paired by order: neither file has ids, so line i answers record i"]


def _tells_prompts(found: Sequence[Published], examples: Sequence[Row]) -> bool:
    """Say whether prompts alone can pair: every text has one, and no two examples share theirs."""
    return len({e.prompt for e in examples}) == len(examples) and all(one.prompt is not None for one in found)


def _by_prompt(found: Sequence[Published], examples: Sequence[Row], path: Path) -> list[tuple[Row, Published]]:
    by_prompt = {e.prompt: e for e in examples}
    pairs = [(by_prompt[one.prompt], one) for one in found if one.prompt in by_prompt]
    missing = sorted({e.generation.example_id for e in examples} - {e.generation.example_id for e, _ in pairs})
    if not pairs:
        raise DataError(f"{path}: neither its ids nor its prompts are those of the task")
    if missing:
        raise DataError(
            f"{path}: no text for the prompts of {len(missing)} of {len(examples)} examples: {_some(missing)}"
        )
    return pairs


def _some(ids: Sequence[str]) -> str:
    return ", ".join(repr(i) for i in ids[:3]) + (", …" if len(ids) > 3 else "")


def _is_line(example_id: str) -> bool:
    """Say whether an id is the number of a record, for want of another."""
    tail = example_id.rpartition("/")[2]
    return len(tail) >= LINE_DIGITS and tail.isdigit()


def _enough(found: int, wanted: int, path: Path) -> None:
    if found < wanted:
        raise DataError(f"{path}: holds {found} texts for {wanted} examples; set num_examples={found}")


def _names(example_id: str) -> list[str]:
    """Return what a file may call an example: its id, the part after the task's name, and that without zeros."""
    short = example_id.partition("/")[2] or example_id
    plain = short.lstrip("0") or "0" if short.isdigit() else short
    return [example_id, short, plain]


def _prompts_included(pairs: Sequence[tuple[Row, Published]]) -> bool:
    """Say whether every text begins with its prompt; one that does by chance is no proof."""
    return all(e.prompt and (one.text or "").startswith(e.prompt) for e, one in pairs)


def _without_prompt(one: Published, prompt: str) -> Published:
    return replace(one, text=(one.text or "")[len(prompt) :])


def _row(example: Row, one: Published, tokenizer: Tokenizer | None, max_new_tokens: int | None) -> Row:
    text = one.text or ""
    ids: tuple[int, ...] = ()
    if tokenizer is not None:
        size = len(example.prompt_ids)
        if one.token_ids is not None and one.token_ids[:size] == example.prompt_ids:
            ids = one.token_ids[size:]
        else:
            ids = tuple(continuation_ids(tokenizer, example.prompt, example.prompt_ids, text))
    text, ids, cut = cut_continuation(tokenizer, example.prompt_ids, text, ids, max_new_tokens)
    stop: Stop = "length" if cut else one.stop or "eos"
    generation = Generation(example.generation.example_id, one.sample or 0, text, ids, stop, float("nan"))
    return Row(example.prompt, example.prompt_ids, generation)


def in_order(pairs: Sequence[tuple[Row, Published]]) -> list[tuple[Row, Published]]:
    """Sort by example id and sample; several for one example are its samples only where the file says so."""
    times = Counter(map(_key, pairs))
    twice = next((pair for pair in pairs if times[_key(pair)] > 1), None)
    if twice is not None:
        raise DataError(
            f"{twice[1].where}: a second text for {_key(twice)[0]!r}; number draws of one prompt by `sample`: 0, 1, …"
        )
    return sorted(pairs, key=_key)


def _key(pair: tuple[Row, Published]) -> tuple[str, int]:
    return pair[0].generation.example_id, pair[1].sample or 0
