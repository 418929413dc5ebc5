"""One run: task × model × decoder × seed, from examples to a run record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from openended.harness.core import Metric, Need
from openended.harness.decoders import Decoder
from openended.harness.run.artifacts import ArtifactBuilder, TextRows
from openended.harness.run.checks import check_extras, check_judgments, check_q, check_scoring_models, check_sizes
from openended.harness.run.dataset import Dataset, fetch_task, load_dataset
from openended.harness.run.features import FOR_DECODER, Featurizer
from openended.harness.run.generate import check_model, generate
from openended.harness.run.import_texts import import_generations
from openended.harness.run.measure import MetricRunner, System, SystemResult, list_text_needs
from openended.harness.run.notes import compute_perplexity, list_notes
from openended.harness.run.run_record import Outcome, write_explanations, write_record
from openended.harness.run.session import Session
from openended.harness.run.settings import Settings

NO_PROMPTS = "not defined without prompts"


@dataclass(frozen=True, slots=True)
class RunTexts:
    """The texts of a run; entries are None while they are only planned."""

    settings: Settings
    dataset: Dataset
    model_rows: TextRows
    decoder: Decoder | None
    """Resolved: nothing left to be measured."""
    featurizer: Featurizer
    """Has what the decoder needed of the human side; makes the rest."""

    @property
    def human_rows(self) -> TextRows:
        return self.dataset.human_rows

    def explain_no_ceiling(self) -> str:
        """Say why there is no human ceiling; empty where there is one."""
        entry = self.model_rows.entry
        needed = int(entry.meta["n"]) if entry is not None else self.settings.num_model_texts
        return self.dataset.explain_no_ceiling(needed)


class MetricJob(NamedTuple):
    """One metric of one system."""

    metric: Metric
    system: System
    human: TextRows
    model: TextRows


def plan(settings: Settings, session: Session) -> Outcome:
    """Plan a run: what is cached and what would be computed; loads no model and writes nothing."""
    builder = ArtifactBuilder(session, plan_only=True)
    measure_all(make_texts(settings, builder))
    return Outcome(settings.outputs_dir, 0, tuple(builder.plan), tuple(builder.missing))


def run(
    settings: Settings, session: Session, overrides: Sequence[str] = (), others: Sequence[TextRows] = ()
) -> Outcome:
    """Compute everything that is missing, write the run record and return its folder.

    A run whose spec and results are those of an earlier record writes nothing: the earlier folder is returned.

    Raises:
        HarnessError: For everything that is about the user's input.
    """
    builder = ArtifactBuilder(session, plan_only=False)
    texts = make_texts(settings, builder)
    results = measure_all(texts, others)
    session.sides.end_run()
    folder = write_record(
        settings, builder, results, decoder=texts.decoder, human=texts.dataset.human,
        task=str(texts.dataset.fingerprint), overrides=overrides,
        notes=list_notes(settings, texts.dataset, texts.model_rows, texts.featurizer),
    )  # fmt: skip
    write_explanations(folder, session.store.root, results, texts.human_rows, texts.model_rows)
    broken = [m.result for m in results if m.result.status == "failed"]
    failed = dict.fromkeys(f"metric {result.metric} {'; '.join(result.notes)}" for result in broken)
    return Outcome(folder, builder.num_computed, tuple(builder.plan), failed=tuple(failed))


def compute_texts(settings: Settings, session: Session) -> RunTexts:
    """Compute the texts of a run and nothing else."""
    return make_texts(settings, ArtifactBuilder(session, plan_only=False))


def make_texts(settings: Settings, builder: ArtifactBuilder) -> RunTexts:
    """Make or plan the rows of both sides."""
    check_judgments(settings)
    check_extras(settings)
    check_q(settings)
    fingerprint = fetch_task(settings.task, builder)
    check_model(settings, builder)
    check_scoring_models(settings, builder)
    dataset = load_dataset(settings, fingerprint, builder)
    check_sizes(settings, dataset)
    featurizer = Featurizer(settings, builder)
    if settings.generations is not None:
        rows = import_generations(settings, builder, dataset)
        return RunTexts(settings, dataset, rows, None, featurizer)
    decoder = settings.decoder
    if decoder is not None and decoder.needs_human_ppl:
        # What the metrics read of the human side is computed with it, so that no model passes over it twice.
        scored = [n for m in settings.metrics for n in list_text_needs(m) if n.kind in ("token_nll", "embeddings")]
        alike = [need for need in scored if need.by != "model"] if settings.task.has_human() else []  # not under its Q
        featurizer.compute([(dataset.human_rows, (FOR_DECODER, *alike))], None)
        nll = featurizer.value(dataset.human_rows, FOR_DECODER)
        decoder = decoder.resolve(compute_perplexity(nll)) if nll is not None else decoder
    rows = generate(settings, builder, dataset, decoder)
    return RunTexts(settings, dataset, rows, decoder, featurizer)


def measure_all(texts: RunTexts, others: Sequence[TextRows] = ()) -> list[SystemResult]:
    """Compute the features, then every metric: of the system under test, the human row and the ceiling."""
    settings, task = texts.settings, texts.settings.task
    human, model = texts.human_rows, texts.model_rows
    metrics = [metric for metric in settings.metrics if task.prompted or not metric.needs_prompts]
    others = [replace(source, label=f"system {number} of the grid") for number, source in enumerate(others)]
    no_ceiling = texts.explain_no_ceiling()
    jobs = []  # in the order of the record
    for metric in metrics:
        if metric.sides == "one" and task.has_human():
            jobs.append(MetricJob(metric, "human", human, human))
        if _has_ceiling(metric) and task.has_human() and not no_ceiling:
            jobs.append(MetricJob(metric, "ceiling", human, texts.dataset.spare_rows))
        if metric.sides == "one" or task.has_human():
            jobs.append(MetricJob(metric, "model", human, model))
    requests: list[tuple[TextRows, Sequence[Need]]] = []
    for job in jobs:
        read = [s for s, unread in ((job.human, "one"), (job.model, "human")) if job.metric.sides != unread]
        requests += [(source, list_text_needs(job.metric)) for source in read]
    requests += [(source, list_text_needs(m)) for m in metrics if m.reads_grid for source in others]
    texts.featurizer.compute(requests, texts.decoder)
    runner = MetricRunner(settings, texts.featurizer, others)
    out = [runner.measure(*job) for job in jobs]
    if not task.has_human():
        reason = f"task {task.name} has no human side{task.no_human}"
        out += [runner.build_undefined(m, "model", human, model, reason) for m in metrics if m.sides != "one"]
    elif no_ceiling:
        out += [runner.build_undefined(m, "ceiling", human, model, no_ceiling) for m in metrics if _has_ceiling(m)]
    without = [m for m in settings.metrics if m not in metrics]
    out += [runner.build_undefined(m, "model", human, model, NO_PROMPTS) for m in without]
    return [m for m in out if m is not None]


def _has_ceiling(metric: Metric) -> bool:
    """Say whether a metric has a human ceiling in place of a human value."""
    return metric.sides == "two" and metric.ceiling
