"""Mark the best cells of a column: the best value and all that the report's tests do not separate from it.

Which value is best is known only from the data, so any two systems may turn out to be the two that are compared. The
p-values are therefore corrected for all pairs of systems: by Holm's method, where the pairs without the best count as
not significant. Among equal systems, in at most 5 % of columns one of them is not marked.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence

from openended.harness.report.analysis.paired import LEVEL, compute_margin_p_value, correct_by_holm
from openended.harness.report.tables.table import BoldRule, Cell, Column, format_fixed
from openended.harness.results import SystemValue

CONTROLS = ("naive:", "damage:")  # models that are naive systems or damaged human texts


def mark_best_cells(
    column: Column, cells: Sequence[Cell], compare: Callable[[Cell, Cell], float] | None = None
) -> tuple[Column, list[Cell]]:
    """Mark the best cells of a column, and note in the column how they were found.

    Cells are compared by tests if there are any, else by intervals, else by the printed value. A cell that cannot be
    tested, and one with the same printed value as the best, is not separated from it. Naive systems and damaged texts
    are never marked, and nothing is in a column whose scoring model is out of its domain.
    """
    costs = {at: _compute_cost(column, cell, cell.value) for at, cell in enumerate(cells) if _competes(cell.source)}
    costs = {at: cost for at, cost in costs.items() if math.isfinite(cost)}
    if len(cells) < 2 or not costs or column.out_of_domain:
        return column, list(cells)
    best = min(costs, key=lambda at: costs[at])
    rule: BoldRule = "printed"
    texts = {at: format_fixed(cost, column.decimals) for at, cost in costs.items()}  # printed alike, they are ties
    marked = {at for at in costs if texts[at] == texts[best]}
    others = [at for at in costs if at != best]
    tests = {at: compare(cells[at], cells[best]) if compare is not None else math.nan for at in others}
    intervals = {at: _compare_intervals(column, cells[at], cells[best]) for at in others}
    num_pairs = math.comb(len(costs), 2)
    if corrected := correct_by_holm(tests, num_pairs):
        rule = "tests"
    elif corrected := correct_by_holm(intervals, num_pairs):
        rule = "intervals"
    if corrected:
        marked |= {at for at in costs if corrected.get(at, 1.0) >= LEVEL}
    styled = [dataclasses.replace(cell, best=at in marked) for at, cell in enumerate(cells)]
    return dataclasses.replace(column, bold=rule), styled


def _competes(source: SystemValue | None) -> bool:
    """Whether a value may be best: not of a control, nor one that its metric does not rank for a reason in its note."""
    return source is None or (source.direction != "none" and not source.axes.get("model", "").startswith(CONTROLS))


def _compute_cost(column: Column, cell: Cell, value: float) -> float:
    """Return the cost of a value of a cell; lower is better, NaN if the column has no direction."""
    if column.direction in ("higher", "lower"):
        return -value if column.direction == "higher" else value
    if column.target is not None:
        return abs(value - column.target)
    return abs(value - cell.human) if column.direction == "match_human" else math.nan


def _compare_intervals(column: Column, cell: Cell, best: Cell) -> float:
    """Return the p-value of two equal costs from their intervals, as if the two were independent; NaN without both."""
    spans = []
    for side in (cell, best):
        ends = side.interval or (side.source.interval if side.source is not None and not column.gap else None)
        if ends is None:  # there is no interval of the printed value
            return math.nan
        low, high = sorted(_compute_cost(column, side, end) for end in ends)
        center = column.target if column.target is not None else side.human
        is_inside = column.direction not in ("higher", "lower") and ends[0] <= center <= ends[1]
        spans.append((0.0 if is_inside else low, high))
    cost, lowest = (_compute_cost(column, side, side.value) for side in (cell, best))
    return compute_margin_p_value(cost - lowest, math.hypot(cost - spans[0][0], spans[1][1] - lowest))
