"""One run: task × model × decoder × seed, from examples to a run record."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, cast

from openended.harness.core.errors import DataError
from openended.harness.core.io import to_json
from openended.harness.core.metric import Metric, Need
from openended.harness.core.signature import canonical, digest
from openended.harness.core.text import shareable
from openended.harness.core.types import Json, Ragged
from openended.harness.decoders.base import Decoder
from openended.harness.run.artifacts import Planned, Source, Steps
from openended.harness.run.dataset import Drawn, draw
from openended.harness.run.explain import write_explanations
from openended.harness.run.features import FOR_DECODER, Featurizer
from openended.harness.run.generate import generate, take_in
from openended.harness.run.identity import axes
from openended.harness.run.measure import Measure, Measured, System, needs_of_texts
from openended.harness.run.scoring_models import human_need, out_of_domain, remarks
from openended.harness.run.session import Session
from openended.harness.run.settings import Settings
from openended.harness.storage.provenance import git_state, hardware, package_versions
from openended.harness.storage.record import RunRecord, read_record, save_record
from openended.harness.storage.rows import Rows
from openended.harness.storage.store import Entry


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run left behind."""

    folder: Path
    """The run folder; holds `record.json`."""
    made: int
    """Artefacts made, not found."""
    plan: tuple[Planned, ...]
    missing: tuple[str, ...] = ()
    """What a plan found to be missing, with how to get it."""
    failed: tuple[str, ...] = ()
    """Metrics whose code raised, with what it said; "–" in the table."""


@dataclass(frozen=True, slots=True)
class Made:
    """The texts of a run; entries are None while they are only planned."""

    drawn: Drawn
    model_source: Source
    decoder: Decoder | None
    """Resolved: nothing left to be measured."""
    featurizer: Featurizer
    """Has what the decoder needed of the human side; makes the rest."""

    @property
    def human_source(self) -> Source:
        """The human side."""
        return self.drawn.source


class Measurement(NamedTuple):
    """One metric of one system."""

    metric: Metric
    system: System
    human: Source
    model: Source


def plan(settings: Settings, session: Session) -> Outcome:
    """Return what a run would find and make; loads no model and writes nothing."""
    steps = Steps(session, plan_only=True)
    measure_all(settings, make_texts(settings, steps))
    return Outcome(settings.outputs_dir, 0, tuple(steps.plan), tuple(steps.missing))


def run(settings: Settings, session: Session, overrides: Sequence[str] = (), others: Sequence[Source] = ()) -> Outcome:
    """Make everything that is missing, write the run record and return where it is.

    A run whose spec and results are those of an earlier record writes nothing: the earlier folder is returned.

    Raises:
        HarnessError: For everything that is about the user's input.
    """
    steps = Steps(session, plan_only=False)
    made = make_texts(settings, steps)
    measured = measure_all(settings, made, others)
    session.sides.end_run()
    folder = write_record(
        settings,
        steps,
        measured,
        decoder=made.decoder,
        human=made.drawn.human,
        task=str(made.drawn.fingerprint),
        notes=[*_notes(made, settings), *_judges(made, settings, session)],
        overrides=overrides,
    )
    write_explanations(folder, session.store.root, measured, made.human_source, made.model_source)
    broken = [m.result for m in measured if m.result.status == "failed"]
    failed = dict.fromkeys(f"metric {result.metric} {'; '.join(result.notes)}" for result in broken)
    return Outcome(folder, steps.made, tuple(steps.plan), failed=tuple(failed))


def prepare(settings: Settings, session: Session) -> Made:
    """Make the texts of a run and no more."""
    return make_texts(settings, Steps(session, plan_only=False))


def make_texts(settings: Settings, steps: Steps) -> Made:
    """Make or plan the rows of both sides."""
    drawn = draw(settings, steps)
    featurizer = Featurizer(settings, steps)
    if settings.generations is not None:
        return Made(drawn, take_in(settings, steps, drawn), None, featurizer)
    decoder = settings.decoder
    if decoder is not None and decoder.needs_human_ppl:
        decoder = _aimed(decoder, settings, drawn.source, featurizer)
    return Made(drawn, generate(settings, steps, drawn, decoder), decoder, featurizer)


def _aimed(decoder: Decoder, settings: Settings, human: Source, featurizer: Featurizer) -> Decoder:
    """Resolve a decoder that aims at the perplexity of the human side under the model; unchanged while planned.

    What the metrics read of the human side is made with it, so that no model passes over it twice.
    """
    scored = [n for m in settings.metrics for n in needs_of_texts(m) if n.kind in ("token_nll", "embeddings")]
    alike = [need for need in scored if need.by != "model"] if settings.task.has_human() else []  # not under its Q
    featurizer.make([(human, (FOR_DECODER, *alike))], None)
    nll = featurizer.value(human, FOR_DECODER)
    if nll is None:
        return decoder
    return decoder.resolve(perplexity(nll))


def measure_all(settings: Settings, made: Made, others: Sequence[Source] = ()) -> list[Measured]:
    """Make the features of all metrics, then every metric: of the system under test, the human row, the ceiling."""
    others = [replace(source, label=f"system {number} of the grid") for number, source in enumerate(others)]
    jobs = _jobs(settings, made)
    wanted: list[tuple[Source, Sequence[Need]]] = []
    for job in jobs:
        wanted += [(source, needs_of_texts(job.metric)) for source in _read_by(job)]
    wanted += [(source, needs_of_texts(m)) for m in settings.metrics if m.reads_grid for source in others]
    made.featurizer.make(wanted, made.decoder)
    measure = Measure(made.featurizer, made.drawn.fingerprint, others)
    out = [measure.measure(*job) for job in jobs]
    if not settings.task.has_human():
        reason = f"task {settings.task.name} has no human side{settings.task.no_human}"
        sides = (made.human_source, made.model_source)
        out += [measure.undefined(m, "model", *sides, reason) for m in settings.metrics if m.sides != "one"]
    elif reason := _no_ceiling(settings, made):
        sides = (made.human_source, made.model_source)
        out += [measure.undefined(m, "ceiling", *sides, reason) for m in settings.metrics if has_ceiling(m)]
    return [m for m in out if m is not None]


