"""One run: task × model × decoder × seed, from examples to a run record.

Each stage declares its steps, and the executor plans or computes them: checks, dataset, texts of the system, features,
metrics, record.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from openended.harness import core
from openended.harness.decoders import Decoder
from openended.harness.run.axes import collect_axes
from openended.harness.run.checks import CheckResult, check_dataset, check_request, check_user_files
from openended.harness.run.dataset import Dataset, declare_dataset
from openended.harness.run.facts import FactOptions, compute_perplexity, describe_columns, digest_texts
from openended.harness.run.features import FOR_DECODER, FeatureTable
from openended.harness.run.generate import declare_generation, may_reason
from openended.harness.run.measure import Measurement, MeasureStage, SystemRole, compute_metric, describe_result
from openended.harness.run.notes import list_notes, remark_on_batches, remark_on_device, resolve_units
from openended.harness.run.players import JudgmentSource
from openended.harness.run.run_record import Outcome, write_explanations, write_record
from openended.harness.run.session import Session
from openended.harness.run.settings import Settings
from openended.harness.run.steps import Executor, Inputs, Step, TextRows
from openended.harness.storage import RowFile, load_result, save_result
from openended.metrics.families import TwoSample


@dataclass(frozen=True, slots=True)
class RunTexts:
    """The texts of a run."""

    settings: Settings
    checked: CheckResult
    dataset: Dataset
    model_rows: TextRows
    decoder: Decoder | None  # resolved: nothing left to be measured
    features: FeatureTable  # has what the decoder needed of the human side
    audit: Step | None = None  # of the texts, where `audit=true` asks for it

    @property
    def human_rows(self) -> TextRows:
        return self.dataset.human_rows

    @property
    def executor(self) -> Executor:
        return self.features.executor

    @property
    def path(self) -> Path:
        """Where the texts of the system are."""
        return self.executor.locate(self.model_rows)

    def explain_no_ceiling(self) -> str:
        """Say why there is no human ceiling; empty where there is one.

        A metric of two sides depends on their sizes, so that the ceiling has as many texts as the system.
        """
        planned = self.settings.texts.num_model_texts
        needed = self.executor.read(self.model_rows.rows, count_rows, planned)
        have = self.executor.read(self.dataset.spare_rows.rows, count_rows, needed)
        if have == needed:
            return ""
        return f"no human ceiling: it needs {needed} further human texts, as many as a system has; {have} were left"

    def list_further_human(self) -> list[TextRows]:
        """List the human texts of other prompts that differences between systems are computed against."""
        other = self.dataset.other_rows
        both = (self.dataset.spare_rows, other) if other is not None else ()
        return [rows for rows in both if self.executor.read(rows.rows, count_rows, 1)]

    def count_per_prompt(self) -> int:
        """Return how many texts the system has of a prompt; of a file's, most have so many."""
        if self.settings.generations is None:
            return self.settings.samples
        counts = self.executor.read(self.model_rows.rows, lambda path: Counter(RowFile(path).ids), Counter[str]())
        return Counter(counts.values()).most_common(1)[0][0] if counts else 0


def count_rows(path: Path) -> int:
    """Return the number of rows of a file."""
    return len(RowFile(path))


def plan(settings: Settings, session: Session) -> Outcome:
    """Plan a run: what is cached and what would be computed; loads no model and writes nothing."""
    executor = Executor(session, plan_only=True)
    texts = make_texts(settings, executor)
    measure_all(texts)
    device = remark_on_device(settings.runtime, settings.models)
    for remark in (*texts.checked.remarks, *remark_on_batches(settings.model), *device):
        session.warn_once(remark)
    return Outcome(settings.outputs_dir, 0, tuple(executor.plan), tuple(executor.missing))


