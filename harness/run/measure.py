"""The measure stage: every metric over the features of both sides."""

import inspect
import logging
import math
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from openended.harness import core
from openended.harness.run.dataset import REFERENCE_ROWS
from openended.harness.run.facts import FactOptions, collect_facts, describe_token_ids
from openended.harness.run.features import FeatureTable
from openended.harness.run.steps import Executor, Input, Inputs, Step, StepFailedError, TextRows
from openended.harness.storage import RowFile, load_result, save_result
from openended.metrics.families import TwoSample

if TYPE_CHECKING:
    from openended.harness.run.players import JudgmentSource

log = logging.getLogger(__name__)

SystemRole = Literal["human", "model", "ceiling"]
# From this many texts on a side, nothing derived is kept for the next metric: indexes would fill the memory.
MANY = 200_000
_RESULT_TYPES = {"metric": str, "signature": str, "n_human": int, "n_model": int, "values": Mapping, "sd": Mapping,
                 "notes": tuple}  # fmt: skip
_NO_VALUE = "a resample of so few texts has no value"


@dataclass(frozen=True, slots=True)
class Measurement:
    """One metric of one system; `declare` adds the step, or the reason why there is no value."""

    metric: core.Metric
    system: SystemRole
    human: TextRows
    model: TextRows  # what a metric of one side reads
    reason: str = ""
    step: Step | None = None
    texts_per_prompt: int = 0  # of the human row, where prompts have several texts: as many as the system has

    @property
    def sides(self) -> tuple[TextRows, ...]:
        """The texts that are read."""
        return {"one": (self.model,), "human": (self.human,), "two": (self.human, self.model)}[self.metric.sides]

    def read_result(self, options: FactOptions, executor: Executor) -> core.MetricResult:
        """Return the result; that of a metric without a value, or whose code raised, has a note with why."""
        reason = self.reason
        status: core.Status = "undefined"
        if self.step is not None:
            try:
                entry = executor.get(self.step)
                return describe_result(self.system, self.metric, load_result(entry.path), entry.name)
            except StepFailedError as err:
                reason, status = str(err), "failed"
            except core.UndefinedMetric as err:
                reason = str(err)
        facts = collect_facts(options, self.metric, self.human, self.model, executor)
        counts = [
            executor.read_artifact(rows.rows, lambda path: len(RowFile(path)), 0) for rows in (self.human, self.model)
        ]
        result = _build_undefined_result(self.metric, facts, counts, reason, status)
        return describe_result(self.system, self.metric, result, None)


