"""A user's own prompts and human continuations as JSON lines.

    {"id": "a-1", "prompt": "Once upon a time", "human": " there was a house."}

The names of the fields are options; an `id` (or `example_id`) is found by itself. gzip by the name's end (`.gz`). The
file is read as a stream, in file order. Every line counts: a line that does not fit is an error that names file and
line, never passed over in silence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from openended.harness.core import DataError, Example, SourceFile, Task, Tokenizer, read_jsonl, register
from openended.tasks._files import digest_user_file
from openended.tasks._records import UniqueIds, choose_id_field, read_text_field


@register("task")
@dataclass(frozen=True, kw_only=True)
class JsonLines(Task):
    """Examples of a JSON-lines file."""

    name: ClassVar[str] = "jsonl"
    source: ClassVar[str] = "your own file"
    size: ClassVar[str] = "any"
    license: ClassVar[str] = "the file's own"
    obtained: ClassVar[str] = "yours: `prompt` and `human`, one object a line"
    command: ClassVar[str] = "openended task=jsonl task.path=FILE.jsonl scoring=gpt2-large"

    path: str
    prompt_field: str = "prompt"
    human_field: str = "human"
    id_field: str | None = "auto"  # `id` or `example_id`, where the lines have one; None: the line's number

    def check(self) -> None:
        """Field names are not empty; the human text is not the prompt."""
        self.require(bool(self.path), "path", "the path of a JSON-lines file")
        self.require(bool(self.prompt_field), "prompt_field", "a field name")
        self.require(bool(self.human_field), "human_field", "a field name")
        self.require(self.human_field != self.prompt_field, "human_field", "another field than prompt_field")
        self.require(self.id_field != "", "id_field", "a field name or null")

    def files(self) -> list[SourceFile]:
        """Return the one file."""
        return [SourceFile(Path(self.path).name, "", Path(self.path))]

    def fingerprint(self) -> str:
        """SHA-256 of the file's bytes.

        Raises:
            DataError: If there is no such file.
        """
        return digest_user_file(Path(self.path), "task jsonl", "task.path")

    def examples(self, tokenizer: Tokenizer | None, skipped: Counter[str]) -> Iterator[Example]:
        """Yield the lines as examples.

        Raises:
            DataError: If the file holds no line, or a line has a missing, empty or non-text field or a used id.
        """
        del tokenizer, skipped
        path = Path(self.path)
        ids: UniqueIds | None = None
        count = 0
        for number, row in read_jsonl(path):
            where = f"{path}:{number}"
            field = choose_id_field(row, self.id_field)
            if not count and field:
                ids = UniqueIds(path, field)
            elif field and ids is None:
                raise DataError(f"{where}: has an id ({field!r}), the first line has none; set task.id_field=null")
            count += 1
            identity = ids.read(row, number) if ids else f"{number - 1:06d}"
            human = read_text_field(row, self.human_field, where)
            if not human.strip():
                raise DataError(f"{where}: example {identity} has an empty human side ({self.human_field!r})")
            yield Example(f"jsonl/{identity}", read_text_field(row, self.prompt_field, where), human)
        if not count:
            raise DataError(f"{path}: holds no example")
