"""Refuse metrics that can have no value on a run, before anything is generated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from openended.harness.core import Metric, SpecError, require_package
from openended.harness.decoders import QDecoder
from openended.harness.models import Ability, BackendSpec, EmbedderSpec
from openended.harness.run.artifacts import ArtifactBuilder
from openended.harness.run.dataset import Dataset
from openended.harness.run.facts import reads_q
from openended.harness.run.features import find_model
from openended.harness.run.settings import Settings
from openended.metrics.judgments import SIMULATED, ReadsFile, check_judgments_file

# Kind of feature → what the model that computes it must be able to do.
_ABILITIES: Mapping[str, tuple[Ability, ...]] = {
    "token_nll": ("score",), "token_rank": ("score", "rank"), "gradients": ("gradients",),
}  # fmt: skip


def check_judgments(settings: Settings) -> None:
    """Read the file of judgments for every metric that needs it."""
    readers = [
        m for m in settings.metrics if isinstance(m, ReadsFile) and any(n.kind == "judgments" for n in m.needs())
    ]
    if settings.judgments is not None and not readers:
        raise SpecError(
            f"judgments={settings.judgments}: no metric of this run reads judgments; "
            "add one (metric=[…,huse]), or leave it out"
        )
    for metric in readers:
        if settings.judgments is None:
            raise SpecError(
                f"metric.{metric.name}: needs human judgments; add judgments=FILE, or leave it out of metric=[…]"
            )
        if not settings.judgments.startswith(SIMULATED):
            check_judgments_file(Path(settings.judgments))
            metric.read(Path(settings.judgments), settings.judgment_columns)


def check_q(settings: Settings) -> None:
    """Refuse metrics of which none has a value, because the decoder has no distribution of the next token."""
    reading = [m.name for m in settings.metrics if any(map(reads_q, m.needs()))]
    decoder = settings.decoder
    if len(reading) == len(settings.metrics) and decoder is not None and not isinstance(decoder, QDecoder):
        raise SpecError(f"metric=[{','.join(reading)}]: {decoder.no_q_reason}; choose metrics of the texts")


def check_extras(settings: Settings) -> None:
    """Raise `ExtraNotInstalled` if a package is missing that a model of the run is loaded with."""
    embedder = _find_embedder(settings)
    models = [model for model in (settings.model, settings.scorer) if model is not None]
    if any(model.name != "openai" for model in models) or embedder is not None:
        require_package("torch", "local")
    if embedder is not None and embedder.kind == "sentence":
        require_package("sentence_transformers", "embedders")
    if settings.runtime.device_map is not None:
        require_package("accelerate", "large")


def check_scoring_models(settings: Settings, builder: ArtifactBuilder) -> None:
    """Check that scorer and embedder are there and can do what the metrics need; a plan notes what is missing."""
    needs = [need for metric in settings.metrics for need in metric.needs() if need.kind != "tokens"]
    for need in needs:
        spec = find_model(need, settings)
        if spec is not None and not reads_q(need):
            for ability in _ABILITIES.get(need.kind, ()):
                builder.try_or_note(partial(spec.demand, ability))
    scorer = settings.scorer if "scorer" in {need.by for need in needs} else None
    if scorer is not None:
        if scorer.runs_in_process:
            builder.digest_model(scorer)
        else:  # a server is asked when it is needed
            builder.try_or_note(scorer.check_ready)
        builder.try_or_note(partial(_check_windows, settings.metrics, scorer))
    embedder = _find_embedder(settings)
    if embedder is not None and builder.digest_model(embedder) is not None:
        builder.try_or_note(embedder.check_options)


def _find_embedder(settings: Settings) -> EmbedderSpec | None:
    """Return the embedder if a metric of the run needs it; None too where the user gives the vectors."""
    kinds = {need.kind for metric in settings.metrics for need in metric.needs()}
    return settings.embedder if "embeddings" in kinds and not settings.vector_files else None


def _check_windows(metrics: Sequence[Metric], scorer: BackendSpec) -> None:
    """Raise `SpecError` if a metric's window is longer than the scorer's context."""
    for metric in metrics:
        windows = [dict(need.options).get("window") for need in metric.needs() if need.by == "scorer"]
        longest = max((window for window in windows if isinstance(window, int)), default=0)
        context = scorer.context_length() if longest else None
        if context is not None and longest > context:
            raise SpecError(
                f"metric.{metric.name}.window: expected at most {context}, the scorer's context, got {longest}"
            )


def check_sizes(settings: Settings, dataset: Dataset) -> None:
    """Refuse options of metrics that ask for more texts than the run has."""
    num_human = int(dataset.human.meta["n"]) if dataset.human is not None else settings.num_planned
    num_model = num_human * settings.samples if settings.generations is None else settings.num_planned
    if not num_human or not num_model:
        return  # all texts of a file; their number is unknown until it is read
    for metric in settings.metrics:
        if reason := metric.explain_too_few(num_human, num_model):
            raise SpecError(f"metric.{metric.name}.{reason}")
