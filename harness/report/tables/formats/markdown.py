"""Format tables as Markdown and CSV."""

from __future__ import annotations

import csv
import io
import math

from openended.harness.core import escape_csv_cell
from openended.harness.report.tables.formats.text import PROSE, clean, has_words, split_columns
from openended.harness.report.tables.table import Table

WIDTH = 120  # characters of a page


def to_markdown(table: Table) -> str:
    """Format a table as GitHub Markdown with notes and signatures; columns that do not fit follow below."""
    table = clean(table)
    widths = []
    for i, column in enumerate(table.columns):
        texts = (" ".join(table.text(row.cells[i], column)) for row in table.rows)
        widths.append(max(min(len(text), PROSE) for text in (column.heading, *texts)))
    label = max(min(len(name), PROSE) for name in (table.head, *(row.label for row in table.rows)))
    lines = [f"**{_escape(table.title)}**", ""]
    for part in split_columns(table, widths, label, WIDTH):
        lines += [*_format_columns(table, part), ""]
    signatures = ["Signatures:\n", *(f"- `{s}`" for s in table.signatures())]
    paragraphs = [
        *(f"**Warning:** {_escape(warning)}" for warning in table.caveats()),
        *table.legend(),
        *table.explain_bold(),
        *(f"<sup>{mark}</sup> {_escape(note)}" for note, mark in table.marks().items() if note),
        *map(_escape, (*table.remarks, *table.rules, *table.about)),
        *(["\n".join(signatures)] if table.signatures() else []),
    ]
    return "\n".join([*lines, *(f"{paragraph}\n" for paragraph in paragraphs)])


def _format_columns(table: Table, columns: range) -> list[str]:
    """Format the row labels and some columns."""
    marks = table.marks()
    seeds = ["seeds"] if table.show_seeds else []
    heads = [table.head, *seeds, *(table.columns[i].heading for i in columns)]
    aligns = ["---", *("---:" for _ in seeds), *("---" if has_words(table, i) else "---:" for i in columns)]
    lines = [[_escape(head) for head in heads], aligns]
    for row in table.rows:
        label = f"*{_escape(row.label)}*" if row.system == "human" else _escape(row.label)
        line = [label, *(str(row.seeds or "") for _ in seeds)]
        for cell, column in ((row.cells[i], table.columns[i]) for i in columns):
            number, spread = table.text(cell, column)
            number = _escape(number) if cell.words else number.replace("*", "\\*")
            text = " ".join(filter(None, (f"**{number}**" if cell.best else number, spread)))
            line.append(f"{text} <sup>{marks[cell.note]}</sup>" if cell.note else text)
        lines.append(line)
    return [f"| {' | '.join(line)} |" for line in lines]


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
    heads = [f"{n}{word}" for n in names for word in ("", " sd", " own sd", " seeds", " note")]
    writer.writerow(map(escape_csv_cell, (table.head.lower(), "kind", *heads)))
    for row in table.rows:
        line = [escape_csv_cell(row.label), row.system]
        for cell in row.cells:
            numbers = [format_number(value) for value in (cell.value, cell.sd, cell.metric_error)]
            line += [escape_csv_cell(cell.words) or numbers[0], *numbers[1:], str(cell.n or "")]
            line.append(escape_csv_cell(cell.note))
        writer.writerow(line)
    return out.getvalue()
