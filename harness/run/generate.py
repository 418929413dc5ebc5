"""The second stage of a run: the texts of the system under test, generated or imported from a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from openended.harness.core import Runtime, SpecError, canonicalize, digest, show_progress
from openended.harness.decoders import Decoder, GenerationRequest, QDecoder
from openended.harness.models import BackendSpec, load_tokenizer
from openended.harness.run import artifact_files as stages
from openended.harness.run.artifacts import ArtifactBuilder, ArtifactRequest, TextRows
from openended.harness.run.dataset import Dataset, load_tokenizer_of
from openended.harness.run.resolve import GenerationPart, digest_model
from openended.harness.storage import Entry, write_rows


def check_model(part: GenerationPart, builder: ArtifactBuilder) -> None:
    """Check that the model under test is there and can generate with the decoder; nothing to check for a file."""
    if part.model is not None:
        builder.try_or_note(part.model.check_ready)
        builder.try_or_note(partial(part.model.demand, "generate", part.decoder))


def generate(
    part: GenerationPart, runtime: Runtime, builder: ArtifactBuilder, dataset: Dataset, decoder: Decoder | None
) -> TextRows:
    """Generate texts with the model under test."""
    model, length, chat = part.model, part.max_new_tokens, dataset.chat
    if model is None or decoder is None or length is None:
        raise SpecError("model, decoder and max_new_tokens: expected values when the harness generates")
    read = chat if part.chat_model else dataset.human
    longest = int(read.meta["longest_prompt"]) if read is not None else 0
    if not dataset.data.task.prompted and not decoder.denoises:
        builder.try_or_note(partial(check_start_token, model))
    decoder.check_context_length(builder.try_or_note(model.context_length), length, longest)
    model.check_lengths(decoder, max_new_tokens=length, min_new_tokens=part.min_new_tokens)
    if model.runs_in_process:
        builder.try_or_note(partial(decoder.check_model, model))
    spec = {
        "dtype": model.dtype,
        "decoder": canonicalize(decoder),
        "seed": part.seed if decoder.stochastic else None,
        "samples": part.samples,
        "max_new_tokens": length,
        "min_new_tokens": part.min_new_tokens,
    }
    if part.continue_after_end:
        _check_continuing(model, decoder)
        spec["continue_after_end"] = True
    ready = dataset.human is not None and not decoder.needs_human_ppl
    prompts = dataset.human.files[stages.PROMPTS] if dataset.human is not None and ready else None
    inputs = {"prompts": prompts, "model": builder.try_or_note(partial(digest_model, model))}
    inputs |= builder.try_or_note(decoder.inputs) or {}
    if part.chat_model is not None:
        inputs["chat"] = chat.content if chat is not None else None

    def write(folder: Path) -> Mapping[str, Any]:
        lm = builder.session.model(model, runtime)
        request = GenerationRequest(
            prompts=(), decoder=decoder, seed=part.seed, max_new_tokens=length, min_new_tokens=part.min_new_tokens,
            continue_after_end=part.continue_after_end, batch_size=runtime.batch_size,
            companions=builder.session.companions(decoder, runtime),
        )  # fmt: skip
        total = (int(dataset.human.meta["n"]) if dataset.human is not None else 0) * part.samples * length
        with show_progress(f"{decoder.title}", total, unit="tokens", enabled=runtime.progress) as advance:
            return stages.make_generations(
                folder, lm, request, dataset.prompts, chat=chat.path / stages.CHAT if chat else None,
                samples=part.samples, flush_seconds=runtime.flush_seconds, advance=advance,
                recode=load_tokenizer_of(builder, dataset.data.tokenizer_spec),
            )  # fmt: skip

    rows = _plan_model_rows(part, dataset, chat)
    request = ArtifactRequest("generate", f"{model.title} {decoder.title}", spec, inputs, rows.workload(model))
    return replace(rows, entry=builder.build(request, write, resumable=True))


def check_start_token(model: BackendSpec) -> None:
    """Check that the model has a token to start from if a prompt is empty."""
    spec = model.tokenizer_spec()
    if spec is None:
        raise SpecError(
            f"model {model.title}: empty prompts are sent as a start token; set model.tokenizer to have one"
        )
    named = isinstance(spec.config().get("bos_token_id"), int) or spec.end_ids()
    if not named and not load_tokenizer(spec).bos_prefix:
        raise SpecError(
            f"model {model.title}: no start token for an empty prompt; set bos_token_id (or eos_token_id) in "
            "its config.json"
        )


def _check_continuing(model: BackendSpec, decoder: Decoder) -> None:
    """Refuse models and decoders that end a text at an end token in any case."""
    if not decoder.denoises and not (model.runs_in_process and isinstance(decoder, QDecoder)):
        who = f"decoder {decoder.name}" if model.runs_in_process else f"model {model.title}, which a server runs"
        raise SpecError(
            f"continue_after_end=true: not possible with {who}; set continue_after_end=false, or with "
            "task=unconditional task.layout=documents as well"
        )


def import_generations(part: GenerationPart, builder: ArtifactBuilder, dataset: Dataset) -> TextRows:
    """Import the generations of a file, or of a system that the task itself holds, as the system under test."""
    from openended.harness.imported import (
        compute_fingerprint,
        import_rows,
        import_texts,
        import_unpaired,
        recognize_format,
    )
    from openended.tasks.published_generations import find_generations

    name, length, field = str(part.file), part.max_new_tokens, part.file_field
    task, count = dataset.data.task, dataset.data.num_examples
    load_system = task.open_bundled_system(name)
    source = None if load_system else builder.try_or_note(lambda: find_generations(name, fetch=not builder.plan_only))
    path = source or Path(name)
    if load_system is not None:
        file = digest([dataset.fingerprint, name]) if dataset.fingerprint else None
    else:
        file = builder.try_or_note(lambda: compute_fingerprint(path)) if source else None
    human = dataset.human.content if dataset.human is not None else None
    most = None if count == "all" else count
    is_unpaired = not task.paired and load_system is None

    def write(folder: Path) -> Mapping[str, Any]:
        tokenizer = load_tokenizer_of(builder, dataset.data.tokenizer_spec)
        if load_system is not None:
            imported_rows = import_texts(load_system(), name, dataset.prompts, tokenizer, length)
        elif is_unpaired:
            numbered = f"{task.name}/{{:06d}}".format
            imported_rows = import_unpaired(path, numbered, tokenizer, length, count=most, field=field)
        else:
            imported_rows = import_rows(path, dataset.prompts, tokenizer, length, field)
        count = write_rows(folder / stages.DATA, imported_rows)
        ids = {"ids": imported_rows.id_source} if imported_rows.id_source else {}
        return {"n": count, "notes": imported_rows.notes, **ids}

    inputs = {"file": file, "tokenizer": dataset.tokenizer} | ({} if is_unpaired else {"human": human})
    spec: dict[str, Any] = {"max_new_tokens": length} | ({"field": field} if field else {})
    if source is not None and file is not None and (file_format := recognize_format(path)):
        spec["format"] = file_format
    spec |= {"count": most, "names": task.name} if is_unpaired else {}
    rows = _plan_model_rows(part, dataset, None)
    entry = builder.build(ArtifactRequest("import", path.name, spec, inputs, rows.workload()), write)
    return replace(rows, entry=entry)


def _plan_model_rows(part: GenerationPart, dataset: Dataset, chat: Entry | None) -> TextRows:
    """Return the rows of the system under test as they are planned; the caller adds their entry."""
    count = dataset.data.num_planned * part.samples
    return TextRows(
        "model", None, stages.DATA, dataset.tokenizer, chat,
        num_texts=count, num_tokens=count * (part.max_new_tokens or 0),
    )  # fmt: skip
