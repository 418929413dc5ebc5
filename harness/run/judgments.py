"""A file of human judgments scored by itself: no examples, no model, no generation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from openended.harness.errors import DataError, UndefinedMetric
from openended.harness.io import file_digest
from openended.harness.run import artefacts as stages
from openended.harness.run.measure import Measured
from openended.harness.run.pipeline import Outcome, write_record
from openended.harness.run.session import Session
from openended.harness.run.settings import Settings
from openended.harness.run.steps import Steps
from openended.harness.signature import canonical
from openended.metrics._judgments import JudgmentMetric


def judged_alone(settings: Settings) -> bool:
    """Return true if the judgments are all that is asked about: every metric reads nothing but them."""
    return (
        settings.judgments is not None
        and settings.generations is None
        and all(isinstance(metric, JudgmentMetric) for metric in settings.metrics)
    )


def run_judgments(settings: Settings, session: Session, overrides: Sequence[str] = ()) -> Outcome:
    """Score a file of judgments and write the run record.

    Raises:
        DataError: If the file is missing or a row is wrong.
        UndefinedMetric: If a metric has no value on these judgments.
    """
    path = Path(str(settings.judgments))
    if not path.is_file():
        raise DataError(f"judgments: no such file: {path}")
    steps = Steps(session, plan_only=settings.plan_only)
    sha = file_digest(path)
    measured = []
    for metric in settings.metrics:
        if not isinstance(metric, JudgmentMetric):
            raise UndefinedMetric(f"{metric.name} needs texts, not judgments")
        used = metric

        def build(folder: Path, used: JudgmentMetric = used) -> Mapping[str, Any]:
            scored, features = used.from_file(path)
            return stages.save_result(folder, scored.compute(features))

        spec = {"metric": canonical(metric), "system": "judgments", "file": path.name}
        entry = steps.step("measure", f"{metric.name} {path.name}", spec, {"judgments": sha}, build)
        if entry is not None:
            measured.append(Measured("model", metric, stages.load_result(entry.path), entry.name))
    if settings.plan_only:
        return Outcome(settings.outputs_dir, 0, tuple(steps.plan))
    bare = replace(settings, model=None, decoder=None, scorer=None, embedder=None)
    folder = write_record(bare, steps, measured, decoder=None, human=None, task=sha, notes=(), overrides=overrides)
    return Outcome(folder, steps.made, tuple(steps.plan))
