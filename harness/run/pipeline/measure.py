"""The second half of a run: every metric over the features of both sides."""

from __future__ import annotations

import logging
import math
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from openended.harness.core import (
    HUMAN,
    MOST,
    Features,
    HarnessError,
    Metric,
    MetricResult,
    Need,
    Plan,
    Replicates,
    UndefinedMetric,
    build_signature,
    canonicalize,
    digest,
    digest_file,
    estimate_interval,
    format_last_frame,
    shorten_error,
)
from openended.harness.run import artifact_files as stages
from openended.harness.run.artifacts import ArtifactRequest, TextRows, Workload
from openended.harness.run.features import Featurizer
from openended.harness.run.identity import collect_facts
from openended.harness.run.resolve import ResolvedRun
from openended.harness.run.token_ids import describe_token_ids
from openended.harness.storage import ResultRow, RowFile
from openended.metrics.families import TwoSample
from openended.metrics.judgments import SIMULATED, ReadsFile, check_judgments_file

log = logging.getLogger(__name__)

System = Literal["human", "model", "ceiling"]
RESAMPLING_VERSION = 3  # increased when replicates are drawn differently; enters the keys of results that have any


@dataclass(frozen=True, slots=True)
class SystemResult:
    """One metric of one system, and where its arrays are."""

    system: System
    metric: Metric
    result: MetricResult
    artefact: str | None

    def row(self) -> ResultRow:
        """Return the line of the run record."""
        return ResultRow.from_result(self.system, self.metric, self.result, self.artefact)


# From this many texts on a side, nothing derived is kept for the next metric: indexes would fill the memory.
MANY = 200_000


class _MetricCodeError(Exception):
    """Raised out of a metric's artefact, so that none is kept."""


