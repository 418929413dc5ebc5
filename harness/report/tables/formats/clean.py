"""Escape control characters in tables, since labels, notes and titles come from untrusted files."""

from __future__ import annotations

from dataclasses import replace

from openended.harness.core import escape_controls_in_line
from openended.harness.report.tables.table import Cell, Column, Table, TableRow


def clean_table(table: Table) -> Table:
    """Return the table with control characters escaped and every text on one line."""
    return replace(
        table,
        title=escape_controls_in_line(table.title),
        head=escape_controls_in_line(table.head),
        columns=tuple(_clean_column(column) for column in table.columns),
        rows=tuple(_clean_row(row) for row in table.rows),
        remarks=tuple(map(escape_controls_in_line, table.remarks)),
        about=tuple(map(escape_controls_in_line, table.about)),
        warnings=tuple(map(escape_controls_in_line, table.warnings)),
        rules=tuple(map(escape_controls_in_line, table.rules)),
    )


def _clean_column(column: Column) -> Column:
    key, title, signature = map(escape_controls_in_line, (column.key, column.title, column.signature))
    return replace(column, key=key, title=title, signature=signature)


def _clean_row(row: TableRow) -> TableRow:
    return replace(row, label=escape_controls_in_line(row.label), cells=tuple(map(_clean_cell, row.cells)))


def _clean_cell(cell: Cell) -> Cell:
    if not (cell.note or cell.words or cell.suffix):
        return cell
    return replace(
        cell,
        note=escape_controls_in_line(cell.note),
        words=escape_controls_in_line(cell.words),
        suffix=escape_controls_in_line(cell.suffix),
    )
