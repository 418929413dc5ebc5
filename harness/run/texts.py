"""The first half of a run: examples, the human side, and the system under test."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from openended.harness.errors import SpecError
from openended.harness.models.chat import load_template
from openended.harness.models.tokenizer import tokenizer_digest
from openended.harness.progress import progress
from openended.harness.rows import write_rows
from openended.harness.run import artefacts as stages
from openended.harness.run.settings import Settings
from openended.harness.run.steps import Source, Steps
from openended.harness.signature import canonical, digest
from openended.harness.store import Entry

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
            steps.ask(partial(spec.demand, "generate", settings.decoder))
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

    def chat(self, examples: Entry | None) -> Entry | None:
        """Put the prompts into the chat template of the model under test; None too where there is none to be used.

        Only that model reads them, in generating and in what is teacher-forced; scorer and embedder read the prompts.
        """
        s = self.settings
        spec = s.chat_model
        if spec is None:
            return None
        # A tokenizer that is missing was noted already.
        template = self.steps.ask(lambda: load_template(spec)) if self.tokenizer is not None else None
        inputs = {
            "examples": examples.content if examples else None,
            "tokenizer": self.tokenizer,
            "template": template.digest if template else None,
        }

        def build(folder: Path) -> Mapping[str, Any]:
            if examples is None or template is None:
                raise SpecError("examples were not made yet")
            return stages.make_chat(folder, examples.path, template, self.steps.session.tokenizer(spec))

        return self.steps.step("chat", spec.title, 1, {}, inputs, build)

    def generations(
        self, human: Entry | None, human_ppl: Callable[[], float | None], chat: Entry | None = None
    ) -> Source:
        """Generate with the model and decoder.

        Args:
            human: The artefact of `human`.
            chat: The artefact of `chat`, for a model that reads its prompts through a chat template.
            human_ppl: Measures the perplexity of the human side under the model; asked only by decoders that aim at it.
        """
        s = self.settings
        model, decoder, length = s.model, s.decoder, s.max_new_tokens
        if model is None or decoder is None or length is None:
            raise SpecError("model, decoder and max_new_tokens: expected values when the harness generates")
        read = chat if s.chat_model else human
        longest = int(read.meta["longest_prompt"]) if read is not None else 0
        decoder.plan_check(self.steps.ask(model.context_length), length, longest)
        self.steps.ask(partial(decoder.check_model, model))
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
            "min_new_tokens": s.least,
        }
        prompts = human.files[stages.PROMPTS] if human is not None and ready else None
        identity = self.steps.ask(model.identity)
        inputs = {"prompts": prompts, "model": digest(identity) if identity else None}
        inputs |= self.steps.ask(decoder.inputs) or {}
        if s.chat_model is not None:
            inputs["chat"] = chat.content if chat is not None else None

        def build(folder: Path) -> Mapping[str, Any]:
            if human is None:
                raise SpecError("prompts were not made yet")
            session = self.steps.session
            lm, others = session.model(model, s.runtime), session.companions(decoder, s.runtime)
            total = s.num_examples * s.samples * length
            with progress(f"{decoder.title}", total, unit="tokens", enabled=s.runtime.progress) as advance:
                return stages.make_generations(
                    folder, lm, decoder, human.path / stages.PROMPTS, chat=chat.path / stages.CHAT if chat else None,
                    seed=s.seed, samples=s.samples, max_new_tokens=length, min_new_tokens=s.least,
                    batch_size=s.runtime.batch_size, flush_seconds=s.runtime.flush_seconds, advance=advance,
                    companions=others,
                )  # fmt: skip

        entry = self.steps.step(
            "generate", f"{model.title} {decoder.title}", 1, spec, inputs, build,
            resumable=True,
        )  # fmt: skip
        return Source("model", entry, stages.DATA, self.tokenizer, chat)

    def imported(self, human: Entry | None) -> Source:
        """Take the generations of a file, or of a system that the task itself holds, as the system under test."""
        from openended.harness.published.pairing import file_fingerprint, import_rows, import_texts, resolve

        s, name = self.settings, str(self.settings.generations)
        own = s.task.own_system(name)
        found = None if own else self.steps.ask(lambda: resolve(name, fetch=not self.steps.plan_only))
        path = found or Path(name)
        if own is not None:
            file = digest([self.fingerprint, name]) if self.fingerprint else None
        else:
            file = self.steps.ask(lambda: file_fingerprint(path)) if found else None
        spec = {"max_new_tokens": s.max_new_tokens}
        inputs = {"file": file, "human": human.content if human is not None else None, "tokenizer": self.tokenizer}

        def build(folder: Path) -> Mapping[str, Any]:
            if human is None:
                raise SpecError("prompts were not made yet")
            tokenizer = self.steps.session.tokenizer(self.tokenizer_spec) if self.tokenizer_spec else None
            prompts = human.path / stages.PROMPTS
            if own is not None:
                rows, notes = import_texts(own(), name, prompts, tokenizer, s.max_new_tokens)
            else:
                rows, notes = import_rows(path, prompts, tokenizer, s.max_new_tokens)
            write_rows(folder / stages.DATA, rows)
            return {"n": len(rows), "notes": notes}

        entry = self.steps.step("import", path.name, 1, spec, inputs, build)
        return Source("model", entry, stages.DATA, self.tokenizer)
