"""Intervals next to values: from the metric itself (`huse_low`, `huse_high`), over examples, or over seeds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

from openended.harness.core import LEVEL
from openended.harness.results import Results, SystemValue, find_interval


def choose_interval(
    item: SystemValue, items: Iterable[SystemValue], results: Results | None
) -> tuple[float, float] | None:
    """Return the interval to show: that of the metric itself, otherwise, if results are given, that over examples."""
    metric_interval = find_metric_interval(item, items)
    if metric_interval is not None or results is None:
        return metric_interval
    interval = find_interval(results, item)
    return (interval.low, interval.high) if interval is not None else None


def find_metric_interval(item: SystemValue, items: Iterable[SystemValue]) -> tuple[float, float] | None:
    """Return the interval that a metric reports; None if there is none, or if the value is a mean over seeds."""
    if item.seeds != 1:
        return None
    identity = (item.system, item.metric, item.signature)
    ends = {
        other.key: other.mean
        for other in items
        if other.key in (f"{item.key}_low", f"{item.key}_high")
        and (other.system, other.metric, other.signature) == identity
        and other.axes == item.axes
    }
    low, high = (ends.get(f"{item.key}_{end}", math.nan) for end in ("low", "high"))
    return (low, high) if math.isfinite(low) and math.isfinite(high) else None


def compute_student_quantile(degrees: int, level: float = LEVEL) -> float:
    """Return Student's two-sided quantile."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, 0.5 + level / 2))


def sample_std(values: Sequence[float]) -> float:
    """Return the sample standard deviation (n - 1); NaN for fewer than two values."""
    return statistics.stdev(values) if len(values) > 1 else math.nan


def compute_half_width(values: Sequence[float]) -> float:
    """Return the half-width of Student's interval of the mean; NaN for fewer than two values.

    >>> round(compute_half_width([1.0, 2.0, 3.0]), 4)  # 4.3027 * 1 / sqrt(3)
    2.4841
    """
    if len(values) < 2:
        return math.nan
    return compute_student_quantile(len(values) - 1) * sample_std(values) / math.sqrt(len(values))
