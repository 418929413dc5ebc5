"""The first half of a run: examples, the human side, and the system under test."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from harness import stages
from harness.errors import SpecError
from harness.models import tokenizer_digest
from harness.progress import progress
from harness.rows import write_rows
from harness.settings import Settings
from harness.signature import canonical, digest
from harness.steps import Source, Steps
from harness.store import Entry

# In place of a tokenizer's digest where the rows are kept as texts alone.
NO_TOKENIZER = "none"


class Texts:
    """Makes the rows of both sides."""

    def __init__(self, settings: Settings, steps: Steps) -> None:
        self.settings = settings
        self.steps = steps
        if not steps.plan_only:
            settings.task.fetch()
        self.fingerprint = steps.ask(settings.task.fingerprint)
        spec = settings.model if settings.generations is None else None
        if spec is not None:
            steps.ask(spec.check_ready)
        self.tokenizer_spec = source = spec or settings.scorer
        """Whose tokens the rows are kept in: the model's under test, else the scorer's; None: texts alone."""
        self.tokenizer = NO_TOKENIZER if source is None else steps.ask(lambda: tokenizer_digest(source))

    def examples(self) -> Entry | None:
        """Draw the examples of the task."""
        s = self.settings
        inputs: dict[str, str | None] = {"source": self.fingerprint}
        spec = self.tokenizer_spec if s.task.needs_tokenizer() else None
        if s.task.needs_tokenizer():
            if spec is None:
                raise SpecError(f"task {s.task.name} cuts prompts by tokens: it needs a model or a scorer")
            inputs["tokenizer"] = self.tokenizer
        return self.steps.step(
            "examples", s.task.name, 1, {"task": canonical(s.task), "count": s.num_examples}, inputs,
            lambda folder: stages.make_examples(
                folder, s.task, self.steps.session.tokenizer(spec) if spec else None, s.num_examples
            ),
        )  # fmt: skip

    def human(self, examples: Entry | None) -> Entry | None:
        """Tokenise the prompts and the human side, and cut it to the length that the model may use."""
        s = self.settings
        inputs: dict[str, str | None] = {
            "examples": examples.content if examples else None,
            "tokenizer": self.tokenizer,
        }

        def build(folder: Path) -> Mapping[str, Any]:
            tokenizer = self.steps.session.tokenizer(self.tokenizer_spec) if self.tokenizer_spec else None
            if examples is None:
                raise SpecError("examples were not made yet")
            return stages.make_human(folder, examples.path, tokenizer, s.max_new_tokens)

        return self.steps.step("human", s.task.name, 1, {"max_new_tokens": s.max_new_tokens}, inputs, build)

    def generations(self, human: Entry | None, human_ppl: Callable[[], float | None]) -> Source:
        """Generate with the model and decoder.

        Args:
            human: The artefact of `human`.
            human_ppl: Measures the perplexity of the human side under the model; asked only by decoders that aim at it.
        """
        s = self.settings
        model, decoder, length = s.model, s.decoder, s.max_new_tokens
        if model is None or decoder is None or length is None:
            raise SpecError("model, decoder and max_new_tokens: expected values when the harness generates")
        longest = int(human.meta["longest_prompt"]) if human is not None else 0
        decoder.plan_check(self.steps.ask(model.context_length), length, longest)
        ready = human is not None
        if decoder.needs_human_ppl:
            target = human_ppl()
            ready = target is not None
            decoder = decoder.resolve(target) if target is not None else decoder
        spec = {
            "dtype": model.dtype,
            "decoder": canonical(decoder),
            "seed": s.seed if decoder.stochastic else None,
            "samples": s.samples,
            "max_new_tokens": length,
        }
        prompts = human.files[stages.PROMPTS] if human is not None and ready else None
        identity = self.steps.ask(model.identity)
        inputs = {"prompts": prompts, "model": digest(identity) if identity else None}
        inputs |= self.steps.ask(decoder.inputs) or {}

        def build(folder: Path) -> Mapping[str, Any]:
            if human is None:
                raise SpecError("prompts were not made yet")
            lm = self.steps.session.model(model, s.runtime)
            total = s.num_examples * s.samples * length
            with progress(f"{decoder.title}", total, unit="tokens", enabled=s.runtime.progress) as advance:
                return stages.make_generations(
                    folder, lm, decoder, human.path / stages.PROMPTS, seed=s.seed, samples=s.samples,
                    max_new_tokens=length, batch_size=s.runtime.batch_size,
                    flush_seconds=s.runtime.flush_seconds, advance=advance,
                )  # fmt: skip

        entry = self.steps.step(
            "generate", f"{model.title} {decoder.title}", 1, spec, inputs, build,
            resumable=True,
        )  # fmt: skip
        return Source("model", entry, stages.DATA, self.tokenizer)

    def imported(self, human: Entry | None) -> Source:
        """Take the generations of a file as the system under test."""
        from harness.generations import file_fingerprint, import_rows, resolve

        s = self.settings
        found = self.steps.ask(lambda: resolve(str(s.generations), fetch=not self.steps.plan_only))
        path = found or Path(str(s.generations))
        spec = {"max_new_tokens": s.max_new_tokens}
        inputs = {
            "file": self.steps.ask(lambda: file_fingerprint(path)) if found else None,
            "human": human.content if human is not None else None,
            "tokenizer": self.tokenizer,
        }

        def build(folder: Path) -> Mapping[str, Any]:
            if human is None:
                raise SpecError("prompts were not made yet")
            tokenizer = self.steps.session.tokenizer(self.tokenizer_spec) if self.tokenizer_spec else None
            rows, notes = import_rows(path, human.path / stages.PROMPTS, tokenizer, s.max_new_tokens)
            write_rows(folder / stages.DATA, rows)
            return {"n": len(rows), "notes": notes}

        entry = self.steps.step("import", path.name, 1, spec, inputs, build)
        return Source("model", entry, stages.DATA, self.tokenizer)