def run(
    settings: Settings, session: Session, overrides: Sequence[str] = (), others: Sequence[TextRows] = ()
) -> Outcome:
    """Compute everything that is missing, write the run record and return its folder.

    A run whose spec and results are those of an earlier record writes nothing: the earlier folder is returned.

    Raises:
        HarnessError: For everything that is about the user's input.
    """
    executor = Executor(session, plan_only=False)
    texts = make_texts(settings, executor)
    settings, dataset = texts.settings, texts.dataset
    measurements, options = measure_all(texts, others)
    results = [measurement.read_result(options, executor) for measurement in measurements]
    session.side_cache.end_run()
    name = settings.system or settings.generations or "the system"
    notes = list_notes(settings.task, settings.metrics, name, dataset, texts.model_rows, texts.features)
    not_drawn: list[str] = []
    if texts.audit is not None:
        from openended.harness.run.audit import describe_audit

        note, is_failed = describe_audit(texts.audit, executor)
        notes.insert(0, note)
        not_drawn += [note] if is_failed else []
    task, human = str(texts.checked.fingerprint), digest_texts(executor.locate(texts.human_rows))
    folder = write_record(
        settings.outputs_dir / "runs" / settings.experiment, executor, results, spec=settings.spec(),
        axes=collect_axes(settings, texts.decoder, fingerprint=task, texts=human), decoder=texts.decoder, task=task,
        notes=notes, overrides=overrides, skipped=executor.get(dataset.examples).meta["skipped"],
    )  # fmt: skip
    write_explanations(folder, session.store.root, results, executor.locate(texts.human_rows), texts.path)
    broken = [result for result in results if result.status == "failed"]
    failed = dict.fromkeys(f"metric {result.metric} {'; '.join(result.notes)}" for result in broken)
    return Outcome(folder, executor.num_computed, tuple(executor.plan), failed=(*not_drawn, *failed))


def make_texts(settings: Settings, executor: Executor) -> RunTexts:
    """Make or plan the texts of both sides, and nothing else."""
    task, texts, run_models, session = settings.task, settings.texts, settings.models, executor.session
    model, decoder = settings.model, settings.decoder
    reference = None
    if settings.audit:
        from openended.harness.run.audit import choose_reference, declare_audit

        reference = choose_reference(model if texts.generations is None else None, settings.audit)
    checked = check_request(settings, executor)
    digests = checked.fingerprint, checked.tokenizer, checked.cutting_tokenizer
    dataset = declare_dataset(task, texts, run_models, *digests, session)
    executor.run(*dataset.steps)
    metrics = resolve_units(settings.metrics, run_models.counter, dataset.human_rows, executor)
    settings = replace(settings, metrics=metrics)
    check_dataset(dataset, checked, settings, executor)
    if executor.plan_only:
        check_user_files(task, texts, dataset, executor)
    features = FeatureTable(run_models, texts, settings.runtime, executor)
    if texts.generations is not None:
        from openended.harness.run.import_texts import declare_import

        rows = declare_import(texts, task, dataset, session)
    else:
        if model is None or decoder is None:
            raise core.SpecError("model and decoder: expected values when the harness generates")
        scores: Step | None = None
        if decoder.needs_human_ppl:
            # What the metrics read of the human side is computed with it, so that no model passes over it twice.
            scored = [n for m in settings.metrics for n in m.text_needs() if n.kind in ("token_nll", "embeddings")]
            alike = [need for need in scored if need.by != "model"] if task.has_human() else []  # not under its Q
            steps = features.declare([(dataset.human_rows, (FOR_DECODER, *alike))], None)
            executor.run(*steps)
            resolve, scores = decoder.resolve, steps[0]
            decoder = features.read(
                dataset.human_rows, FOR_DECODER, lambda nll: resolve(compute_perplexity(nll)), decoder
            )
        rows = declare_generation(
            model, decoder, texts, task, dataset, session, settings.runtime,
            human_scores=scores if decoder.needs_human_ppl else None,
        )  # fmt: skip
        executor.run(rows.step)
        lists = texts.prompting is not None and texts.prompting.lists
        if not lists and executor.read(rows.rows, partial(may_reason, model), otherwise=False):
            from openended.harness.run.answers import declare_answers

            rows = declare_answers(model, dataset, rows, executor)
    executor.run(rows.step)
    audit = None
    if reference is not None and model is not None:
        audit = declare_audit(model, reference, rows, session, settings.runtime)
        executor.run(audit)
    decoder = None if texts.generations is not None else decoder
    return RunTexts(settings, checked, dataset, rows, decoder, features, audit)


