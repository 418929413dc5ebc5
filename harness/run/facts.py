"""Facts that identify numbers, in their signatures, and systems, by their axes; and notes for the reader of a table.

A signature is the metric's options and the facts of the data that move the number. Axes are every option and the digest
of every file in which two runs can differ, flat; the report folds what shares all of them but the seed.
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from openended.harness import core, imported
from openended.harness.decoders import Decoder
from openended.harness.imported import compute_fingerprint, detect_kind
from openended.harness.models import BackendSpec, EmbedderSpec, ModelSpec, digest_encoding
from openended.harness.run.artifacts import TextRows
from openended.harness.run.dataset import HUMAN_ROWS, Dataset
from openended.harness.run.features import Featurizer
from openended.harness.run.import_texts import digest_corpus, load_corpus
from openended.harness.run.settings import Settings, read_preset
from openended.harness.storage import Entry, RowFile

_SHORT = 6  # hexadecimal digits of a digest in a signature, for people
_LONG = 12  # of a digest in an axis
# A human side with this many times the scorer's validation perplexity is of another domain.
_FAR = 2.0
_CARD = re.compile(r"validation perplexity[\s|:]*(\d+(?:\.\d+)?)")
_SAMPLED_TEXTS = 200
_FEW_OF = 10  # one side with a tenth of the other's texts is worth a warning
# `checkpoint-500`, `step-7000`, `global_step100`; of revisions also `step1000-tokens4B`.
_STEP = re.compile(r"(?:^|[-_])(?:checkpoint|ckpt|(?:global_?)?step|iter)[-_=]?(\d{1,12})(?:-tokens\w+)?$")
_TRAINER_STATE = "trainer_state.json"  # of transformers
_LENGTH_GAP = 0.1  # medians that differ by more than this share of the human one are worth a note


def collect_facts(settings: Settings, metric: core.Metric, human: TextRows, model: TextRows) -> dict[str, str]:
    """Return the facts of the data that identify a number, equal for all systems of a column.

    The digest of prompts and human texts identifies the data: no path, line ends or compression do.
    """
    needs, out = metric.needs(), dict[str, str]()
    roles = {need.by for need in needs} | {need.kind for need in needs}
    embedder, scorer = settings.embedder, settings.scorer
    if "embeddings" in roles and settings.vector_files:
        out["embedder"] = f"own@{core.digest_file(settings.vector_files['human'])[:_SHORT]}"
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
        out["judgments"] = f"{path.name}@{core.digest_file(path)[:_SHORT]}"
        out |= describe_columns(settings.judgment_columns)
    for need in needs:
        if need.kind == "corpus":
            path = Path(str(dict(need.options)["file"]))
            out["corpus"] = _digest_corpus_texts(path, digest_corpus(path))[:_SHORT]
    weights = [_name_model(ModelSpec(path=str(dict(n.options)["path"]))) for n in needs if n.kind == "classifier"]
    out |= {"weights": "+".join(weights)} if weights else {}
    if settings.protocol is not None:
        options = read_preset(settings.protocol)["metric"].get(metric.name)
        if options and all(core.canonicalize(getattr(metric, name)) == value for name, value in options.items()):
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


def is_out_of_domain(spec: BackendSpec | EmbedderSpec, task: core.Task) -> bool:
    """Say whether a scoring model is a bundled one and the task is not the one that it was trained for."""
    return spec.is_bundled and not task.has_docs_prose()


def counts_tokens(metric: core.Metric) -> bool:
    """Return whether a metric needs only the scorer's tokenizer, so that another tokenizer can replace it."""
    return {need.kind for need in metric.needs() if need.by == "scorer"} == {"tokens"}


def describe_tokens(spec: ModelSpec | None) -> str:
    """Name the tokens that text statistics count without a scorer: two models of one tokenizer have one name."""
    if spec is None:
        return "words"
    return f"model@{digest_encoding(spec)[:_SHORT]}"


def reads_q(need: core.Need) -> bool:
    """Say whether a feature is about the distribution that the decoder samples from."""
    return need.kind == "next_token" or (need.kind == "token_nll" and need.by == "model")


def _name_model(spec: BackendSpec | EmbedderSpec) -> str:
    return f"{spec.title}@{core.digest(spec.identity())[:_SHORT]}"


def _mark_domain(spec: BackendSpec | EmbedderSpec, task: core.Task) -> str:
    return f" ({core.OUT_OF_DOMAIN})" if is_out_of_domain(spec, task) else ""


