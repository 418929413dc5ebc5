"""Tables in the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.report.table import Cell, Column, Table

if TYPE_CHECKING:
    from rich.console import Console


def print_table(table: Table, console: Console | None = None) -> None:
    """Write a table with its notes and signatures to the terminal."""
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    out = console or Console()
    grid = RichTable(title=Text(table.title), box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
    grid.add_column(Text(table.head), overflow="fold")
    if table.show_seeds:
        grid.add_column("seeds", justify="right")
    for column in table.columns:
        grid.add_column(Text(column.heading), justify="right", overflow="fold")
    for i, row in enumerate(table.rows):
        seeds = [str(row.seeds or "")] if table.show_seeds else []
        cells = [
            Text(_cell(table, c, k), style="bold" if c.best else "")
            for c, k in zip(row.cells, table.columns, strict=True)
        ]
        last = i + 1 < len(table.rows) and table.rows[i + 1].rule
        grid.add_row(Text(row.label), *seeds, *cells, end_section=last, style="italic" if row.system == "human" else "")
    out.print(grid)
    for line in foot(table):
        out.print(Text(line, style="dim"), soft_wrap=False)


def foot(table: Table) -> list[str]:
    """Return everything that is said under a table, as plain lines."""
    marks = [f"[{table.mark(Cell(note=note))}] {note}" for note in table.notes()]
    signatures = [f"signature  {s}" for s in table.signatures()]
    return [*([table.legend()] if table.legend() else []), *marks, *table.remarks, *signatures]


def _cell(table: Table, cell: Cell, column: Column) -> str:
    number, spread = table.text(cell, column)
    mark = f"\N{NO-BREAK SPACE}[{table.mark(cell)}]" if cell.note else ""
    return f"{number}±{spread}{mark}" if spread else f"{number}{mark}"
