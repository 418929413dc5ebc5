"""One run: task × model × decoder × seed, from examples to a run record."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from openended.harness.contract import Need
from openended.harness.decoding.base import Decoder
from openended.harness.errors import DataError
from openended.harness.io import read_json, to_json, write_json
from openended.harness.provenance import git_state, hardware, package_versions
from openended.harness.run import artefacts as stages
from openended.harness.run.measure import Measure, Measured
from openended.harness.run.session import Session
from openended.harness.run.settings import Settings
from openended.harness.run.sides import SideMaker
from openended.harness.run.steps import Planned, Source, Steps
from openended.harness.run.texts import Texts
from openended.harness.signature import canonical, digest
from openended.harness.store import Entry
from openended.harness.text import homeless
from openended.harness.types import HUMAN, Json

log = logging.getLogger(__name__)

RECORD = "record.json"
RECORD_SCHEMA = 1


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


@dataclass(frozen=True, slots=True)
class Made:
    """The sources of a run; their entries are None while they are only planned."""

    examples: Entry | None
    human: Entry | None
    human_source: Source
    model_source: Source
    decoder: Decoder | None
    """Resolved: nothing left to be measured."""


def plan(settings: Settings, session: Session) -> Outcome:
    """Return what a run would find and make; loads no model and writes nothing."""
    steps = Steps(session, plan_only=True)
    texts = Texts(settings, steps)
    made = make_texts(settings, steps, texts)
    measure_all(settings, steps, texts, made)
    return Outcome(settings.outputs_dir, 0, tuple(dict.fromkeys(steps.plan)), tuple(steps.missing))


def run(settings: Settings, session: Session, overrides: Sequence[str] = (), others: Sequence[Source] = ()) -> Outcome:
    """Make everything that is missing, write the run record and return where it is.

    A run whose spec and results are those of an earlier record writes nothing: the earlier folder is returned.

    Raises:
        HarnessError: For everything that is about the user's input.
    """
    steps = Steps(session, plan_only=False)
    texts = Texts(settings, steps)
    made = make_texts(settings, steps, texts)
    measured = measure_all(settings, steps, texts, made, others)
    folder = write_record(
        settings,
        steps,
        measured,
        decoder=made.decoder,
        task=str(texts.fingerprint),
        notes=_notes(made, settings),
        overrides=overrides,
    )
    count = sum(step.state == "make" for step in steps.plan)
    log.info("run        %s  (%d artefacts made, %d found)", folder, count, len(steps.plan) - count)
    return Outcome(folder, count, tuple(steps.plan))


def prepare(settings: Settings, session: Session) -> Source:
    """Make the texts of a run and no more; returns the system under test."""
    steps = Steps(session, plan_only=False)
    return make_texts(settings, steps, Texts(settings, steps)).model_source


def make_texts(settings: Settings, steps: Steps, texts: Texts) -> Made:
    """Make or plan the rows of both sides."""
    examples = texts.examples()
    human = texts.human(examples)
    chat = texts.chat(examples)
    source = Source(HUMAN, human, stages.HUMAN_ROWS, texts.tokenizer, chat)
    decoder = settings.decoder if settings.generations is None else None
    if settings.generations is not None:
        return Made(examples, human, source, texts.imported(human), None)

    def human_ppl() -> float | None:
        return _perplexity_of_human(settings, steps, source)

    if decoder is not None and decoder.needs_human_ppl:
        target = human_ppl()
        decoder = decoder.resolve(target) if target is not None else decoder
    return Made(examples, human, source, texts.generations(human, human_ppl, chat), decoder)


def _perplexity_of_human(settings: Settings, steps: Steps, source: Source) -> float | None:
    """Perplexity of the human side under the model under test, or None while it is only planned."""
    if settings.model is None:
        return None
    load, key = SideMaker(settings, steps).scored(source, Need("token_nll", by="model"), settings.model)
    if key is None:
        return None
    nll = load()
    return math.exp(float(nll.values.sum(dtype="float64")) / max(len(nll.values), 1))


def measure_all(
    settings: Settings, steps: Steps, texts: Texts, made: Made, others: Sequence[Source] = ()
) -> list[Measured]:
    """Every metric of the run: the system under test, the human row, and the human ceiling."""
    measure = Measure(SideMaker(settings, steps, decoder=made.decoder), texts.fingerprint, others)
    out: list[Measured | None] = []
    human, model = made.human_source, made.model_source
    if not settings.task.has_human():
        alone = [metric for metric in settings.metrics if metric.sides == "one"]
        out += [measure.measure(metric, "model", human, model) for metric in alone]
        reason = f"task {settings.task.name} has no human side{settings.task.no_human}"
        out += [measure.undefined(m, "model", human, model, reason) for m in settings.metrics if m.sides != "one"]
        return [m for m in out if m is not None]
    for metric in settings.metrics:
        if metric.sides == "one":
            out.append(measure.measure(metric, "human", human, replace(human)))
        if metric.sides == "two" and metric.ceiling:
            names = zip((HUMAN, "more human"), stages.CEILING, strict=True)
            halves = [Source(system, made.human, file, texts.tokenizer) for system, file in names]
            if made.human is None or made.human.meta["ceiling"] > 0:
                out.append(measure.measure(metric, "ceiling", halves[0], halves[1]))
        out.append(measure.measure(metric, "model", human, model))
    return [m for m in out if m is not None]


def write_record(
    settings: Settings,
    steps: Steps,
    measured: Sequence[Measured],
    *,
    decoder: Decoder | None,
    task: str,
    notes: Sequence[str],
    overrides: Sequence[str],
) -> Path:
    """Write the run record, unless an earlier one says the same; returns the run folder."""
    spec = settings.spec()
    if decoder is not None and isinstance(spec["decoder"], dict):
        resolved = canonical(decoder)
        spec["decoder"] |= resolved if isinstance(resolved, dict) else {}
    facts = axes(settings, decoder)
    spec["seed"] = facts["seed"]  # null where it changes nothing, so that such runs are one run
    results = [to_json(m.row()) for m in measured]
    runs = settings.outputs_dir / "runs" / settings.experiment
    key = digest({"spec": to_json(spec), "task": task})[:8]
    stamp = datetime.now(UTC)
    folder = runs / f"{stamp:%Y%m%dT%H%M%S}-{key}"
    made: dict[str, Any] = {
        "schema": RECORD_SCHEMA, "created": stamp.isoformat(timespec="seconds"), "spec": spec,
        "axes": facts, "overrides": list(overrides), "git": git_state(),
        "packages": package_versions(), "hardware": hardware(), "inputs": {"task": task, **steps.inputs},
        "timings": steps.timings, "store": "../../../store", "notes": list(notes), "results": results,
    }  # fmt: skip
    record = cast("dict[str, Any]", homeless(to_json(made)))
    with steps.session.store.locked(f"run-{key}", f"run {key}"):  # a greedy decoder and two seeds: one run, two jobs
        for earlier in sorted(runs.glob(f"*-{key}"), reverse=True):
            if _same(earlier, record["spec"], record["results"]):
                return earlier
        write_json(folder / RECORD, record)
    return folder


def _same(folder: Path, spec: Json, results: Json) -> bool:
    try:
        record = read_json(folder / RECORD)
    except DataError:
        return False
    return isinstance(record, dict) and record.get("spec") == spec and record.get("results") == results


def axes(settings: Settings, decoder: Decoder | None) -> dict[str, Json]:
    """What tells this run from the others of a grid, flat."""
    s = settings
    out: dict[str, Json] = {"task": s.task.name, "model": s.model.title if s.model else None}
    if s.generations is not None:
        out |= {"model": Path(s.generations).name.removesuffix(".gz").removesuffix(".jsonl"), "decoder": "imported"}
    if s.judgments is not None and decoder is None and s.generations is None:
        out |= {"task": Path(s.judgments).name, "model": None, "decoder": "rated"}
    if decoder is not None:
        fields = canonical(decoder)
        out["decoder"] = decoder.name
        options = fields.items() if isinstance(fields, dict) else ()
        out |= {f"decoder.{k}": v for k, v in options if k not in ("_target_", "version")}
    out["seed"] = s.seed if decoder is not None and decoder.stochastic else None
    out |= {"num_examples": s.num_examples, "max_new_tokens": s.max_new_tokens, "samples": s.samples}
    if decoder is not None and s.model is not None:
        # One word for "always full length": a sweep over lengths then differs in the length alone.
        full = s.least == s.max_new_tokens
        out["min_new_tokens"] = "max_new_tokens" if full else s.least
    out["scorer"] = s.scorer.title if s.scorer else None
    out["embedder"] = s.embedder.title if s.embedder else None
    # The axis of a study of length; elsewhere it goes with the embedder.
    out["embedder.max_length"] = s.embedder.max_length if s.embedder and s.embedder.lengths else None
    return out


def _notes(made: Made, settings: Settings) -> list[str]:
    """Facts of the texts that the reader of a table must know."""
    notes = list(settings.task.remarks())
    if settings.chat_model is not None:
        title = settings.chat_model.title
        notes.append(f"{title} read its prompts through its chat template; scorer and embedder read them plain")
    if made.examples is not None:
        skipped: Mapping[str, int] = made.examples.meta["skipped"]
        notes += [f"{count} records of the task passed over: {reason}" for reason, count in skipped.items()]
    entry = made.model_source.entry
    if entry is not None:
        notes += list(entry.meta.get("notes", ()))
    if settings.least and settings.generations is None:
        notes.append(f"no generated text ends before {settings.least} tokens (min_new_tokens)")
    return notes
