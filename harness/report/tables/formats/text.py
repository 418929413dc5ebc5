"""What all formats of a table share: clean texts, and columns split into parts that fit a width."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from itertools import pairwise
from typing import TypeVar

from openended.harness.core import escape_controls_in_line
from openended.harness.report.tables.table import Cell, Column, Table, TableRow

T = TypeVar("T")
GAP = 3  # characters between columns
PROSE = 45  # maximal width of text cells in characters; longer text is wrapped


def clean(node: T) -> T:
    """Escape control characters in all texts of a table, since they come from untrusted files; each is one line."""
    if isinstance(node, str):
        return escape_controls_in_line(node)  # type: ignore[return-value]
    if isinstance(node, tuple):
        return tuple(map(clean, node))  # type: ignore[return-value]
    if isinstance(node, (Table, TableRow, Column, Cell)):
        return replace(node, **{f.name: clean(getattr(node, f.name)) for f in fields(node)})
    return node


def has_words(table: Table, column: int) -> bool:
    """Return whether a column contains text cells."""
    return any(row.cells[column].words for row in table.rows)


def split_columns(table: Table, widths: Sequence[int], label: int, width: int) -> list[range]:
    """Split columns of so many characters into parts that fit a width next to the row labels and seeds."""
    return pieces([w + GAP for w in widths], label + (len("seeds") + GAP if table.show_seeds else 0), width)


def pieces(widths: Sequence[float], label: float, width: float) -> list[range]:
    """Split columns into parts of similar width that fit a given width, with at least one column each."""

    def cut(limit: float) -> list[range]:
        starts, used = [0], 0.0
        for i, wide in enumerate(widths):
            if used + wide > limit and i > starts[-1]:
                starts.append(i)
                used = 0.0
            used += wide
        return [range(a, b) for a, b in pairwise([*starts, len(widths)])]

    room = max(width - label, 0)
    # Balance the parts: the smallest width that needs no more parts.
    ends = sorted({sum(widths[a:b]) for a in range(len(widths)) for b in range(a + 1, len(widths) + 1)})
    return cut(next((r for r in ends if r <= room and len(cut(r)) == len(cut(room))), room))