def measure_all(texts: RunTexts, others: Sequence[TextRows] = ()) -> tuple[list[Measurement], FactOptions]:
    """Compute the features, then every metric: of the system under test, the human row and the ceiling."""
    settings, task, executor = texts.settings, texts.settings.task, texts.executor
    human, model, references = texts.human_rows, texts.model_rows, texts.dataset.reference_rows
    metrics = [metric for metric in settings.metrics if task.prompted or not metric.needs_prompts]
    others = [replace(source, label=f"system {number} of the grid") for number, source in enumerate(others)]
    no_ceiling, is_empty = texts.explain_no_ceiling(), not executor.read(model.rows, count_rows, 1)
    with_ceiling = [m for m in metrics if m.sides == "two" and m.ceiling]  # in place of a human value
    jobs: list[tuple[core.Metric, SystemRole, TextRows]] = []  # in the order of the record
    people = {m: references for m in metrics if references is not None and m.least_samples > 1}
    for metric in metrics:
        if metric.sides == "one" and task.has_human():
            jobs.append((metric, "human", people.get(metric, human)))
        if metric in with_ceiling and task.has_human() and not no_ceiling:
            jobs.append((metric, "ceiling", texts.dataset.spare_rows))
        if (metric.sides == "one" or task.has_human()) and not is_empty:
            jobs.append((metric, "model", model))
    requests: list[tuple[TextRows, Sequence[core.Need]]] = []
    for metric, _, rows in jobs:
        if metric.sides != "one":
            requests.append((human, metric.text_needs()))
        if metric.sides != "human":
            requests.append((rows, metric.text_needs()))
    requests += [(source, m.text_needs()) for m in metrics if m.reads_grid for source in others]
    for rows in texts.list_further_human():  # what a report compares the systems with
        shared = [metric for metric in metrics if isinstance(metric, TwoSample) and metric.shares_space]
        requests += [(rows, metric.text_needs()) for metric in shared]
    executor.run(*texts.features.declare(requests, texts.decoder))
    thinking = executor.read(model.rows, lambda path: RowFile(path).facts.get("thinking"), None)
    options = FactOptions(task, settings.models, settings.texts, texts.checked.judgments, settings.protocol, thinking)
    measures = MeasureStage(options, texts.features, settings.intervals, tuple(others))
    per_prompt = texts.count_per_prompt() if people else 0
    out = [
        measures.declare(m, system, people.get(m, human), rows, per_prompt if rows is references else 0)
        for m, system, rows in jobs
    ]
    executor.run(*(measurement.step for measurement in out if measurement.step is not None))
    undefined: list[tuple[core.Metric, SystemRole, str]] = []
    if not task.has_human():
        reason = f"task {task.name} has no human side{task.no_human}"
        undefined += [(metric, "model", reason) for metric in metrics if metric.sides != "one"]
    elif no_ceiling:
        undefined += [(metric, "ceiling", no_ceiling) for metric in with_ceiling]
    if is_empty:
        undefined += [(m, "model", "there are no texts") for m in metrics if m.sides == "one" or task.has_human()]
    without_prompts = [metric for metric in settings.metrics if metric not in metrics]
    undefined += [(metric, "model", "not defined without prompts") for metric in without_prompts]
    out += [Measurement(system, metric, human, model, None, reason) for metric, system, reason in undefined]
    return out, options


def run_judgments(settings: Settings, session: Session, overrides: Sequence[str] = ()) -> Outcome:
    """Score a file of judgments and write the run record.

    Raises:
        DataError: If the file is missing or a row is wrong.
        UndefinedMetric: If a metric has no value on these judgments.
        SpecError: If the user typed a system, which nothing reads.
    """
    from openended.metrics.judgments import check_judgments_file

    judgments = JudgmentSource.from_settings(settings)
    path, columns, players = Path(str(judgments.source)), judgments.columns, judgments.human_players
    check_judgments_file(path)
    typed = dict.fromkeys(word.lstrip("+~").partition("=")[0] for word in overrides)
    if unused := [option for option in typed if option.partition(".")[0] in ("task", "model", "decoder")]:
        names = ",".join(metric.name for metric in settings.metrics)
        raise core.SpecError(
            f"{', '.join(unused)}: no effect, because metric=[{names}] scores the file of judgments alone; leave "
            f"{'it' if len(unused) == 1 else 'them'} out, or add a metric of the texts, as metric=[{names},distinct_n]"
        )
    executor = Executor(session, plan_only=settings.plan_only)
    sha = judgments.digest()
    steps: dict[core.Metric, Step] = {}
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
        steps[metric] = step
    if settings.plan_only:
        return Outcome(settings.outputs_dir, 0, tuple(executor.plan))
    entries = {metric: executor.get(step) for metric, step in steps.items()}
    results = [describe_result("model", m, load_result(e.path), e.name) for m, e in entries.items()]
    alone = replace(settings, model=None, decoder=None, scorer=None, embedder=None)
    folder = write_record(
        settings.outputs_dir / "runs" / settings.experiment, executor, results, spec=alone.spec(),
        axes=collect_axes(alone, None, fingerprint=sha), decoder=None, task=sha, notes=(), overrides=overrides,
    )  # fmt: skip
    return Outcome(folder, executor.num_computed, tuple(executor.plan))
