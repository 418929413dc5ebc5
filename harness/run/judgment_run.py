"""A run of a file of judgments alone: metrics of raters, without texts of one's own."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from openended.harness import core
from openended.harness.run.facts import describe_columns
from openended.harness.run.measure import compute_metric, describe_result
from openended.harness.run.players import JudgmentSource
from openended.harness.run.run_record import Outcome, write_record
from openended.harness.run.session import Session
from openended.harness.run.settings import RunModels, Settings
from openended.harness.run.steps import Executor, Inputs, Step
from openended.harness.storage import load_result, save_result
from openended.metrics.judgments import check_judgments_file


def run_judgments(
    settings: Settings, session: Session, overrides: Sequence[str] = (), *, plan_only: bool = False
) -> Outcome:
    """Score a file of judgments and write the run record, or plan that.

    Raises:
        DataError: If the file is missing or a row is wrong.
        UndefinedMetric: If a metric has no value on these judgments.
        SpecError: If the user typed a system, which nothing reads.
    """
    judgments = JudgmentSource.from_settings(settings)
    path, columns, players = judgments.file, judgments.options.columns, judgments.options.human_players
    check_judgments_file(path)
    typed = dict.fromkeys(word.lstrip("+~").partition("=")[0] for word in overrides)
    if unused := [option for option in typed if option.partition(".")[0] in ("task", "model", "decoder")]:
        names = ",".join(metric.name for metric in settings.metrics)
        raise core.SpecError(
            f"{', '.join(unused)}: no effect, because metric=[{names}] scores the file of judgments alone; leave "
            f"{'it' if len(unused) == 1 else 'them'} out, or add a metric of the texts, as metric=[{names},distinct_n]"
        )
    executor = Executor(session, plan_only=plan_only)
    sha = judgments.digest()
    results: list[core.MetricResult] = []
    for metric in settings.metrics:
        if not isinstance(metric, core.JudgmentMetric):
            raise core.UndefinedMetric(f"{metric.name} needs texts, not judgments")

        def write(folder: Path, _: Inputs, metric: core.JudgmentMetric = metric) -> Mapping[str, Any]:
            scored, features = metric.from_file(path, columns, players)
            with_columns = replace(features, facts={**features.facts, **describe_columns(columns)})
            return save_result(folder, compute_metric(scored, with_columns, core.Plan(settings.intervals)))

        spec = {"metric": core.canonicalize(metric), "system": "judgments", "file": path.name}
        if settings.intervals:
            spec["intervals"] = [settings.intervals, core.RESAMPLING_VERSION]
        what = f"{metric.name} {path.name}"
        step = Step("measure", what, "model", spec, {"judgments": sha}, write, metric=metric.name)
        executor.run(step)
        if reason := executor.reasons.get(step):
            raise core.UndefinedMetric(f"{path.name}: {metric.name} has no value: {reason}")
        if not plan_only:
            entry = executor.get(step)
            results.append(describe_result("model", metric, load_result(entry.path), entry.name))
    if plan_only:
        return Outcome(settings.outputs_dir, 0, tuple(executor.plan))
    alone = replace(settings, decoder=None, models=RunModels(model=None, scorer=None, embedder=None))
    folder = write_record(alone, executor, results, overrides, task=sha)
    return Outcome(folder, executor.num_computed, tuple(executor.plan))
