"""Format tables as LaTeX (booktabs, siunitx) for a paper; provenance and notes are comments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from openended.harness.report.tables.formats.latex_text import SPECIAL, THIN, escape, estimate_points
from openended.harness.report.tables.formats.text import clean, pieces
from openended.harness.report.tables.table import DAGGER, Cell, Column, Table, TableRow, arrow

PREAMBLE = (
    "% Needs in the preamble: \\usepackage[T1]{fontenc}, \\usepackage{booktabs}, \\usepackage{graphicx}, "
    "\\usepackage{siunitx}"
)
NUMBERS = r"\sisetup{group-separator={,}, group-minimum-digits=4, retain-explicit-plus, detect-weight}"
LINES = 52  # per page at \footnotesize
MAX_LISTED_CELLS = 3  # in a comment
SMALL, BOLD = 0.88, 1.15  # width factors of uncertainties (\scriptsize) and bold values
SEP = 4.0  # space on each side of a column in points
LONG = 14  # characters of a heading on one line


@dataclass(frozen=True, slots=True)
class GridCell:
    """The plain text of one cell: what siunitx aligns or words instead, and what follows it."""

    number: str = ""
    """Digits with sign and point; empty if the cell has no number."""
    words: str = ""
    suffix: str = ""
    """Stars of a test and other text after the number."""
    spread: str = ""
    """Uncertainty."""
    bold: bool = False

    @property
    def text(self) -> str:
        return escape(self.words)

    @property
    def tail(self) -> str:
        """LaTeX after the number."""
        rest = self.suffix.lstrip("*")
        stars = "*" * (len(self.suffix) - len(rest))
        small = [rf"{{\scriptsize {escape(text)}}}" for text in (rest.strip(), self.spread) if text]
        return " ".join([*([f"$^{{{stars}}}$"] if stars else []), *small])


@dataclass(frozen=True)
class GridColumn:
    """A heading, in lines of LaTeX, and the cells below it."""

    head: tuple[str, ...]
    cells: tuple[GridCell, ...]
    head_points: float

    @cached_property
    def has_tail(self) -> bool:
        """Whether a second column follows, with what stands after the numbers."""
        return any(cell.tail for cell in self.cells)

    @cached_property
    def has_words(self) -> bool:
        """Whether it holds text, which is aligned at the left."""
        return any(len(cell.text) > len("--") for cell in self.cells)

    def find_number_format(self) -> tuple[str, int, int]:
        """Return a sign if any number has one, and the most digits before and after the point."""
        numbers = [cell.number for cell in self.cells if cell.number]
        sign = next((n[0] for n in numbers if n[0] in "+-"), "")
        whole = max((len(n.lstrip("+-").partition(".")[0]) for n in numbers), default=0)
        return sign, whole, max((len(n.partition(".")[2]) for n in numbers), default=0)

    @cached_property
    def points(self) -> float:
        """Estimated width with the space around it."""
        sign, whole, decimals = self.find_number_format()
        digits = f"{sign}{'0' * whole}{',' * ((whole - 1) // 3)}{'.' * bool(decimals)}{'0' * decimals}"
        number = estimate_points(digits) * (BOLD if any(cell.bold for cell in self.cells) else 1)
        tail = max((SMALL * estimate_points(f"{c.suffix} {c.spread}".strip()) for c in self.cells), default=0.0)
        width = max(number, *(estimate_points(cell.words) for cell in self.cells), 0.0) + (tail + THIN if tail else 0.0)
        return max(self.head_points, width) + 2 * SEP

    def format_type(self) -> str:
        """Return the column type: text at the left, numbers at their decimal point with the widest number's format."""
        sign, whole, decimals = self.find_number_format()
        if self.has_words or not whole:
            return "l" if self.has_words else "c"
        form = f"S[table-format={sign}{whole}.{decimals}]" if decimals else f"S[table-format={sign}{whole}]"
        return f"{form}@{{~}}l" if self.has_tail else form

    def format_head(self) -> str:
        head = self.head[0] if len(self.head) == 1 else r"\shortstack{" + r" \\ ".join(self.head) + "}"
        return rf"\multicolumn{{2}}{{c}}{{{head}}}" if self.has_tail else f"{{{head}}}"

    def format_cell(self, row: int) -> str:
        cell = self.cells[row]
        text = cell.text or cell.number
        if not self.has_words:
            text = f"{{{cell.text}}}" if cell.text else rf"\bfseries {cell.number}" if cell.bold else cell.number
        return f"{text} & {cell.tail}".rstrip() if self.has_tail else text


