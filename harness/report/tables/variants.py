"""Tables of one metric under several options (quantizers, estimators), and the agreement of their rankings."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from openended.harness.report.tables.agreement import FEW
from openended.harness.report.tables.systems import build_value_tables
from openended.harness.report.tables.table import Cell, Column, Table, TableRow
from openended.harness.results import Layout, Results


def build_variant_tables(results: Results, layout: Layout, name: str) -> list[Table]:
    """Build a table of scores with one column per option set, and a table of Spearman's ρ between the columns."""
    values_layout = dataclasses.replace(layout, kind="values", differing="columns")
    tables: list[Table] = []
    for table in build_value_tables(results, values_layout, name):
        tables += [table, *([_build_agreement_table(table)] if len(table.columns) > 1 else [])]
    return tables


def _build_agreement_table(table: Table) -> Table:
    """Correlate all pairs of columns over the systems that have both values."""
    from openended.metrics.correlation import rank_correlation

    systems = [row for row in table.rows if row.system == "model"]
    values = [[row.cells[i].value for row in systems] for i in range(len(table.columns))]
    rows = []
    for column, column_values in zip(table.columns, values, strict=True):
        cells = []
        for other in values:
            both = [(a, b) for a, b in zip(column_values, other, strict=True) if math.isfinite(a) and math.isfinite(b)]
            correlation = rank_correlation(*zip(*both, strict=True)) if len(both) > 2 else math.nan
            cells.append(Cell(correlation) if math.isfinite(correlation) else Cell(note=FEW))
        rows.append(TableRow(column.title, "metric", tuple(cells)))
    shorts = _shorten_titles([c.title for c in table.columns])
    columns = tuple(Column(c.metric, c.key, name, "none", 3) for c, name in zip(table.columns, shorts, strict=True))
    remark = f"Spearman's ρ over {len(systems)} systems, without the human row, of the values above."
    return Table(
        f"{table.name}-agreement", f"{table.title}: agreement of rankings", columns, tuple(rows), (remark,),
        head="Scores", show_seeds=False, about=table.about,
    )  # fmt: skip


def _shorten_titles(titles: Sequence[str]) -> list[str]:
    """Return the options without the metric's name, or only their values if all titles list the same options."""
    options = [[part.partition("=") for part in t.partition("(")[2].rpartition(")")[0].split(", ")] for t in titles]
    alike = len({tuple(name for name, _, _ in parts) for parts in options}) == 1
    return [
        ", ".join(value if alike else f"{name}{is_}{value}" for name, is_, value in parts) or title
        for title, parts in zip(titles, options, strict=True)
    ]
