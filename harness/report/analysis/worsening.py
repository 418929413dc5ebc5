"""Decide whether a system is worse than a baseline: worse, not worse, or undecided with these texts.

A worsening is oriented so that more than 0 is worse: the difference of two values, or of their distances to the human
value or to a constant target. A margin is the largest worsening that is accepted. A value is

- *worse beyond the margin* if even the lower end of the worsening's interval exceeds the margin,
- *not worse* if the upper end does not exceed the margin, which shows that it is not worse by more (non-inferiority),
- *significantly worse* if the worsening is significant, although it may be below the margin,
- *undecided* otherwise: more texts shorten the interval by 1 / √n.

Significance is corrected by Holm's method, because one worse value is enough to fail. That all values are not worse
needs no correction, because each must show it (intersection-union test; Berger 1982). A difference of distances has the
interval of the values if both are significantly on one side of the target. Otherwise distances differ by no more than
the values, and the test decides the sign. A value of one seed without an interval is decided by the
margin alone.
"""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from openended.harness.report.analysis import paired
from openended.harness.report.analysis.paired import LEVEL
from openended.harness.report.analysis.power import format_needed_texts
from openended.harness.results import Results, SystemValue, find_human_value, find_interval, find_target

WORSE, NOT_WORSE, UNDECIDED = "worse", "not worse", "undecided"
NOT_TESTED = "not tested: no interval"
Span = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Worsening:
    """How much worse one value of a system is than the baseline's, and what that decides."""

    system: str  # label of the system
    value: SystemValue
    baseline: SystemValue
    margin: float
    amount: float = math.nan  # more than 0 is worse
    low: float = math.nan  # of the interval of the amount; NaN without one
    high: float = math.nan
    p_value: float = math.nan  # two-sided; after `decide_together` Holm-corrected
    outcome: str = UNDECIDED  # `worse`, `not worse` or `undecided`
    reason: str = ""  # by which rule, or what would decide it


def measure_worsening(
    results: Results, items: Sequence[SystemValue], system: str, value: SystemValue, baseline: SystemValue,
    margin: float = 0.0, alpha: float = LEVEL,
) -> Worsening:  # fmt: skip
    """Return how much worse a value is than the baseline's, with the interval at level 1 − alpha; not yet decided."""
    worsening = Worsening(system, value, baseline, margin)
    test = paired.compare_values(results, items, value, baseline)
    if test is None:
        reason = next((i.reason for i in (value, baseline) if i.reason), "no human value to compare with")
        return dataclasses.replace(worsening, reason=f"no value: {reason}")
    # What was tested: for metrics of embeddings, values in the space that the systems share.
    means = value.mean, baseline.mean
    if test.over == "draws":
        means, _ = paired.load_estimates(results, value, baseline)
    apart = means[0] - means[1]
    p_value = paired.compute_equality_p_value(results, items, value, baseline)
    low, high = test.low, test.high
    artifacts = [[artifact for _, artifact in item.sources] for item in (value, baseline)]
    is_same = artifacts[0] == artifacts[1] and None not in artifacts[0]
    by_intervals = False
    if apart == 0 and not math.isfinite(low) and (is_same or test.over == "examples"):  # equal text by text
        low, high, p_value = 0.0, 0.0, 1.0
    elif not math.isfinite(low):
        if value.interval is not None and baseline.interval is not None:
            below, above = value.reach, baseline.reach
            low, high = apart - math.hypot(below[0], above[1]), apart + math.hypot(below[1], above[0])
        side = apart - low if apart > 0 else high - apart
        by_intervals = not math.isfinite(p_value)
        p_value = paired.compute_margin_p_value(apart, side) if by_intervals else p_value
    target = find_target(value, items)
    if target is not None:
        amount = abs(means[0] - target) - abs(means[1] - target)
        human = find_human_value(items, value) if value.target is None else None
        center = _find_span(results, human) if human is not None else (target, target)
        spans = [_find_span(results, item) for item in (value, baseline)]
        shifts = [mean - item.mean for mean, item in zip(means, (value, baseline), strict=True)]
        ends = [(low + shift, high + shift) for (low, high), shift in zip(spans, shifts, strict=True)]
        if by_intervals:  # that the two values differ does not say which is nearer
            reach = math.hypot(*((end[1] - end[0]) / 2 for end in ends), center[1] - center[0])
            equal = paired.compute_margin_p_value(sum(means) - 2 * target, reach)
            p_value = float(np.maximum(p_value, equal))
        low, high = _convert_to_distances((low, high), ends, center, amount, p_value < alpha)
    else:
        amount = apart if value.direction == "lower" else -apart
        low, high = (low, high) if value.direction == "lower" else (-high, -low)
    factor = NormalDist().inv_cdf(1 - alpha / 2) / NormalDist().inv_cdf(1 - LEVEL / 2)
    low, high = amount - (amount - low) * factor, amount + (high - amount) * factor
    return dataclasses.replace(worsening, amount=amount, low=low, high=high, p_value=p_value)


