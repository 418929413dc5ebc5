"""The sweeps of a report: all settings of one decoder, everything else equal, and how good each setting is."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from openended.harness.report.analysis.best_of_n import BestOfN, curve, halves
from openended.harness.results import Folded, System, human_value, said, systems_of, telling

LEAST = 2  # settings that make a sweep


@dataclass(frozen=True, slots=True)
class SweepOf:
    """A decoder and all its settings."""

    name: str
    systems: tuple[System, ...]


def sweeps_of(items: Sequence[Folded]) -> list[SweepOf]:
    """Group systems that differ in the decoder's own options alone, in the order of the tables."""
    groups: dict[tuple[tuple[str, str], ...], list[System]] = {}
    for system in systems_of(items):
        axes = system.items[0].axes
        groups.setdefault(tuple((k, v) for k, v in axes.items() if not k.startswith("decoder.")), []).append(system)
    rows = [dict(key) for key in groups]
    names = [row.get("decoder", "") for row in rows]
    shared = {name for name, count in Counter(names).items() if count > 1}
    told = telling(rows, [a for row in rows[:1] for a in row if a != "decoder"])
    labels = [
        ", ".join([name, *(said(a, row[a]) for a in told)]) if name in shared else name
        for name, row in zip(names, rows, strict=True)
    ]
    return [SweepOf(label, tuple(found)) for label, found in zip(labels, groups.values(), strict=True)]


def cost_of(item: Folded, items: Sequence[Folded]) -> dict[str, float] | None:
    """Return what is best of a value, as `best_of_n.curve` takes it; nothing where nothing is, or it is not known."""
    if item.direction in ("higher", "lower"):
        return {"sign": -1.0 if item.direction == "higher" else 1.0, "target": math.nan}
    target = item.target
    if target is None and item.direction == "match_human":
        human = human_value(items, item)
        target = human.mean if human is not None else math.nan
    return {"sign": 1.0, "target": target} if target is not None and math.isfinite(target) else None


def is_gap(item: Folded) -> bool:
    """Say whether a distance is what is printed."""
    return item.direction == "match_human" or item.target is not None


def printed_as(item: Folded) -> tuple[str, str]:
    """Return the title and the direction of what is printed: of the distance where there is something to be near."""
    return (f"|Δ {item.title}|", "lower") if is_gap(item) else (item.title, item.direction)


def curves_of(items: Sequence[Folded], pair: tuple[str, str]) -> tuple[list[BestOfN], list[str]]:
    """Return the curve of every decoder with a sweep, and the names of those that have none."""
    made, without = [], []
    for sweep in sweeps_of(items):
        found = [v for s in sweep.systems if (v := s.value(*pair)) is not None and math.isfinite(v.mean)]
        cost = cost_of(found[0], items) if found else None
        if cost is None or len(found) < LEAST:
            without.append(sweep.name)
            continue
        made.append(curve(sweep.name, [v.values for v in found], cost=cost))
    return made, without


def chosen(sweep: SweepOf, items: Sequence[Folded], pair: tuple[str, str]) -> tuple[System, tuple[str, ...]] | None:
    """Return the setting of a decoder that the first half of the seeds calls best, and the seeds of the other half.

    With one seed it is the best of all, and there are no other seeds.
    """
    found = [(s, v) for s in sweep.systems if (v := s.value(*pair)) is not None and math.isfinite(v.mean)]
    cost = cost_of(found[0][1], items) if found else None
    if cost is None:
        return None
    seeds = [s for s in found[0][1].values if all(s in v.values for _, v in found)]
    splits = halves(len(seeds))
    choosing, scoring = splits[0] if splits else (tuple(range(len(seeds))), ())
    best = min(found, key=lambda pair: _cost(pair[1], [seeds[i] for i in choosing], cost))
    return best[0], tuple(seeds[i] for i in scoring)


def _cost(item: Folded, seeds: Sequence[str], cost: Mapping[str, float]) -> float:
    mean = math.fsum(item.values[s] for s in seeds) / len(seeds) if seeds else item.mean
    return cost["sign"] * (mean if math.isnan(cost["target"]) else abs(mean - cost["target"]))
