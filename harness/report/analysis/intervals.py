"""Intervals next to values: from the metric itself (`huse_low`, `huse_high`) or over examples."""

from __future__ import annotations

import math
from collections.abc import Iterable

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

    def same(other: SystemValue) -> bool:
        alike = (other.system, other.metric, other.signature) == (item.system, item.metric, item.signature)
        return alike and other.axes == item.axes

    ends = {other.key: other.mean for other in items if other.key.endswith(("_low", "_high")) and same(other)}
    low, high = (ends.get(f"{item.key}_{end}", math.nan) for end in ("low", "high"))
    return (low, high) if math.isfinite(low) and math.isfinite(high) else None
