"""One run: task × model × decoder × seed, from examples to a run record.

Each stage declares its steps, and the executor plans or computes them: checks, dataset, texts of the system, features,
metrics, record.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from openended.harness import core
from openended.harness.run.axes import collect_axes
from openended.harness.run.checks import check_dataset, check_judgments, check_request
from openended.harness.run.dataset import Dataset, declare_dataset
from openended.harness.run.facts import FactOptions, digest_texts
from openended.harness.run.features import FeatureTable
from openended.harness.run.generate import declare_generation, may_reason
from openended.harness.run.measure import Measurement, MeasureStage
from openended.harness.run.notes import list_notes, remark_on_batches, remark_on_device, resolve_units
from openended.harness.run.run_record import Outcome, write_explanations, write_record
from openended.harness.run.session import Session
from openended.harness.run.settings import Settings
from openended.harness.run.steps import Executor, Step, TextRows
from openended.harness.storage import RowFile
from openended.metrics.families import TwoSample

if TYPE_CHECKING:
    from openended.harness.run.players import JudgmentSource


@dataclass(frozen=True, slots=True)
class RunTexts:
    """The texts of a run."""

    settings: Settings  # resolved: nothing of the decoder and the metrics is left to be measured
    judgments: "JudgmentSource | None"  # None where no metric reads judgments
    dataset: Dataset
    model_rows: TextRows
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
        return self.executor.locate(self.model_rows)

    def list_measurements(self, metric: core.Metric) -> Iterator[Measurement]:
        """Yield the values of a metric that are in the record; of one that cannot be computed, the reason.

        A metric of two sides depends on their sizes, so that the ceiling has as many texts as the system.
        """
        task, read, human = self.settings.task, self.executor.read_artifact, self.find_human_rows(metric)
        of_model = Measurement(metric, "model", self.human_rows, self.model_rows)
        if metric.needs_prompts and not task.prompted:
            yield replace(of_model, reason="not defined without prompts")
            return
        if not task.has_human() and metric.sides != "one":
            yield replace(of_model, reason=f"task {task.name} has no human side{task.no_human}")
            return
        if metric.sides == "one" and task.has_human():
            per_prompt = self.count_per_prompt() if human is not self.human_rows else 0
            yield Measurement(metric, "human", human, human, texts_per_prompt=per_prompt)
        if metric.sides == "two" and metric.ceiling:  # in place of a human value
            spare = self.dataset.spare_rows
            needed = read(self.model_rows.rows, count_rows, self.settings.texts.num_model_texts)
            have = read(spare.rows, count_rows, needed)
            lack = f"it needs {needed} further human texts, as many as a system has; {have} were left"
            missing = replace(of_model, system="ceiling", reason=f"no human–human reference: {lack}")
            yield Measurement(metric, "ceiling", human, spare) if have == needed else missing
        has_texts = read(self.model_rows.rows, count_rows, 1)
        yield replace(of_model, human=human) if has_texts else replace(of_model, reason="there are no texts")

    def find_human_rows(self, metric: core.Metric) -> TextRows:
        """Return the human texts that a metric reads: several of each prompt where it compares them."""
        references = self.dataset.reference_rows
        return references if references is not None and metric.least_samples > 1 else self.human_rows

    def list_further_human(self) -> list[TextRows]:
        """List the human texts of other prompts that differences between systems are computed against."""
        other = self.dataset.other_rows
        both = (self.dataset.spare_rows, other) if other is not None else ()
        return [rows for rows in both if self.executor.read_artifact(rows.rows, count_rows, 1)]

    def count_per_prompt(self) -> int:
        """Return how many texts the system has of a prompt; of a file's, most have so many."""
        if self.settings.texts.generations is None:
            return self.settings.texts.samples
        counts = self.executor.read_artifact(
            self.model_rows.rows, lambda path: Counter(RowFile(path).ids), Counter[str]()
        )
        return Counter(counts.values()).most_common(1)[0][0] if counts else 0


def count_rows(path: Path) -> int:
    """Return the number of rows of a file."""
    return len(RowFile(path))


def plan(settings: Settings, session: Session) -> Outcome:
    """Plan a run: what is cached and what would be computed; loads no model and writes nothing."""
    executor = Executor(session, plan_only=True)
    measure_all(make_texts(settings, executor))
    for remark in (*remark_on_batches(settings.models.model), *remark_on_device(settings.runtime, settings.models)):
        session.warn_once(str(remark))
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
    session.end_run()
    name = settings.texts.system or settings.texts.generations or "the system"
    notes = list_notes(settings.task, settings.metrics, name, dataset, texts.model_rows, texts.features)
    not_drawn: list[str] = []
    if texts.audit is not None:
        from openended.harness.run.audit import describe_audit

        notes.insert(0, note := describe_audit(texts.audit, executor))
        not_drawn += [str(note)] if note.kind == "fault" else []
    task, human = str(executor.find(settings.task.fingerprint)), digest_texts(executor.locate(texts.human_rows))
    axes = collect_axes(settings, fingerprint=task, texts=human)
    skipped = executor.get(dataset.examples).meta["skipped"]
    folder = write_record(
        settings, executor, results, axes=axes, task=task, notes=notes, overrides=overrides, skipped=skipped
    )
    write_explanations(folder, session.store.root, results, executor.locate(texts.human_rows), texts.path)
    broken = [result for result in results if result.status == "failed"]
    failed = dict.fromkeys(f"metric {result.metric} {'; '.join(result.notes)}" for result in broken)
    return Outcome(folder, executor.num_computed, tuple(executor.plan), failed=(*not_drawn, *failed))