def describe_result(
    system: str, metric: core.Metric, result: core.MetricResult, artifact: str | None
) -> core.MetricResult:
    """Return a result with what tables say of its system and its metric."""

    def name_best(key: str) -> str:
        if key in result.unranked:
            return "none"
        target = metric.target_of(key)
        return metric.best_of(key) if target is None else f"nearest {target:g}"

    return replace(
        result, system=system, artifact=artifact, family=metric.family, direction=metric.direction,
        directions={key: name_best(key) for key in result.values}, titles=dict(metric.titles),
        bounds={key: metric.bounds_of(key, result) for key in result.values}, resampling=metric.resampling,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class MeasureStage:
    """Declares the metrics of a run; `features` has declared all that they need."""

    options: FactOptions
    features: FeatureTable
    intervals: int
    others: Sequence[TextRows] = ()
    """All systems of a grid, for metrics that fit something on all of them."""
    judgments: "JudgmentSource | None" = None
    """None where no metric reads judgments."""

    def declare(self, measurement: Measurement) -> Measurement:
        """Declare a metric of a system; one that has no value has a reason in place of a step."""
        metric, system, texts_per_prompt = measurement.metric, measurement.system, measurement.texts_per_prompt
        human, model, judged, player = measurement.human, measurement.model, None, ""
        try:
            needs_file = len(metric.text_needs()) < len(metric.needs())
            if needs_file and self.judgments is not None and isinstance(metric, core.ReadsFile):
                judged, player = self.judgments.read_player(metric, human=system == core.HUMAN)
            inputs = self._list_inputs(metric, human, model)
        except core.UndefinedMetric as err:
            return replace(measurement, reason=str(err))

        executor = self.features.executor

        @cache
        def build_spec() -> Mapping[str, Any]:
            spec = {
                "metric": core.canonicalize(metric),
                "facts": collect_facts(self.options, metric, human, model, executor),
                "system": "model" if system == core.HUMAN else system,  # the same texts as a system: one artifact
            }
            is_imported = self.options.texts.generations is not None
            if ids := describe_token_ids(metric, model, self.options.models, executor, is_imported=is_imported):
                spec["ids"] = ids
            if judged is not None:
                spec["player"] = player
            if texts_per_prompt:
                spec["texts_per_prompt"] = texts_per_prompt
            if code := _digest_plugin(metric):
                spec["code"] = code
            if self.intervals:
                spec["intervals"] = [self.intervals, core.RESAMPLING_VERSION]
            return spec

        def write(folder: Path, inputs: Inputs) -> Mapping[str, Any]:
            spec = build_spec()
            features, notes = self._load_features(metric, human, model, spec["facts"], inputs), list[str]()
            features = replace(features, texts_per_prompt=texts_per_prompt)
            if judged is not None and isinstance(metric, core.ReadsFile):
                data = {need: judged for need in metric.needs() if need.kind == "judgments"}
                parts = {name: getattr(features, name) for name in ("human", "model", "references")}
                sides = {n: replace(side, data={**side.data, **data}) for n, side in parts.items() if side is not None}
                features = replace(features, **{**sides, "model": replace(sides["model"], system=player)})
                if core.HUMAN not in judged.players:
                    features = replace(features, references=None)
            if isinstance(metric, TwoSample):
                features, notes = metric.limit_texts(features)
            try:
                result = compute_metric(metric, features, core.Plan(self.intervals))
            except core.UndefinedMetric as err:
                counts = [len(features.human), len(features.model)]
                result = _build_undefined_result(metric, spec["facts"], counts, str(err))
            except core.HarnessError:
                raise
            except (Exception, SystemExit) as err:
                reason = f"failed with {type(err).__name__}: {core.shorten_error(err)}{core.format_last_frame(err)}"
                log.error("metric %s of %s %s", metric.name, model.title, reason)
                log.debug("%s", "".join(traceback.format_exception(err)))
                raise StepFailedError(reason) from err
            for side in (features.human, features.model):
                if len(side) >= MANY:
                    side.drop_derived()
            id_notes = (f"computed on {spec['ids']}",) if "ids" in spec else ()
            return save_result(folder, replace(result, notes=(*result.notes, *notes, *id_notes)))

        what = f"{metric.name} {system}"
        step = Step("measure", what, system, build_spec, inputs, write, metric=metric.name)
        return replace(measurement, step=step)

    def _list_inputs(self, metric: core.Metric, human: TextRows, model: TextRows) -> dict[str, Input]:
        needs = metric.text_needs()
        inputs: dict[str, Input] = {}
        if self.judgments is not None and len(needs) < len(metric.needs()):
            inputs["judgments"] = self.judgments.digest
        if metric.sides != "one" or _reads_references(metric, human):
            inputs |= self.features.list_inputs("human", human, needs)
        if metric.sides != "human":
            inputs |= self.features.list_inputs("model", model, needs)
        for number, other in enumerate(self.others if metric.reads_grid else ()):
            inputs |= self.features.list_inputs(f"other {number}", other, needs)
        return inputs

    def _load_features(
        self, metric: core.Metric, human: TextRows, model: TextRows, facts: Mapping[str, str], inputs: Inputs
    ) -> core.Features:
        """Load both sides; a metric of one side gets it as both."""
        needs, load = metric.text_needs(), self.features.load_side
        of_model = ("human", human) if metric.sides == "human" else ("model", model)
        model_side = load(*of_model, needs, inputs)
        human_side = model_side if metric.sides == "one" else load("human", human, needs, inputs)
        references = load("human", human, needs, inputs) if _reads_references(metric, human) else None
        systems = enumerate(self.others) if metric.reads_grid else ()
        others = [load(f"other {number}", other, needs, inputs) for number, other in systems]
        if not core.is_bundled(type(metric)):  # what a plug-in changes is seen by no other metric
            copies: dict[int, core.Side] = {}
            for side in (human_side, model_side, *others):
                lists = {need: list(value) for need, value in side.data.items() if isinstance(value, list)}
                copies[id(side)] = replace(side, data={**side.data, **lists})
            human_side, model_side, *others = (copies[id(side)] for side in (human_side, model_side, *others))
        return core.Features(human_side, model_side, facts, tuple(others), references)


def _reads_references(metric: core.Metric, human: TextRows) -> bool:
    """Return whether a metric reads these human texts, several per prompt, next to those of the system."""
    return metric.reads_references and human.file == REFERENCE_ROWS


def _digest_plugin(metric: core.Metric) -> str:
    """Return a digest of a plug-in's module, so that an edit computes its values again."""
    if core.is_bundled(type(metric)):
        return ""
    try:
        return core.digest(inspect.getsource(sys.modules[type(metric).__module__]))
    except (KeyError, OSError, TypeError):  # a class that was typed at a prompt
        return ""


def compute_metric(metric: core.Metric, features: core.Features, plan: core.Plan) -> core.MetricResult:
    """Compute a metric and the intervals of its values; what both need is prepared once."""
    prepared = metric.prepare(features)
    result = check_result(metric.evaluate(features, prepared))
    for name, value in result.values.items():
        low, high = metric.bounds_of(name, result)
        slack = 1e-6 * max(1.0, abs(value))  # of rounding
        if value < low - slack or value > high + slack:
            raise TypeError(f"values.{name}: expected {low:g} to {high:g} (bounds of {metric.name}), got {value:g}")
    return add_intervals(metric, features, result, plan, prepared)


def check_result(result: object) -> core.MetricResult:
    """Return what a metric computed if it can be stored and shown; an error says what is wrong with it."""
    if not isinstance(result, core.MetricResult):
        raise TypeError(f"expected a MetricResult, got {type(result).__name__}")
    for name, kind in _RESULT_TYPES.items():
        if not isinstance(getattr(result, name), kind):
            raise TypeError(f"{name}: expected {kind.__name__}, got {getattr(result, name)!r:.40}")
    numbers = {f"{kind}.{name}": x for kind in ("values", "sd") for name, x in getattr(result, kind).items()}
    for name, number in numbers.items():
        if isinstance(number, bool) or not isinstance(number, Real) or math.isinf(number):
            raise TypeError(f"{name}: expected a finite number or NaN, got {number!r:.40}")
    if unknown := {*result.sd, *([result.primary] if result.values else [])} - set(result.values):
        raise TypeError(f"{min(unknown)!r}: expected the name of a value, one of {', '.join(result.values)}")
    for name, array in {**result.per_example, **result.arrays}.items():
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "biuf":
            got = getattr(array, "dtype", type(array).__name__)
            raise TypeError(f"array {name}: expected numbers, got {got}")
    return result


def add_intervals(
    metric: core.Metric, features: core.Features, result: core.MetricResult, plan: core.Plan,
    prepared: Any = None,  # noqa: ANN401 - of the metric
) -> core.MetricResult:  # fmt: skip
    """Add replicates of the values and their intervals, or why there are none; a failure is logged."""
    if result.status != "ok" or not plan.count:
        return result
    if max(len(features.human), len(features.model)) > core.MOST:
        return replace(result, no_interval=dict.fromkeys(result.values, f"more than {core.MOST:,} texts"))
    if not plan.has_enough_prompts(features.model.ids):
        return result
    try:
        replicates = dict(metric.replicates(features, result, plan, prepared))
    except core.UndefinedMetric:
        return replace(result, no_interval=dict.fromkeys(result.values, _NO_VALUE))
    except (Exception, SystemExit) as err:
        reason = f"{type(err).__name__}: {core.shorten_error(err)}"
        log.warning("metric %s: no interval: %s", metric.name, reason)
        log.debug("%s", "".join(traceback.format_exception(err)))
        return replace(result, no_interval=dict.fromkeys(result.values, reason))
    values, prompts = result.values, result.arrays.get("prompts")
    count = min(len(set(side.ids)) for side in (features.human, features.model))
    defined = {k: replace(r, prompts=count) for k, r in replicates.items() if math.isfinite(values.get(k, math.nan))}
    sound = {k: r for k, r in defined.items() if np.isfinite(r.draws).all() and math.isfinite(r.std_error())}
    intervals = {}
    least, reason = metric.no_interval_below
    too_few = reason if min(len(features.human), len(features.model)) < least else ""
    for k, r in sound.items() if not too_few else ():
        bounds = metric.bounds_of(k, result)
        rows, is_share = metric.rows_of(k, result), k in metric.shares
        interval = core.estimate_interval(r, values[k], bounds, rows, prompts, is_share=is_share)
        if interval is not None:
            intervals[k] = asdict(interval)
    few = f"fewer than {core.LEAST_DIFFERENT} texts differ from the others"
    reasons = {
        k: _NO_VALUE if k not in sound else too_few or (few if sound[k].varies else "no variation seen")
        for k in defined
        if k not in intervals
    }
    return replace(result, draws=core.pack_replicates(sound), intervals=intervals, no_interval=reasons)


def _build_undefined_result(
    metric: core.Metric, facts: Mapping[str, str], counts: Sequence[int], reason: str, status: core.Status = "undefined"
) -> core.MetricResult:
    return core.MetricResult(
        metric=metric.name, signature=core.build_signature(metric, facts), primary=metric.name,
        values={metric.name: float("nan")},
        n_human=counts[0], n_model=counts[1], status=status, notes=(reason,),
    )  # fmt: skip