def _jobs(settings: Settings, made: Made) -> list[Measurement]:
    """Every metric of every system, in the order of the record."""
    human, model = made.human_source, made.model_source
    if not settings.task.has_human():
        return [Measurement(metric, "model", human, model) for metric in settings.metrics if metric.sides == "one"]
    jobs = []
    with_ceiling = not _no_ceiling(settings, made)
    for metric in settings.metrics:
        if metric.sides == "one":
            jobs.append(Measurement(metric, "human", human, human))
        if has_ceiling(metric) and with_ceiling:
            jobs.append(Measurement(metric, "ceiling", human, made.drawn.more))
        jobs.append(Measurement(metric, "model", human, model))
    return jobs


def has_ceiling(metric: Metric) -> bool:
    """Say whether a metric has a human ceiling in place of a human value."""
    return metric.sides == "two" and metric.ceiling


def _no_ceiling(settings: Settings, made: Made) -> str:
    """Say why there is no human ceiling; empty where there is one."""
    texts = made.model_source.entry
    return made.drawn.no_ceiling(int(texts.meta["n"]) if texts is not None else settings.num_texts)


def _read_by(job: Measurement) -> list[Source]:
    """The sides that a metric reads."""
    return [s for s, unread in ((job.human, "one"), (job.model, "human")) if job.metric.sides != unread]


def write_record(
    settings: Settings,
    steps: Steps,
    measured: Sequence[Measured],
    *,
    decoder: Decoder | None,
    human: Entry | None,
    task: str,
    notes: Sequence[str],
    overrides: Sequence[str],
) -> Path:
    """Write the run record, unless an earlier one says the same; returns the run folder."""
    spec = settings.spec()
    if decoder is not None and isinstance(spec["decoder"], dict):
        resolved = canonical(decoder)
        spec["decoder"] |= resolved if isinstance(resolved, dict) else {}
    facts = axes(settings, decoder, fingerprint=task, human=human)
    spec["seed"] = facts["seed"]  # null where it changes nothing, so that such runs are one run
    runs = settings.outputs_dir / "runs" / settings.experiment
    key = digest({"spec": to_json(spec), "task": task})[:8]
    stamp = datetime.now(UTC)
    folder = runs / f"{stamp:%Y%m%dT%H%M%S}-{key}"
    record = RunRecord(
        created=stamp.isoformat(timespec="seconds"), spec=spec, axes=facts, overrides=tuple(overrides),
        command=tuple(sys.argv), git=git_state(), packages=package_versions(), hardware=hardware(),
        inputs={"task": task, **steps.inputs}, provenance=steps.provenance, timings=steps.timings,
        store="../../../store", notes=tuple(notes), results=tuple(m.row() for m in measured),
    )  # fmt: skip
    with steps.session.store.locked(f"run-{key}", f"run {key}"):  # a greedy decoder and two seeds: one run, two jobs
        for earlier in sorted(runs.glob(f"*-{key}"), reverse=True):
            if _same(earlier, record):
                return earlier
        save_record(folder, record)
    return folder


def _same(folder: Path, record: RunRecord) -> bool:
    """True if a folder holds a record of the same spec and results."""
    try:
        earlier = read_record(folder).to_json()
    except DataError:
        return False
    now = cast("dict[str, Json]", shareable(record.to_json()))
    return all(earlier[name] == now[name] for name in ("spec", "results"))


def _judges(made: Made, settings: Settings, session: Session) -> list[str]:
    """What the reader of a table must know of the judges; a scorer out of its domain is said aloud too."""
    notes = remarks(settings)
    need = human_need(settings)
    if settings.scorer is None or need is None or not settings.task.has_human():
        return notes
    nll = made.featurizer.value(made.human_source, need)
    far = out_of_domain(settings.scorer, perplexity(nll)) if nll is not None else None
    if far is not None:
        session.warn_once(far)
        notes.append(far)
    return notes


def perplexity(nll: Ragged) -> float:
    """Return exp of the mean token NLL; of no token 1."""
    return math.exp(float(nll.values.sum(dtype="float64")) / max(len(nll.values), 1))


def _notes(made: Made, settings: Settings) -> list[str]:
    """Facts of the texts that the reader of a table must know."""
    notes = list(settings.task.remarks())
    if settings.chat_model is not None:
        title = settings.chat_model.title
        notes.append(f"{title} read its prompts through its chat template; scorer and embedder read them plain")
    if made.drawn.examples is not None:
        skipped: Mapping[str, int] = made.drawn.examples.meta["skipped"]
        notes += [f"{count} records of the task passed over: {reason}" for reason, count in skipped.items()]
    entry = made.model_source.entry
    if entry is not None:
        notes += list(entry.meta.get("notes", ()))
    sizes = [len(Rows(source.path)) for source in (made.human_source, made.model_source) if source.entry is not None]
    if not settings.task.paired and len(set(sizes)) > 1:
        notes.append(f"{sizes[1]} texts beside {sizes[0]} human ones: where the number matters, compare equal ones")
    if settings.least and settings.generations is None:
        notes.append(f"no generated text ends before {settings.least} tokens (min_new_tokens)")
    return notes
