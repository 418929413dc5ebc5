"""Format tables as Markdown and CSV."""

from __future__ import annotations

import csv
import io
import math

from openended.harness.core import escape_csv_cell
from openended.harness.report.tables.formats.clean import clean_table
from openended.harness.report.tables.formats.split import pieces
from openended.harness.report.tables.table import Cell, Column, Table

WIDTH = 120  # characters of a page
GAP = 3  # characters between columns
PROSE = 45  # maximal width of text cells in characters


def _align(table: Table, column: int) -> str:
    """Return the column alignment: left for text, right for numbers."""
    cells = [row.cells[column] for row in table.rows]
    return "---" if any(cell.words for cell in cells) else "---:"


def to_markdown(table: Table) -> str:
    """Format a table as GitHub Markdown with notes and signatures; columns that do not fit follow below."""
    table = clean_table(table)
    lines = [f"**{_escape(table.title)}**", ""]
    for columns in _split_columns(table):
        lines += [*_format_columns(table, columns), ""]
    for warning in table.caveats():
        lines += [f"**Warning:** {_escape(warning)}", ""]
    for line in table.legend():
        lines += [line, ""]
    for note in table.notes():
        lines += [f"<sup>{table.mark(Cell(note=note))}</sup> {_escape(note)}", ""]
    for remark in (*table.remarks, *table.rules, *table.about):
        lines += [_escape(remark), ""]
    if table.signatures():
        lines += ["Signatures:", "", *(f"- `{s}`" for s in table.signatures()), ""]
    return "\n".join(lines)


def _split_columns(table: Table) -> list[range]:
    names = [table.head, *(row.label for row in table.rows)]
    label = max(min(len(name), PROSE) for name in names) + (8 if table.show_seeds else 0)
    widths = []
    for i, column in enumerate(table.columns):
        texts = (" ".join(table.text(row.cells[i], column)) for row in table.rows)
        widths.append(max(min(len(text), PROSE) for text in (column.heading, *texts)) + GAP)
    return pieces(widths, label, WIDTH)


def _format_columns(table: Table, columns: range) -> list[str]:
    """Format the row labels and some columns."""
    columns_here = [table.columns[i] for i in columns]
    heads = [table.head, *(["seeds"] if table.show_seeds else []), *(c.heading for c in columns_here)]
    aligns = ["---", *(["---:"] if table.show_seeds else []), *(_align(table, i) for i in columns)]
    lines = [_format_line([_escape(h) for h in heads]), _format_line(aligns)]
    for row in table.rows:
        seeds = [str(row.seeds or "")] if table.show_seeds else []
        cells = [_format_cell(table, row.cells[i], table.columns[i]) for i in columns]
        label = f"*{_escape(row.label)}*" if row.system == "human" else _escape(row.label)
        lines.append(_format_line([label, *seeds, *cells]))
    return lines


def _format_line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escape(text: str) -> str:
    for char in "\\|*_`<>[]":
        text = text.replace(char, f"\\{char}")
    return text.replace("\n", " ")


def _format_cell(table: Table, cell: Cell, column: Column) -> str:
    number, spread = table.text(cell, column)
    number = _escape(number) if cell.words else number.replace("*", "\\*")
    text = f"**{number}**" if cell.best else number
    mark = f" <sup>{table.mark(cell)}</sup>" if cell.note else ""
    return f"{text} {spread}{mark}" if spread else f"{text}{mark}"


def to_csv(table: Table) -> str:
    """Format a table as CSV at full precision, with uncertainties and number of seeds per column."""
    out, table = io.StringIO(), clean_table(table)
    writer = csv.writer(out, lineterminator="\n")
    names = [f"|{c.key} - human|" if c.gap else c.key for c in table.columns]
    twice = {n for n in names if names.count(n) > 1}
    names = [c.title if n in twice else n for n, c in zip(names, table.columns, strict=True)]
    about = ("", " sd", " own sd", " seeds", " note")
    heads = [table.head.lower(), "kind", *(f"{n}{word}" for n in names for word in about)]
    writer.writerow(map(escape_csv_cell, heads))
    for row in table.rows:
        cells = (
            x
            for c in row.cells
            for x in (
                escape_csv_cell(c.words) or _format_number(c.value),
                _format_number(c.sd),
                _format_number(c.metric_error),
                c.n or "",
                escape_csv_cell(c.note),
            )
        )
        writer.writerow([escape_csv_cell(row.label), row.system, *cells])
    return out.getvalue()


def _format_number(value: float) -> str:
    return repr(float(value)) if math.isfinite(value) else ""
