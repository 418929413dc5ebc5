"""The second half of a run: every metric over the features of both sides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from openended.harness.contract import Features, Metric, Need, Side
from openended.harness.errors import DataError, UndefinedMetric
from openended.harness.io import file_digest
from openended.harness.rows import Rows
from openended.harness.run import artefacts as stages
from openended.harness.run.sides import SideMaker
from openended.harness.run.steps import Source
from openended.harness.signature import canonical, digest, signature
from openended.harness.types import HUMAN, Json, MetricResult
from openended.metrics._judgments import JudgmentMetric

System = Literal["human", "model", "ceiling"]


@dataclass(frozen=True, slots=True)
class Measured:
    """One metric of one system, and where its arrays are."""

    system: System
    metric: Metric
    result: MetricResult
    artefact: str | None

    def row(self) -> dict[str, Json]:
        """Return the line of the run record."""
        r, m = self.result, self.metric
        directions = {name: m.best_of(name) for name in r.values}
        return {
            "system": self.system, "metric": r.metric, "signature": r.signature, "primary": r.primary,
            "values": dict(r.values), "sd": dict(r.sd), "n_human": r.n_human, "n_model": r.n_model,
            "status": r.status, "notes": list(r.notes), "family": m.family, "direction": m.direction,
            "directions": dict(directions), "titles": dict(m.titles), "bounds": list(m.bounds),
            "resampling": m.resampling, "artefact": self.artefact,
        }  # fmt: skip


class Measure:
    """Computes metrics from sources through the store.

    Args:
        sides: Makes features.
        fingerprint: Digest of the task's data, for the signature.
        others: All systems of a grid, for metrics that fit something on all of them.
    """

    def __init__(self, sides: SideMaker, fingerprint: str | None, others: Sequence[Source] = ()) -> None:
        self.sides = sides
        self.steps = sides.steps
        self.fingerprint = fingerprint
        self.others = tuple(others)

    def measure(self, metric: Metric, system: System, human: Source, model: Source) -> Measured | None:
        """Return the metric's result for a system; None while planning what is not made yet."""
        facts = self.steps.ask(lambda: self.facts(metric, human, model))
        if facts is None:
            self.steps.wait("measure", f"{metric.name} {system}")
            return None
        try:
            inputs = self._inputs(metric, human, model)
        except UndefinedMetric as err:
            return Measured(system, metric, _undefined(metric, facts, human, model, err), None)

        def build(folder: Path) -> Mapping[str, Any]:
            features = self._features(metric, human, model, facts)
            try:
                result = metric.compute(features)
            except UndefinedMetric as err:
                result = _undefined(metric, facts, human, model, err)
            return stages.save_result(folder, result)

        spec = {"metric": canonical(metric), "facts": dict(facts), "system": "model" if system == HUMAN else system}
        entry = self.steps.step("measure", f"{metric.name} {system}", 1, spec, inputs, build)
        if entry is None:
            return None
        return Measured(system, metric, stages.load_result(entry.path), entry.name)

    def undefined(self, metric: Metric, system: System, human: Source, model: Source, reason: str) -> Measured:
        """Return the "–" of a metric that has no value here."""
        facts = self.steps.ask(lambda: self.facts(metric, human, model)) or {}
        return Measured(system, metric, _undefined(metric, facts, human, model, UndefinedMetric(reason)), None)

    def facts(self, metric: Metric, human: Source, model: Source) -> dict[str, str]:
        """Facts of the data that identify a number beside the metric's options; same for all systems of a column."""
        s = self.sides.settings
        needs = metric.needs()
        roles = {need.by for need in needs} | {need.kind for need in needs}
        facts: dict[str, str] = {}
        if "embeddings" in roles and s.embedder is not None:
            e = s.embedder
            place = f"{e.pooling}/{e.layer}/{e.max_length or 'full'}"
            facts["embedder"] = f"{e.title}@{digest(e.identity())[:6]}/{place}"
        if "scorer" in roles and s.scorer is not None:
            facts["scorer"] = f"{s.scorer.title}@{digest(s.scorer.identity())[:6]}"
        n_human, n_model = _count(human), _count(model)
        facts["n"] = f"{n_human}/{n_model}" if metric.sides == "two" else n_model
        if "judgments" in roles and s.judgments is not None and Path(s.judgments).is_file():
            facts["judgments"] = f"{Path(s.judgments).name}@{file_digest(Path(s.judgments))[:6]}"
        facts["length"] = str(s.max_new_tokens)
        facts["task"] = f"{s.task.name}@{(self.fingerprint or '')[:6]}"
        return facts

    def _inputs(self, metric: Metric, human: Source, model: Source) -> dict[str, str | None]:
        needs = _from_texts(metric)
        inputs: dict[str, str | None] = {}
        if len(needs) < len(metric.needs()):
            inputs["judgments"] = file_digest(self._judgments())
        if metric.sides != "one":
            inputs |= {f"human {k}": v for k, v in self.sides.digests(human, needs).items()}
        if metric.sides != "human":
            inputs |= {f"model {k}": v for k, v in self.sides.digests(model, needs).items()}
        for number, other in enumerate(self._others(metric)):
            inputs |= {f"other {number} {k}": v for k, v in self.sides.digests(other, needs).items()}
        return inputs

    def _features(self, metric: Metric, human: Source, model: Source, facts: Mapping[str, str]) -> Features:
        needs = _from_texts(metric)
        theirs = self._side(model, needs) if metric.sides != "human" else None
        ours = self._side(human, needs) if metric.sides != "one" else None
        human_side = ours or theirs
        model_side = theirs or ours
        if human_side is None or model_side is None:
            raise UndefinedMetric(f"{metric.name} reads neither side")
        if isinstance(metric, JudgmentMetric):
            judged = {need: metric.read(self._judgments()) for need in metric.needs() if need.kind == "judgments"}
            human_side = replace(human_side, data={**human_side.data, **judged})
            model_side = replace(model_side, data={**model_side.data, **judged})
        return Features(
            human_side, model_side, facts, tuple(self._side(other, needs) for other in self._others(metric))
        )

    def _others(self, metric: Metric) -> tuple[Source, ...]:
        return self.others if metric.reads_grid else ()

    def _judgments(self) -> Path:
        path = self.sides.settings.judgments
        if path is None:
            raise UndefinedMetric("needs human judgments: give judgments=FILE")
        if not Path(path).is_file():
            raise DataError(f"judgments: no such file: {path}")
        return Path(path)

    def _side(self, source: Source, needs: Sequence[Need]) -> Side:
        return self.sides.side(source, needs)


def _count(source: Source) -> str:
    return str(len(Rows(source.path))) if source.entry is not None else "?"


def _undefined(
    metric: Metric, facts: Mapping[str, str], human: Source, model: Source, reason: UndefinedMetric
) -> MetricResult:
    counts = [len(Rows(s.path)) if s.entry is not None else 0 for s in (human, model)]
    return MetricResult(
        metric=metric.name, signature=signature(metric, facts), primary=metric.name, values={metric.name: float("nan")},
        n_human=counts[0], n_model=counts[1], status="undefined", notes=(str(reason),),
    )  # fmt: skip


def _from_texts(metric: Metric) -> tuple[Need, ...]:
    """The needs that are made of texts; judgments come from their file."""
    return tuple(need for need in metric.needs() if need.kind != "judgments")