def digest_texts(human: Entry | None) -> str | None:
    """Return the digest of prompts and truncated human continuations; None while they are only planned.

    Of texts, not of token ids: two tokenizers that cut alike give one human side, whatever they are called. GPT-2 small
    and large are two repositories on the hub.
    """
    return _digest_rows(human.path / HUMAN_ROWS, human.files[HUMAN_ROWS]) if human is not None else None


@lru_cache(maxsize=64)
def _digest_corpus_texts(path: Path, content: str) -> str:  # noqa: ARG001 - part of the cache's key
    return core.digest(load_corpus(path))


@lru_cache(maxsize=64)
def _digest_rows(path: Path, content: str) -> str:  # noqa: ARG001 - part of the cache's key
    rows = RowFile(path)
    return core.digest_columns(rows.each(name) for name in ("example_id", "prompt", "text"))


def collect_axes(
    settings: Settings, decoder: Decoder | None, *, fingerprint: str | None = None, human: Entry | None = None
) -> dict[str, core.Json]:
    """Return the flat identity of the run: everything that can change a text or a number.

    The decoder is the resolved one; `fingerprint` is the digest of the task's data, `human` the artifact of its texts.
    """
    task = settings.task
    path = Path(settings.judgments) if settings.judgments is not None else None
    judged = path is not None and decoder is None and settings.generations is None
    out: dict[str, core.Json] = {"task": task.name}
    if path is not None and judged:
        out["task"] = path.name
    else:
        fields = [name for name in vars(task) if name.endswith("_field")]
        out |= collect_option_axes("task", task, without=("path", "cache_dir", *fields))  # digests say what was read
        out |= {"task.digest": _shorten(fingerprint), "task.texts": _shorten(digest_texts(human))}
    out |= _collect_system_axes(settings, decoder, fingerprint)
    if judged:
        out |= {"model": None, "decoder": "rated"}
    built_in = settings.generations is not None and imported.is_built_in_system(settings.generations)
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
        out |= {"embedder": "own", "embedder.digest": _shorten(core.digest_file(settings.vector_files["human"]))}
    out["judgments"] = f"{path.name}@{core.digest_file(path)[:_LONG]}" if path is not None and path.is_file() else None
    return out


def _collect_system_axes(settings: Settings, decoder: Decoder | None, fingerprint: str | None) -> dict[str, core.Json]:
    """Return the axes of the texts' source: a model with its decoder, or a file."""
    from openended.tasks.download import find_generations

    file = settings.generations
    if file is not None:
        if imported.is_built_in_system(file) or settings.task.open_bundled_system(file) is not None:
            content = core.digest([fingerprint, file])
        else:
            content = compute_fingerprint(find_generations(file, planning=True))  # independent of the path
        name = settings.system or derive_system_name(Path(file))
        return {"model": name, "decoder": "imported", "generations": _shorten(content)}
    out = {**_find_training_step(settings.model), **_collect_model_axes("model", settings.model)}
    if decoder is not None:
        out |= {"decoder": decoder.name, **collect_option_axes("decoder", decoder)}
        out |= {f"decoder.{name}.digest": _shorten(value) for name, value in decoder.inputs().items()}
    return out


def derive_system_name(path: Path) -> str:
    """Return the name of a file's or folder's system in tables."""
    return Path(path.name.removesuffix(".gz")).stem if detect_kind(path) in path.name else path.name.removesuffix(".gz")


def _collect_model_axes(role: str, spec: BackendSpec | EmbedderSpec | None) -> dict[str, core.Json]:
    """Return the axes of a model in a role: title, options, and a digest of the weights, independent of the path."""
    if spec is None:
        return {role: None}
    options = collect_option_axes(role, spec, without=("label", *spec.connection_fields))  # the title has the label
    content = {name: value for name, value in spec.identity().items() if f"{role}.{name}" not in options}
    return {role: spec.title, **options, f"{role}.digest": _shorten(core.digest(content))}


def _find_training_step(spec: BackendSpec | None) -> dict[str, core.Json]:
    """Return the step of a checkpoint and its training, by the folder's name, the trainer's state or the revision."""
    if not isinstance(spec, BackendSpec) or spec.is_bundled:
        return {}
    path, folder = Path(spec.path), spec.folder
    if match := _STEP.search(path.name if folder is not None else spec.revision or ""):
        return {"model.step": int(match[1]), "model.training": str(path.parent) if folder is not None else spec.path}
    if folder is None or not (folder / _TRAINER_STATE).is_file():
        return {}
    state = core.read_json(folder / _TRAINER_STATE)
    step = state.get("global_step") if isinstance(state, dict) else None
    return {"model.step": step, "model.training": str(path)} if isinstance(step, int) else {}