class MetricRunner:
    """Computes metrics from finished sides through the store."""

    def __init__(
        self, run: ResolvedRun, sides: Featurizer, fingerprint: str | None, others: Sequence[TextRows] = ()
    ) -> None:
        self.run = run
        self.sides = sides
        self.builder = sides.builder
        self.fingerprint = fingerprint
        self.others = tuple(others)
        self.plan = Plan(run.metrics.intervals)

    def measure(self, metric: Metric, system: System, human: TextRows, model: TextRows) -> SystemResult | None:
        """Return the metric's result for a system; None while planning what is not made yet."""
        facts = self.builder.try_or_note(lambda: self._collect_facts(metric, human, model))
        if facts is None:
            self.builder.defer("measure", f"{metric.name} {system}", Workload(role=system, metric=metric.name))
            return None
        try:
            inputs = self._collect_inputs(metric, human, model)
        except UndefinedMetric as err:
            return SystemResult(system, metric, _build_undefined_result(metric, facts, human, model, err), None)

        ids = describe_token_ids(metric, model, self.run.scoring)
        id_notes = (f"computed on {ids}",) if ids else ()

        def write(folder: Path) -> Mapping[str, Any]:
            features, notes = _limit_texts(metric, self._load_features(metric, human, model, facts))
            prepared: dict[str, Any] = {}
            try:
                prepared = _prepare(metric, features)
                result = metric.compute(features, **prepared)
            except UndefinedMetric as err:
                result = _build_undefined_result(metric, facts, human, model, err)
            except HarnessError:
                raise
            except Exception as err:
                reason = f"{type(err).__name__}: {shorten_error(err)}{format_last_frame(err)}"
                raise _MetricCodeError(f"failed with {reason}") from err
            result = add_intervals(metric, features, result, self.plan, prepared)
            _free_memory(features)
            return stages.save_result(folder, replace(result, notes=(*result.notes, *notes, *id_notes)))

        spec = self._describe(metric, facts, system, ids)
        try:
            work = Workload(role=system, metric=metric.name)
            request = ArtifactRequest("measure", f"{metric.name} {system}", spec, inputs, work)
            entry = self.builder.build(request, write)
        except _MetricCodeError as err:
            log.error("metric %s of %s %s", metric.name, model.title, err)
            log.debug("%s", "".join(traceback.format_exception(err)))
            failed = replace(
                _build_undefined_result(metric, facts, human, model, UndefinedMetric(str(err))), status="failed"
            )
            return SystemResult(system, metric, failed, None)
        if entry is None:
            return None
        return SystemResult(system, metric, stages.load_result(entry.path), entry.name)

    def _describe(self, metric: Metric, facts: Mapping[str, str], system: System, ids: str | None) -> dict[str, Any]:
        """Return all that can change a result beside its inputs."""
        spec = {"metric": canonicalize(metric), "facts": dict(facts), "system": "model" if system == HUMAN else system}
        if ids:
            spec["ids"] = ids
        if self.plan.count:
            spec["intervals"] = [self.plan.count, RESAMPLING_VERSION]
        return spec

    def build_undefined(
        self, metric: Metric, system: System, human: TextRows, model: TextRows, reason: str
    ) -> SystemResult:
        """Return the "–" of a metric that has no value here."""
        facts = self.builder.try_or_note(lambda: self._collect_facts(metric, human, model)) or {}
        return SystemResult(
            system, metric, _build_undefined_result(metric, facts, human, model, UndefinedMetric(reason)), None
        )

    def _collect_facts(self, metric: Metric, human: TextRows, model: TextRows) -> dict[str, str]:
        return collect_facts(self.run, metric, human, model, self.fingerprint)

    def _collect_inputs(self, metric: Metric, human: TextRows, model: TextRows) -> dict[str, str | None]:
        needs = list_text_needs(metric)
        inputs: dict[str, str | None] = {}
        if len(needs) < len(metric.needs()):
            inputs["judgments"] = digest_judgments(self._find_judgments(), self.run.metrics.judgment_columns)
        if metric.sides != "one":
            inputs |= {f"human {k}": v for k, v in self.sides.digests(human, needs).items()}
        if metric.sides != "human":
            inputs |= {f"model {k}": v for k, v in self.sides.digests(model, needs).items()}
        for number, other in enumerate(self._get_grid_systems(metric)):
            inputs |= {f"other {number} {k}": v for k, v in self.sides.digests(other, needs).items()}
        return inputs

    def _load_features(self, metric: Metric, human: TextRows, model: TextRows, facts: Mapping[str, str]) -> Features:
        needs = list_text_needs(metric)
        loaded_model = self.sides.side(model, needs) if metric.sides != "human" else None
        loaded_human = self.sides.side(human, needs) if metric.sides != "one" else None
        human_side = loaded_human or loaded_model
        model_side = loaded_model or loaded_human
        if human_side is None or model_side is None:
            raise UndefinedMetric(f"{metric.name} reads neither side")
        if isinstance(metric, ReadsFile):
            columns = self.run.metrics.judgment_columns
            judged = {
                need: metric.read(self._find_judgments(), columns)
                for need in metric.needs()
                if need.kind == "judgments"
            }
            human_side = replace(human_side, data={**human_side.data, **judged})
            model_side = replace(model_side, data={**model_side.data, **judged})
        return Features(
            human_side,
            model_side,
            facts,
            tuple(self.sides.side(other, needs) for other in self._get_grid_systems(metric)),
        )

    def _get_grid_systems(self, metric: Metric) -> tuple[TextRows, ...]:
        return self.others if metric.reads_grid else ()

    def _find_judgments(self) -> Path:
        path = str(self.run.metrics.judgments)  # there is one: see `check_judgments`
        if path.startswith(SIMULATED):
            raise UndefinedMetric(f"judgments={path} rates the texts of a whole grid once all are there: add -m")
        check_judgments_file(Path(path))
        return Path(path)