@dataclass(frozen=True, slots=True)
class Grid:
    """Row labels and columns in LaTeX."""

    head: str
    labels: tuple[str, ...]
    columns: tuple[GridColumn, ...]
    rules: tuple[bool, ...]
    """Whether a line is drawn above each row."""
    label_points: float
    """Estimated width of the row labels with the space around them."""

    def measure(self, columns: range) -> float:
        """Return the estimated width of the row labels and some columns."""
        return self.label_points + sum(self.columns[i].points for i in columns)


def to_latex(table: Table) -> str:
    r"""Format a table as one `table*` environment, or several if the rows exceed a page.

    Metrics become rows where the columns do not fit the text width. Where neither fits, columns that do not fit follow
    in another tabular with the same row labels, and a tabular that is still too wide is scaled down.
    """
    table = clean(table)
    width = table.tex_width + 2 * SEP  # the outer column separators may extend beyond the line
    grids = [lay_out(table), *([lay_out_transposed(table)] if table.columns else [])]
    choices = [(grid, pieces([c.points for c in grid.columns], grid.label_points, width)) for grid in grids]
    fitting = [(grid, parts) for grid, parts in choices if all(grid.measure(part) <= width for part in parts)]
    grid, parts = min(fitting or choices[:1], key=lambda choice: len(choice[1]))  # of equals, systems as rows
    floats: list[tuple[int, list[str]]] = []
    most, count = LINES - 4, len(grid.labels)
    for rows in (range(i, min(i + most, count)) for i in range(0, max(count, 1), most)):
        for columns in parts:
            lines = format_tabular(grid, columns, rows)
            if grid.measure(columns) > width:  # a single column is too wide for the line
                lines = [r"\resizebox{\linewidth}{!}{%", *lines[:-1], rf"{lines[-1]}}}"]
            height = len(rows) + 4
            if floats and floats[-1][0] + height <= LINES:
                used, before = floats.pop()
                height, lines = used + height, [*before, r"\par\medskip", *lines]
            floats.append((height, lines))
    data = f"{table.title}: {table.data}" if table.data else f"{table.title}."
    doubts = [f"{line}." for line in table.caveats() if line not in table.warnings]
    label = "".join(c if c.isascii() and c.isalnum() else "-" for c in table.name)
    out = [PREAMBLE, *(f"% {line}" for line in _list_comments(table))]
    for at, (_, lines) in enumerate(floats):
        caption = " ".join((data, *table.legend(), *doubts)) if at == 0 else f"{table.title}, continued."
        out += [
            r"\begin{table*}[tp]",
            r"\centering\footnotesize\setlength{\tabcolsep}{4pt}",
            NUMBERS,
            *([r"\addtocounter{table}{-1}"] if at else []),
            rf"\caption{{{escape(caption)}}}",
            *([] if at else [rf"\label{{tab:{label}}}"]),
            *lines,
            *(_format_signatures(table) if at + 1 == len(floats) else []),
            r"\end{table*}",
        ]
    return "\n".join([*out, ""])


def format_latex_rows(table: Table) -> list[str]:
    """Format every row of a table as one line of a tabular."""
    grid = lay_out(clean(table))
    return [_format_row(grid, i, grid.columns) for i in range(len(grid.labels))]


def _list_comments(table: Table) -> list[str]:
    """Return what a paper omits but the numbers need: warnings, notes, rules, runs and signatures."""
    lines = [f"Warning: {line}" for line in table.warnings]
    for note in table.notes():
        cells = [
            f"{row.label}, {column.title}" for row in table.rows
            for cell, column in zip(row.cells, table.columns, strict=True) if cell.note == note
        ]  # fmt: skip
        more = "; …" if len(cells) > MAX_LISTED_CELLS else ""
        lines.append(f"{'; '.join(cells[:MAX_LISTED_CELLS])}{more}: {note}")
    return [*lines, *table.remarks, *table.rules, *table.about, *([] if table.tex_signatures else table.signatures())]


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