def make_texts(settings: Settings, executor: Executor) -> RunTexts:
    """Make or plan the texts of both sides, and nothing else."""
    task, texts, run_models, session = settings.task, settings.texts, settings.models, executor.session
    model, decoder = run_models.model, settings.decoder
    judgments = check_judgments(settings, executor)
    check_request(settings, executor)
    dataset = declare_dataset(task, texts, run_models, session)
    check_dataset(dataset, judgments, settings, executor)
    features = FeatureTable(run_models, texts, settings.runtime, executor)
    if texts.generations is not None:
        from openended.harness.run.import_texts import declare_import

        rows = declare_import(texts, task, dataset, session)
    else:
        if model is None or decoder is None:
            raise core.SpecError("model and decoder: expected values when the harness generates")
        alike = settings.metrics if task.has_human() else ()
        decoder, scores = features.resolve_decoder(decoder, dataset.human_rows, alike)
        rows = declare_generation(model, decoder, texts, task, dataset, session, settings.runtime, human_scores=scores)
        lists = texts.prompting is not None and texts.prompting.lists
        if not lists and executor.read_artifact(rows.rows, partial(may_reason, model), otherwise=False):
            from openended.harness.run.answers import declare_answers

            rows = declare_answers(model, dataset, rows, executor)
    executor.run(rows.step)
    audit = None
    if settings.audit and model is not None:
        from openended.harness.run.audit import declare_audit

        audit = declare_audit(model, settings.audit, rows, session, settings.runtime)
        executor.run(audit)
    metrics = resolve_units(settings.metrics, run_models.counter, dataset.human_rows, executor)
    settings = replace(settings, metrics=metrics, decoder=decoder)
    return RunTexts(settings, judgments, dataset, rows, features, audit)


def measure_all(texts: RunTexts, others: Sequence[TextRows] = ()) -> tuple[list[Measurement], FactOptions]:
    """Compute the features, then every metric: of the system under test, the human row and the ceiling."""
    settings, executor = texts.settings, texts.executor
    others = [replace(source, label=f"system {number} of the grid") for number, source in enumerate(others)]
    measurements = [each for metric in settings.metrics for each in texts.list_measurements(metric)]
    defined = [each for each in measurements if not each.reason]
    requests: list[tuple[TextRows, Sequence[core.Need]]] = []
    requests += [(source, each.metric.text_needs()) for each in defined for source in each.sides]
    metrics = dict.fromkeys(each.metric for each in defined)
    requests += [(source, metric.text_needs()) for metric in metrics if metric.reads_grid for source in others]
    for rows in texts.list_further_human():  # what a report compares the systems with
        shared = [metric for metric in metrics if isinstance(metric, TwoSample) and metric.shares_space]
        requests += [(rows, metric.text_needs()) for metric in shared]
    executor.run(*texts.features.declare(requests, settings.decoder))
    thinking = executor.read_artifact(texts.model_rows.rows, lambda path: RowFile(path).facts.get("thinking"), None)
    options = FactOptions(
        settings.task, settings.models, settings.texts, settings.judgments, settings.protocol, thinking
    )
    measures = MeasureStage(options, texts.features, settings.intervals, tuple(others), texts.judgments)
    measurements = [each if each.reason else measures.declare(each) for each in measurements]
    executor.run(*(each.step for each in measurements if each.step is not None))
    return measurements, options


def select_metrics_for_file(settings: Settings, overrides: Sequence[str]) -> Settings:
    """Return settings with the metrics that a file of judgments supports, if the user names nothing else.

    Raises:
        DataError: If no metric reads such a file; the message lists what each expects.
    """
    chosen = {word.lstrip("+~").partition("=")[0].partition(".")[0] for word in overrides}
    alone = not chosen & {"metric", "experiment", "task", "model", "decoder", "generations"}
    path, columns = settings.judgments.path, settings.judgments.columns
    if path is None or not alone:
        return settings
    from openended.harness.run.players import list_metrics_for_file
    from openended.metrics.judgments import read_rows

    able = list_metrics_for_file(path, columns)
    names, _ = read_rows(path, columns)
    return replace(settings, metrics=tuple(metric for metric in able if metric.scores_without_run(names)) or able)
