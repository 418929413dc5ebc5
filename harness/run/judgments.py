"""Score a file of human judgments by itself, without examples, model or generation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from openended.harness.core import DataError, Plan, UndefinedMetric, canonicalize, load_members
from openended.harness.run.array_files import load_result, save_result
from openended.harness.run.artifacts import ArtifactBuilder, PlannedArtifact
from openended.harness.run.facts import describe_columns
from openended.harness.run.measure import RESAMPLING_VERSION, SystemResult, add_intervals, digest_judgments
from openended.harness.run.run_record import Outcome, write_record
from openended.harness.run.session import Session
from openended.harness.run.settings import Settings
from openended.metrics.judgments import JudgmentMetric, check_judgments_file, read_rows


def select_metrics_for_file(settings: Settings, overrides: Sequence[str]) -> Settings:
    """Return settings with the metrics that a file of judgments supports, if the user names nothing else.

    Raises:
        DataError: If no metric reads such a file; the message lists what each expects.
    """
    chosen = {word.lstrip("+~").partition("=")[0].partition(".")[0] for word in overrides}
    alone = not chosen & {"metric", "experiment", "task", "model", "decoder", "generations"}
    if settings.judgments is None or not alone:
        return settings
    path = Path(settings.judgments)
    check_judgments_file(path)
    columns, rows = read_rows(path, settings.judgment_columns)
    kinds = [cls for cls in load_members("metric").values() if issubclass(cls, JudgmentMetric)]
    fed = tuple(cls() for cls in kinds if cls.accepts_columns(columns, rows))
    if not fed:
        raise DataError(
            f"judgments: {path} has the columns {', '.join(columns)}: neither ratings (example_id, system, rating) nor "
            "comparisons (item, system_a, system_b, outcome); judgment_columns={ours: theirs} names them"
        )
    return replace(settings, metrics=fed)


def run_judgments(settings: Settings, session: Session, overrides: Sequence[str] = ()) -> Outcome:
    """Score a file of judgments and write the run record.

    Raises:
        DataError: If the file is missing or a row is wrong.
        UndefinedMetric: If a metric has no value on these judgments.
    """
    path, columns = Path(str(settings.judgments)), settings.judgment_columns
    check_judgments_file(path)
    builder = ArtifactBuilder(session, plan_only=settings.plan_only)
    sha = digest_judgments(path, columns)
    results = []
    for metric in settings.metrics:
        if not isinstance(metric, JudgmentMetric):
            raise UndefinedMetric(f"{metric.name} needs texts, not judgments")

        def write(folder: Path, metric: JudgmentMetric = metric) -> Mapping[str, Any]:
            scored, features = metric.from_file(path, columns)
            with_columns = replace(features, facts={**features.facts, **describe_columns(columns)})
            prepared = scored.prepare(with_columns)
            shared = {} if prepared is None else {"prepared": prepared}
            result = scored.compute(with_columns, **shared)
            return save_result(folder, add_intervals(scored, with_columns, result, Plan(settings.intervals), shared))

        spec = {"metric": canonicalize(metric), "system": "judgments", "file": path.name}
        if settings.intervals:
            spec["intervals"] = [settings.intervals, RESAMPLING_VERSION]
        what = f"{metric.name} {path.name}"
        artifact = PlannedArtifact("measure", what, spec, {"judgments": sha}, "model", metric=metric.name)
        entry = builder.build(artifact, write)
        if entry is not None:
            results.append(SystemResult("model", metric, load_result(entry.path), entry.name))
    if settings.plan_only:
        return Outcome(settings.outputs_dir, 0, tuple(builder.plan))
    alone = replace(settings, model=None, decoder=None, scorer=None, embedder=None)
    folder = write_record(alone, builder, results, decoder=None, human=None, task=sha, notes=(), overrides=overrides)
    return Outcome(folder, builder.num_computed, tuple(builder.plan))
