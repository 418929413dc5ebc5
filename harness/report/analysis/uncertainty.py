"""Decide whether a verdict is sure by checking its claim again on values with simulated errors, all moved together.

Errors are jointly normal with the covariance of the replicates (systems share their prompts), else independent with the
standard deviation over seeds; both are scaled to Student's t. The doubt of a component of a claim (model, line, pair)
is the share of draws in which it comes out differently. One comparison of two equal systems is called sure in 5 % of
cases: *holds* needs a doubt of at most 2.5 % for every component, *does not hold* for one failing component after
Bonferroni's correction. Errors shrink as 1 / √n, which gives the number of texts that would decide a claim.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri

from openended.harness import results as measured
from openended.harness.core import F64, Replicates, make_random_stream
from openended.harness.report.analysis.power import format_needed_texts
from openended.harness.results import Pair, Results, SystemValue, find_human_value, orient, select_values

DRAWS = 1999
LEVEL = 0.05  # share of sure verdicts about two equal systems
MULTIPLES = (2, 4, 8, 16, 32, 64, 128, 256)  # of n that are tried


@dataclass(frozen=True, slots=True)
class Verdict:
    """Outcome of the check of one claim."""

    measured: str
    outcomes: tuple[bool, ...]  # whether each component holds; the claim holds if all do
    sure: bool | None = None  # whether other texts would give the same verdict; None if no value has an error estimate
    decides: str = ""  # number of texts that would make the verdict sure if it is not
    doubts: tuple[float, ...] = ()  # share of simulated draws in which each component comes out differently
    varies: bool = True
    """Whether all values that it uses vary between replicates; without variation there is no verdict."""

    @property
    def holds(self) -> bool:
        return all(self.outcomes)

    @property
    def words(self) -> str:
        if not self.varies:
            return "no variation seen"
        if self.sure is False:
            return "undecided"
        return "holds" if self.holds else "does not hold"

    @property
    def measured_text(self) -> str:
        """What was measured, and how many texts would decide an undecided claim."""
        return f"{self.measured} ({self.decides} would decide it)" if self.decides else self.measured


class Errors:
    """Simulated errors of values, made when a check first asks for them."""

    def __init__(self, results: Results | None) -> None:
        self._results = results
        self._estimates: dict[int, tuple[float, F64 | None, float]] = {}

    def get(self, item: SystemValue) -> F64 | None:
        """Return the errors of a value, shape (DRAWS,); None if their size is unknown."""
        return self.estimate(item)[1]

    def estimate(self, item: SystemValue) -> tuple[float, F64 | None, float]:
        """Return a value (in a space of all systems, else as printed), errors to add, and their degrees of freedom."""
        if id(item) not in self._estimates:
            center, replicates, dof = item.mean, None, math.inf
            if self._results is not None:
                joint = measured.find_joint_estimate(self._results, item)
                center, replicates = joint or (item.mean, measured.load_replicates(self._results, item))
            errors: F64 | None = None
            if replicates is not None:
                errors, dof = draw_replicate_errors(replicates), replicates.dof
            elif item.seeds > 1 and item.sd > 0:
                dof = item.seeds - 1
                names = (item.system, item.metric, item.key, item.signature, *item.axes.values())
                normal = make_random_stream(0, "verdict", *names).standard_normal(DRAWS)
                errors = normal * _draw_t_scale(dof, *names) * (item.sd / math.sqrt(item.seeds))
            self._estimates[id(item)] = center, errors, dof
        return self._estimates[id(item)]


def draw_replicate_errors(replicates: Replicates) -> F64 | None:
    """Draw errors with the covariance of replicates, shape (DRAWS,); all zero if the replicates do not vary."""
    deviations = replicates.deviations()
    if not np.isfinite(deviations).all():
        return None
    errors: F64 = (_draw_weights(len(deviations)) @ deviations) / math.sqrt(len(deviations))
    return errors * _draw_t_scale(replicates.dof) if errors.any() else errors


@lru_cache(maxsize=4)
def _draw_weights(count: int) -> F64:
    """Return the weights of so many replicates in every draw, which all values share."""
    return make_random_stream(0, "verdict", str(count)).standard_normal((DRAWS, count))


@lru_cache(maxsize=256)
def _draw_t_scale(dof: float, *names: str) -> F64:
    """Return factors that turn normal draws into draws of Student's t; values without `names` share them."""
    scale: F64 = np.sqrt(dof / chdtri(dof, make_random_stream(0, "verdict scale", *names).random(DRAWS)))
    return scale


