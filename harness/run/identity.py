"""Identify numbers by signatures and systems by axes.

A number is identified by its signature: the metric's options and the facts of the data that move it. A system is
identified by its axes: every option of every spec and the digest of every file in which two runs can differ, flat. The
report folds what shares all axes but the seed, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path

from openended.harness.core import (
    IDENTITY,
    OUT_OF_DOMAIN,
    Json,
    Metric,
    Need,
    Spec,
    Task,
    canonicalize,
    digest,
    digest_columns,
    digest_file,
)
from openended.harness.decoders import Decoder
from openended.harness.imported import detect_kind, is_built_in_system
from openended.harness.models import BackendSpec, EmbedderSpec
from openended.harness.run.artifact_files import HUMAN_ROWS
from openended.harness.run.artifacts import TextRows
from openended.harness.run.corpus import digest_corpus
from openended.harness.run.resolve import GenerationPart, MetricsPart, ResolvedRun
from openended.harness.run.scoring_models import counts_tokens, describe_tokens, is_out_of_domain
from openended.harness.storage import Entry, RowFile

SHORT = 6  # hexadecimal digits of a digest in a signature, for people
LONG = 12  # of a digest in an axis


def collect_facts(
    run: ResolvedRun, metric: Metric, human: TextRows, model: TextRows, fingerprint: str | None
) -> dict[str, str]:
    """Return the data's facts that identify a number beside the metric's options; equal for all systems of a column."""
    scoring, generation, needs, out = run.scoring, run.generation, metric.needs(), dict[str, str]()
    roles = {need.by for need in needs} | {need.kind for need in needs}
    if "embeddings" in roles and scoring.user_embeddings is not None:
        out["embedder"] = f"own@{digest_file(scoring.user_embeddings.human)[:SHORT]}"
    elif "embeddings" in roles and scoring.embedder is not None:
        e = scoring.embedder
        layer = f"{e.pooling}/{e.layer}/{e.max_length or 'full'}"
        out["embedder"] = f"{e.title}@{digest(e.identity())[:SHORT]}/{layer}{_format_domain_mark(e, run)}"
    if "scorer" in roles and (scorer := scoring.scorer) is not None:
        mark = f" ({scorer.mark})" if scorer.mark else ""
        out["scorer"] = f"{scorer.title}@{digest(scorer.identity())[:SHORT]}{_format_domain_mark(scorer, run)}{mark}"
    elif counts_tokens(metric):
        out["tokens"] = describe_tokens(scoring.counter)
    n_human, n_model = _count(human), _count(model)
    out["n"] = f"{n_human}/{n_model}" if metric.sides == "two" else n_model
    judgments = run.metrics.judgments
    if "judgments" in roles and judgments is not None and Path(judgments).is_file():
        out["judgments"] = f"{Path(judgments).name}@{digest_file(Path(judgments))[:SHORT]}"
        out |= describe_columns(run.metrics)
    for need in needs:
        if need.kind == "corpus":
            path = Path(str(dict(need.options)["file"]))
            out["corpus_file"] = f"{path.name}@{digest_corpus(path)[:SHORT]}"
    out |= metric.describe_libraries()
    out["length"] = f"{run.data.max_new_tokens}{' words' if scoring.cut_by_words else ''}"
    if generation.model is not None and any(map(reads_q, needs)):
        out["min_new_tokens"] = str(generation.min_new_tokens)  # Q gives the end of text no probability before
    if generation.model is not None and generation.model.mark:
        out["model"] = generation.model.mark  # values from unchecked servers get their own column
    out["task"] = f"{run.data.task.name}@{digest([canonicalize(run.data.task), fingerprint])[:SHORT]}"
    out["texts"] = (digest_texts(human.entry) or "?")[:SHORT]
    return out


def describe_columns(metrics: MetricsPart) -> dict[str, str]:
    """Describe the user's mapping of the columns of a file of judgments."""
    pairs = sorted(metrics.judgment_columns.items())
    return {"columns": "+".join(f"{name}={column}" for name, column in pairs)} if pairs else {}


def _format_domain_mark(spec: BackendSpec | EmbedderSpec, run: ResolvedRun) -> str:
    return f" ({OUT_OF_DOMAIN})" if is_out_of_domain(spec, run.data.task) else ""


def reads_q(need: Need) -> bool:
    """Say whether a feature is about the distribution that the decoder samples from."""
    return need.kind == "next_token" or (need.kind == "token_nll" and need.by == "model")


def _count(source: TextRows) -> str:
    return str(len(RowFile(source.path))) if source.entry is not None else "?"