def _limit_texts(metric: Metric, features: Features) -> tuple[Features, list[str]]:
    """Limit the texts of costly metrics; return the features and a note if texts were dropped."""
    return metric.limit_texts(features) if isinstance(metric, TwoSample) else (features, [])


def _free_memory(features: Features) -> None:
    """Forget what a metric derived of very many texts."""
    for side in (features.human, features.model):
        if len(side) >= MANY:
            side.memo.clear()


def _prepare(metric: Metric, features: Features) -> dict[str, Any]:
    """Return what `compute` and `replicates` of a metric share, as the argument that they take; none for most."""
    prepared = metric.prepare(features)
    return {} if prepared is None else {"prepared": prepared}


def add_intervals(
    metric: Metric, features: Features, result: MetricResult, plan: Plan, prepared: Mapping[str, Any] | None = None
) -> MetricResult:
    """Add replicates of the values and their intervals; if that fails, add a note and a log line."""
    if result.status != "ok" or not plan.count:
        return result
    if max(len(features.human), len(features.model)) > MOST:
        return replace(result, notes=(*result.notes, f"no interval: more than {MOST:,} texts"))
    try:
        replicates = (
            metric.replicates(features, result, plan, **(prepared or {}))
            if plan.has_enough_prompts(features.model.ids)
            else {}
        )
    except Exception as err:
        note = f"no interval: {type(err).__name__}: {shorten_error(err)}"
        log.warning("metric %s: %s", metric.name, note)
        log.debug("%s", "".join(traceback.format_exception(err)))
        return replace(result, notes=(*result.notes, note))
    fields = _collect_replicates(metric, result, replicates)
    without = [k for k in replicates if math.isfinite(result.values.get(k, math.nan)) and k not in fields["intervals"]]
    reasons = {
        "no variation seen": [k for k in without if k in fields["draws"]],
        "a draw of so few texts has no value": [k for k in without if k not in fields["draws"]],
    }
    notes = [f"no interval of {', '.join(names)}: {reason}" for reason, names in reasons.items() if names]
    return replace(result, **fields, notes=(*result.notes, *notes))


def _collect_replicates(metric: Metric, result: MetricResult, replicates: Mapping[str, Replicates]) -> dict[str, Any]:
    """Return the fields of a result for replicates and intervals of the values that have them."""
    values, prompts = result.values, result.arrays.get("prompts")
    sound = {
        k: r for k, r in replicates.items() if math.isfinite(values.get(k, math.nan)) and np.isfinite(r.draws).all()
    }
    draws = {k: r.draws for k, r in sound.items()}
    draws |= {f"repeats/{k}": r.repeats for k, r in sound.items() if len(r.repeats) > 1}
    draws |= {f"share/{k}": np.array([r.share]) for k, r in sound.items() if r.share < 1}
    intervals = {
        k: estimate_interval(r, values[k], metric.bounds, result.per_example.get(k), prompts) for k, r in sound.items()
    }
    return {"draws": draws, "intervals": {k: asdict(i) for k, i in intervals.items() if i is not None}}


def _build_undefined_result(
    metric: Metric, facts: Mapping[str, str], human: TextRows, model: TextRows, reason: UndefinedMetric
) -> MetricResult:
    counts = [len(RowFile(s.path)) if s.entry is not None else 0 for s in (human, model)]
    return MetricResult(
        metric=metric.name, signature=build_signature(metric, facts), primary=metric.name,
        values={metric.name: float("nan")},
        n_human=counts[0], n_model=counts[1], status="undefined", notes=(str(reason),),
    )  # fmt: skip


def digest_judgments(path: Path, columns: Mapping[str, str]) -> str:
    """Digest of a file of judgments and of how its columns are read."""
    return digest([digest_file(path), dict(columns)]) if columns else digest_file(path)


def list_text_needs(metric: Metric) -> tuple[Need, ...]:
    """Return the needs computed from texts; judgments come from a file."""
    return tuple(need for need in metric.needs() if need.kind != "judgments")
