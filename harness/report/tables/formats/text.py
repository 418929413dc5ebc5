"""Format tables for the terminal, as Markdown and as CSV: clean texts, and columns split into parts that fit."""

import csv
import io
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from itertools import pairwise
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from openended.harness.core import escape_controls_in_line, escape_csv_cell
from openended.harness.report.tables.frame import Cell
from openended.harness.report.tables.table import Table

WIDTH = 150  # characters if the output is not a terminal and the variable COLUMNS is not set
MOST_NOTES = 3  # under a table in the terminal
GAP = 3  # characters between columns
ITALIC = ("human", "heading")  # rows
PROSE = 45  # maximal width of text cells in characters; longer text is wrapped


def clean(node: Any) -> Any:  # noqa: ANN401 - a table, or a part of it
    """Escape control characters in all texts of a table, since they come from untrusted files; each is one line."""
    if isinstance(node, (Table, Cell)):
        return replace(node, **{f.name: clean(getattr(node, f.name)) for f in fields(node)})
    if isinstance(node, tuple):
        parts = map(clean, node)
        return type(node)(*parts) if hasattr(node, "_fields") else tuple(parts)
    return escape_controls_in_line(node) if isinstance(node, str) else node


def split_columns(table: Table, cells: Sequence[Sequence[str]], width: int) -> list[range]:
    """Split columns with these cells into parts that fit a width next to the row labels and seeds."""
    widths = [
        max(min(len(text), PROSE) for text in (*column.lines, *(row[i] for row in cells))) + GAP
        for i, column in enumerate(table.columns)
    ]
    labels = zip(table.heads, *(row.labels for row in table.rows), strict=True)
    label = sum(max(min(len(text), PROSE) for text in level) for level in labels)
    return split_widths(widths, label + (len("seeds") + GAP if table.show_seeds else 0), width)


def split_widths(widths: Sequence[float], label: float, width: float) -> list[range]:
    """Split columns into parts of similar width that fit a given width, with at least one column each."""

    def cut(limit: float) -> list[range]:
        starts, used = [0], 0.0
        for i, wide in enumerate(widths):
            if used + wide > limit and i > starts[-1]:
                starts.append(i)
                used = 0.0
            used += wide
        return [range(a, b) for a, b in pairwise([*starts, len(widths)])]

    room = max(width - label, 0)
    # Balance the parts: the smallest width that needs no more parts.
    ends = sorted({sum(widths[a:b]) for a in range(len(widths)) for b in range(a + 1, len(widths) + 1)})
    return cut(next((r for r in ends if r <= room and len(cut(r)) == len(cut(room))), room))


# Terminal -------------------------------------------------------------------------------------------------------------


def make_console() -> Console:
    """Return a console as wide as the terminal or the variable COLUMNS says."""
    console = Console()
    return console if console.is_terminal or os.environ.get("COLUMNS", "").isdigit() else Console(width=WIDTH)


def print_table(table: Table, console: Console | None = None, *, verbose: bool = False) -> None:
    """Print a table, then warnings, a legend and notes; columns that do not fit follow below.

    Args:
        table: The table.
        console: Where to print it.
        verbose: Also print all notes, tests, rules for decimals, dates, commands and signatures, which the files
            always contain.
    """
    out, table = console or make_console(), clean(table)
    marks = table.marks()
    cells = [[_format_cell(cell, marks) for cell in row.cells] for row in table.rows]
    data = table.describe_data(table.title).rstrip(".")
    data = f" · {data}" if data else ""
    for at, part in enumerate(split_columns(table, cells, out.width)):
        out.print(Text(f"{table.title} (more columns)" if at else f"{table.title}{data}", style="italic"))
        _print_columns(table, part, cells, out)
    for warning in table.caveats():
        out.print(Text(f"warning: {warning}", style="bold yellow"))
    details = [*table.list_notes("rule"), *table.about[1:], *(f"signature  {s}" for s in table.signatures())]
    notes = [f"[{mark}] {note}" for note, mark in marks.items() if note]
    notes += [f"note: {line}" for line in table.list_notes("remark")] if table.show_notes else []
    bold = table.explain_bold() if out.is_terminal else []  # elsewhere nothing is bold
    more = len(notes) - MOST_NOTES if not verbose else 0
    if more > 1:
        notes[MOST_NOTES:] = [f"{more} more notes: in {table.name}.md, or with -v"]
    for line in (*([*table.legend(), *bold] if table.show_notes else []), *notes, *(details if verbose else ())):
        out.print(Text(line, style="dim"))