def lay_out(table: Table) -> Grid:
    """Lay out systems as rows and metrics as columns."""
    columns = [
        GridColumn(
            _format_metric_head(column), tuple(_make_grid_cell(table, row.cells[j], column) for row in table.rows),
            _estimate_head_points(column),
        )
        for j, column in enumerate(table.columns)
    ]  # fmt: skip
    if table.show_seeds:
        seeds = tuple(GridCell(number=str(row.seeds or "")) for row in table.rows)
        columns.insert(0, GridColumn(("seeds",), seeds, estimate_points("seeds")))
    longest = max(estimate_points(text) for text in (table.head, *(row.label for row in table.rows)))
    labels = tuple(_emphasize(escape(row.label), row) for row in table.rows)
    return Grid(escape(table.head), labels, tuple(columns), tuple(row.rule for row in table.rows), longest + 2 * SEP)


def lay_out_transposed(table: Table) -> Grid:
    """Lay out metrics as rows and systems as columns."""
    seeds = ["seeds"] if table.show_seeds else []
    labels = [*seeds, *(" ".join(_format_metric_head(column)) for column in table.columns)]
    columns = []
    for row in table.rows:
        cells = [_make_grid_cell(table, cell, column) for cell, column in zip(row.cells, table.columns, strict=True)]
        lines = [""]  # of the label, about `LONG` characters each
        for word in row.label.split():
            if lines[-1] and len(lines[-1]) + len(word) >= LONG:
                lines.append(word)
            else:
                lines[-1] = f"{lines[-1]} {word}".strip()
        head = tuple(_emphasize(escape(line), row) for line in lines)
        cells = [*(GridCell(words=str(row.seeds or "")) for _ in seeds), *cells]
        columns.append(GridColumn(head, tuple(cells), max(map(estimate_points, lines))))
    longest = max(estimate_points(column.heading) for column in table.columns)
    rules = tuple(bool(seeds) and i == 1 for i in range(len(labels)))
    return Grid("Metric", tuple(labels), tuple(columns), rules, longest + 2 * SEP)


def format_tabular(grid: Grid, columns: range, rows: range) -> list[str]:
    """Format some rows and columns of a grid as a tabular."""
    part = [grid.columns[i] for i in columns]
    lines = [
        rf"\begin{{tabular}}{{l{''.join(column.format_type() for column in part)}}}", r"\toprule",
        " & ".join([_protect(grid.head), *(column.format_head() for column in part)]) + r" \\", r"\midrule",
    ]  # fmt: skip
    for i in rows:
        lines += [r"\midrule"] if grid.rules[i] and i != rows.start else []
        lines.append(_format_row(grid, i, part))
    return [*lines, r"\bottomrule", r"\end{tabular}"]


def _format_row(grid: Grid, row: int, columns: Sequence[GridColumn]) -> str:
    return " & ".join([_protect(grid.labels[row]), *(column.format_cell(row) for column in columns)]) + r" \\"


def _make_grid_cell(table: Table, cell: Cell, column: Column) -> GridCell:
    number, spread = table.text(cell, column)
    if cell.words or not math.isfinite(cell.value):
        return GridCell(words=number)
    digits = number.removesuffix(cell.suffix).replace(",", "")
    return GridCell(digits, suffix=cell.suffix.strip(), spread=spread, bold=cell.best)


def _format_metric_head(column: Column) -> tuple[str, ...]:
    """Return the heading of a metric in lines: the title with its arrow, the parts in parentheses, the interval."""
    title, sign, rest = column.title.partition(" (")
    lines = [column.title] if not sign or len(column.title) <= LONG else [title, *(f"({p}" for p in rest.split(" ("))]
    first = escape(lines[0]) + (r"$^\dagger$" if column.out_of_domain else "")
    symbol = "".join(SPECIAL.get(c, c) for c in arrow(column.direction, column.target)).replace("$", "")
    interval = [r"{}[95\,\% CI]"] if column.interval else []
    return (first + (f" ${symbol}$" if symbol else ""), *map(escape, lines[1:]), *interval)


def _estimate_head_points(column: Column) -> float:
    """Estimate the width of a metric's heading."""
    parts = column.title.replace(" (", "\n(").split("\n") if len(column.title) > LONG else [column.title]
    parts[0] += f" {arrow(column.direction, column.target)}{DAGGER * column.out_of_domain}"
    return max(estimate_points(part) for part in (*parts, *(["[95 % CI]"] if column.interval else [])))


def _emphasize(text: str, row: TableRow) -> str:
    return rf"\emph{{{text}}}" if row.system == "human" else text


def _protect(text: str) -> str:
    r"""Protect the first cell of a row, since LaTeX reads `\\ [x]` as a length and `\\ *` as a variant."""
    return f"{{}}{text}" if text.startswith(("[", "*")) else text
