"""A user's own prompts and human continuations as JSON lines, read as a stream in file order.

{"id": "a-1", "prompt": "Once upon a time", "human": " there was a house."}

Instead of `prompt`, `messages` may hold a conversation; an answer at its end is the human one.

With `references_field`, a line lists several human texts of its prompt; the first is `human` where it has none.
"""

import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from openended.harness.core import REQUIRED, DataError, Example, Json, Tokenizer, option, ranged, read_jsonl, task
from openended.harness.imported import HUMAN_TEXTS, MESSAGES, find_text_field
from openended.harness.models import Message, make_turns, read_messages
from openended.tasks import _files

log = logging.getLogger(__name__)
_HUMAN = "human"


@task
class JsonLines(_files.UserFileTask):
    """Your own prompts and human continuations, one JSON object per line; .gz is allowed."""

    name = "jsonl"
    source = "your own file"
    size = "any"
    license = "the file's own"
    obtained = "yours: `prompt` and `human`, one object per line"
    command = "openended task=jsonl task.path=FILE.jsonl scoring=gpt2-large"

    path: str = option(REQUIRED, bool, "the path of a JSON-lines file")
    """task.path=FILE.jsonl."""
    prompt_field: str = option("prompt", bool, "a field name")
    human_field: str = option(_HUMAN, bool, "a field name")
    """Where the first line has none of this name: detected."""
    id_field: str | None = option("auto", _files.is_null_or_text, "a field name or null")
    """`id` or `example_id` if present; a field name; null: the line number, from 0."""
    group_field: str | None = option(None, _files.is_null_or_text, "a field name or null")
    """A column of groups; task.group_value=female,male: one run per value."""
    group_value: str | None = None
    """Its value in the examples that are used."""
    references_field: str | None = option(None, _files.is_null_or_text, "a field name or null")
    """A field with a list of human texts: their human row in metrics of several texts per prompt."""
    least_references: int = ranged(0, "[0, inf)", "0 or more")
    """Leave out prompts with fewer of them."""

    def check(self) -> None:
        self.require(self.human_field != self.prompt_field, "human_field", "another field than prompt_field")
        self.require(
            (self.group_value is None) == (self.group_field is None), "group_value", "a value where group_field is set"
        )
        unread = self.least_references > 0 and self.references_field is None
        self.require(not unread, "least_references", "0 where references_field is null")

    def has_references(self) -> bool:
        return self.references_field is not None

    def has_conversations(self) -> bool:
        first: Mapping[str, Any] = next(read_jsonl(Path(self.path)), (0, {}))[1]
        return self.prompt_field not in first and MESSAGES in first

    def examples(self, tokenizer: Tokenizer | None, skipped: Counter[str]) -> Iterator[Example]:
        del tokenizer
        path = Path(self.path)
        first_lines: dict[str, int] = {}  # of each id
        id_field: str | None = None
        human_field: str | None = None
        for number, row in read_jsonl(path):
            where = f"{path}:{number}"
            references = _files.read_references(row, self.references_field, where) if self.references_field else []
            if references and self.human_field not in row:
                row = {**row, self.human_field: references[0]}
            field = _files.choose_id_field(row, self.id_field)
            talk: list[Message] = []
            if self.prompt_field not in row and MESSAGES in row:
                talk = read_messages(row[MESSAGES], where)
                if self.human_field not in row and talk[-1].role == "assistant":
                    row = {**row, self.human_field: talk.pop().text}
            if human_field is None:  # the first line decides
                human_field, id_field = self.human_field, field
                if human_field not in row and human_field == _HUMAN:
                    others = {name: value for name, value in row.items() if name != self.prompt_field}
                    human_field = find_text_field(others, HUMAN_TEXTS, where, "task.human_field=")
                    log.info(
                        "task       jsonl: the human text is the field %r (guessed; task.human_field=NAME)", human_field
                    )
            elif field and not id_field:
                raise DataError(f"{where}: has an id ({field!r}), the first line has none; set task.id_field=null")
            identity = f"{number - 1:06d}"
            if id_field:
                identity = _files.read_id(row, id_field, where)
                if first_lines.setdefault(identity, number) != number:
                    raise DataError(f"{where}: duplicate id {identity!r}, first used on line {first_lines[identity]}")
            human = _files.read_text_field(row, human_field, where, "task.human_field")
            if not human.strip():
                raise DataError(f"{where}: example {identity} has an empty human side ({human_field!r})")
            texts = references if human in references else [human, *references]
            meta: dict[str, Json] = {"references": [*texts]} if references else {}
            if talk:
                prompt, turns = make_turns(talk, where)
                meta |= turns
            else:
                prompt = _files.read_text_field(row, self.prompt_field, where, "task.prompt_field", (human_field,))
            if len(texts) < self.least_references:
                skipped[f"fewer than {self.least_references} references"] += 1
            elif _files.is_in_group(row, self.group_field, self.group_value, where, skipped):
                yield Example(f"jsonl/{identity}", prompt, human, meta)
        if human_field is None:
            raise DataError(f"{path}: holds no example")
