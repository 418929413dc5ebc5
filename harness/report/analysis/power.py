"""The minimum detectable difference of two systems, and how many texts a difference needs.

A difference is detectable if a test at 5 % finds it with 80 % power. Its standard error is that of the report's tests,
and shrinks as 1 / √n.
"""

import itertools
import math
import statistics
from bisect import bisect
from collections.abc import Iterator, Mapping, Sequence
from statistics import NormalDist

from openended.harness import results as measured
from openended.harness.core import DataError, format_duration, suggest
from openended.harness.report.analysis import paired
from openended.harness.report.analysis.paired import LEVEL
from openended.harness.results import Results, SystemValue

POWER = 0.8
MOST_DOF = 1e5  # beyond, Student's t is as good as normal
MIN_DETECTABLE = paired.Z + NormalDist().inv_cdf(POWER)
"""The minimum detectable difference, in standard errors: 2.8."""


def compute_detectable_size(dof: float) -> float:
    """Return the difference that Student's test finds with 80 % power, in standard errors (noncentral t).

    >>> round(compute_detectable_size(math.inf), 3), round(compute_detectable_size(4), 3)
    (2.802, 3.761)
    """
    from scipy.special import nctdtrinc

    limit = paired.compute_student_quantile(dof)
    normal = limit + NormalDist().inv_cdf(POWER)
    return float(nctdtrinc(dof, 1 - POWER, limit)) if dof < MOST_DOF else normal


def compute_needed_texts(n: float, std_error: float, difference: float) -> int:
    """Return how many texts make a difference detectable that has a standard error with n texts.

    >>> compute_needed_texts(100, 0.01, 0.014)
    401
    """
    return math.ceil(n * (MIN_DETECTABLE * std_error / difference) ** 2)


def format_needed_texts(times: float, items: Sequence[SystemValue]) -> str:
    """Format a multiple of the number of texts that the systems have now, to two digits."""
    counts = [sizes[0] for i in items if i.system == "model" and (sizes := measured.parse_sizes(i.signature))]
    n = times * min(counts, default=0)
    step = 10 ** max(len(str(round(n))) - 2, 0)
    return f"about n = {round(n / step) * step}" if n else f"{times:.2g} times the n"


def compute_resolution(
    results: Results, items: Sequence[SystemValue], best: SystemValue, rival: SystemValue, systems: int
) -> float:
    """Return the smallest difference at which a table of so many systems separates the best from its nearest rival.

    It does so with 80 % power if all other systems are separated: the rival is the last one tested. If a target is
    best, the difference is that of the distances to it. Both values must then differ, as must their middle and the
    target. The smaller of these is the difference of the distances; the other exceeds it by twice the smaller distance.
    NaN if it is unknown.
    """
    from scipy.special import nctdtr, ndtr

    (apart, *errors), excess = paired.estimate_difference(results, best, rival), 0.0
    tests = [(errors, 0.0)]
    if (target := measured.find_target(best, items)) is not None:
        human = measured.find_human_value(items, best) if best.target is None else None
        middle, *middle_errors = paired.estimate_middle(results, best, rival, human, target)
        # The square of the excess has the variance of both as its bias.
        square = (abs(middle) - abs(apart)) ** 2 - errors[0] ** 2 - middle_errors[0] ** 2
        excess = math.sqrt(max(square, 0.0))
        is_one_side = abs(middle) > abs(apart)
        tests = [(errors, 0.0 if is_one_side else excess), (middle_errors, excess if is_one_side else 0.0)]
    if not all(error > 0 for (error, _), _ in tests):
        return math.nan
    steps = 1 << 52  # bisection: scipy.optimize would take longer to import than all of this
    tukey = bisect(range(steps), LEVEL, key=lambda step: paired.compute_range_p_value(step / steps, systems)) / steps
    level = max(LEVEL / (math.comb(systems, 2) - systems + 2), tukey)
    limits = [paired.compute_student_quantile(dof, 1 - level) for (_, dof), _ in tests]

    def compute_power(difference: float) -> float:
        """Return the probability that all tests are significant, as if they were independent."""
        bounded = zip(tests, limits, strict=True)
        sizes = ((df, (difference + more) / error, limit) for ((error, df), more), limit in bounded)
        powers = (ndtr(s - t) if df > MOST_DOF else 1 - nctdtr(df, s, t) for df, s, t in sizes)
        return float(math.prod(powers))

    bounds = zip(tests, limits, strict=True)
    most = 4 * max(error * (limit + paired.compute_student_quantile(df, 0.8)) for ((error, df), _), limit in bounds)
    return bisect(range(steps), POWER, key=lambda step: compute_power(step / steps * most)) / steps * most


def format_power(results: Results, metrics: Sequence[str], differences: Mapping[str, float]) -> Iterator[str]:
    """Yield a line per value and pair of systems; `differences` (value → difference) replace those measured.

    The name of a metric stands for all its values in `metrics`, and for its first in `differences`: their units differ.
    """
    systems = measured.group_systems(results.values)
    models = [item for system in systems for item in system.items if item.direction != "none"]
    names = {id(item): system.name for system in systems for item in system.items}
    choices = {text for i in models for text in (i.metric, i.key, ".".join(i.pair))}
    if missing := [name for name in (*metrics, *differences) if name not in choices]:
        raise DataError(f"no values of {missing[0]} in these runs{suggest(missing[0], {i.metric for i in models})}")
    targets: dict[int, float | None] = {}
    for item in models:
        names_of_value = (".".join(item.pair), item.key, *([item.metric] if item.primary else []))
        targets[id(item)] = next((differences[name] for name in names_of_value if name in differences), None)
    chosen = [
        i
        for i in models
        if (i.primary and not metrics) or targets[id(i)] or {i.metric, i.key, ".".join(i.pair)} & set(metrics)
    ]
    lines = 0
    for items in measured.group_by(chosen, lambda item: (item.pair, item.signature)).values():
        for a, b in itertools.combinations(items, 2):
            apart, error, _ = paired.estimate_difference(results, a, b)
            if not error > 0:
                continue
            lines += 1
            needs = _describe_pair(a, apart, error, targets[id(a)] or abs(apart))
            yield f"{a.title}  {names[id(a)]} - {names[id(b)]}: {needs}"
    if not lines:
        raise DataError("no two systems of these runs have a value with replicates; give runs of two systems or more")


def _describe_pair(item: SystemValue, apart: float, error: float, target: float) -> str:
    n = (measured.parse_sizes(item.signature) or (0,))[-1]
    seeds = f" × {item.seeds} seeds" if item.seeds > 1 else ""
    parts = [f"{apart:+.3g} with {n:,} texts{seeds}, which detect {MIN_DETECTABLE * error:.2g} or more"]
    if target > 0 and n:
        needed = compute_needed_texts(n, error, target)
        runs = [run for run, _ in item.sources]
        length = next((run.axes.get("max_new_tokens") for run in runs), None)
        costs = [f"up to {needed * length * item.seeds:,} tokens"] if isinstance(length, int) else []
        seconds = [run.seconds for run in runs if math.isfinite(run.seconds)]
        costs += [format_duration(needed * item.seeds * statistics.median(seconds) / n)] if seconds else []
        cost = f" ({', '.join(costs)} per system)" if costs else ""
        parts.append(f"{target:.3g} needs {needed:,}{seeds}{cost}")
    return "; ".join(parts)
