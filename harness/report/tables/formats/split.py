"""Cutting a wide table: which columns stand side by side."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise


def pieces(widths: Sequence[float], label: float, width: float) -> list[range]:
    """Cut columns into pieces that fit a width, all about equally wide; at least one column a piece.

    Args:
        widths: Width of every column.
        label: Width of what stands in front of every piece: the rows' names.
        width: What a piece may take; of the same unit.

    Returns:
        The places of the columns of each piece, in order; one piece where everything fits.
    """
    room = max(width - label, 0)
    fewest = _cut(widths, room)
    # As many pieces, but none of them almost empty: the least room that needs no more.
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
