"""Split wide tables into parts that fit a width."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise


def pieces(widths: Sequence[float], label: float, width: float) -> list[range]:
    """Split columns into parts of similar width that fit a given width, with at least one column each."""
    room = max(width - label, 0)
    fewest = _cut(widths, room)
    # Balance the parts: the smallest width that needs no more parts.
    ends = sorted({sum(widths[a:b]) for a in range(len(widths)) for b in range(a + 1, len(widths) + 1)})
    least = next((r for r in ends if r <= room and len(_cut(widths, r)) == len(fewest)), room)
    return _cut(widths, least)


def _cut(widths: Sequence[float], room: float) -> list[range]:
    starts, used = [0], 0.0
    for i, wide in enumerate(widths):
        if used + wide > room and i > starts[-1]:
            starts.append(i)
            used = 0.0
        used += wide
    return [range(a, b) for a, b in pairwise([*starts, len(widths)])]
