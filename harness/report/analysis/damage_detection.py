"""Which strengths of a damage to human text a metric detects, from the runs of `openended stress`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from openended.harness.core import DataError, parse_signature
from openended.harness.imported import Damage, list_damages, parse_damage
from openended.harness.report.analysis.paired import correct_by_holm
from openended.harness.results import Results, SystemValue, find_interval

LEVEL = 0.05
Z = 1.96  # two-sided, of one test at this level


@dataclass(frozen=True, slots=True)
class DamagedValue:
    """The value of a metric on texts with one damage at one strength."""

    percent: int
    value: float
    std_error: float
    """NaN if it is unknown."""
    interval: tuple[float, float] | None
    detected: bool | None
    """Whether it differs from the value on undamaged texts; None if that is not known."""


@dataclass(frozen=True, slots=True)
class DamageCurve:
    """The values of one metric over the strengths of one damage."""

    metric: str
    key: str
    title: str
    embedder: str
    """Name and pooling; empty for a metric that reads none."""
    damage: str
    undamaged: DamagedValue
    points: tuple[DamagedValue, ...]
    """By strength."""

    @property
    def smallest(self) -> int | None:
        """Return the smallest strength that is detected, percent; None if none is."""
        return next((point.percent for point in self.points if point.detected), None)

    @property
    def is_known(self) -> bool:
        """Return whether the metric has a value with an error at some strength."""
        return any(point.detected is not None for point in self.points)

    @property
    def is_monotone(self) -> bool:
        """Return whether no step goes against the whole change by more than the error of the step."""
        points = [p for p in (self.undamaged, *self.points) if math.isfinite(p.value)]
        direction = math.copysign(1.0, points[-1].value - points[0].value) if points else 1.0
        return all(
            (after.value - before.value) * direction >= 0 or not compute_p_value(before, after) < LEVEL
            for before, after in itertools.pairwise(points)
        )


def compute_p_value(first: DamagedValue, second: DamagedValue) -> float:
    """Return the p-value of two equal values, as if they were of different texts; NaN if an error is unknown."""
    error = math.hypot(first.std_error, second.std_error)
    return math.erfc(abs(first.value - second.value) / error / math.sqrt(2)) if error > 0 else math.nan


def find_damage_curves(results: Results, items: Sequence[SystemValue]) -> list[DamageCurve]:
    """Return the curve of every value of every metric over every damage, in the order of `list_damages`."""
    groups: dict[tuple[str, str, str], dict[Damage, SystemValue]] = {}
    for item in (i for i in items if i.system == "model"):
        damage = parse_damage(item.axes.get("model", ""))
        if damage is not None and item.direction != "none":
            groups.setdefault((item.metric, item.key, item.signature), {})[damage] = item
    curves: dict[tuple[str, str, str, str], tuple[str, DamageCurve]] = {}
    for (metric, key, signature), values in groups.items():
        start = next((item for damage, item in values.items() if damage.percent == 0), None)
        if start is None:
            continue
        undamaged, embedder = _read_value(results, start, 0), _name_embedder(start)
        for kind in sorted({damage.kind for damage in values if damage.percent}, key=list_damages().index):
            strengths = sorted((damage.percent, item) for damage, item in values.items() if damage.kind == kind)
            points = detect_damage([_read_value(results, item, percent) for percent, item in strengths], undamaged)
            curve = DamageCurve(metric, key, start.title, embedder, kind, undamaged, points)
            other, _ = curves.setdefault((metric, key, embedder, kind), (signature, curve))
            if other != signature:  # one curve would hide the other
                raise DataError(
                    f"layout stress: {metric} has two signatures ({other} and {signature}); report runs of one of them"
                )
    if not curves:
        raise DataError("layout stress: no damaged texts in these runs; openended stress makes them")
    return [curve for _, curve in curves.values()]


def detect_damage(points: Sequence[DamagedValue], undamaged: DamagedValue) -> tuple[DamagedValue, ...]:
    """Test each strength against no damage; Holm's correction, because each is another chance to be the smallest."""
    p_values = correct_by_holm({point.percent: compute_p_value(undamaged, point) for point in points})
    return tuple(
        replace(point, detected=p_values[point.percent] < LEVEL) if point.percent in p_values else point
        for point in points
    )


def _read_value(results: Results, item: SystemValue, percent: int) -> DamagedValue:
    interval = find_interval(results, item)
    error = interval.std_error if interval is not None else math.nan
    ends = (interval.low, interval.high) if interval is not None else None
    return DamagedValue(percent, item.mean, error, ends, None)


def _name_embedder(item: SystemValue) -> str:
    """Return name and pooling of the embedder that a value was computed with; empty if with none."""
    if "embedder" not in parse_signature(item.signature):
        return ""
    return "/".join(filter(None, (item.axes.get("embedder", ""), item.axes.get("embedder.pooling", ""))))
