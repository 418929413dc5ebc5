"""The first stage of a run: the task's examples, the human side, and what a model under test reads in their place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openended.harness.core import SpecError, Task, Tokenizer, canonicalize
from openended.harness.models import ModelSpec, load_template
from openended.harness.run import artifact_files as stages
from openended.harness.run.artifacts import ArtifactBuilder, ArtifactRequest, Role, TextRows, Workload
from openended.harness.run.resolve import DataPart
from openended.harness.storage import Entry

_HUMAN_WORK = Workload(role="human")


@dataclass(frozen=True, slots=True)
class Dataset:
    """The examples of a run and the human side; entries are None while they are only planned."""

    data: DataPart
    fingerprint: str | None
    """Digest of the task's data; None where a plan finds it missing."""
    tokenizer: str | None
    """Digest of the tokenizer of the rows, or `NO_TOKENIZER`; None where a plan finds it missing."""
    examples: Entry | None
    human: Entry | None
    chat: Entry | None
    """The prompts in the chat template of the model under test; None too where there is none to be used."""

    @property
    def human_rows(self) -> TextRows:
        """The human side."""
        return self._make_rows("human", stages.HUMAN_ROWS, self.chat)

    @property
    def prompts(self) -> Path:
        """Where the prompts are."""
        if self.human is None:
            raise SpecError("prompts were not made yet")
        return self.human.path / stages.PROMPTS

    @property
    def spare_rows(self) -> TextRows:
        """Human texts of other prompts; they replace the system in the human ceiling."""
        return self._make_rows("more human", stages.MORE, None)

    def _make_rows(self, role: Role, file: str, chat: Entry | None) -> TextRows:
        count, length = self.data.num_planned, self.data.max_new_tokens or 0
        return TextRows(role, self.human, file, self.tokenizer, chat, num_texts=count, num_tokens=count * length)

    def explain_no_ceiling(self, needed: int) -> str:
        """Say why there is no human ceiling for a system of `needed` texts; empty if there is one.

        A metric of two sides moves with their sizes, so that the ceiling is of as many texts as the system has.
        """
        have = self.human.meta["more"] if self.human is not None else needed
        if have == needed:
            return ""
        return f"no human ceiling: it needs as many more human texts as a system has, {needed}; {have} were to spare"


def fetch_task(task: Task, builder: ArtifactBuilder) -> str | None:
    """Download what is missing of a task's data, unless planning; return its digest, None where a plan lacks it."""
    if not builder.plan_only:
        task.fetch()
    return builder.try_or_note(task.fingerprint)


def load_dataset(data: DataPart, fingerprint: str | None, builder: ArtifactBuilder) -> Dataset:
    """Build or plan the examples, the human side and the prompts in a chat template."""
    tokenizer = builder.try_or_note(lambda: data.tokenizer_digest)
    examples = _build_examples(data, builder, fingerprint, tokenizer)
    human = _build_human(data, builder, examples, tokenizer)
    chat = _build_chat(data, builder, examples, tokenizer)
    return Dataset(data, fingerprint, tokenizer, examples, human, chat)


def load_tokenizer_of(builder: ArtifactBuilder, spec: ModelSpec | None) -> Tokenizer | None:
    """Return a model's tokenizer, or None where the rows are texts alone."""
    return builder.session.tokenizer(spec) if spec is not None else None


def _build_examples(
    data: DataPart, builder: ArtifactBuilder, fingerprint: str | None, tokenizer: str | None
) -> Entry | None:
    """Read the examples of the task."""
    task, count, spare = data.task, data.num_examples, data.num_spare
    inputs = {"source": fingerprint}
    if task.needs_tokenizer():
        if data.tokenizer_spec is None:
            raise SpecError(
                f"task {task.name} cuts prompts by tokens, and these texts come from a file: say whose tokens with "
                "scorer=gpt2-large (or scoring=gpt2-large: scorer and embedder)"
            )
        inputs["tokenizer"] = tokenizer
    cuts = data.tokenizer_spec if task.needs_tokenizer() else None

    def write(folder: Path) -> Mapping[str, Any]:
        most = None if count == "all" else count
        return stages.make_examples(folder, task, load_tokenizer_of(builder, cuts), most, spare)

    spec = {"task": canonicalize(task), "count": count, "more": spare}
    return builder.build(ArtifactRequest("examples", task.name, spec, inputs, _HUMAN_WORK), write)


def _build_human(
    data: DataPart, builder: ArtifactBuilder, examples: Entry | None, tokenizer: str | None
) -> Entry | None:
    """Tokenize the prompts and the human side, and cut it to the length that the model may use."""
    length = data.max_new_tokens
    inputs = {"examples": examples.content if examples else None, "tokenizer": tokenizer}

    def write(folder: Path) -> Mapping[str, Any]:
        return stages.make_human(
            folder, _require_path(examples), load_tokenizer_of(builder, data.tokenizer_spec), length
        )

    request = ArtifactRequest("human", data.task.name, {"max_new_tokens": length}, inputs, _HUMAN_WORK)
    return builder.build(request, write)


def _build_chat(
    data: DataPart, builder: ArtifactBuilder, examples: Entry | None, tokenizer: str | None
) -> Entry | None:
    """Put the prompts into the chat template of the model under test.

    Only that model reads them, in generating and in what is teacher-forced; scorer and embedder read the prompts.
    """
    spec = data.chat_model
    if spec is None:
        return None
    # A tokenizer that is missing was noted already.
    template = builder.try_or_note(lambda: load_template(spec)) if tokenizer is not None else None
    inputs = {
        "examples": examples.content if examples else None,
        "tokenizer": tokenizer,
        "template": template.digest if template else None,
    }

    def write(folder: Path) -> Mapping[str, Any]:
        if template is None:
            raise SpecError("the chat template was not read yet")
        return stages.make_chat(folder, _require_path(examples), template, builder.session.tokenizer(spec))

    return builder.build(ArtifactRequest("chat", spec.title, {}, inputs, _HUMAN_WORK), write)


def _require_path(examples: Entry | None) -> Path:
    if examples is None:
        raise SpecError("examples were not made yet")
    return examples.path