def collect_option_axes(role: str, spec: core.Spec, without: Iterable[str] = ()) -> dict[str, core.Json]:
    """Return the options of a spec as axes, `decoder.p` for `p`."""
    fields = core.canonicalize(spec)
    values: Mapping[str, core.Json] = fields if isinstance(fields, dict) else {}
    return {f"{role}.{name}": value for name, value in values.items() if name not in {*core.IDENTITY, *without}}


def _shorten(text: str | None) -> str | None:
    return text[:_LONG] if text is not None else None


def list_notes(settings: Settings, dataset: Dataset, model_rows: TextRows, featurizer: Featurizer) -> list[str]:
    """Return the notes of a run: those of its texts, then those of its scoring models; log the warnings among them."""
    sides = [RowFile(rows.path) for rows in (dataset.human_rows, model_rows) if rows.entry is not None]
    is_complete = len(sides) == 2
    name = settings.system or settings.generations or "the system"
    # The human row of a table says by itself how many texts it is based on.
    has_row = any(metric.sides == "one" and metric.direction == "match_human" for metric in settings.metrics)
    few = warn_of_few_texts(name, *map(len, sides)) if is_complete and not has_row else ""
    needs = [need for metric in settings.metrics for need in metric.needs()]
    need = next((need for need in needs if (need.kind, need.by) == ("token_nll", "scorer")), None)
    far = None
    if settings.scorer is not None and need is not None and settings.task.has_human():
        nll = featurizer.value(dataset.human_rows, need)
        far = compare_with_card(settings.scorer, compute_perplexity(nll)) if nll is not None else None
    for warning in filter(None, (far, few)):
        featurizer.builder.session.warn_once(warning)
    notes = [*filter(None, [few]), *settings.task.remarks()]
    if settings.chat_model is not None:
        title = settings.chat_model.title
        notes.append(f"{title} read its prompts through its chat template; scorer and embedder read them without it")
    if dataset.examples is not None:
        skipped: dict[str, int] = dataset.examples.meta["skipped"]
        notes += [f"{count:,} records skipped ({reason})" for reason, count in skipped.items()]
    if model_rows.entry is not None:
        notes += [*model_rows.entry.meta.get("notes", ()), *remark_on_batches(settings, model_rows.entry.meta)]
    if is_complete:
        human, model = map(find_median_length, sides)
        if human and abs(model - human) > human * _LENGTH_GAP:
            notes.append(
                f"median length {model:g}, of the human texts {human:g}: most metrics depend on length; truncate both "
                "sides to one length (max_new_tokens)"
            )
    if is_complete:
        unit, is_warning = describe_unit(settings, dataset.human_rows, model_rows)
        notes += [unit] if unit else []
        if is_warning:
            featurizer.builder.session.warn_once(unit)
    if settings.least_length and settings.generations is None:
        least = settings.least_length
        notes.append(f"end-of-text is forbidden before token {least} (min_new_tokens={least})")
    return [*notes, *list_remarks(settings), *filter(None, [far])]


def remark_on_batches(settings: Settings, meta: Mapping[str, Any] | None = None) -> list[str]:
    """Say where a text can depend on its batch: by the record of the texts, and before they exist by the precision."""
    dtype = getattr(settings.model, "dtype", None)
    if meta is None:
        is_reduced = dtype in ("bfloat16", "float16")
        return [f"{core.BATCH_REMARK} in {dtype}, and so on runtime.batch_size"] if is_reduced else []
    if not meta.get("batch_dependent"):
        return []
    parts = [*meta.get("reused_from", {}).get("parts", ()), meta]
    batches = [
        f"{dtype} on {part['device']}, {part['batch_size']} at once" for part in parts if part.get("batch_dependent")
    ]
    return [f"{core.BATCH_REMARK}: {'; '.join(dict.fromkeys(batches))}"]


