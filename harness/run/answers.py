"""The answers of a model that reasons first: its texts without the reasoning, or what `model.thinking` asks for."""

import math
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from openended.harness import models
from openended.harness.core import DataError, Thinking, Tokenizer, digest
from openended.harness.models import BackendSpec, Markup, ReasoningCounts
from openended.harness.run.dataset import CHAT, Dataset, name_tokenizer
from openended.harness.run.steps import Executor, File, Input, Inputs, Step, TextRows
from openended.harness.storage import Row, RowFile, write_rows

_PROMPT_END = 64  # characters of a prompt in which its opening tag ends
_ROW_FACTS = ("batch_dependent", "device", "batch_size", "parts", "faults")  # facts of the generation that notes read


def declare_answers(model: BackendSpec, dataset: Dataset, generated: TextRows, executor: Executor) -> TextRows:
    """Declare what is scored of generated texts; texts without reasoning stay as they are."""
    rows = executor.read_rows(generated.rows)
    read = executor.read_rows(File(generated.chat, CHAT)) if generated.chat is not None else rows
    markup, prompts = find_markup(model, rows, read)
    if markup is None and not rows.has_reasoning:
        return generated
    thinking, facts = model.thinking, executor.get(generated.step).meta

    def write(folder: Path, inputs: Inputs) -> Mapping[str, Any]:
        splitter = AnswerRows(thinking, markup, executor.session.row_tokenizer(dataset.tokenizer))
        answers = splitter.split_rows(RowFile(inputs["rows"]), prompts)
        count = write_rows(folder / generated.file, answers, facts={"thinking": thinking})
        notes = splitter.counts.list_notes(thinking, model.title, "raise max_new_tokens")
        if not count:
            raise DataError(f"{'; '.join(notes)}; no text is left to score")
        facts_of_rows = {name: facts[name] for name in _ROW_FACTS if name in facts}
        return {**facts_of_rows, "n": count, "notes": [*facts.get("notes", ()), *notes]}

    spec = {"thinking": thinking, "markup": [markup.family, markup.opened] if markup is not None else None}
    inputs: dict[str, Input] = {"rows": generated.rows, "tokenizer": name_tokenizer(generated.tokenizer)}
    inputs["prompts"] = File(generated.step, generated.file, lambda _: digest(prompts))
    before = generated.step
    step = Step("answers", before.what, "model", spec, inputs, write, before.num_texts, before.num_tokens)
    return replace(generated, step=step)


def drop_reasoning(model: BackendSpec, rows: RowFile, chats: Path | None) -> Iterator[Row]:
    """Yield replies without their reasoning; those that ended inside it are empty."""
    markup, prompts = find_markup(model, rows, RowFile(chats) if chats is not None else rows)
    for row, prompt in zip(rows, prompts, strict=True):
        parts = models.split_reasoning(row.generation.text, row.generation.reasoning, markup, prompt)
        yield replace(row, generation=replace(row.generation, text=parts.answer))


def find_markup(model: BackendSpec, rows: RowFile, read: RowFile) -> tuple[Markup | None, list[str]]:
    """Return the tags of generated texts, None where they have none, and the ends of the prompts that were read."""
    start, search = _find_start(model) if not rows.has_reasoning else "", models.MarkupSearch()
    by_id = {name: (prompt + start)[-_PROMPT_END:] for name, prompt in zip(read.ids, read.each("prompt"), strict=True)}
    prompts = [by_id.get(name, "") for name in rows.ids]
    if rows.matches("text", models.MENTION) or any(re.search(models.OPENED, prompt) for prompt in by_id.values()):
        for prompt, text, stop in zip(prompts, rows.each("text"), rows.stops.tolist(), strict=True):
            search.add(prompt, text, ended=not stop)
    return search.find(), prompts


def _find_start(model: BackendSpec) -> str:
    """Return what the template of a server's model puts after the prompt; empty where it is not known."""
    reader = model.tokenizer_spec()
    if not model.reads_messages or reader is None:
        return ""
    arguments = getattr(model, "chat_template_kwargs", None)
    with suppress(DataError):  # a tokenizer without a template
        return models.load_template(replace(reader, chat_template=True, chat_template_kwargs=arguments)).start
    return ""


@dataclass(frozen=True)
class AnswerRows:
    """Replaces texts of rows by what is scored of them, and counts what became of them."""

    thinking: Thinking
    markup: Markup | None  # None: the rows have their reasoning apart
    tokenizer: Tokenizer | None
    counts: ReasoningCounts = field(default_factory=ReasoningCounts)

    def split_rows(self, rows: Iterable[Row], prompts: Iterable[str]) -> Iterator[Row]:
        """Yield the rows of which something is scored; `prompts` are those that the model read."""
        for row, prompt in zip(rows, prompts, strict=True):
            generation = row.generation
            parts = models.split_reasoning(generation.text, generation.reasoning, self.markup, prompt)
            text = self.counts.choose(parts, self.thinking, generation.stop)
            if text is None:
                continue
            if text != generation.text:
                ids = self._find_ids(row, text)
                generation = replace(generation, text=text, token_ids=ids, log_prob=math.nan)
            yield replace(row, generation=replace(generation, reasoning=parts.reasoning))

    def _find_ids(self, row: Row, text: str) -> tuple[int, ...]:
        """Return the ids of a text: the last of those that were generated, if they are its own; else it is encoded."""
        if self.tokenizer is None:
            return ()
        ids, decode = row.generation.token_ids, self.tokenizer.decode
        first = bisect_left(range(len(ids)), -len(text), key=lambda at: -len(decode(ids[at:])))
        if ids and decode(ids[first:]) == text:
            return ids[first:]
        return tuple(models.tokenize_continuation(self.tokenizer, row.prompt, row.prompt_ids, text))
