"""Refuse metrics that can have no value on a run, before anything is generated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from openended.harness.core import Metric, Need, SpecError, require_package
from openended.harness.models import Ability, BackendSpec, EmbedderSpec
from openended.harness.run.artifacts import ArtifactBuilder
from openended.harness.run.dataset import Dataset
from openended.harness.run.features.scorer_features import find_model
from openended.harness.run.identity import reads_q
from openended.harness.run.resolve import MetricsPart, ResolvedRun, digest_model
from openended.metrics.judgments import SIMULATED, ReadsFile, check_judgments_file

# Kind of feature → what the model that computes it must be able to do.
_ABILITIES: Mapping[str, tuple[Ability, ...]] = {
    "token_nll": ("score",), "token_rank": ("score", "rank"), "gradients": ("gradients",),
}  # fmt: skip


def check_judgments(part: MetricsPart) -> None:
    """Read the file of judgments for every metric that needs it."""
    readers = [m for m in part.specs if isinstance(m, ReadsFile) and any(n.kind == "judgments" for n in m.needs())]
    if part.judgments is not None and not readers:
        raise SpecError(
            f"judgments={part.judgments}: no metric of this run reads judgments; "
            "add one (metric=[…,huse]), or leave it out"
        )
    for metric in readers:
        if part.judgments is None:
            raise SpecError(
                f"metric.{metric.name}: needs human judgments; add judgments=FILE, or leave it out of metric=[…]"
            )
        if part.judgments.startswith(SIMULATED):
            continue
        path = Path(part.judgments)
        check_judgments_file(path)
        metric.read(path, part.judgment_columns)


def check_extras(run: ResolvedRun) -> None:
    """Raise `ExtraNotInstalled` if a package is missing that a model of the run is loaded with."""
    embedder = _find_embedder(run)
    models = [model for model in (run.generation.model, run.scoring.scorer) if model is not None]
    if any(model.name != "openai" for model in models) or embedder is not None:
        require_package("torch", "local")
    if embedder is not None and embedder.kind == "sentence":
        require_package("sentence_transformers", "embedders")
    if run.runtime.options.device_map is not None:
        require_package("accelerate", "large")


def check_scoring_models(run: ResolvedRun, builder: ArtifactBuilder) -> None:
    """Check that scorer and embedder are there and can do what the metrics need; a plan notes what is missing."""
    metrics, scoring = run.metrics.specs, run.scoring
    needs = [need for metric in metrics for need in metric.needs() if need.kind != "tokens"]
    _check_abilities(run, needs, builder)
    scorer = scoring.scorer if "scorer" in {need.by for need in needs} else None
    if scorer is not None:
        in_process = scorer.runs_in_process  # a server is asked when it is needed
        builder.try_or_note(partial(digest_model, scorer) if in_process else scorer.check_ready)
        builder.try_or_note(partial(_check_windows, metrics, scorer))
    embedder = _find_embedder(run)
    if embedder is not None and builder.try_or_note(partial(digest_model, embedder)) is not None:
        builder.try_or_note(embedder.check_options)


def _check_abilities(run: ResolvedRun, needs: Sequence[Need], builder: ArtifactBuilder) -> None:
    """Check that scorer and model under test can compute what is not read from Q."""
    for need in needs:
        spec = find_model(need, run.generation, run.scoring)
        if spec is not None and not reads_q(need):
            for ability in _ABILITIES.get(need.kind, ()):
                builder.try_or_note(partial(spec.demand, ability))


def _find_embedder(run: ResolvedRun) -> EmbedderSpec | None:
    """Return the embedder if a metric of the run needs it; None too where the user gives the vectors."""
    kinds = {need.kind for metric in run.metrics.specs for need in metric.needs()}
    return run.scoring.embedder if "embeddings" in kinds and run.scoring.user_embeddings is None else None


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


def check_sizes(run: ResolvedRun, dataset: Dataset) -> None:
    """Refuse options of metrics that ask for more texts than the run has."""
    num_human = int(dataset.human.meta["n"]) if dataset.human is not None else run.data.num_planned
    num_model = num_human * run.generation.samples if run.generation.file is None else run.data.num_planned
    if not num_human or not num_model:
        return  # all texts of a file; their number is unknown until it is read
    for metric in run.metrics.specs:
        if reason := metric.explain_too_few(num_human, num_model):
            raise SpecError(f"metric.{metric.name}.{reason}")