def list_remarks(settings: Settings) -> list[str]:
    """Return what the reader of a table must know of the choice of scoring models."""
    roles = {"scorer": settings.scorer, "embedder": settings.embedder}
    read = {need.by for metric in settings.metrics for need in metric.needs()}
    out = [
        core.describe_out_of_domain(role, spec.title)
        for role, spec in roles.items()
        if spec and role in read and is_out_of_domain(spec, settings.task)
    ]
    if settings.scorer is None and any(map(counts_tokens, settings.metrics)):
        counter = settings.counter
        whose = f"tokens of {counter.title}, the model under test" if counter is not None else "whitespace words"
        out.append(f"text statistics count {whose}: no scorer is set")
    if settings.cut_by_words:
        length = settings.max_new_tokens
        out.append(
            f"both sides are cut at {length} whitespace words (characters, in a script without spaces): there is no "
            "scorer to count tokens"
        )
    return out


def warn_of_few_texts(name: str, num_human: int, num_model: int) -> str:
    """Warn of a system with a single text, or with far fewer texts than the human side; empty for others."""
    fewer, more = sorted((num_human, num_model))
    if fewer > 1 and fewer * _FEW_OF > more:
        return ""
    counts = (
        f"{num_model} text{'s' if num_model != 1 else ''} against {num_human} human text{'s' if num_human != 1 else ''}"
    )
    return f"{name}: {counts}: too few for reliable values; compare systems with similar numbers of texts"


def resolve_units(settings: Settings, human: TextRows) -> Settings:
    """Return settings whose metrics count tokens or characters where the option `unit` is `auto`."""
    if human.entry is None:
        return settings
    lacking, count = count_lacking_spaces(human)
    unit = "chars" if settings.counter is None and lacking > count / 2 else "tokens"
    metrics: list[Any] = list(settings.metrics)
    resolved = (replace(m, unit=unit) if getattr(m, "unit", None) == "auto" else m for m in metrics)
    return replace(settings, metrics=tuple(resolved))


def count_lacking_spaces(rows: TextRows) -> tuple[int, int]:
    """Return how many of the first texts are in a script without spaces between words, and of how many."""
    sample = list(islice(RowFile(rows.path).each("text"), _SAMPLED_TEXTS))
    return sum(map(core.lacks_word_spaces, sample)), len(sample)


def describe_unit(settings: Settings, human: TextRows, model: TextRows) -> tuple[str, bool]:
    """Return a note on what is counted in texts without spaces between words, or nothing; and if it is a warning."""
    counted = [
        (metric.name, need.by) for metric in settings.metrics for need in metric.needs() if need.kind == "tokens"
    ]
    by_words = {name for name, by in counted if by == "words" or (by == "scorer" and settings.counter is None)}
    lacking, count = count_lacking_spaces(model if by_words else human)
    if lacking and by_words:
        return (
            f"{lacking} of the first {count} texts are in a script without spaces between words, or emoji, but "
            f"{', '.join(sorted(by_words))} split{'s' if len(by_words) == 1 else ''} them at white space: "
            "metric.NAME.unit=chars counts characters"
        ), True
    by_chars = any(by == "chars" for _, by in counted)
    if by_chars and lacking > count / 2:
        return "characters are counted: most human texts are in a script without spaces between words", False
    return "", False


def compare_with_card(spec: BackendSpec, human: float) -> str | None:
    """Compare the scorer's perplexity on the human side with its card's; return a warning if they differ much."""
    expected = read_card_perplexity(spec)
    if not human > _FAR * expected:
        return None
    return (
        f"scorer {spec.title}: perplexity {human:.0f} on the human side, {expected:.0f} on its own validation text: "
        "these texts are outside its domain"
    )


def read_card_perplexity(spec: BackendSpec) -> float:
    """Return the validation perplexity from the model's card; NaN if it is missing."""
    card = spec.folder / "README.md" if spec.folder is not None else None
    if card is None or not card.is_file():
        return math.nan
    try:
        match = _CARD.search(card.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as err:
        raise core.DataError(f"model {spec.title}: cannot read its card {card} ({err})") from err
    return float(match[1]) if match else math.nan


def compute_perplexity(nll: core.Ragged) -> float:
    """Return exp of the mean token NLL; 1 if there are no tokens."""
    return math.exp(float(nll.values.sum(dtype="float64")) / max(len(nll.values), 1))


def find_median_length(rows: RowFile) -> float:
    """Return the median number of tokens of the texts; where none are kept of words, or characters without spaces."""
    lengths = rows.token_ids.lengths
    if not lengths.any():
        words = (len(text) if core.lacks_word_spaces(text) else len(text.split()) for text in rows.each("text"))
        lengths = np.fromiter(words, dtype=np.int64)
    return float(np.median(lengths)) if len(lengths) else 0.0
