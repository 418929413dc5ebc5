"""Decide between systems at several looks at growing numbers of texts, with at most 5 % false decisions over all looks.

The error is spent as 4 - 4Φ(z(1 - α/4) / √t) (Lan and DeMets 1983), whose boundaries have the shape of O'Brien and
Fleming (1979): hardly anything is spent early, and the last look is nearly a test at α. The time t is n / the largest
n: it is known before any text, so that the data moves no boundary, and the variance of a difference falls as 1 / n.
Several comparisons share α equally (Bonferroni), so that the boundaries of one do not depend on the others.

A comparison also stops if the predictive power (the probability of a decision at the last look, given the texts so far
and a flat prior; Spiegelhalter, Freedman and Blackburn 1986) is below `LEAST_POWER`. The boundaries do not count on it
(it is not binding), so that it only lowers the false decisions. docs/resolution.md has the measured numbers.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from openended.harness import results as measured
from openended.harness.core import SpecError, decode, write_json
from openended.harness.report.analysis.paired import LEVEL, estimate_difference, estimate_middle
from openended.harness.results import NUM_EXAMPLES, Results, System, SystemValue

LEAST_POWER = 0.05  # a higher limit ends equal systems earlier, and loses power: docs/resolution.md
MOST_LOOKS = 100
OPEN, UNDECIDED, STOPPED, FAILED, UNLIKE = "open", "undecided", "no effect", "not measured", "not comparable"
_POINTS = 801  # at least, of the integration over what has not crossed a boundary


@dataclass(frozen=True, slots=True)
class PlannedComparison:
    """Two systems and the value that is to say which is better."""

    first: str
    second: str
    value: str  # `metric`, `metric.key` or a key

    @property
    def title(self) -> str:
        return f"{self.first} > {self.second}: {self.value}"


@dataclass(frozen=True, slots=True)
class DecisionPlan:
    """What is decided, and when it is looked at."""

    comparisons: tuple[PlannedComparison, ...]
    looks: tuple[int, ...]  # growing numbers of examples
    alpha: float = LEVEL  # probability of a false decision about equal systems, over all looks and comparisons

    @property
    def boundaries(self) -> tuple[float, ...]:
        """The statistic that decides a comparison at each look."""
        times = tuple(n / self.looks[-1] for n in self.looks)
        return compute_boundaries(times, tuple(spend_alpha(t, self.alpha / len(self.comparisons)) for t in times))

    @property
    def limits(self) -> tuple[float, ...]:
        """The statistic at each look below which the predictive power of the last boundary is too small."""
        last, power = self.boundaries[-1], float(ndtri(1 - LEAST_POWER))
        times = [n / self.looks[-1] for n in self.looks]
        return tuple(max(last * math.sqrt(t) - power * math.sqrt(1 - t), 0.0) for t in times)


@dataclass(frozen=True, slots=True)
class Look:
    """What one look at a comparison shows."""

    n: int
    difference: float  # first minus second
    std_error: float
    dof: float  # degrees of freedom of Student's test
    statistic: float  # positive where the first is better; a standard normal variable if the systems are equal

    def describe(self, boundary: float) -> str:
        """Return the difference with its standard error and statistic in words, or what is missing.

        >>> Look(40, -2.0, math.nan, 30, math.nan).describe(1.926)
        '-2, without a standard error, so that it decides nothing'
        """
        if not math.isfinite(self.difference):
            return "no value"
        if not math.isfinite(self.std_error):
            return f"{self.difference:+.3g}, without a standard error, so that it decides nothing"
        return f"{self.difference:+.3g} ± {self.std_error:.2g}, z {self.statistic:.2f} of {boundary:.2f}"


@dataclass(frozen=True, slots=True)
class Decision:
    """The looks at a comparison, and what they decide."""

    comparison: PlannedComparison
    looks: tuple[Look, ...]
    outcome: str  # the name of the better system, or one of the words at the top
    differing: str = ""  # why the values are not comparable


def spend_alpha(time: float, alpha: float) -> float:
    """Return how much of alpha may be spent up to a time."""
    return float(4 * ndtr(ndtri(alpha / 4) / math.sqrt(time)))


@lru_cache
def compute_boundaries(times: tuple[float, ...], spending: tuple[float, ...]) -> tuple[float, ...]:
    """Return the two-sided boundary at each look that spends alpha as given, by integration over paths.

    >>> fifths = (0.2, 0.4, 0.6, 0.8, 1.0)
    >>> [round(b, 3) for b in compute_boundaries(fifths, tuple(spend_alpha(t, 0.05) for t in fifths))]
    [4.877, 3.357, 2.68, 2.29, 2.031]
    """
    boundaries: list[float] = []
    # Brownian motion at the look before: positions and their probabilities.
    positions, weights = np.zeros(1), np.ones(1)
    steps = np.sqrt(np.diff(times, prepend=0.0))
    shares = np.diff(spending, prepend=0.0)
    for time, step, next_step, share in zip(times, steps, [*steps[1:], math.inf], shares, strict=True):

        def cross(boundary: float) -> float:
            """Return how much more than its share a boundary spends."""
            edge = boundary * math.sqrt(time)  # noqa: B023 - called in this round
            tails = ndtr((positions - edge) / step) + ndtr((-edge - positions) / step)  # noqa: B023
            return float(weights @ tails - share)  # noqa: B023

        boundaries.append(float(brentq(cross, 0.0, 40.0, xtol=1e-10)))
        edge = boundaries[-1] * math.sqrt(time)
        # Points at most half a step apart, so that looks that nearly coincide are as exact as others.
        grid = np.linspace(-edge, edge, max(_POINTS, 2 * math.ceil(2 * edge / next_step) + 1))
        parts = np.array_split(grid, len(grid) // _POINTS)
        sums = [np.exp(-(((part[:, None] - positions) / step) ** 2) / 2) @ weights for part in parts]
        density = np.concatenate(sums) / (step * math.sqrt(2 * math.pi))
        simpson = np.full(len(grid), 2.0)
        simpson[1::2], simpson[[0, -1]] = 4.0, 1.0
        weights = density * simpson * (grid[1] - grid[0]) / 3
        positions = grid
    return tuple(boundaries)


def judge_comparisons(plan: DecisionPlan, results: Results) -> list[Decision]:
    """Judge each comparison by the runs of all looks so far; systems are named as in a table of the first look."""
    sizes = {measured.format_axis_value(row.axes.get(NUM_EXAMPLES)) for row in results.rows}
    latest = max((number for number, n in enumerate(plan.looks, 1) if str(n) in sizes), default=0)
    looked = plan.looks[:latest]  # a look without any run is one that failed
    parts = [measured.filter_results(results, {NUM_EXAMPLES: str(n)}) if str(n) in sizes else None for n in looked]
    systems = [
        {_identify(s): s for s in measured.group_systems(part.values if part is not None else ())} for part in parts
    ]
    names = {system.name: identity for identity, system in systems[0].items()} if systems else {}
    decisions = []
    for comparison in plan.comparisons:
        looks: list[Look] = []
        outcome, differ = OPEN, ""
        for number, (part, of_look) in enumerate(zip(parts, systems, strict=True)):
            both = [of_look.get(names.get(name, ())) for name in (comparison.first, comparison.second)]
            a, b = (find_value(system, comparison.value) if system is not None else None for system in both)
            if part is None or a is None or b is None:
                outcome = FAILED
                break
            if a.signature != b.signature:
                outcome = UNLIKE
                differ = measured.describe_differences(a.fields, b.fields, ", ")
                break
            looks.append(_look(part, plan.looks[number], a, b))
            outcome = find_outcome(plan, comparison, looks)
            if outcome != OPEN:
                break
        decisions.append(Decision(comparison, tuple(looks), outcome, differ))
    return decisions


def _identify(system: System) -> tuple[tuple[str, str], ...]:
    return tuple((axis, value) for axis, value in system.items[0].axes.items() if axis not in measured.SIZE_AXES)


def find_value(system: System, name: str) -> SystemValue | None:
    """Return the value that `metric`, `metric.key` or a key names; None if there is none."""
    by_name = {item.key: item for item in reversed(system.items)}
    by_name |= {item.metric: item for item in system.items if item.primary}
    by_name |= {".".join(item.pair): item for item in system.items}
    return by_name.get(name)


def _look(results: Results, n: int, a: SystemValue, b: SystemValue) -> Look:
    estimate = estimate_difference(results, a, b)
    statistic = compute_statistic(*estimate)
    human = measured.find_human_value(results.values, a) if a.target is None else None
    if (target := measured.find_target(a, results.values)) is None:
        statistic *= 1 if a.direction == "higher" else -1
    else:  # the first is nearer if difference and middle have opposite signs; both must be far from 0
        middle = compute_statistic(*estimate_middle(results, a, b, human, target))
        statistic = math.copysign(np.minimum(abs(statistic), abs(middle)), -statistic * middle)
    return Look(n, *estimate, statistic)


def compute_statistic(estimate: float, error: float, dof: float) -> float:
    """Return Student's statistic of an estimate as the normal one with the same p-value.

    >>> round(compute_statistic(-2.0, 1.0, 30), 3)
    -1.926
    """
    if not error > 0:
        return math.nan
    return math.copysign(float(ndtri(stdtr(dof, -abs(estimate) / error))), estimate)


def compute_margin(look: Look, boundary: float) -> float:
    """Return how far the interval at a look reaches: it leaves out 0 where the normal statistic is beyond a boundary.

    >>> round(compute_margin(Look(40, -2.0, 1.0, 30, -1.926), 1.926), 2)
    2.0
    """
    return -float(stdtrit(look.dof, float(ndtr(-boundary)))) * look.std_error


def find_outcome(plan: DecisionPlan, comparison: PlannedComparison, looks: Sequence[Look]) -> str:
    """Return the outcome at the last of some looks; without a standard error it is open, or undecided at the end."""
    number, statistic = len(looks) - 1, looks[-1].statistic
    if abs(statistic) >= plan.boundaries[number]:
        return comparison.first if statistic > 0 else comparison.second
    if looks[-1].n == plan.looks[-1]:
        return UNDECIDED
    return STOPPED if abs(statistic) < plan.limits[number] else OPEN


def select_last_looks(results: Results) -> Results:
    """Keep the values of the last look at each system, and the human values next to them."""
    axes = [axis for axis in results.axes if axis not in measured.SIZE_AXES]
    looks = measured.group_by(
        (row for row in results.rows if row.system == "model"),
        lambda row: tuple(measured.format_axis_value(row.axes.get(axis)) for axis in axes),
    )
    sizes_of_rows = ((rows, max(row.axes[NUM_EXAMPLES] for row in rows)) for rows in looks.values())
    last = {row: size for rows, size in sizes_of_rows for row in rows}
    selected = {row for row, size in last.items() if row.axes[NUM_EXAMPLES] == size}
    sizes = {row.axes[NUM_EXAMPLES] for row in selected}
    rows = (row for row in results.rows if row in selected or (row not in last and row.axes.get(NUM_EXAMPLES) in sizes))
    return replace(results, rows=tuple(rows))


# The file of a grid's folder ------------------------------------------------------------------------------------------


def save_decisions(folder: Path, plan: DecisionPlan, decisions: Sequence[Decision]) -> None:
    """Write looks, boundaries and estimates into the folder of the grid."""
    facts = {"boundaries": plan.boundaries, "decisions": [asdict(decision) for decision in decisions]}
    write_json(folder / measured.DECISIONS, asdict(plan) | facts)


def read_decision_plan(folder: Path) -> DecisionPlan | None:
    """Read what the grid in a folder decides; None if nothing. Its estimates are those of the runs, not of the file."""
    return measured.read_grid_file(folder / measured.DECISIONS, "file of decisions", _parse_plan)


def _parse_plan(node: Any) -> DecisionPlan:  # noqa: ANN401 - JSON
    plan = decode(DecisionPlan, {name: node[name] for name in ("comparisons", "looks", "alpha")}, measured.DECISIONS)
    check_plan(plan)
    return plan


def check_plan(plan: DecisionPlan) -> None:
    """Check that there is something to decide, that looks grow, and that alpha is a small probability."""
    if not plan.comparisons or len(set(plan.comparisons)) < len(plan.comparisons):
        raise SpecError("decide: expected comparisons, each once, as decide='nucleus>greedy: mauve'")
    looks = list(plan.looks)
    if looks != sorted(set(looks)) or not 1 <= len(looks) <= MOST_LOOKS or looks[0] < 1:
        what = f"up to {MOST_LOOKS} numbers of examples that grow"
        raise SpecError(f"looks: expected {what}, as looks=[125,250,500], got {looks!s:.80}")
    if not 0 < plan.alpha < 0.5:
        raise SpecError(f"alpha: expected a number above 0 and below 0.5, got {plan.alpha:g}")
