"""Decoder sweeps: the settings of one decoder with everything else equal, and the choice of the best."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from openended.harness.report.analysis.best_of_n import BestOfN, compute_curve, halves
from openended.harness.results import (
    System,
    SystemValue,
    find_distinguishing_axes,
    find_human_value,
    format_option,
    group_systems,
)

MIN_SETTINGS = 2  # of a sweep


@dataclass(frozen=True, slots=True)
class DecoderSweep:
    """A decoder and the systems with its settings."""

    name: str
    systems: tuple[System, ...]


def group_sweeps(items: Sequence[SystemValue]) -> list[DecoderSweep]:
    """Group systems that differ only in decoder options, in table order."""
    groups: dict[tuple[tuple[str, str], ...], list[System]] = {}
    for system in group_systems(items):
        axes = system.items[0].axes
        groups.setdefault(tuple((k, v) for k, v in axes.items() if not k.startswith("decoder.")), []).append(system)
    rows = [dict(key) for key in groups]
    names = [row.get("decoder", "") for row in rows]
    shared = {name for name, count in Counter(names).items() if count > 1}
    axis_names = find_distinguishing_axes(rows, [a for row in rows[:1] for a in row if a != "decoder"])
    labels = [
        ", ".join([name, *(format_option(a, row[a]) for a in axis_names)]) if name in shared else name
        for name, row in zip(names, rows, strict=True)
    ]
    return [DecoderSweep(label, tuple(members)) for label, members in zip(labels, groups.values(), strict=True)]


def find_cost_rule(item: SystemValue, items: Sequence[SystemValue]) -> dict[str, float] | None:
    """Return sign and target of a value, as used by `best_of_n`; None if no value is best or the target is unknown."""
    if item.direction in ("higher", "lower"):
        return {"sign": -1.0 if item.direction == "higher" else 1.0, "target": math.nan}
    target = item.target
    if target is None and item.direction == "match_human":
        human = find_human_value(items, item)
        target = human.mean if human is not None else math.nan
    return {"sign": 1.0, "target": target} if target is not None and math.isfinite(target) else None


def is_gap(item: SystemValue) -> bool:
    """Return whether the distance to a target is printed instead of the value."""
    return item.direction == "match_human" or item.target is not None


def describe_printed_value(item: SystemValue) -> tuple[str, str]:
    """Return title and direction of the printed number: the distance if the value has a target, else the value."""
    return (f"|Δ {item.title}|", "lower") if is_gap(item) else (item.title, item.direction)


def compute_curves(items: Sequence[SystemValue], pair: tuple[str, str]) -> tuple[list[BestOfN], list[str]]:
    """Return the curve of every decoder with a sweep, and the names of decoders without one."""
    curves, without = [], []
    for sweep in group_sweeps(items):
        values = [v for s in sweep.systems if (v := s.value(*pair)) is not None and math.isfinite(v.mean)]
        cost = find_cost_rule(values[0], items) if values else None
        if cost is None or len(values) < MIN_SETTINGS:
            without.append(sweep.name)
            continue
        curves.append(compute_curve(sweep.name, [v.values for v in values], cost=cost))
    return curves, without


def choose_setting(
    sweep: DecoderSweep, items: Sequence[SystemValue], pair: tuple[str, str]
) -> tuple[System, tuple[str, ...]] | None:
    """Select the best setting of a decoder by the first half of the seeds; also return the other seeds.

    With one seed, the best setting overall is returned without other seeds.
    """
    candidates = [(s, v) for s in sweep.systems if (v := s.value(*pair)) is not None and math.isfinite(v.mean)]
    cost = find_cost_rule(candidates[0][1], items) if candidates else None
    if cost is None:
        return None
    seeds = [s for s in candidates[0][1].values if all(s in v.values for _, v in candidates)]
    splits = halves(len(seeds))
    choosing, scoring = splits[0] if splits else (tuple(range(len(seeds))), ())
    best = min(candidates, key=lambda pair: _compute_cost(pair[1], [seeds[i] for i in choosing], cost))
    return best[0], tuple(seeds[i] for i in scoring)


def _compute_cost(item: SystemValue, seeds: Sequence[str], cost: Mapping[str, float]) -> float:
    mean = math.fsum(item.values[s] for s in seeds) / len(seeds) if seeds else item.mean
    return cost["sign"] * (mean if math.isnan(cost["target"]) else abs(mean - cost["target"]))
