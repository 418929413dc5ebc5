"""Facts that identify numbers, in their signatures, and systems, by their axes.

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
from openended.harness.imported import compute_fingerprint, detect_kind, is_built_in_system
from openended.harness.models import BackendSpec, EmbedderSpec, ModelSpec, tokenizer_digest
from openended.harness.run.artifacts import TextRows
from openended.harness.run.dataset import HUMAN_ROWS
from openended.harness.run.import_texts import digest_corpus, load_corpus
from openended.harness.run.settings import Settings, read_preset
from openended.harness.storage import Entry, RowFile

_SHORT = 6  # hexadecimal digits of a digest in a signature, for people
_LONG = 12  # of a digest in an axis


def collect_facts(settings: Settings, metric: Metric, human: TextRows, model: TextRows) -> dict[str, str]:
    """Return the facts of the data that identify a number, equal for all systems of a column.

    The digest of prompts and human texts identifies the data: no path, line ends or compression do.
    """
    needs, out = metric.needs(), dict[str, str]()
    roles = {need.by for need in needs} | {need.kind for need in needs}
    embedder, scorer = settings.embedder, settings.scorer
    if "embeddings" in roles and settings.vector_files:
        out["embedder"] = f"own@{digest_file(settings.vector_files['human'])[:_SHORT]}"
    elif "embeddings" in roles and embedder is not None:
        layer = f"{embedder.pooling}/{embedder.layer}/{embedder.max_length or 'full'}"
        out["embedder"] = f"{_name_model(embedder)}/{layer}{_mark_domain(embedder, settings.task)}"
    if "scorer" in roles and scorer is not None:
        mark = f" ({scorer.signature_note})" if scorer.signature_note else ""
        out["scorer"] = f"{_name_model(scorer)}{_mark_domain(scorer, settings.task)}{mark}"
    elif counts_tokens(metric):
        out["tokens"] = describe_tokens(settings.counter)
    n_human, n_model = (str(len(RowFile(rows.path))) if rows.entry is not None else "?" for rows in (human, model))
    out["n"] = f"{n_human}/{n_model}" if metric.sides == "two" else n_model
    if "judgments" in roles and settings.judgments is not None and Path(settings.judgments).is_file():
        path = Path(settings.judgments)
        out["judgments"] = f"{path.name}@{digest_file(path)[:_SHORT]}"
        out |= describe_columns(settings.judgment_columns)
    for need in needs:
        if need.kind == "corpus":
            path = Path(str(dict(need.options)["file"]))
            out["corpus"] = _digest_corpus_texts(path, digest_corpus(path))[:_SHORT]
    if settings.protocol is not None:
        options = read_preset(settings.protocol)["metric"].get(metric.name)
        if options and all(canonicalize(getattr(metric, name)) == value for name, value in options.items()):
            out["protocol"] = settings.protocol
    out |= metric.describe_libraries()
    out["length"] = f"{settings.max_new_tokens}{' words' if settings.cut_by_words else ''}"
    if settings.model is not None and any(map(reads_q, needs)):
        out["min_new_tokens"] = str(settings.least_length)  # Q gives the end of text no probability before
    if settings.model is not None and settings.model.signature_note:
        out["model"] = settings.model.signature_note  # values from unchecked servers get their own column
    out["task"] = settings.task.name
    out["texts"] = (digest_texts(human.entry) or "?")[:_SHORT]
    return out


def describe_columns(columns: Mapping[str, str]) -> dict[str, str]:
    """Describe the user's mapping of the columns of a file of judgments."""
    return {"columns": "+".join(f"{name}={column}" for name, column in sorted(columns.items()))} if columns else {}


def is_out_of_domain(spec: BackendSpec | EmbedderSpec, task: Task) -> bool:
    """Say whether a scoring model is a bundled one and the task is not the one that it was trained for."""
    return spec.is_bundled and not task.has_docs_prose()


def counts_tokens(metric: Metric) -> bool:
    """Return whether a metric needs only the scorer's tokenizer, so that another tokenizer can replace it."""
    return {need.kind for need in metric.needs() if need.by == "scorer"} == {"tokens"}


def describe_tokens(spec: ModelSpec | None) -> str:
    """Name the tokens that text statistics count without a scorer: two models of one tokenizer have one name."""
    if spec is None:
        return "words"
    folder = spec.folder
    path = folder / "tokenizer.json" if folder is not None else spec.hub_file("tokenizer.json", optional=True)
    content = digest_file(path) if path is not None and path.is_file() else tokenizer_digest(spec)
    return f"model@{content[:6]}"


