"""The second stage of a run: the texts of the system under test, generated or taken from a file."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from openended.harness.core.errors import SpecError
from openended.harness.core.progress import progress
from openended.harness.core.signature import canonical, digest
from openended.harness.decoders.base import Decoder, GenerationRequest
from openended.harness.run import artifact_files as stages
from openended.harness.run.artifacts import Source, Steps
from openended.harness.run.dataset import Drawn, tokenizer_of
from openended.harness.run.settings import Settings
from openended.harness.storage.rows import write_rows


def generate(settings: Settings, steps: Steps, drawn: Drawn, decoder: Decoder | None) -> Source:
    """Generate with the model under test.

    Args:
        settings: The run.
        steps: Makes the artefact.
        drawn: The prompts.
        decoder: Resolved; one that still needs a number of the human side waits for it in a plan.
    """
    s = settings
    model, length, chat = s.model, s.max_new_tokens, drawn.chat
    if model is None or decoder is None or length is None:
        raise SpecError("model, decoder and max_new_tokens: expected values when the harness generates")
    read = chat if s.chat_model else drawn.human
    longest = int(read.meta["longest_prompt"]) if read is not None else 0
    decoder.plan_check(steps.ask(model.context_length), length, longest)
    model.check_lengths(decoder, max_new_tokens=length, min_new_tokens=s.least)
    if model.runs_in_process:
        steps.ask(partial(decoder.check_model, model))
    spec = {
        "dtype": model.dtype,
        "decoder": canonical(decoder),
        "seed": s.seed if decoder.stochastic else None,
        "samples": s.samples,
        "max_new_tokens": length,
        "min_new_tokens": s.least,
    }
    ready = drawn.human is not None and not decoder.needs_human_ppl
    prompts = drawn.human.files[stages.PROMPTS] if drawn.human is not None and ready else None
    identity = steps.ask(model.identity)
    inputs = {"prompts": prompts, "model": digest(identity) if identity else None}
    inputs |= steps.ask(decoder.inputs) or {}
    if s.chat_model is not None:
        inputs["chat"] = chat.content if chat is not None else None

    def build(folder: Path) -> Mapping[str, Any]:
        lm = steps.session.model(model, s.runtime)
        request = GenerationRequest(
            prompts=(), decoder=decoder, seed=s.seed, max_new_tokens=length, min_new_tokens=s.least,
            batch_size=s.runtime.batch_size, companions=steps.session.companions(decoder, s.runtime),
        )  # fmt: skip
        total = (int(drawn.human.meta["n"]) if drawn.human is not None else 0) * s.samples * length
        with progress(f"{decoder.title}", total, unit="tokens", enabled=s.runtime.progress) as advance:
            return stages.make_generations(
                folder, lm, request, drawn.prompts, chat=chat.path / stages.CHAT if chat else None, samples=s.samples,
                flush_seconds=s.runtime.flush_seconds, advance=advance,
                recode=tokenizer_of(steps, drawn.tokenizer_spec),
            )  # fmt: skip

    entry = steps.step("generate", f"{model.title} {decoder.title}", spec, inputs, build, resumable=True)
    return Source("model", entry, stages.DATA, drawn.tokenizer, chat)


def take_in(settings: Settings, steps: Steps, drawn: Drawn) -> Source:
    """Take the generations of a file, or of a system that the task itself holds, as the system under test."""
    from openended.harness.imported.pairing import import_rows, import_texts
    from openended.harness.imported.sources import file_fingerprint
    from openended.harness.imported.unpaired import import_loose
    from openended.tasks.published_generations import find_generations

    name, length = str(settings.generations), settings.max_new_tokens
    own = settings.task.own_system(name)
    found = None if own else steps.ask(lambda: find_generations(name, fetch=not steps.plan_only))
    path = found or Path(name)
    if own is not None:
        file = digest([drawn.fingerprint, name]) if drawn.fingerprint else None
    else:
        file = steps.ask(lambda: file_fingerprint(path)) if found else None
    human = drawn.human.content if drawn.human is not None else None
    field, task = settings.generations_field, settings.task
    count = None if settings.num_examples == "all" else settings.num_examples
    loose = not task.paired and own is None

    def build(folder: Path) -> Mapping[str, Any]:
        tokenizer = tokenizer_of(steps, drawn.tokenizer_spec)
        if own is not None:
            taken = import_texts(own(), name, drawn.prompts, tokenizer, length)
        elif loose:
            numbered = f"{task.name}/{{:06d}}".format
            taken = import_loose(path, numbered, tokenizer, length, count=count, field=field)
        else:
            taken = import_rows(path, drawn.prompts, tokenizer, length, field)
        return {"n": write_rows(folder / stages.DATA, taken), "notes": taken.notes}

    inputs = {"file": file, "tokenizer": drawn.tokenizer} | ({} if loose else {"human": human})
    spec: dict[str, Any] = {"max_new_tokens": length} | ({"field": field} if field else {})
    spec |= {"count": count, "names": task.name} if loose else {}
    entry = steps.step("import", path.name, spec, inputs, build)
    return Source("model", entry, stages.DATA, drawn.tokenizer)