class Sample:
    """Values with simulated errors: row 0 of every mean is as measured, the other rows are draws."""

    def __init__(self, items: Sequence[SystemValue], errors: Errors, scale: float = 1.0) -> None:
        self.items = items
        self._humans = [item for item in items if item.system == "human"]
        self.read: dict[int, SystemValue] = {}
        """The values whose means were asked for."""
        self._errors, self._scale = errors, scale

    def select(self, pair: Pair) -> list[SystemValue]:
        return select_values(self.items, *pair)

    def means(self, item: SystemValue) -> F64:
        """Return the mean of a value in every draw, shape (1 + DRAWS,)."""
        self.read[id(item)] = item
        center, error, _ = self._errors.estimate(item)
        if error is None:
            return np.full(1 + DRAWS, item.mean)
        # Values of several signatures are in several spaces, so that only the printed ones are on one scale.
        signatures = {i.signature for i in self.items if i.system == "model" and i.pair == item.pair}
        return np.concatenate([[item.mean], (center if len(signatures) == 1 else item.mean) + self._scale * error])

    def find_human(self, item: SystemValue) -> F64 | None:
        """Return the human value that a system's value is compared with in every draw; None if there is none."""
        human = find_human_value(self._humans, item)
        return self.means(human) if human is not None else None

    def orient(self, item: SystemValue) -> F64:
        """Return a value oriented so that larger is better, shape (1 + DRAWS,); NaN if its target is unknown."""
        target: float | F64 | None = item.target
        if target is None and item.direction == "match_human":
            human = self.find_human(item)
            target = math.nan if human is None else human
        oriented: F64 = orient(self.means(item), item.direction, target)
        return oriented


Outcome: TypeAlias = tuple[str, NDArray[np.bool_]]
"""What was measured, and whether each component holds in every draw, shape (1 + DRAWS, components)."""
Check = Callable[[Sample], Outcome | None]


def format_number(value: float) -> str:
    """Format a value with three decimals if it is below 2, else with one."""
    return f"{value:.3f}" if abs(value) < 2 else f"{value:.1f}"


def join_components(text: str, components: Sequence[NDArray[np.bool_]]) -> Outcome:
    """Return the outcome of a claim that holds if all of its components do."""
    return text, np.stack(components, axis=1)


def check_with_uncertainty(check: Check, items: Sequence[SystemValue], errors: Errors) -> Verdict | None:
    """Return the verdict of a check, whether it is sure, and how many texts would make it sure."""
    sample = Sample(items, errors)
    outcome = check(sample)
    if outcome is None:
        return None
    verdict = Verdict(outcome[0], tuple(outcome[1][0].tolist()))
    used_errors = {key: errors.get(item) for key, item in sample.read.items()}
    if all(error is None for error in used_errors.values()):
        return verdict
    fixed = {key for key, error in used_errors.items() if error is not None and not error.any()}
    if fixed:
        other = check(Sample([item for item in items if id(item) not in fixed], errors))
        if other is None or other[0] != verdict.measured:
            return replace(verdict, varies=False)

    def add_doubts(times: int) -> Verdict:
        """Add the doubts that so many times the texts would leave."""
        moved = check(Sample(items, errors, 1 / math.sqrt(times))) if times > 1 else outcome
        holds = moved[1] if moved is not None else outcome[1]
        counts = 1 + (holds[1:] != holds[0]).sum(axis=0)
        return replace(verdict, doubts=tuple((counts / (DRAWS + 1)).tolist()))

    verdict = add_doubts(1)
    if is_sure(verdict):
        return replace(verdict, sure=True)
    at = bisect_left(MULTIPLES, True, key=lambda times: is_sure(add_doubts(times)))
    if at == len(MULTIPLES):
        return replace(verdict, sure=False, decides=f"more than {MULTIPLES[-1]} times the n")
    return replace(verdict, sure=False, decides=format_needed_texts(MULTIPLES[at], items))


def is_sure(verdict: Verdict) -> bool:
    """Return whether a verdict is sure at `LEVEL`, given the doubts of its components."""
    if verdict.holds:
        return max(verdict.doubts) <= LEVEL / 2
    failed_p_values = [doubt for doubt, holds in zip(verdict.doubts, verdict.outcomes, strict=True) if not holds]
    return min(failed_p_values) * len(verdict.doubts) <= LEVEL / 2


def combine_tasks(verdicts: Mapping[str, Verdict]) -> Verdict:
    """Combine the verdicts of several tasks; the claim holds if all do, and one sure failure decides it."""
    every = list(verdicts.values())
    text = "; ".join(f"{task}: {verdict.measured_text}" for task, verdict in verdicts.items())
    doubts = tuple(doubt for verdict in every for doubt in verdict.doubts or [1.0] * len(verdict.outcomes))
    joint = Verdict(text, tuple(holds for verdict in every for holds in verdict.outcomes), doubts=doubts)
    if not joint.holds and is_sure(joint):
        return replace(joint, sure=True)
    sure = None if all(v.sure is None for v in every) else all(v.sure is not False for v in every) and joint.holds
    return replace(joint, sure=sure, varies=all(v.varies for v in every))
