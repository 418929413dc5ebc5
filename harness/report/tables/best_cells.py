"""Mark the best cells of a column: the best value and all that the report's tests do not separate from it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

from openended.harness.report.analysis.paired import correct_by_holm
from openended.harness.report.tables.table import BoldRule, Cell, Column, format_fixed

LEVEL = 0.05


def mark_best_cells(
    column: Column, cells: Sequence[Cell], compare: Callable[[Cell, Cell], float] | None = None
) -> tuple[Column, list[Cell]]:
    """Mark the best cells of a column, and note in the column how they were found.

    Cells are compared by tests if there are any, else by intervals, else by the printed value. Cells with the same
    printed value as the best are always marked. Nothing is marked in a column whose scoring model is out of its domain.
    """
    costs = {at: _compute_cost(column, cell.value, cell.human) for at, cell in enumerate(cells)}
    costs = {at: cost for at, cost in costs.items() if math.isfinite(cost)}
    if len(cells) < 2 or not costs or column.out_of_domain:
        return column, list(cells)
    best = min(costs, key=lambda at: costs[at])
    others = [at for at in costs if at != best]
    p_values = correct_by_holm({at: compare(cells[at], cells[best]) for at in others}) if compare is not None else {}
    spans = {at: span for at in costs if (span := _compute_cost_interval(column, cells[at])) is not None}
    rule: BoldRule = "printed"
    marked = {at for at in costs if _round(costs[at], column) == _round(costs[best], column)}
    if p_values:
        rule = "tests"
        marked |= {at for at, p in p_values.items() if p >= LEVEL}
    elif best in spans and len(spans) > 1:
        rule = "intervals"
        marked |= {at for at, (low, _) in spans.items() if low <= spans[best][1]}
    styled = [dataclasses.replace(cell, best=at in marked) for at, cell in enumerate(cells)]
    return dataclasses.replace(column, bold=rule), styled


def _round(cost: float, column: Column) -> str:
    """Return a cost as it is printed; costs that are printed alike are ties."""
    return format_fixed(cost, column.decimals)


def _compute_cost_interval(column: Column, cell: Cell) -> tuple[float, float] | None:
    """Return the interval of a cell's cost; None if the cell has no interval of the printed value."""
    ends = cell.interval or (cell.source.ends if cell.source is not None and not column.gap else None)
    if ends is None:
        return None
    costs = sorted(_compute_cost(column, end, cell.human) for end in ends)
    center = column.target if column.target is not None else cell.human
    two_sided = column.direction not in ("higher", "lower")
    return (0.0 if two_sided and ends[0] <= center <= ends[1] else costs[0]), costs[1]


def _compute_cost(column: Column, value: float, human: float) -> float:
    """Return the cost of a value; lower is better, NaN if the column has no direction."""
    if column.direction in ("higher", "lower"):
        return -value if column.direction == "higher" else value
    if column.target is not None:
        return abs(value - column.target)
    return abs(value - human) if column.direction == "match_human" else math.nan
