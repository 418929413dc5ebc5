"""One metric under several of its options (quantizers, estimators): the scores side by side, and how they rank."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from openended.harness.report.tables.agreement import FEW
from openended.harness.report.tables.systems import value_tables
from openended.harness.report.tables.table import Cell, Column, Table, TableRow
from openended.harness.results import Layout, Results


def variant_tables(results: Results, layout: Layout, name: str) -> list[Table]:
    """Build a table of scores with a column for each set of options, and one of Spearman's ρ between its columns."""
    made = dataclasses.replace(layout, kind="values", differing="columns")
    tables: list[Table] = []
    for table in value_tables(results, made, name):
        tables += [table, *([_agreement(table)] if len(table.columns) > 1 else [])]
    return tables


def _agreement(table: Table) -> Table:
    """Correlate every column with every one, over the systems that have both."""
    from openended.metrics.correlation import rank_correlation

    systems = [row for row in table.rows if row.system == "model"]
    values = [[row.cells[i].value for row in systems] for i in range(len(table.columns))]
    rows = []
    for column, own in zip(table.columns, values, strict=True):
        cells = []
        for other in values:
            both = [(a, b) for a, b in zip(own, other, strict=True) if math.isfinite(a) and math.isfinite(b)]
            found = rank_correlation(*zip(*both, strict=True)) if len(both) > 2 else math.nan
            cells.append(Cell(found) if math.isfinite(found) else Cell(note=FEW))
        rows.append(TableRow(column.title, "metric", tuple(cells)))
    shorts = _short([c.title for c in table.columns])
    columns = tuple(Column(c.metric, c.key, name, "none", 3) for c, name in zip(table.columns, shorts, strict=True))
    remark = f"Spearman's ρ over {len(systems)} systems, the human side left out; the values as they are printed above."
    return Table(
        f"{table.name}-agreement", f"{table.title}: agreement of rankings", columns, tuple(rows), (remark,),
        head="Scores", show_seeds=False, about=table.about,
    )  # fmt: skip


def _short(titles: Sequence[str]) -> list[str]:
    """Return the options alone, without the metric's name; where all titles tell the same ones, their values alone."""
    told = [[part.partition("=") for part in t.partition("(")[2].rpartition(")")[0].split(", ")] for t in titles]
    alike = len({tuple(name for name, _, _ in parts) for parts in told}) == 1
    return [
        ", ".join(value if alike else f"{name}{is_}{value}" for name, is_, value in parts) or title
        for title, parts in zip(titles, told, strict=True)
    ]
