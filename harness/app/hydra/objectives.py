"""Objectives of a search: values of metrics to maximize, to minimize or to bring near the human value."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from openended.harness.core import DataError, Metric, SpecError, suggest
from openended.harness.storage import ResultRow, RunRecord

Aim = Literal["maximize", "minimize", "toward_human"]
AIMS: tuple[Aim, ...] = ("maximize", "minimize", "toward_human")


@dataclass(frozen=True, slots=True)
class Objective:
    """One value and its direction."""

    aim: Aim
    name: str
    """`metric`, `metric.key`, or a key of one of the metrics."""

    @property
    def direction(self) -> Literal["maximize", "minimize"]:
        """The direction for Optuna; the distance to a human value is minimized."""
        return "maximize" if self.aim == "maximize" else "minimize"

    @property
    def title(self) -> str:
        """Name of the value, or of its distance to the human value."""
        return f"|Δ {self.name}|" if self.aim == "toward_human" else self.name

    def check(self, metrics: Sequence[Metric]) -> None:
        """Check that the runs will measure the value."""
        by_name = {m.name: m for m in metrics}
        head, _, _ = self.name.partition(".")
        metric = by_name.get(head) or next((m for m in metrics if self.name in {*m.titles, *m.directions}), None)
        if metric is None:
            raise SpecError(
                f"{self.aim}: {self.name!r} is in none of metric=[{','.join(by_name)}]{suggest(head, by_name)}; "
                "add its metric, or name a value as metric.key"
            )
        if metric.reads_grid:
            raise SpecError(
                f"{self.aim}: {metric.name} is measured when all runs have ended; a search cannot wait for it"
            )
        if self.aim == "toward_human" and metric.sides != "one":
            raise SpecError(
                f"toward_human: {metric.name} has no human value (it compares with the human text): maximize it"
            )

    def value(self, record: RunRecord) -> float:
        """Read the value from the record of a finished run."""
        row, key = self._find_value(record)
        value = row.values.get(key, math.nan)
        if not math.isfinite(value):
            raise DataError(f"{self.name} has no value: {'; '.join(row.notes) or row.status}")
        if self.aim != "toward_human":
            return value
        same = (r for r in record.results if (r.system, r.metric) == ("human", row.metric))
        human = next((r.values.get(key, math.nan) for r in same), math.nan)
        if not math.isfinite(human):
            raise DataError(f"toward_human: there is no human value of {self.name}")
        return abs(value - human)

    def _find_value(self, record: RunRecord) -> tuple[ResultRow, str]:
        """Return the row that holds the value, and its key there."""
        rows = [row for row in record.results if row.system == "model"]
        head, _, key = self.name.partition(".")
        for row in rows:
            if row.metric == head:
                if key and row.status == "ok" and key not in row.values:
                    raise SpecError(f"{self.aim}: {head} has no value {key!r}{suggest(key, row.values)}")
                return row, key or row.primary
        for row in rows:
            if self.name in row.values:
                return row, self.name
        raise DataError(f"{self.name} was not measured")


def parse_objectives(node: Mapping[str, object]) -> tuple[Objective, ...]:
    """Read the objectives of a search from its options."""
    objectives: list[Objective] = []
    for aim in AIMS:
        value = node.get(aim) or []
        names = [value] if isinstance(value, str) else value
        if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
            raise SpecError(f"{aim}: expected a list of values, as in {aim}=[mauve], got {value!r:.60}")
        objectives += [Objective(aim, name) for name in names]
    if not objectives:
        raise SpecError(
            "no objective: say what to search for, maximize=[mauve], minimize=[…] or toward_human=[gen_ppl]"
        )
    names = [objective.name for objective in objectives]
    if twice := {name for name in names if names.count(name) > 1}:
        raise SpecError(f"{min(twice)} is an objective twice: choose one of maximize, minimize and toward_human")
    return tuple(objectives)
