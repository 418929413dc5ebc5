"""The interval beside a value: one that the metric states (`huse`, `huse_low`, `huse_high`), else one over examples."""

from __future__ import annotations

import math
from collections.abc import Iterable

from openended.harness.results import Folded, Results, interval_of


def shown_interval(item: Folded, items: Iterable[Folded], results: Results | None) -> tuple[float, float] | None:
    """Return the interval that a cell shows: the metric's own, or, given the results, that over the examples."""
    found = stated_interval(item, items)
    if found is not None or results is None:
        return found
    made = interval_of(results, item)
    return (made.low, made.high) if made is not None else None


def stated_interval(item: Folded, items: Iterable[Folded]) -> tuple[float, float] | None:
    """Return the interval that a metric states; None where there is none, or several seeds speak for the spread."""
    if item.seeds != 1:
        return None

    def same(other: Folded) -> bool:
        alike = (other.system, other.metric, other.signature) == (item.system, item.metric, item.signature)
        return alike and other.axes == item.axes

    ends = {other.key: other.mean for other in items if other.key.endswith(("_low", "_high")) and same(other)}
    low, high = (ends.get(f"{item.key}_{end}", math.nan) for end in ("low", "high"))
    return (low, high) if math.isfinite(low) and math.isfinite(high) else None
