"""Decide whether a verdict is sure by checking its claim again on values with simulated errors.

All values are moved together. The errors of values with replicates are jointly normal with the covariance of the
replicates, because systems share their prompts (see `harness.core.resampling`); values without replicates get
independent errors from the standard deviation over seeds. Both are scaled to Student's t.

A claim often has several components (models, lines, pairs), and it holds if all of them do. The doubt of a component is
the share of draws in which it comes out differently, (1 + count) / (1 + draws). With equal systems a doubt is uniform
on both sides, so one comparison is called sure in 5 % of cases if it must be at most 2.5 %. *Holds* needs that for
every component, *does not hold* for one failing component after Bonferroni's correction.

Errors shrink as 1 / √n, which gives the number of texts that would decide an undecided claim.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from openended.harness.core import F64, Replicates, make_random_stream, parse_signature
from openended.harness.report.findings.checks import Check, Verdict
from openended.harness.results import Results, SystemValue, load_replicates

DRAWS = 199
LEVEL = 0.05  # share of sure verdicts about two equal systems
MULTIPLES = (2, 4, 8, 16, 32, 64, 128, 256)  # of n that are tried

Errors = Sequence[F64 | None]
"""Of every value, shape (DRAWS,); None if the size of its error is unknown."""


def draw_errors(results: Results, items: Sequence[SystemValue]) -> list[F64 | None]:
    """Draw errors of every value, shape (DRAWS,); None if the size of its error is unknown."""
    errors: list[F64 | None] = []
    for item in items:
        replicates = load_replicates(results, item)
        if replicates is not None:
            errors.append(draw_replicate_errors(replicates))
        elif item.seeds > 1 and item.sd > 0:
            names = (item.system, item.metric, item.key, item.signature, *item.axes.values())
            normal = make_random_stream(0, "verdict", *names).standard_normal(DRAWS)
            errors.append(normal * _draw_t_scale(item.seeds - 1, *names) * (item.sd / math.sqrt(item.seeds)))
        else:
            errors.append(None)
    return errors


def draw_replicate_errors(replicates: Replicates) -> F64 | None:
    """Draw errors with the covariance of replicates, shape (DRAWS,); all zero if the replicates do not vary."""
    deviations = replicates.deviations()
    if not np.isfinite(deviations).all():
        return None
    weights = make_random_stream(0, "verdict", str(len(deviations))).standard_normal((DRAWS, len(deviations)))
    errors: F64 = (weights @ deviations) / math.sqrt(len(deviations))
    return errors * _draw_t_scale(replicates.freedom) if errors.any() else errors


def _draw_t_scale(freedom: float, *names: str) -> F64:
    """Return factors that turn normal draws into draws of Student's t; values without `names` share them."""
    from scipy.special import chdtri

    scale: F64 = np.sqrt(freedom / chdtri(freedom, make_random_stream(0, "verdict scale", *names).random(DRAWS)))
    return scale


def shift_values(items: Sequence[SystemValue], errors: Errors, draw: int, scale: float = 1.0) -> list[SystemValue]:
    """Return the values with the errors of one draw."""
    return [
        item if error is None else replace(item, mean=item.mean + scale * float(error[draw]))
        for item, error in zip(items, errors, strict=True)
    ]


def check_with_uncertainty(check: Check, items: Sequence[SystemValue], errors: Errors) -> Verdict | None:
    """Return the verdict of a check, whether it is sure, and how many texts would make it sure."""
    verdict = check(items)
    if verdict is None or all(e is None for e in errors):
        return verdict
    varying = [item for item, error in zip(items, errors, strict=True) if error is None or error.any()]
    if len(varying) < len(items):
        other = check(varying)
        if other is None or other.measured != verdict.measured:
            return replace(verdict, varies=False)

    def add_doubts(verdict: Verdict, times: int) -> Verdict:
        """Add the doubts that so many times the texts would leave."""
        return replace(verdict, doubts=_measure_doubts(check, items, errors, 1 / math.sqrt(times), verdict.outcomes))

    verdict = add_doubts(verdict, 1)
    if is_sure(verdict):
        return replace(verdict, sure=True)
    at = bisect_left(MULTIPLES, True, key=lambda times: is_sure(add_doubts(verdict, times)))
    if at == len(MULTIPLES):
        return replace(verdict, sure=False, decides=f"more than {MULTIPLES[-1]} times the n")
    counts = [parse_signature(i.signature).get("n", "").partition("/")[0] for i in items if i.system == "model"]
    n = min((int(c) for c in counts if c.isdigit()), default=0)
    decides = f"about n = {_round_to_two_digits(MULTIPLES[at] * n)}" if n else f"{MULTIPLES[at]} times the n"
    return replace(verdict, sure=False, decides=decides)


def is_sure(verdict: Verdict) -> bool:
    """Return whether a verdict is sure at `LEVEL`, given the doubts of its components."""
    if verdict.holds:
        return max(verdict.doubts) <= LEVEL / 2
    failed_p_values = [doubt for doubt, holds in zip(verdict.doubts, verdict.outcomes, strict=True) if not holds]
    return min(failed_p_values) * len(verdict.doubts) <= LEVEL / 2


def _measure_doubts(
    check: Check, items: Sequence[SystemValue], errors: Errors, scale: float, outcomes: tuple[bool, ...]
) -> tuple[float, ...]:
    """Return for every component the share of draws in which it comes out differently."""
    counts = np.ones(len(outcomes))
    for draw in range(DRAWS):
        other = check(shift_values(items, errors, draw, scale))
        is_comparable = other is not None and len(other.outcomes) == len(outcomes)
        counts += np.not_equal(other.outcomes, outcomes) if other is not None and is_comparable else 1
    return tuple((counts / (DRAWS + 1)).tolist())


def _round_to_two_digits(n: int) -> int:
    step: int = 10 ** max(len(str(n)) - 2, 0)
    return int(round(n / step) * step)
