"""Human texts from a user's file or folder, without prompts (JSON lines, CSV, Parquet or plain text)."""

import logging
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from openended.harness import imported
from openended.harness.core import REQUIRED, DataError, Example, Tokenizer, option, task
from openended.tasks._files import UserFileTask, is_null_or_text, read_text_field
from openended.tasks._prompts import CutTask, Document, PromptUnit

log = logging.getLogger(__name__)


@task
class Texts(CutTask, UserFileTask):
    """Your own human texts: .jsonl, .csv, .parquet, .txt or a folder, for generations=FILE, or with prompt_length."""

    name = "texts"
    source = "your own file"
    size = "any"
    license = "the file's own"
    obtained = "yours: one text per record; see `openended score`"
    command = "openended task=texts task.path=HUMAN.jsonl generations=SYSTEM.jsonl"
    # With prompts, a system's texts are compared prompt by prompt.
    paired = property(lambda self: self.prompt_length is not None)

    path: str = option(REQUIRED, bool, "the path of a file of texts, or of a folder of them")
    """task.path=FILE.jsonl."""
    text_field: str | None = option(None, is_null_or_text, "a field name or null")
    """null: detected from the first record."""
    prompt_length: int | None = None
    """The prompt is so much of a text; null: there are no prompts, and texts are compared as a set."""
    prompt_unit: PromptUnit = "tokens"
    """Or words."""
    max_length: int | None = None
    """Of prompt and human text, in the same unit."""
    role: str = option("assistant", bool, "a role")
    """Of conversations (messages): whose turns are texts."""

    def fingerprint(self) -> str:
        return imported.digest_files(Path(self.path))

    def examples(self, tokenizer: Tokenizer | None, skipped: Counter[str]) -> Iterator[Example]:
        texts = self._iterate_texts()
        if self.prompt_length is None:
            yield from (Example(text.id, "", text.text, text.meta) for text in texts)
        else:
            yield from self.cut_documents(texts, tokenizer, skipped)

    def _iterate_texts(self) -> Iterator[Document]:
        path = Path(self.path)
        field = imported.choose_text_field(path, imported.HUMAN_TEXTS, self.text_field, "task.text_field=")
        if field != imported.MESSAGES and self.role != "assistant":
            raise DataError(
                f"task.role={self.role}: expected conversations ({imported.MESSAGES!r}), got texts in {path}; "
                "leave it out"
            )
        ids: set[str] = set()
        is_noted = False
        for record in imported.read_records(path):
            example = next((record.cells[name] for name in imported.IDS if name in record.cells), record.line)
            identity = f"{example} {record.cells.get('sample', '')}".strip()
            if identity in ids and not is_noted:
                log.warning("%s: the id %r appears again; all texts are counted", record.where, identity)
                is_noted = True
            ids.add(identity)
            if field == imported.MESSAGES:
                texts = [turn.text or "" for turn in imported.read_conversation(record, self.role)]
            else:
                texts = [read_text_field(record.cells, field, record.where)]
            for turn, text in enumerate(texts):
                if not text.strip():
                    raise DataError(f"{record.where}: the text ({field!r}) is empty")
                name, number = f"texts/{record.line:06d}", f"#{turn:04d}" if turn else ""
                yield Document(f"{name}{number}", text, {"conversation": name, "turn": turn} if turn else {})
