"""Decoder sweeps: the settings of one decoder with everything else equal, the best of them, and the best of N.

A decoder with a wider sweep has a better best setting, and the best of many noisy values is biased upward. Therefore
every decoder gets the same number N of settings, drawn without replacement from its m, and the setting that is best on
one part of the seeds is scored on the other part:

    E = Σ_i s_(i) · C(i - 1, N - 1) / C(m, N),    i = 1 … m the ranks by the selection seeds, worst first.

N = 1 is the mean of a sweep, N = m its best. Recommended by the critique of min-p by Schaeffer et al. 2025.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from openended.harness.core import F64
from openended.harness.report.analysis.paired import compute_student_quantile
from openended.harness.results import (
    System,
    SystemValue,
    find_distinguishing_axes,
    find_human_value,
    format_option,
    group_systems,
)

MIN_SETTINGS = 2  # of a sweep
MOST_SPLITS = 20  # of the seeds into halves; with more than six seeds, only the first and second half


@dataclass(frozen=True, slots=True)
class DecoderSweep:
    """A decoder and the systems with its settings."""

    name: str
    systems: tuple[System, ...]


@dataclass(frozen=True, slots=True)
class BestOfN:
    """A decoder's expected best score for every N from 1 to the number of its settings."""

    name: str
    settings: int
    seen: tuple[float, ...]
    """Selected and scored on the same seeds (all); biased upward."""
    fresh: tuple[float, ...]
    """Selected on one part of the seeds and scored on the other, mean over splits; NaN with one seed."""
    half: tuple[float, ...]
    """Half-width of the 95 % interval of `fresh` over seeds; NaN with one seed."""


def group_sweeps(items: Sequence[SystemValue]) -> list[DecoderSweep]:
    """Group systems that differ only in decoder options, in table order."""
    groups: dict[tuple[tuple[str, str], ...], list[System]] = {}
    for system in group_systems(items):
        axes = system.items[0].axes
        groups.setdefault(tuple((k, v) for k, v in axes.items() if not k.startswith("decoder.")), []).append(system)
    rows = [dict(key) for key in groups]
    counts = Counter(row.get("decoder", "") for row in rows)
    axis_names = find_distinguishing_axes(rows, [a for row in rows[:1] for a in row if a != "decoder"])
    sweeps = []
    for row, members in zip(rows, groups.values(), strict=True):
        name = row.get("decoder", "")
        options = [format_option(a, row[a]) for a in axis_names] if counts[name] > 1 else []
        sweeps.append(DecoderSweep(", ".join([name, *options]), tuple(members)))
    return sweeps


def find_cost_rule(item: SystemValue, items: Sequence[SystemValue]) -> dict[str, float] | None:
    """Return `sign` (1: lower is better, -1: higher) and `target` (the cost is the distance to it; NaN: none).

    None if no value is best, or if the target is unknown.
    """
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

    def compute_cost(candidate: tuple[System, SystemValue]) -> float:
        value = candidate[1]
        mean = math.fsum(value.values[seeds[i]] for i in choosing) / len(choosing) if choosing else value.mean
        return cost["sign"] * (mean if math.isnan(cost["target"]) else abs(mean - cost["target"]))

    return min(candidates, key=compute_cost)[0], tuple(seeds[i] for i in scoring)


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


def compute_curve(name: str, values: Sequence[Mapping[str, float]], *, cost: Mapping[str, float]) -> BestOfN:
    """Compute the best-of-N curve of one decoder from the values (seed → value) of each setting.

    Only seeds that all settings have are used. The scores are as printed: values, or distances to the target.
    """
    seeds = [s for s in values[0] if all(s in v and math.isfinite(v[s]) for v in values)]
    table = np.array([[v[s] for s in seeds] for v in values], dtype=np.float64)
    sign, target = cost["sign"], cost["target"]
    counts = range(1, len(values) + 1)

    def score(columns: Sequence[int]) -> F64:
        means = table[:, list(columns)].mean(axis=1)
        scores: F64 = -sign * (means if math.isnan(target) else np.abs(means - target))
        return scores

    seen = [compute_expected_best(score(range(len(seeds))), n) for n in counts]
    fresh, half = np.full(len(values), math.nan), np.full(len(values), math.nan)
    splits = halves(len(seeds))
    if splits:
        noise, degrees = pool_std(table)
        best_scores, errors = [], []
        for choosing, scoring in splits:
            by, scores = score(choosing), score(scoring)
            best_scores.append([compute_expected_best(scores, n, by) for n in counts])
            squares = [float((compute_weights(len(values), n) ** 2).sum()) for n in counts]
            errors.append([math.sqrt(square / len(scoring)) for square in squares])
        fresh = np.mean(best_scores, axis=0)
        # The mean of estimates is at most as uncertain as each of them, so the interval is conservative.
        half = compute_student_quantile(degrees) * noise * np.mean(errors, axis=0)
    printed = [tuple(-sign * float(v) for v in row) for row in (seen, fresh)]
    return BestOfN(name, len(values), printed[0], printed[1], tuple(map(float, half)))


def compute_expected_best(scores: Sequence[float] | F64, count: int, by: Sequence[float] | F64 | None = None) -> float:
    """Return the expected score of the best of `count` settings, selected by the scores `by`, or by `scores`.

    Ties are equally likely to be selected.
    """
    _, group = np.unique(scores if by is None else by, return_inverse=True)
    means = np.bincount(group, weights=scores) / np.bincount(group)
    return float(compute_weights(len(scores), count) @ means[np.sort(group)])


def compute_weights(settings: int, count: int) -> F64:
    """Return the probability that the i-th worst setting is the best of `count` drawn without replacement.

    >>> compute_weights(4, 2).tolist()  # best in 0, 1, 2 and 3 of 6 pairs
    [0.0, 0.16666666666666666, 0.3333333333333333, 0.5]
    """
    every = math.comb(settings, count)
    return np.array([math.comb(i, count - 1) / every for i in range(settings)], dtype=np.float64)


def halves(count: int) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return (indices for selection, indices for scoring) for every split of seeds into halves; empty for one seed.

    >>> halves(2)
    [((0,), (1,)), ((1,), (0,))]
    """
    if count < 2:
        return []
    every = tuple(range(count))
    sides = [s for size in {count // 2, count - count // 2} for s in itertools.combinations(every, size)]
    if len(sides) > MOST_SPLITS:
        sides = [every[: count // 2], every[count // 2 :]]
    return [(side, tuple(i for i in every if i not in side)) for side in sides]


def pool_std(table: F64) -> tuple[float, int]:
    """Return the standard deviation over seeds, pooled over the settings of a decoder, and its degrees of freedom."""
    degrees = table.shape[0] * (table.shape[1] - 1)
    squares = float(((table - table.mean(axis=1, keepdims=True)) ** 2).sum())
    return math.sqrt(squares / degrees), degrees