def _find_span(results: Results, item: SystemValue) -> Span:
    """Return the ends of the interval of a value; both are the value where there is none."""
    interval = find_interval(results, item)
    return (interval.low, interval.high) if interval is not None else item.interval or (item.mean, item.mean)


def _convert_to_distances(difference: Span, ends: Sequence[Span], center: Span, amount: float, is_sure: bool) -> Span:
    """Turn the interval of a difference of two values, each within its `ends`, into that of distances to `center`."""
    low, high = difference
    if all(end[0] >= center[1] for end in ends):
        return low, high
    if all(end[1] <= center[0] for end in ends):
        return -high, -low
    reach = max(abs(low), abs(high))  # the distances differ by no more than the values
    if not is_sure:  # which is nearer
        return -reach, reach
    half = max(high - low, sum(end[1] - end[0] for end in ends)) / 2  # of the sum of two values that vary together
    return (max(0.0, amount - half), reach) if amount > 0 else (-reach, min(0.0, amount + half))


def decide_together(worsenings: Sequence[Worsening], alpha: float = LEVEL, tests: int = 0) -> list[Worsening]:
    """Decide each of some worsenings that were tested together, of so many that could have been if it is more."""
    corrected = paired.correct_by_holm({at: worsening.p_value for at, worsening in enumerate(worsenings)}, tests)
    return [_decide(w, corrected.get(at, math.nan), alpha) for at, w in enumerate(worsenings)]


def _decide(worsening: Worsening, p_value: float, alpha: float) -> Worsening:
    """Decide one worsening, given its corrected p-value."""
    amount, low, high, margin = worsening.amount, worsening.low, worsening.high, worsening.margin
    beyond, outcome, reason = f"beyond the margin of {margin:g}", UNDECIDED, worsening.reason
    if not math.isfinite(amount):
        pass
    elif not math.isfinite(high) and max(worsening.value.seeds, worsening.baseline.seeds) > 1:
        outcome = WORSE if amount > 0 and p_value < alpha else UNDECIDED
        reason = "significantly, by seed" if outcome == WORSE else "several seeds without their store have no interval"
    elif not math.isfinite(high):
        outcome = WORSE if amount > margin else NOT_WORSE
        reason = f"{beyond if amount > margin else f'by at most {margin:g}'} ({NOT_TESTED})"
    elif high <= margin:
        outcome, reason = NOT_WORSE, f"by at most {margin:g}"
    elif amount > 0 and p_value < alpha:
        outcome, reason = WORSE, f"significantly, {beyond}" if low > margin else "significantly"
    else:
        normal = NormalDist()
        ratios = [(high - amount) / (margin - amount)] if amount < margin else []  # to a shorter interval's
        if amount > 0 and p_value < 1:
            ratios.append(normal.inv_cdf(1 - alpha / 2) / normal.inv_cdf(1 - p_value / 2))
        reason = f"{format_needed_texts(min(ratios) ** 2, [worsening.value])} would decide it" if ratios else ""
    return dataclasses.replace(worsening, p_value=p_value, outcome=outcome, reason=reason)
