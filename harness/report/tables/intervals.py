"""The interval that a metric states beside a value, as values of their own: `huse`, `huse_low`, `huse_high`."""

from __future__ import annotations

import math
from collections.abc import Iterable

from openended.harness.report.read.fold import Folded


def interval_of(item: Folded, items: Iterable[Folded]) -> tuple[float, float] | None:
    """Return the interval of a value; None where there is none, or where several seeds speak for the spread."""
    if item.seeds != 1:
        return None

    def same(other: Folded) -> bool:
        alike = (other.system, other.metric, other.signature) == (item.system, item.metric, item.signature)
        return alike and other.axes == item.axes

    ends = {other.key: other.mean for other in items if other.key.endswith(("_low", "_high")) and same(other)}
    low, high = (ends.get(f"{item.key}_{end}", math.nan) for end in ("low", "high"))
    return (low, high) if math.isfinite(low) and math.isfinite(high) else None
