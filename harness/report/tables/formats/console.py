"""Print tables to the terminal."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from openended.harness.report.tables.formats.text import PROSE, clean, has_words, split_columns
from openended.harness.report.tables.table import Cell, Column, Table

if TYPE_CHECKING:
    from rich.console import Console

WIDTH = 150  # characters if the output is not a terminal and the variable COLUMNS is not set


def make_console() -> Console:
    """Return a console as wide as the terminal or the variable COLUMNS says."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal or os.environ.get("COLUMNS", "").isdigit() else Console(width=WIDTH)


def print_table(table: Table, console: Console | None = None, *, verbose: bool = False) -> None:
    """Print a table, then warnings, a legend and notes; columns that do not fit follow below.

    Args:
        table: The table.
        console: Where to print it.
        verbose: Also print the rules for decimals, dates, commands and signatures, which the files always contain.
    """
    from rich.text import Text

    out, table = console or make_console(), clean(table)
    marks = table.marks()
    wide_marks = dict.fromkeys(marks, "aa") | {"": ""}
    widths = []
    for i, column in enumerate(table.columns):
        most = PROSE if has_words(table, i) else WIDTH
        cells = (_format_cell(table, row.cells[i], column, wide_marks) for row in table.rows)
        widths.append(max([len(column.heading), *(min(len(cell), most) for cell in cells)]))
    label = max(len(text) for text in (table.head, *(row.label for row in table.rows)))
    data = f" · {table.data.rstrip('.')}" if table.data else ""
    for at, part in enumerate(split_columns(table, widths, label, out.width)):
        out.print(Text(f"{table.title} (more columns)" if at else f"{table.title}{data}", style="italic"))
        _print_columns(table, part, marks, out)
    for warning in table.caveats():
        out.print(Text(f"warning: {warning}", style="bold yellow"))
    details = [*table.rules, *table.about[1:], *(f"signature  {s}" for s in table.signatures())] if verbose else []
    notes = [f"[{mark}] {note}" for note, mark in marks.items() if note]
    bold = table.explain_bold() if out.is_terminal else []  # elsewhere nothing is bold
    for line in (*table.legend(), *bold, *notes, *(f"note: {line}" for line in table.remarks), *details):
        out.print(Text(line, style="dim"))


def _print_columns(table: Table, columns: range, marks: Mapping[str, str], out: Console) -> None:
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    grid = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
    grid.add_column(Text(table.head), overflow="fold")
    if table.show_seeds:
        grid.add_column("seeds", justify="right")
    for i in columns:
        heading = Text(table.columns[i].heading)
        grid.add_column(heading, justify="left" if has_words(table, i) else "right", overflow="fold")
    for at, row in enumerate(table.rows):
        seeds = [str(row.seeds or "")] if table.show_seeds else []
        texts = [(_format_cell(table, row.cells[i], table.columns[i], marks), row.cells[i].best) for i in columns]
        cells = [Text(text, style="bold" if best else "") for text, best in texts]
        last = any(below.rule for below in table.rows[at + 1 : at + 2])
        grid.add_row(Text(row.label), *seeds, *cells, end_section=last, style="italic" if row.system == "human" else "")
    out.print(grid)


def _format_cell(table: Table, cell: Cell, column: Column, marks: Mapping[str, str]) -> str:
    number, spread = table.text(cell, column)
    mark = f"\N{NO-BREAK SPACE}[{marks[cell.note]}]" if cell.note else ""
    gap = " " if spread.startswith(("[", "(")) else ""
    return f"{number}{gap}{spread.replace('± ', '±')}{mark}"
