"""A user's own prompts and human continuations, read as a stream in file order: JSON lines, or any other records.

{"id": "a-1", "prompt": "Once upon a time", "human": " there was a house."}

Instead of `prompt`, `messages` may hold a conversation; an answer at its end is the human one.

With `prompt_length`, a line holds one text, whose beginning is the prompt.

With `references_field`, a line lists several human texts of its prompt; the first is `human` where it has none.
"""

import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import Any

from openended.harness.core import REQUIRED, DataError, Example, Json, Tokenizer, option, ranged, task
from openended.harness.imported import (
    SAMPLED,
    FieldChoice,
    TextSelection,
    check_text,
    choose_fields,
    find_fields,
    find_value,
    read_id,
    read_prompts,
    read_records,
)
from openended.harness.models import Message, make_turns, read_messages
from openended.tasks import _files
from openended.tasks._prompts import CutTask, Document, PromptUnit

log = logging.getLogger(__name__)
_PROMPT, _HUMAN, _MESSAGES = "prompt", "human", "messages"


@task
class JsonLines(_files.GroupTask, CutTask, _files.UserFileTask):
    """Your own prompts and human continuations, or texts to be cut, one JSON object per line; .gz is allowed."""

    name = "jsonl"
    version = 2
    synonyms = ("json", "custom", "own", "local", "file", "my_data")
    source = "your own file"
    size = "any"
    license = "the file's own"
    obtained = "yours: `prompt` and `human`, or one text (`prompt_length`), one object per line"
    command = "openended task=jsonl task.path=FILE.jsonl scoring=gpt2-large"

    path: str = option(REQUIRED, bool, "the path of a JSON-lines file")
    """task.path=FILE.jsonl."""
    prompt_field: str = option("prompt", bool, "a field name")
    """The field with the prompt. Where the first line has none of this name: detected."""
    human_field: str = option(_HUMAN, bool, "a field name")
    """Where the first line has none of this name: detected."""
    prompt_length: int | None = None
    """The prompt is so much of one text; null: it has a field of its own."""
    prompt_unit: PromptUnit = "tokens"
    """Or words."""
    max_length: int | None = None
    """Of prompt and human text, in the same unit."""
    text_field: str | None = option(None, _files.is_null_or_text, "a field name or null")
    """The one text; null: detected from the first records."""
    id_field: str | None = option("auto", _files.is_null_or_text, "a field name or null")
    """`id` or `example_id` if present; a field name; null: the line number, from 0."""
    references_field: str | None = option(None, _files.is_null_or_text, "a field name or null")
    """A field with a list of human texts: their human row in metrics of several texts per prompt."""
    least_references: int = ranged(0, "[0, inf)", "0 or more")
    """Leave out prompts with fewer of them."""

    def check(self) -> None:
        self.require(self.human_field != self.prompt_field, "human_field", "another field than prompt_field")
        unread = self.least_references > 0 and self.references_field is None
        self.require(not unread, "least_references", "0 where references_field is null")
        is_cut = self.prompt_length is not None
        self.require(is_cut or self.text_field is None, "text_field", "null where prompt_length is null")
        both = is_cut and self.references_field is not None
        self.require(not both, "references_field", "null with prompt_length, which cuts one text into both")
        super().check()

    def has_references(self) -> bool:
        return self.references_field is not None

    def has_conversations(self) -> bool:
        first: Mapping[str, Any] = next((record.cells for record in read_records(Path(self.path))), {})
        return self.prompt_length is None and self.prompt_field not in first and _MESSAGES in first

    def examples(self, tokenizer: Tokenizer | None, skipped: Counter[str]) -> Iterator[Example]:
        if self.prompt_length is not None:
            yield from self.cut_documents(self._iterate_documents(skipped), tokenizer, skipped)
            return
        examples = self._iterate_examples(skipped)
        first = list(islice(examples, SAMPLED))
        if not first or not all(e.prompt and e.human.removeprefix(e.prompt) != e.human for e in first):
            yield from chain(first, examples)
            return
        _log_once(f"the human texts of {self.path} begin with their prompts, which are cut off")
        for example in chain(first, examples):
            human = example.human.removeprefix(example.prompt)
            if not human.strip():
                raise DataError(f"{self.path}: example {example.id} has a human text that is its prompt alone")
            yield replace(example, human=human)

    def _iterate_examples(self, skipped: Counter[str]) -> Iterator[Example]:
        guess: FieldChoice | None = None
        human_field: str | None = None
        needs_some = self.least_references == 0
        for row, identity, where in self._iterate_rows():
            references: list[str] = []
            if self.references_field:
                references = _files.read_references(row, self.references_field, where, needs_some=needs_some)
            if references and self.human_field not in row:
                row = {**row, self.human_field: references[0]}
            talk: list[Message] = []
            if self.prompt_field not in row and _MESSAGES in row:
                talk = read_messages(row[_MESSAGES], where)
                if self.human_field not in row and talk[-1].role == "assistant":
                    row = {**row, self.human_field: talk.pop().text}
            if not references and not needs_some and self.human_field not in row:
                skipped[f"fewer than {self.least_references} references"] += 1
                continue
            if human_field is None:  # decided at the first line
                is_named = self.human_field in row or self.human_field != _HUMAN
                has_prompt = bool(talk) or self.prompt_field in row or self.prompt_field != _PROMPT
                guess = None if is_named and has_prompt else self._guess_fields(is_named=is_named)
                human_field = self.human_field if is_named or guess is None else guess.field
                if not is_named:
                    what = f"the human text of {self.path} is the field {human_field!r}"
                    _log_once(f"{what} (guessed; task.human_field=NAME)")
                guess = None if has_prompt else guess
                if guess is not None and guess.prompt:
                    what = f"the prompt of {self.path} is the field {'+'.join(guess.prompt)!r}"
                    _log_once(f"{what} (guessed; task.prompt_field=NAME)")
            human = _read_human(row, human_field, where, is_guessed=human_field != self.human_field)
            if not human.strip():
                raise DataError(f"{where}: example {identity} has an empty human side ({human_field!r})")
            texts = references if human in references else [human, *references]
            meta: dict[str, Json] = {"references": [*texts]} if references else {}
            if talk:
                prompt, turns = make_turns(talk, where)
                meta |= turns
            elif guess is not None and guess.prompt:
                if not (prompts := read_prompts(row, guess, where)):  # as of a field that is named
                    prompts = [_files.read_text_field(row, guess.prompt[0], where, "task.prompt_field")]
                prompt = "\n\n".join(prompts)
            else:
                prompt = _files.read_text_field(row, self.prompt_field, where, "task.prompt_field", (human_field,))
            if len(texts) < self.least_references:
                skipped[f"fewer than {self.least_references} references"] += 1
            elif self.is_in_group(row, where, skipped):
                yield Example(f"jsonl/{identity}", prompt, human, meta)

    def _guess_fields(self, *, is_named: bool) -> FieldChoice:
        """Return the fields that look most like human texts, unless they are named, and their prompts."""
        first = [*islice(read_records(Path(self.path)), SAMPLED)]
        others = [{name: value for name, value in r.cells.items() if name != self.prompt_field} for r in first]
        names = [name for name in (self.human_field, self.references_field) if name and is_named]
        human = next((name for name in names if any(find_value(cells, name) is not None for cells in others)), None)
        return choose_fields(others, "human", first[0].where, "task.human_field=", human)

    def _iterate_documents(self, skipped: Counter[str]) -> Iterator[Document]:
        """Yield the texts that are cut into prompt and human text."""
        field = self.text_field or find_fields(Path(self.path), TextSelection(side="human")).field
        for row, identity, where in self._iterate_rows():
            text = _files.read_text_field(row, field, where, "task.text_field")
            if self.is_in_group(row, where, skipped):
                yield Document(f"jsonl/{identity}", text, {})

    def _iterate_rows(self) -> Iterator[tuple[Mapping[str, Any], str, str]]:
        """Yield the lines with their ids and where they are; ids are unique, and all lines have one or none."""
        path = Path(self.path)
        first_lines: dict[str, int] = {}  # of each id
        id_field: str | None = None
        for record in read_records(path):
            row, where, number = record.cells, record.where, record.line
            field = _files.choose_id_field(row, self.id_field)
            if not first_lines:
                id_field = field
            elif field and not id_field:
                raise DataError(f"{where}: has an id ({field!r}), the first line has none; set task.id_field=null")
            identity = read_id(row, id_field, where) if id_field else f"{number:06d}"
            if first_lines.setdefault(identity, number) != number:
                raise DataError(f"{where}: duplicate id {identity!r}, first used by record {first_lines[identity] + 1}")
            yield row, identity, where
        if not first_lines:
            raise DataError(f"{path}: holds no example")


@lru_cache
def _log_once(line: str) -> None:
    log.info("task       jsonl: %s", line)


def _read_human(row: Mapping[str, Any], field: str, where: str, *, is_guessed: bool) -> str:
    """Return the human text of a record; in a field that was guessed, it may be the only one of a list."""
    value = find_value(row, field)
    if isinstance(value, list) and is_guessed:
        if len(value) != 1:
            advice = f"task.references_field={field} task.least_references=1 reads lists of human texts"
            raise DataError(f"{where}: field {field!r}: expected text, got a list of {len(value)}; {advice}")
        return check_text(value[0], field, where)
    return _files.read_text_field(row, field, where, "task.human_field")