def digest_texts(human: Entry | None) -> str | None:
    """Return the digest of prompts and truncated human continuations; None while they are only planned.

    Of texts, not of token ids: two tokenizers that cut alike give one human side, whatever they are called. GPT-2 small
    and large are two repositories on the hub.
    """
    return _digest_texts_cached(human.path / HUMAN_ROWS, human.files[HUMAN_ROWS]) if human is not None else None


@lru_cache(maxsize=64)
def _digest_texts_cached(path: Path, content: str) -> str:  # noqa: ARG001 - part of the cache's key
    rows = RowFile(path)
    return digest_columns(rows.each(name) for name in ("example_id", "prompt", "text"))


def collect_axes(
    run: ResolvedRun, decoder: Decoder | None, *, fingerprint: str | None = None, human: Entry | None = None
) -> dict[str, Json]:
    """Return the flat identity of the run: everything that can change a text or a number."""
    generation, scoring, task = run.generation, run.scoring, run.data.task
    path = Path(run.metrics.judgments) if run.metrics.judgments is not None else None
    judged = path is not None and decoder is None and generation.file is None
    out: dict[str, Json] = {"task": task.name}
    if path is not None and judged:
        out["task"] = path.name
    else:
        texts = digest_texts(human)
        out |= {
            **_collect_option_axes("task", task),
            "task.digest": _shorten(fingerprint),
            "task.texts": _shorten(texts),
        }
    out |= _collect_system_axes(generation, task, decoder, fingerprint)
    if judged:
        out |= {"model": None, "decoder": "rated"}
    built_in = generation.file is not None and is_built_in_system(generation.file)
    out["seed"] = generation.seed if built_in or (decoder is not None and decoder.stochastic) else None
    length, least = generation.max_new_tokens, generation.min_new_tokens
    out |= {"num_examples": run.data.num_examples, "max_new_tokens": length, "samples": generation.samples}
    if decoder is not None and generation.model is not None:
        # One word for "always full length", so that a sweep over lengths differs only in the length.
        out["min_new_tokens"] = "max_new_tokens" if least == length else least
    if decoder is not None and generation.continue_after_end:
        out["continue_after_end"] = True
    out |= {**_collect_model_axes("scorer", scoring.scorer), **_collect_model_axes("embedder", scoring.embedder)}
    if scoring.user_embeddings is not None:
        out |= {"embedder": "own", "embedder.digest": digest_file(scoring.user_embeddings.human)[:LONG]}
    out["judgments"] = f"{path.name}@{digest_file(path)[:LONG]}" if path is not None and path.is_file() else None
    return out


def _collect_system_axes(
    generation: GenerationPart, task: Task, decoder: Decoder | None, fingerprint: str | None
) -> dict[str, Json]:
    """Return the axes of the texts' source: a model with its decoder, or a file."""
    if generation.file is not None:
        name = generation.system or derive_system_name(Path(generation.file))
        content = _digest_generations(generation.file, task, fingerprint)
        return {"model": name, "decoder": "imported", "generations": _shorten(content)}
    out = _collect_model_axes("model", generation.model)
    if decoder is not None:
        out |= {"decoder": decoder.name, **_collect_option_axes("decoder", decoder)}
        out |= {f"decoder.{name}.digest": _shorten(value) for name, value in decoder.inputs().items()}
    return out


def derive_system_name(path: Path) -> str:
    """Return the name of a file's or folder's system in tables."""
    return Path(path.name.removesuffix(".gz")).stem if detect_kind(path) in path.name else path.name.removesuffix(".gz")


def _collect_model_axes(role: str, spec: BackendSpec | EmbedderSpec | None) -> dict[str, Json]:
    """Return the axes of a model in a role: title, options, and a digest of the weights, independent of the path."""
    if spec is None:
        return {role: None}
    options = _collect_option_axes(role, spec, without=("label", *spec.connection_fields))  # the title has the label
    option_names = {f.removeprefix(f"{role}.") for f in options}
    content = {name: value for name, value in spec.identity().items() if name not in option_names}
    return {role: spec.title, **options, f"{role}.digest": digest(content)[:LONG]}


def _collect_option_axes(role: str, spec: Spec, without: Iterable[str] = ()) -> dict[str, Json]:
    fields = canonicalize(spec)
    values: Mapping[str, Json] = fields if isinstance(fields, dict) else {}
    return {f"{role}.{name}": value for name, value in values.items() if name not in {*IDENTITY, *without}}


def _digest_generations(name: str, task: Task, fingerprint: str | None) -> str:
    """Return the digest of the imported texts, independent of their path."""
    from openended.harness.imported import compute_fingerprint
    from openended.tasks.published_generations import find_generations

    if is_built_in_system(name) or task.open_bundled_system(name) is not None:
        return digest([fingerprint, name])
    return compute_fingerprint(find_generations(name, fetch=False))


def _shorten(text: str | None) -> str | None:
    return text[:LONG] if text is not None else None
