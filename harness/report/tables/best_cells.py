"""Mark the best cells of a column."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import TypeVar

from openended.harness.report.tables.numbers import round_as_printed
from openended.harness.report.tables.table import Cell, Column

K = TypeVar("K")


def mark_best_cells(column: Column, cells: Mapping[K, Cell], targets: Mapping[K, float]) -> dict[K, Cell]:
    """Mark the best cells; all cells with the same printed value as the best are marked."""
    scores = {key: _score(column, cell, targets[key]) for key, cell in cells.items() if math.isfinite(cell.value)}
    scores = {key: s for key, s in scores.items() if math.isfinite(s)}
    if len(cells) < 2 or not scores:
        return dict(cells)
    top = min(scores.values())
    return {k: dataclasses.replace(c, best=scores.get(k) == top) for k, c in cells.items()}


def _score(column: Column, cell: Cell, target: float) -> float:
    """Return the cost of a cell at the printed precision; lower is better."""
    value = round_as_printed(cell.value, column.decimals)
    if column.direction == "higher":
        return -value
    if column.direction == "lower":
        return value
    if column.target is not None:
        return round_as_printed(abs(cell.value - column.target), column.decimals)
    if column.direction == "match_human":
        return round_as_printed(abs(cell.value - target), column.decimals) if math.isfinite(target) else math.nan
    return math.nan
