"""Facts of the data that identify a number, in the signature of each value."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from openended.harness import core, imported
from openended.harness.models import BackendSpec, EmbedderSpec, ModelSpec, digest_encoding
from openended.harness.run.dataset import REFERENCE_ROWS
from openended.harness.run.settings import Settings, read_preset
from openended.harness.run.steps import Executor, Step, TextRows, has_tokens_of
from openended.harness.storage import HUMAN_ROWS, RowFile

_SHORT = 6  # hexadecimal digits of a digest in a signature, for people
_TOKEN_IDS = {
    "generated": "token ids as generated",
    "retokenized": "re-tokenized text",
    "mixed": "token ids as generated where the file has them, else on re-tokenized text",
}


@dataclass(frozen=True, slots=True)
class Measurement:
    """One metric of one system, with the step that computes it, or the reason why it has no value."""

    metric: core.Metric
    system: Literal["human", "model", "ceiling"]
    human: TextRows
    model: TextRows  # what a metric of one side reads
    reason: str = ""
    step: Step | None = None
    texts_per_prompt: int = 0  # of the human row, where prompts have several texts: as many as the system has
    thinking: core.Thinking | None = None  # what is scored of the system's texts with reasoning; None: they have none

    @property
    def sides(self) -> tuple[TextRows, ...]:
        """The texts that are read."""
        return {"one": (self.model,), "human": (self.human,), "two": (self.human, self.model)}[self.metric.sides]


def collect_facts(settings: Settings, measurement: Measurement, executor: Executor) -> dict[str, str]:
    """Return the facts of the data that identify a number, equal for all systems of a column.

    The digest of prompts and human texts identifies the data: no path, line ends or compression do.
    """
    run_models, task, metric, human = settings.models, settings.task, measurement.metric, measurement.human
    needs, out = metric.needs(), dict[str, str]()
    roles = {need.by for need in needs} | {need.kind for need in needs}
    embedder, scorer, tested = run_models.embedder, run_models.scorer, run_models.model
    if "embeddings" in roles and run_models.features:
        out["embedder"] = f"own@{core.digest_file(run_models.vector_files['human'])[:_SHORT]}"
    elif "embeddings" in roles and embedder is not None:
        traits = embedder.traits
        layer = f"{traits.pooling}/{embedder.layer}/{traits.max_length or 'full'}"
        layer += "/unit" if traits.normalize else ""
        out["embedder"] = f"{_name_model(embedder)}/{layer}{_mark_domain(embedder, task)}"
    if "scorer" in roles and scorer is not None:
        mark = f" ({scorer.signature_note})" if scorer.signature_note else ""
        out["scorer"] = f"{_name_model(scorer)}{_mark_domain(scorer, task)}{mark}"
    elif counts_tokens(metric):
        counter = run_models.counter  # two models of one tokenizer have one name
        out["tokens"] = "words" if counter is None else f"model@{digest_encoding(counter)[:_SHORT]}"
    if "icu" in roles:
        out["tokens"] = core.describe_icu()
    n_human, n_model = (len(RowFile(executor.locate(rows))) for rows in (human, measurement.model))
    out["n"] = f"{n_human}/{n_model}" if metric.sides == "two" else str(n_model)
    path = settings.judgments.path
    if "judgments" in roles and path is not None and path.is_file():
        out["judgments"] = f"{path.name}@{core.digest_file(path)[:_SHORT]}"
        out |= describe_columns(settings.judgments.columns)
    for need in needs:
        if need.kind == "corpus":
            path = Path(str(dict(need.options)["file"]))
            out["corpus"] = _digest_corpus_texts(path, imported.digest_corpus(path))[:_SHORT]
    weights = [_name_model(ModelSpec(path=str(dict(n.options)["path"]))) for n in needs if n.kind == "classifier"]
    out |= {"weights": "+".join(weights)} if weights else {}
    if settings.protocol is not None:
        preset = read_preset(settings.protocol)["metric"].get(metric.name)
        if preset and all(core.canonicalize(getattr(metric, name)) == value for name, value in preset.items()):
            out["protocol"] = settings.protocol
    out |= type(metric).libraries()
    length, cutter = settings.texts.max_new_tokens, run_models.cutting_tokenizer
    unit = "words" if cutter is None else f"tokens@{digest_encoding(cutter)[:_SHORT]}"
    out["length"] = f"{length} {unit}" if length is not None else "None"
    if tested is not None and any(need.reads_q for need in needs):
        out["min_new_tokens"] = str(settings.texts.least_length)  # Q gives the end of text no probability before
    if tested is not None and tested.signature_note:
        out["model"] = tested.signature_note  # values from unchecked servers get their own column
    if measurement.thinking not in (None, "drop"):  # else the answers, as of models that do not reason
        out["thinking"] = str(measurement.thinking)
    out["task"] = task.name
    out["texts"] = digest_texts(executor.get(human.step).path / HUMAN_ROWS)[:_SHORT]
    if human.file == REFERENCE_ROWS:
        out["references"] = digest_texts(executor.locate(human))[:_SHORT]
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


def _name_model(spec: BackendSpec | EmbedderSpec) -> str:
    return f"{spec.title}@{core.digest(spec.identity())[:_SHORT]}"


def _mark_domain(spec: BackendSpec | EmbedderSpec, task: core.Task) -> str:
    return f" ({core.OUT_OF_DOMAIN})" if is_out_of_domain(spec, task) else ""


@lru_cache(maxsize=64)  # the path of an artifact has its key
def digest_texts(path: Path) -> str:
    """Return the digest of the prompts and texts of a file of rows.

    Of texts, not of token ids: two tokenizers that cut alike give one human side, whatever they are called. GPT-2 small
    and large are two repositories on the hub.
    """
    rows = RowFile(path)
    return core.digest_columns(rows.each(name) for name in ("example_id", "prompt", "text"))


@lru_cache(maxsize=64)
def _digest_corpus_texts(path: Path, content: str) -> str:  # noqa: ARG001 - part of the cache's key
    return core.digest(imported.load_corpus(path))


def describe_token_ids(settings: Settings, measurement: Measurement, executor: Executor) -> str | None:
    """Say whether a metric reads ids of a sample file, or re-tokenizes a text; None if neither or by an option."""
    source = measurement.model
    ids = RowFile(executor.locate(source)).facts.get("ids")
    run_models, specs = settings.models, set[ModelSpec | None]()
    embedder, is_imported = run_models.embedder, settings.texts.generations is not None
    for need in measurement.metric.needs():
        always = {name for name, value in need.options if value} & {"retokenize", "without_end"}
        if need.kind in ("tokens", "token_nll", "token_rank", "gradients") and need.by == "scorer" and not always:
            specs.add(run_models.counter)
        elif need.kind == "embeddings" and embedder is not None and not run_models.features:
            specs.add(embedder.model_spec() if embedder.traits.kind != "sentence" else None)
    others = [spec for spec in specs if spec is not None and not has_tokens_of(spec, source.tokenizer)]
    if others and (ids is not None or (source.role == "model" and not is_imported)):
        return _TOKEN_IDS["retokenized"]
    return _TOKEN_IDS[ids] if ids is not None and specs - {None} else None
