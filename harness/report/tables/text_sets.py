"""Standard deviation of values over sets of generated texts, of human texts, and of both (P&R, Table B.5)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from openended.harness.core import F64
from openended.harness.report.tables.selection import select_pairs, split_results
from openended.harness.report.tables.table import Cell, Column, Table, choose_column_decimals
from openended.harness.results import Layout, Pair, Results, SystemValue

SET = "task.start"  # the axis of the sets of human texts; that of generated texts is the seed
_ROWS = ("varying Q", "varying P", "varying P and Q")
_REMARKS = (
    "Q: generated texts, one set per seed; P: human texts, one set per task.start.",
    "Sample standard deviation (n − 1), averaged over the other side's sets; mean ± std over systems.",
    "Varying P and Q: the first P with the first Q, the second with the second, and so on.",
)


def build_text_set_tables(results: Results, layout: Layout, name: str) -> list[Table]:
    """Build one table: sets that vary by metrics."""
    tables = []
    for part in split_results(results, layout, name):
        items = [i for i in part.items if i.system == "model"]
        columns = []
        for pair in select_pairs(items, layout):
            like = next(i for i in items if i.pair == pair)
            stds = np.array([_compute_stds(values) for values in _group_by_system(items, pair)]).reshape(-1, len(_ROWS))
            cells = [_make_cell(column[np.isfinite(column)]) for column in stds.T]
            digits = min(4, choose_column_decimals(cells) + 1)
            columns.append((Column(*pair, f"sd {like.title}", "none", digits, like.signature), cells))
        title = f"{layout.title}{part.tasks}"
        tables.append(Table.from_columns(part.stem, title, _ROWS, columns, _REMARKS, head="Sets", about=part.about))
    return tables


def _group_by_system(items: Sequence[SystemValue], pair: Pair) -> list[list[SystemValue]]:
    """Return the values of each system, one for each set of human texts."""
    systems: dict[tuple[tuple[str, str], ...], list[SystemValue]] = {}
    for item in items:
        if item.pair == pair:
            rest = tuple((a, v) for a, v in item.axes.items() if a not in (SET, "task.texts", "task.digest"))
            systems.setdefault(rest, []).append(item)
    return list(systems.values())


def _compute_stds(values: Sequence[SystemValue]) -> tuple[float, float, float]:
    """Return the standard deviations over seeds, over sets of human texts, and over both at once."""
    seeds = sorted(set.intersection(*(set(value.values) for value in values)))
    grid = np.array([[value.values[seed] for seed in seeds] for value in values])  # sets × seeds
    over_seeds = grid.std(axis=1, ddof=1).mean() if len(seeds) > 1 else math.nan
    over_sets = grid.std(axis=0, ddof=1).mean() if len(values) > 1 and seeds else math.nan
    both = np.diag(grid)
    return float(over_seeds), float(over_sets), float(both.std(ddof=1)) if len(both) > 1 else math.nan


def _make_cell(stds: F64) -> Cell:
    if not len(stds):
        return Cell(note="it needs two sets or more")
    return Cell(float(stds.mean()), float(stds.std(ddof=1)) if len(stds) > 1 else math.nan, len(stds))
