"""The first stage of a run: the task's examples, the human side, and what a model under test reads in their place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from openended.harness.core.errors import SpecError
from openended.harness.core.signature import canonical
from openended.harness.core.task import Tokenizer
from openended.harness.core.types import HUMAN
from openended.harness.models.chat import load_template
from openended.harness.models.spec import ModelSpec
from openended.harness.models.tokenizer import tokenizer_digest
from openended.harness.run import artifact_files as stages
from openended.harness.run.artifacts import Source, Steps
from openended.harness.run.settings import Settings
from openended.harness.storage.store import Entry

# In place of a tokenizer's digest where the rows are kept as texts alone.
NO_TOKENIZER = "none"


@dataclass(frozen=True, slots=True)
class Drawn:
    """The examples of a run and the human side; entries are None while they are only planned."""

    fingerprint: str | None
    """Digest of the task's data; None where a plan finds it missing."""
    tokenizer_spec: ModelSpec | None
    """Whose tokens the rows are kept in: the model's under test, else the scorer's; None: texts alone."""
    tokenizer: str | None
    """Digest of that tokenizer, or `NO_TOKENIZER`; None where a plan finds it missing."""
    examples: Entry | None
    human: Entry | None
    chat: Entry | None
    """The prompts in the chat template of the model under test; None too where there is none to be used."""

    @property
    def source(self) -> Source:
        """The human side."""
        return Source(HUMAN, self.human, stages.HUMAN_ROWS, self.tokenizer, self.chat)

    @property
    def prompts(self) -> Path:
        """Where the prompts are."""
        if self.human is None:
            raise SpecError("prompts were not made yet")
        return self.human.path / stages.PROMPTS

    @property
    def more(self) -> Source:
        """More human texts, of other prompts: for the human ceiling they stand in the place of the system."""
        return Source("more human", self.human, stages.MORE, self.tokenizer)

    def no_ceiling(self, wanted: int) -> str:
        """Say why there is no human ceiling beside a system of `wanted` texts; empty where there is one.

        A metric of two sides moves with their sizes, so that the ceiling is of as many texts as the system has.
        """
        have = self.human.meta["more"] if self.human is not None else wanted
        if have == wanted:
            return ""
        return f"no human ceiling: it needs as many more human texts as a system has, {wanted}; {have} were to spare"


def draw(settings: Settings, steps: Steps) -> Drawn:
    """Make or plan the examples, the human side and the prompts in a chat template."""
    if not steps.plan_only:
        settings.task.fetch()
    fingerprint = steps.ask(settings.task.fingerprint)
    model = settings.model if settings.generations is None else None
    if model is not None:
        steps.ask(model.check_ready)
        steps.ask(partial(model.demand, "generate", settings.decoder))
    spec = cutter(settings)
    tokenizer = NO_TOKENIZER if spec is None else steps.ask(lambda: tokenizer_digest(spec))
    examples = _examples(settings, steps, fingerprint, spec, tokenizer)
    human = _human(settings, steps, examples, spec, tokenizer)
    chat = _chat(settings, steps, examples, tokenizer)
    return Drawn(fingerprint, spec, tokenizer, examples, human, chat)


def cutter(settings: Settings) -> ModelSpec | None:
    """Whose tokens the rows are kept in: the model's under test, else the scorer's; None: texts alone."""
    roles = (settings.model if settings.generations is None else None, settings.scorer)
    return next((spec for role in roles if role is not None and (spec := role.tokenizer_spec()) is not None), None)


def tokenizer_of(steps: Steps, spec: ModelSpec | None) -> Tokenizer | None:
    """Return a model's tokenizer, or None where the rows are texts alone."""
    return steps.session.tokenizer(spec) if spec is not None else None


def _examples(
    settings: Settings, steps: Steps, fingerprint: str | None, spec: ModelSpec | None, tokenizer: str | None
) -> Entry | None:
    """Draw the examples of the task."""
    task, count = settings.task, settings.num_examples
    wanted, more = None if count == "all" else count, settings.num_texts
    inputs = {"source": fingerprint}
    if task.needs_tokenizer():
        if spec is None:
            raise SpecError(
                f"task {task.name} cuts prompts by tokens, and these texts come from a file: say whose tokens with "
                "scorer=gpt2-large (or judge=gpt2-large: scorer and embedder)"
            )
        inputs["tokenizer"] = tokenizer
    cuts = spec if task.needs_tokenizer() else None
    return steps.step(
        "examples", task.name, {"task": canonical(task), "count": count, "more": more}, inputs,
        lambda folder: stages.make_examples(folder, task, tokenizer_of(steps, cuts), wanted, more),
    )  # fmt: skip


def _human(
    settings: Settings, steps: Steps, examples: Entry | None, spec: ModelSpec | None, tokenizer: str | None
) -> Entry | None:
    """Tokenise the prompts and the human side, and cut it to the length that the model may use."""
    length = settings.max_new_tokens
    inputs = {"examples": examples.content if examples else None, "tokenizer": tokenizer}

    def build(folder: Path) -> Mapping[str, Any]:
        return stages.make_human(folder, _path(examples), tokenizer_of(steps, spec), length)

    return steps.step("human", settings.task.name, {"max_new_tokens": length}, inputs, build)


def _chat(settings: Settings, steps: Steps, examples: Entry | None, tokenizer: str | None) -> Entry | None:
    """Put the prompts into the chat template of the model under test.

    Only that model reads them, in generating and in what is teacher-forced; scorer and embedder read the prompts.
    """
    spec = settings.chat_model
    if spec is None:
        return None
    # A tokenizer that is missing was noted already.
    template = steps.ask(lambda: load_template(spec)) if tokenizer is not None else None
    inputs = {
        "examples": examples.content if examples else None,
        "tokenizer": tokenizer,
        "template": template.digest if template else None,
    }

    def build(folder: Path) -> Mapping[str, Any]:
        if template is None:
            raise SpecError("the chat template was not read yet")
        return stages.make_chat(folder, _path(examples), template, steps.session.tokenizer(spec))

    return steps.step("chat", spec.title, {}, inputs, build)


def _path(examples: Entry | None) -> Path:
    if examples is None:
        raise SpecError("examples were not made yet")
    return examples.path
