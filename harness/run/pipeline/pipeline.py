"""One run: task × model × decoder × seed, from examples to a run record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from openended.harness.core import Metric, Need
from openended.harness.run.artifacts import ArtifactBuilder, TextRows
from openended.harness.run.pipeline.explain import write_explanations
from openended.harness.run.pipeline.measure import MetricRunner, System, SystemResult, list_text_needs
from openended.harness.run.pipeline.run_record import Outcome, write_record
from openended.harness.run.pipeline.texts import RunTexts, make_texts, perplexity
from openended.harness.run.resolve import resolve_run
from openended.harness.run.scoring_models import compare_with_card, find_scorer_need, list_remarks
from openended.harness.run.session import Session
from openended.harness.run.settings import Settings
from openended.harness.storage import RowFile

_FEW_OF = 10  # one side with a tenth of the other's texts is worth a warning
_LENGTH_GAP = 0.1  # medians that differ by more than this share of the human one are worth a note
NO_PROMPTS = "not defined without prompts"


class MetricJob(NamedTuple):
    """One metric of one system."""

    metric: Metric
    system: System
    human: TextRows
    model: TextRows


def plan(settings: Settings, session: Session) -> Outcome:
    """Plan a run: what is cached and what would be computed; loads no model and writes nothing."""
    builder = ArtifactBuilder(session, plan_only=True)
    measure_all(make_texts(resolve_run(settings), builder))
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
    texts = make_texts(resolve_run(settings), builder)
    results = measure_all(texts, others)
    session.sides.end_run()
    folder = write_record(
        texts.run,
        builder,
        results,
        decoder=texts.decoder,
        human=texts.dataset.human,
        task=str(texts.dataset.fingerprint),
        notes=[*_list_notes(texts), *_list_scoring_notes(texts, session)],
        overrides=overrides,
    )
    write_explanations(folder, session.store.root, results, texts.human_rows, texts.model_rows)
    if warning := _warn_of_few_texts(texts):
        session.warn_once(warning)
    broken = [m.result for m in results if m.result.status == "failed"]
    failed = dict.fromkeys(f"metric {result.metric} {'; '.join(result.notes)}" for result in broken)
    return Outcome(folder, builder.num_computed, tuple(builder.plan), failed=tuple(failed))


def prepare(settings: Settings, session: Session) -> RunTexts:
    """Compute the texts of a run and nothing else."""
    return make_texts(resolve_run(settings), ArtifactBuilder(session, plan_only=False))


def measure_all(texts: RunTexts, others: Sequence[TextRows] = ()) -> list[SystemResult]:
    """Compute the features, then every metric: of the system under test, the human row and the ceiling."""
    task = texts.run.data.task
    metrics = _list_defined_metrics(texts)
    others = [replace(source, label=f"system {number} of the grid") for number, source in enumerate(others)]
    jobs = _list_measurements(texts)
    requests: list[tuple[TextRows, Sequence[Need]]] = []
    for job in jobs:
        requests += [(source, list_text_needs(job.metric)) for source in _list_sources_read(job)]
    requests += [(source, list_text_needs(m)) for m in metrics if m.reads_grid for source in others]
    texts.featurizer.make(requests, texts.decoder)
    measure = MetricRunner(texts.run, texts.featurizer, texts.dataset.fingerprint, others)
    out = [measure.measure(*job) for job in jobs]
    sides = (texts.human_rows, texts.model_rows)
    if not task.has_human():
        reason = f"task {task.name} has no human side{task.no_human}"
        out += [measure.build_undefined(m, "model", *sides, reason) for m in metrics if m.sides != "one"]
    elif reason := texts.explain_no_ceiling():
        out += [measure.build_undefined(m, "ceiling", *sides, reason) for m in metrics if has_ceiling(m)]
    without = [m for m in texts.run.metrics.specs if m not in metrics]
    out += [measure.build_undefined(m, "model", *sides, NO_PROMPTS) for m in without]
    return [m for m in out if m is not None]


def _list_defined_metrics(texts: RunTexts) -> list[Metric]:
    """Return the metrics of the run, without those that need prompts where there are none."""
    prompted = texts.run.data.task.prompted
    return [metric for metric in texts.run.metrics.specs if prompted or not metric.needs_prompts]


def _list_measurements(texts: RunTexts) -> list[MetricJob]:
    """Return every metric of every system, in the order of the record."""
    human, model = texts.human_rows, texts.model_rows
    metrics = _list_defined_metrics(texts)
    if not texts.run.data.task.has_human():
        return [MetricJob(metric, "model", human, model) for metric in metrics if metric.sides == "one"]
    jobs = []
    with_ceiling = not texts.explain_no_ceiling()
    for metric in metrics:
        if metric.sides == "one":
            jobs.append(MetricJob(metric, "human", human, human))
        if has_ceiling(metric) and with_ceiling:
            jobs.append(MetricJob(metric, "ceiling", human, texts.dataset.spare_rows))
        jobs.append(MetricJob(metric, "model", human, model))
    return jobs


def has_ceiling(metric: Metric) -> bool:
    """Say whether a metric has a human ceiling in place of a human value."""
    return metric.sides == "two" and metric.ceiling


def _list_sources_read(job: MetricJob) -> list[TextRows]:
    """Return the sides that a metric reads."""
    return [s for s, unread in ((job.human, "one"), (job.model, "human")) if job.metric.sides != unread]


def _list_scoring_notes(texts: RunTexts, session: Session) -> list[str]:
    """Return what the reader of a table must know of the scoring models; warn of a scorer out of its domain too."""
    notes = list_remarks(texts.run)
    scorer, need = texts.run.scoring.scorer, find_scorer_need(texts.run.metrics.specs)
    if scorer is None or need is None or not texts.run.data.task.has_human():
        return notes
    nll = texts.featurizer.value(texts.human_rows, need)
    far = compare_with_card(scorer, perplexity(nll)) if nll is not None else None
    if far is not None:
        session.warn_once(far)
        notes.append(far)
    return notes


def _warn_of_few_texts(texts: RunTexts) -> str:
    """Warn of a system with a single text, or with texts that are few beside the human ones; empty for others."""
    if texts.human_rows.entry is None or texts.model_rows.entry is None:
        return ""
    num_human, num_model = (len(RowFile(rows.path)) for rows in (texts.human_rows, texts.model_rows))
    fewer, more = sorted((num_human, num_model))
    if fewer > 1 and fewer * _FEW_OF > more:
        return ""
    name = texts.run.generation.system or texts.run.generation.file or "the system"
    return (
        f"{name}: {num_model} text{'s' if num_model != 1 else ''} beside {num_human} human "
        f"text{'s' if num_human != 1 else ''}: values of so few texts say little; compare about equal numbers"
    )


def _compare_lengths(texts: RunTexts) -> str:
    """Say that the lengths of both sides differ by more than a tenth; empty if they do not."""
    if texts.human_rows.entry is None or texts.model_rows.entry is None:
        return ""
    human, model = (_find_median_length(RowFile(rows.path)) for rows in (texts.human_rows, texts.model_rows))
    if not human or abs(model - human) <= human * _LENGTH_GAP:
        return ""
    return (
        f"median length {model:g} beside {human:g} of the human texts: most metrics see the length too; cut both "
        "sides alike (max_new_tokens)"
    )


def _find_median_length(rows: RowFile) -> float:
    """Return the median number of tokens of the texts, or of words where no tokens are kept."""
    lengths = rows.token_ids.lengths
    if not lengths.any():
        lengths = np.array([len(text.split()) for text in rows.each("text")], dtype=np.int64)
    return float(np.median(lengths)) if len(lengths) else 0.0


def _list_notes(texts: RunTexts) -> list[str]:
    """Return facts of the texts that the reader of a table must know."""
    generation, task = texts.run.generation, texts.run.data.task
    notes = [*filter(None, [_warn_of_few_texts(texts)]), *task.remarks()]
    if generation.chat_model is not None:
        title = generation.chat_model.title
        notes.append(f"{title} read its prompts through its chat template; scorer and embedder read them plain")
    if texts.dataset.examples is not None:
        skipped: Mapping[str, int] = texts.dataset.examples.meta["skipped"]
        notes += [f"{count:,} records skipped ({reason})" for reason, count in skipped.items()]
    entry = texts.model_rows.entry
    if entry is not None:
        notes += list(entry.meta.get("notes", ()))
    notes += filter(None, [_compare_lengths(texts)])
    sizes = [len(RowFile(source.path)) for source in (texts.human_rows, texts.model_rows) if source.entry is not None]
    if not task.paired and len(set(sizes)) > 1:
        notes.append(f"{sizes[1]} texts beside {sizes[0]} human ones: where the number matters, compare equal ones")
    if generation.min_new_tokens and generation.file is None:
        least = generation.min_new_tokens
        notes.append(f"end-of-text is forbidden before token {least} (min_new_tokens={least})")
    return notes
