"""Which difference of two systems a number of texts resolves, and how many texts a difference needs.

A difference is resolved if a test at 5 % finds it with 80 % power. Its standard error is that of the report's tests,
and shrinks as 1 / √n.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from statistics import NormalDist

from openended.harness.core import DataError, format_duration, suggest
from openended.harness.report.analysis.paired import LEVEL, estimate_difference
from openended.harness.results import Results, SystemValue, group_by, group_systems, parse_sizes

RESOLVED = NormalDist().inv_cdf(1 - LEVEL / 2) + NormalDist().inv_cdf(0.8)
"""The smallest difference that is resolved, in standard errors: 2.8."""


def compute_needed_texts(n: float, std_error: float, difference: float) -> int:
    """Return how many texts resolve a difference that has a standard error with n texts.

    >>> compute_needed_texts(100, 0.01, 0.014)
    401
    """
    return math.ceil(n * (RESOLVED * std_error / difference) ** 2)


def describe_resolution(models: Sequence[SystemValue], results: Results) -> tuple[str, ...]:
    """Return a line with the smallest difference of two systems that these texts resolve, for every value.

    It is the median over neighboring systems.
    """
    errors: dict[str, list[float]] = {}
    for items in group_by(models, lambda item: (item.pair, item.signature)).values():
        for a, b in itertools.pairwise(item for item in items if math.isfinite(item.mean)):
            errors.setdefault(a.title, []).append(estimate_difference(results, a, b)[1])
    medians = {title: statistics.median(e) for title, of in errors.items() if (e := [x for x in of if x > 0])}
    if not medians:
        return ()
    listed = ", ".join(f"{title} {RESOLVED * error:.2g}" for title, error in medians.items())
    return (f"Smallest difference of two systems that these texts resolve at 5 % with 80 % power: {listed}.",)


def format_power(results: Results, metrics: Sequence[str], differences: Mapping[str, float]) -> Iterator[str]:
    """Yield a line per value and pair of systems; `differences` (value → difference) replace those measured.

    The name of a metric stands for all its values in `metrics`, and for its first in `differences`: their units differ.
    """
    models = [item for item in results.values if item.system == "model" and item.direction != "none"]
    choices = {text for i in models for text in (i.metric, i.key, ".".join(i.pair))}
    if missing := [name for name in (*metrics, *differences) if name not in choices]:
        raise DataError(f"no values of {missing[0]} in these runs{suggest(missing[0], {i.metric for i in models})}")
    targets = {id(i): _find_target(i, differences) for i in models}
    chosen = [
        i
        for i in models
        if (i.primary and not metrics) or targets[id(i)] or {i.metric, i.key, ".".join(i.pair)} & set(metrics)
    ]
    names = {id(item): system.name for system in group_systems(results.values) for item in system.items}
    lines = 0
    for items in group_by(chosen, lambda item: (item.pair, item.signature)).values():
        for a, b in itertools.combinations(items, 2):
            apart, error, _ = estimate_difference(results, a, b)
            if not error > 0:
                continue
            lines += 1
            needs = _describe_pair(results, a, apart, error, targets[id(a)] or abs(apart))
            yield f"{a.title}  {names[id(a)]} - {names[id(b)]}: {needs}"
    if not lines:
        raise DataError("no two systems of these runs have a value with replicates; give runs of two systems or more")


def _find_target(item: SystemValue, differences: Mapping[str, float]) -> float | None:
    names = (".".join(item.pair), item.key, *([item.metric] if item.primary else []))
    return next((differences[name] for name in names if name in differences), None)


def _describe_pair(results: Results, item: SystemValue, apart: float, error: float, target: float) -> str:
    n = (parse_sizes(item.signature) or (0,))[-1]
    seeds = f" × {item.seeds} seeds" if item.seeds > 1 else ""
    parts = [f"{apart:+.3g} with {n:,} texts{seeds}, which resolve {RESOLVED * error:.2g}"]
    if target > 0 and n:
        needed = compute_needed_texts(n, error, target)
        parts.append(f"{target:.3g} needs {needed:,}{seeds}{_describe_cost(results, item, n, needed)}")
    return "; ".join(parts)


def _describe_cost(results: Results, item: SystemValue, n: int, needed: int) -> str:
    """Return tokens and time of so many texts of one system, as far as the records of these runs know them."""
    runs = [results.runs[at] for at, _ in item.sources]
    length = next((run.axes.get("max_new_tokens") for run in runs), None)
    parts = [f"up to {needed * length * item.seeds:,} tokens"] if isinstance(length, int) else []
    seconds = [run.seconds for run in runs if math.isfinite(run.seconds)]
    parts += [f"{format_duration(needed * item.seeds * statistics.median(seconds) / n)}"] if seconds else []
    return f" ({', '.join(parts)} a system)" if parts else ""
