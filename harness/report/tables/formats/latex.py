"""Format tables as LaTeX (booktabs, siunitx) for a paper; provenance and notes are comments."""

from __future__ import annotations

from openended.harness.report.tables.formats.clean import clean_table
from openended.harness.report.tables.formats.latex_grid import (
    SEP,
    Grid,
    format_row,
    format_tabular,
    lay_out,
    lay_out_transposed,
)
from openended.harness.report.tables.formats.latex_text import escape
from openended.harness.report.tables.formats.split import pieces
from openended.harness.report.tables.table import Table

PREAMBLE = (
    "% Needs in the preamble: \\usepackage[T1]{fontenc}, \\usepackage{booktabs}, \\usepackage{graphicx}, "
    "\\usepackage{siunitx}"
)
NUMBERS = r"\sisetup{group-separator={,}, group-minimum-digits=4, retain-explicit-plus, detect-weight}"
LINES = 52  # per page at \footnotesize
MAX_LISTED_CELLS = 3  # in a comment


def to_latex(table: Table) -> str:
    r"""Format a table as one `table*` environment, or several if the rows exceed a page.

    Metrics become rows where the columns do not fit the text width. Where neither fits, columns that do not fit follow
    in another tabular with the same row labels, and a tabular that is still too wide is scaled down.
    """
    table = clean_table(table)
    grid, parts = _choose_layout(table)
    tabulars = [
        (len(rows) + 4, _fit_width(grid, columns, rows, table)) for rows in _split_pages(grid) for columns in parts
    ]
    floats: list[tuple[int, list[str]]] = []
    for height, lines in tabulars:
        if not floats or floats[-1][0] + height > LINES:
            floats.append((height, lines))
        else:
            used, before = floats[-1]
            floats[-1] = (used + height, [*before, r"\par\medskip", *lines])
    out = [PREAMBLE, *_list_comments(table)]
    for index, (_, lines) in enumerate(floats):
        out += [
            r"\begin{table*}[tp]",
            r"\centering\footnotesize\setlength{\tabcolsep}{4pt}",
            NUMBERS,
            *([r"\addtocounter{table}{-1}"] if index else []),
            rf"\caption{{{_format_caption(table) if not index else f'{escape(table.title)}, continued.'}}}",
            *([] if index else [rf"\label{{tab:{_make_label(table.name)}}}"]),
            *lines,
            *(_format_signatures(table) if index + 1 == len(floats) else []),
            r"\end{table*}",
        ]
    return "\n".join([*out, ""])


def format_latex_rows(table: Table) -> list[str]:
    """Format every row of a table as one line of a tabular."""
    grid = lay_out(clean_table(table))
    return [format_row(grid, i, grid.columns) for i in range(len(grid.labels))]


def _choose_layout(table: Table) -> tuple[Grid, list[range]]:
    """Return the layout that needs the fewest tabulars, systems as rows if both need as many, and its columns."""
    grids = [lay_out(table), *([lay_out_transposed(table)] if table.columns else [])]
    choices = [
        (grid, pieces([c.points for c in grid.columns], _label_points(grid), _compute_width(table))) for grid in grids
    ]
    fitting = [
        (g, parts) for g, parts in choices if all(_sum_points(g, part) <= _compute_width(table) for part in parts)
    ]
    return min(fitting or choices[:1], key=lambda choice: len(choice[1]))


def _compute_width(table: Table) -> float:
    return table.tex_width + 2 * SEP  # the outer column separators may extend beyond the line


def _label_points(grid: Grid) -> float:
    return grid.label_points + 2 * SEP


def _sum_points(grid: Grid, columns: range) -> float:
    return _label_points(grid) + sum(grid.columns[i].points for i in columns)


def _split_pages(grid: Grid) -> list[range]:
    """Split the rows into pages."""
    most, count = LINES - 4, len(grid.labels)
    return [range(i, min(i + most, count)) for i in range(0, max(count, 1), most)]


def _fit_width(grid: Grid, columns: range, rows: range, table: Table) -> list[str]:
    """Format a tabular, scaled down to the line if a single column is too wide for it."""
    lines = format_tabular(grid, columns, rows)
    if _sum_points(grid, columns) <= _compute_width(table):
        return lines
    return [r"\resizebox{\linewidth}{!}{%", *lines[:-1], rf"{lines[-1]}}}"]


def _format_caption(table: Table) -> str:
    """Return title, data, legend and the warning that its marked headings refer to."""
    title = f"{table.title}: {table.data}" if table.data else f"{table.title}."
    doubts = [f"{line}." for line in table.caveats() if line not in table.warnings]
    return escape(" ".join((title, *table.legend(), *doubts)))


def _list_comments(table: Table) -> list[str]:
    """Return what a paper omits but the numbers need: warnings, notes, rules, runs and signatures."""
    lines = [*(f"Warning: {line}" for line in table.warnings)]
    for note in table.notes():
        cells = [
            f"{row.label}, {column.title}" for row in table.rows
            for cell, column in zip(row.cells, table.columns, strict=True) if cell.note == note
        ]  # fmt: skip
        more = "; …" if len(cells) > MAX_LISTED_CELLS else ""
        lines.append(f"{'; '.join(cells[:MAX_LISTED_CELLS])}{more}: {note}")
    lines += [*table.remarks, *table.rules, *table.about]
    lines += [] if table.tex_signatures else table.signatures()
    return [f"% {line}" for line in lines]


def _make_label(name: str) -> str:
    return "".join(c if c.isascii() and c.isalnum() else "-" for c in name)


def _format_signatures(table: Table) -> list[str]:
    """Return the signatures under the table, if they are to be printed; lines break after the bars of a signature."""
    if not table.tex_signatures or not table.signatures():
        return []
    texts = [r"\textbar\allowbreak{}".join(escape(part) for part in s.split("|")) for s in table.signatures()]
    return [
        r"\par\smallskip",
        r"\begin{minipage}{\linewidth}\scriptsize\raggedright",
        *(rf"\texttt{{{text}}}\par" for text in texts),
        r"\end{minipage}",
    ]