def reads_q(need: Need) -> bool:
    """Say whether a feature is about the distribution that the decoder samples from."""
    return need.kind == "next_token" or (need.kind == "token_nll" and need.by == "model")


def _name_model(spec: BackendSpec | EmbedderSpec) -> str:
    return f"{spec.title}@{digest(spec.identity())[:_SHORT]}"


def _mark_domain(spec: BackendSpec | EmbedderSpec, task: Task) -> str:
    return f" ({OUT_OF_DOMAIN})" if is_out_of_domain(spec, task) else ""


def digest_texts(human: Entry | None) -> str | None:
    """Return the digest of prompts and truncated human continuations; None while they are only planned.

    Of texts, not of token ids: two tokenizers that cut alike give one human side, whatever they are called. GPT-2 small
    and large are two repositories on the hub.
    """
    return _digest_rows(human.path / HUMAN_ROWS, human.files[HUMAN_ROWS]) if human is not None else None


@lru_cache(maxsize=64)
def _digest_corpus_texts(path: Path, content: str) -> str:  # noqa: ARG001 - part of the cache's key
    return digest(load_corpus(path))


@lru_cache(maxsize=64)
def _digest_rows(path: Path, content: str) -> str:  # noqa: ARG001 - part of the cache's key
    rows = RowFile(path)
    return digest_columns(rows.each(name) for name in ("example_id", "prompt", "text"))


def collect_axes(
    settings: Settings, decoder: Decoder | None, *, fingerprint: str | None = None, human: Entry | None = None
) -> dict[str, Json]:
    """Return the flat identity of the run: everything that can change a text or a number.

    The decoder is the resolved one; `fingerprint` is the digest of the task's data, `human` the artifact of its texts.
    """
    task = settings.task
    path = Path(settings.judgments) if settings.judgments is not None else None
    judged = path is not None and decoder is None and settings.generations is None
    out: dict[str, Json] = {"task": task.name}
    if path is not None and judged:
        out["task"] = path.name
    else:
        fields = [name for name in vars(task) if name.endswith("_field")]
        out |= _collect_option_axes("task", task, without=("path", "cache_dir", *fields))  # digests say what was read
        out |= {"task.digest": _shorten(fingerprint), "task.texts": _shorten(digest_texts(human))}
    out |= _collect_system_axes(settings, decoder, fingerprint)
    if judged:
        out |= {"model": None, "decoder": "rated"}
    built_in = settings.generations is not None and is_built_in_system(settings.generations)
    out["seed"] = settings.seed if built_in or (decoder is not None and decoder.stochastic) else None
    length, least = settings.max_new_tokens, settings.least_length
    out |= {"num_examples": settings.num_examples, "max_new_tokens": length, "samples": settings.samples}
    if decoder is not None and settings.model is not None:
        # One word for "always full length", so that a sweep over lengths differs only in the length.
        out["min_new_tokens"] = "max_new_tokens" if least == length else least
    if decoder is not None and settings.continue_after_end:
        out["continue_after_end"] = True
    out |= {**_collect_model_axes("scorer", settings.scorer), **_collect_model_axes("embedder", settings.embedder)}
    if settings.vector_files:
        out |= {"embedder": "own", "embedder.digest": _shorten(digest_file(settings.vector_files["human"]))}
    out["judgments"] = f"{path.name}@{digest_file(path)[:_LONG]}" if path is not None and path.is_file() else None
    return out


def _collect_system_axes(settings: Settings, decoder: Decoder | None, fingerprint: str | None) -> dict[str, Json]:
    """Return the axes of the texts' source: a model with its decoder, or a file."""
    from openended.tasks.published_generations import find_generations

    file = settings.generations
    if file is not None:
        if is_built_in_system(file) or settings.task.open_bundled_system(file) is not None:
            content = digest([fingerprint, file])
        else:
            content = compute_fingerprint(find_generations(file, fetch=False))  # independent of the path
        name = settings.system or derive_system_name(Path(file))
        return {"model": name, "decoder": "imported", "generations": _shorten(content)}
    out = _collect_model_axes("model", settings.model)
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
    content = {name: value for name, value in spec.identity().items() if f"{role}.{name}" not in options}
    return {role: spec.title, **options, f"{role}.digest": _shorten(digest(content))}


def _collect_option_axes(role: str, spec: Spec, without: Iterable[str] = ()) -> dict[str, Json]:
    fields = canonicalize(spec)
    values: Mapping[str, Json] = fields if isinstance(fields, dict) else {}
    return {f"{role}.{name}": value for name, value in values.items() if name not in {*IDENTITY, *without}}


def _shorten(text: str | None) -> str | None:
    return text[:_LONG] if text is not None else None
