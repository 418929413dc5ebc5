"""Mark the best cells of a column: the best value and all that the report's tests do not separate from it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import TypeVar

from openended.harness.report.analysis.paired import correct_by_holm
from openended.harness.report.tables.numbers import round_as_printed
from openended.harness.report.tables.table import BoldRule, Cell, Column

K = TypeVar("K")
Compare = Callable[[Cell, Cell], float]
"""Return the p-value of a test that a cell is as good as the best one; NaN if they cannot be tested."""
LEVEL = 0.05


def mark_best_cells(
    column: Column, cells: Mapping[K, Cell], targets: Mapping[K, float], compare: Compare | None = None
) -> tuple[Column, dict[K, Cell]]:
    """Mark the best cells of a column, and note in the column how they were found.

    Cells are compared by tests if there are any, else by intervals, else by the printed value. Cells with the same
    printed value as the best are always marked. Nothing is marked in a column whose scoring model is out of its domain.
    """
    costs = {
        key: _compute_cost(column, cell.value, targets[key]) for key, cell in cells.items() if math.isfinite(cell.value)
    }
    costs = {key: cost for key, cost in costs.items() if math.isfinite(cost)}
    if len(cells) < 2 or not costs or column.out_of_domain:
        return column, dict(cells)
    best = min(costs, key=lambda key: costs[key])
    printed = {key: round_as_printed(cost, column.decimals) for key, cost in costs.items()}
    spans = {
        key: span for key in costs if (span := _compute_cost_interval(column, cells[key], targets[key])) is not None
    }
    rule, equal = _find_equals(best, {key: cells[key] for key in costs}, spans, compare)
    marked = {key for key in costs if key in equal or printed[key] == printed[best]}
    return dataclasses.replace(column, bold=rule), {
        key: dataclasses.replace(cell, best=key in marked) for key, cell in cells.items()
    }


def _find_equals(
    best: K, cells: Mapping[K, Cell], spans: Mapping[K, tuple[float, float]], compare: Compare | None
) -> tuple[BoldRule, set[K]]:
    """Return the rule that applies to a column, and the cells that it does not separate from the best one."""
    others = [key for key in cells if key != best]
    p_values = correct_by_holm({key: compare(cells[key], cells[best]) for key in others}) if compare is not None else {}
    if p_values:
        return "tests", {key for key, p in p_values.items() if p >= LEVEL}
    if best in spans and len(spans) > 1:
        return "intervals", {key for key, (low, _) in spans.items() if low <= spans[best][1]}
    return "printed", set()


def _compute_cost_interval(column: Column, cell: Cell, target: float) -> tuple[float, float] | None:
    """Return the interval of a cell's cost; None if the cell has no interval of the printed value."""
    ends = cell.interval or (cell.source.ends if cell.source is not None and not column.gap else None)
    if ends is None:
        return None
    costs = sorted(_compute_cost(column, end, target) for end in ends)
    center = column.target if column.target is not None else target
    two_sided = column.direction not in ("higher", "lower")
    return (0.0 if two_sided and ends[0] <= center <= ends[1] else costs[0]), costs[1]


def _compute_cost(column: Column, value: float, target: float) -> float:
    """Return the cost of a value; lower is better, NaN if the column has no direction."""
    if column.direction == "higher":
        return -value
    if column.direction == "lower":
        return value
    if column.target is not None:
        return abs(value - column.target)
    return abs(value - target) if column.direction == "match_human" else math.nan