def _print_columns(table: Table, columns: range, cells: Sequence[Sequence[str]], out: Console) -> None:
    grid = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
    for head in table.heads:
        grid.add_column(Text(head), overflow="fold")
    if table.show_seeds:
        grid.add_column("seeds", justify="right")
    is_text = table.find_text_columns()
    for i in columns:
        heading = Text("\n".join(table.columns[i].lines))
        grid.add_column(heading, justify="left" if is_text[i] else "right", overflow="fold")
    for at, row in enumerate(table.rows):
        seeds = [str(row.seeds or "")] if table.show_seeds else []
        texts = [Text(cells[at][i], style="bold" if row.cells[i].best else "") for i in columns]
        last = any(below.rule for below in table.rows[at + 1 : at + 2])
        grid.add_row(
            *map(Text, row.labels), *seeds, *texts, end_section=last, style="italic" if row.system in ITALIC else ""
        )
    out.print(grid)


def _format_cell(cell: Cell, marks: Mapping[str, str]) -> str:
    mark = f"\N{NO-BREAK SPACE}[{marks[cell.note]}]" if cell.note else ""
    gap = " " if cell.spread.startswith(("[", "(")) else ""
    return f"{cell.number}{cell.mark}{gap}{cell.spread.replace('± ', '±')}{mark}"


# Markdown and CSV -----------------------------------------------------------------------------------------------------


def to_markdown(table: Table) -> str:
    """Format a table as GitHub Markdown with notes and signatures."""
    table = clean(table)
    marks = table.marks()
    seeds = ["seeds"] if table.show_seeds else []
    headings = ("<br>".join(map(_escape, column.lines)) for column in table.columns)  # Markdown has one row of them
    aligns = ["---" for _ in table.heads] + ["---:" for _ in seeds]
    grid = [
        [*map(_escape, (*table.heads, *seeds)), *headings],
        aligns + ["---" if is_text else "---:" for is_text in table.find_text_columns()],
    ]
    for row in table.rows:
        labels = [f"*{_escape(t)}*" if t and row.system in ITALIC else _escape(t) for t in row.labels]
        cells = [_format_markdown(cell, marks) for cell in row.cells]
        grid.append([*labels, *(str(row.seeds or "") for _ in seeds), *cells])
    lines = [f"**{_escape(table.title)}**", "", *(f"| {' | '.join(line)} |" for line in grid), ""]
    signatures = ["Signatures:\n", *(f"- `{s}`" for s in table.signatures())]
    lines_below = (*table.list_notes("remark"), *table.list_notes("rule"), *table.about)
    paragraphs = [
        *(f"**Warning:** {_escape(warning)}" for warning in table.caveats()),
        *([*table.legend(), *table.explain_bold()] if table.show_notes else []),
        *(f"<sup>{mark}</sup> {_escape(note)}" for note, mark in marks.items() if note),
        *(map(_escape, lines_below) if table.show_notes else []),
        *(["\n".join(signatures)] if table.signatures() and table.show_notes else []),
    ]
    return "\n".join([*lines, *(f"{paragraph}\n" for paragraph in paragraphs)])


def _format_markdown(cell: Cell, marks: Mapping[str, str]) -> str:
    number = _escape(cell.number) if cell.words else cell.number + cell.mark.replace("*", "\\*")
    note = f"<sup>{marks[cell.note]}</sup>" if cell.note else ""
    return " ".join(filter(None, (f"**{number}**" if cell.best else number, cell.spread, note)))


def _escape(text: str) -> str:
    for char in "\\|*_`<>[]":
        text = text.replace(char, f"\\{char}")
    return text.replace("\n", " ")


def to_csv(table: Table) -> str:
    """Format a table as CSV at full precision, with uncertainties and number of seeds per column."""

    def format_number(value: float) -> str:
        return repr(float(value)) if math.isfinite(value) else ""

    out, table = io.StringIO(), clean(table)
    writer = csv.writer(out, lineterminator="\n")
    names = [f"|{c.key} - human|" if c.gap else c.key for c in table.columns]
    names = [c.title if names.count(n) > 1 else n for n, c in zip(names, table.columns, strict=True)]
    heads = [f"{n}{word}" for n in names for word in ("", " sd", " own sd", " low", " high", " seeds", " note")]
    writer.writerow(map(escape_csv_cell, (*map(str.lower, table.heads), "kind", *heads)))
    for row in table.rows:
        line = [*map(escape_csv_cell, row.labels), row.system]
        for cell in row.cells:
            source, ends = cell.source, [*(cell.interval or ())]
            if not ends and source is not None and cell.value == cell.scale * source.mean:
                ends = [cell.scale * end for end in source.interval or ()]
            numbers = [format_number(v) for v in (cell.value, cell.sd, cell.error, *(ends or (math.nan, math.nan)))]
            line += [escape_csv_cell(cell.number) if cell.words else numbers[0], *numbers[1:], str(cell.n or "")]
            line.append(escape_csv_cell(cell.note))
        writer.writerow(line)
    return out.getvalue()
