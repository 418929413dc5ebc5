"""Print tables to the terminal."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from openended.harness.report.tables.formats.clean import clean_table
from openended.harness.report.tables.formats.split import pieces
from openended.harness.report.tables.table import Cell, Column, Table

if TYPE_CHECKING:
    from rich.console import Console

WIDTH = 150  # characters if the output is not a terminal
GAP = 3  # characters between columns
PROSE = 45  # maximal width of text cells in characters; longer text is wrapped


def print_table(table: Table, console: Console | None = None, *, verbose: bool = False) -> None:
    """Print a table, then warnings, a legend and notes; columns that do not fit follow below.

    Args:
        table: The table.
        console: Where to print it.
        verbose: Also print the rules for decimals, dates, commands and signatures, which the files always contain.
    """
    from rich.text import Text

    out, table = console or make_console(), clean_table(table)
    marks = {note: table.mark(Cell(note=note)) for note in table.notes()}
    for index, columns in enumerate(_split_columns(table, out.width)):
        _print_part(_select_columns(table, columns, first=index == 0), marks, out)
    for warning in table.caveats():
        out.print(Text(f"warning: {warning}", style="bold yellow"))
    for line in format_notes(table, verbose=verbose):
        out.print(Text(line, style="dim"))


def make_console() -> Console:
    """Return a console with a minimum width if the output is not a terminal."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(width=max(WIDTH, console.width))


def format_notes(table: Table, *, verbose: bool) -> list[str]:
    """Return the lines below the warnings: legend, notes, remarks; if verbose, also rules, runs and signatures."""
    marks = [f"[{table.mark(Cell(note=note))}] {note}" for note in table.notes()]
    details = [*table.rules, *table.about[1:], *(f"signature  {s}" for s in table.signatures())] if verbose else []
    return [*table.legend(), *marks, *(f"note: {line}" for line in table.remarks), *details]


def _split_columns(table: Table, width: int) -> list[range]:
    """Split the columns of a table into parts that fit the width."""
    label = max([len(table.head), *(len(row.label) for row in table.rows)]) + (5 + GAP if table.show_seeds else 0)
    widths = []
    for i, column in enumerate(table.columns):
        cells = (_format_cell(table, row.cells[i], column, {row.cells[i].note: "aa"}) for row in table.rows)
        most = PROSE if _has_words(table, i) else WIDTH
        widths.append(max([len(column.heading), *(min(len(cell), most) for cell in cells)]) + GAP)
    return pieces(widths, label, width)


def _select_columns(table: Table, columns: range, *, first: bool) -> Table:
    part = slice(columns.start, columns.stop)
    rows = tuple(dataclasses.replace(row, cells=row.cells[part]) for row in table.rows)
    data = f" · {table.data.rstrip('.')}" if table.data else ""
    title = f"{table.title}{data}" if first else f"{table.title} (more columns)"
    return dataclasses.replace(table, title=title, columns=table.columns[part], rows=rows)


def _print_part(table: Table, marks: dict[str, str], out: Console) -> None:
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    out.print(Text(table.title, style="italic"))
    grid = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
    grid.add_column(Text(table.head), overflow="fold")
    if table.show_seeds:
        grid.add_column("seeds", justify="right")
    for i, column in enumerate(table.columns):
        grid.add_column(Text(column.heading), justify="left" if _has_words(table, i) else "right", overflow="fold")
    for i, row in enumerate(table.rows):
        seeds = [str(row.seeds or "")] if table.show_seeds else []
        cells = [
            Text(_format_cell(table, cell, column, marks), style="bold" if cell.best else "")
            for cell, column in zip(row.cells, table.columns, strict=True)
        ]
        last = i + 1 < len(table.rows) and table.rows[i + 1].rule
        grid.add_row(Text(row.label), *seeds, *cells, end_section=last, style="italic" if row.system == "human" else "")
    out.print(grid)


def _has_words(table: Table, column: int) -> bool:
    """Return whether a column contains text cells."""
    return any(row.cells[column].words for row in table.rows)


def _format_cell(table: Table, cell: Cell, column: Column, marks: dict[str, str]) -> str:
    number, spread = table.text(cell, column)
    mark = f"\N{NO-BREAK SPACE}[{marks[cell.note]}]" if cell.note else ""
    gap = " " if spread.startswith(("[", "(")) else ""
    return f"{number}{gap}{spread.replace('± ', '±')}{mark}"
