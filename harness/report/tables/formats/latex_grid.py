"""Lay out a table as a LaTeX tabular whose numbers are aligned by siunitx, with systems or metrics as rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from openended.harness.report.tables.formats.latex_text import SPECIAL, THIN, escape, estimate_points
from openended.harness.report.tables.table import DAGGER, Cell, Column, Table, TableRow, arrow

SMALL, BOLD = 0.88, 1.15  # width factors of uncertainties (\scriptsize) and bold values
SEP = 4.0  # space on each side of a column in points
LONG = 14  # characters of a heading on one line


@dataclass(frozen=True, slots=True)
class GridCell:
    """One cell: what siunitx aligns, and what follows it."""

    number: str = ""
    """Digits with sign and point; empty if the cell has no number."""
    text: str = ""
    """LaTeX instead of a number."""
    tail: str = ""
    """LaTeX after the number: stars and uncertainty."""
    bold: bool = False
    points: float = 0.0
    """Estimated width of the text."""
    tail_points: float = 0.0


@dataclass(frozen=True, slots=True)
class GridColumn:
    """A heading, in lines, and the cells below it."""

    head: tuple[str, ...]
    cells: tuple[GridCell, ...]
    points: float
    words: bool = False
    """Whether it holds text, which is aligned at the left."""

    @property
    def has_tail(self) -> bool:
        """Whether a second column follows, with what stands after the numbers."""
        return any(cell.tail for cell in self.cells)


@dataclass(frozen=True, slots=True)
class Grid:
    """Row labels and columns in LaTeX."""

    head: str
    labels: tuple[str, ...]
    columns: tuple[GridColumn, ...]
    rules: tuple[bool, ...]
    """Whether a line is drawn above each row."""
    label_points: float


def lay_out(table: Table) -> Grid:
    """Lay out systems as rows and metrics as columns."""
    columns = [
        _build_column(
            _format_metric_head(column),
            _estimate_metric_points(column),
            [_make_grid_cell(table, row.cells[j], column) for row in table.rows],
        )
        for j, column in enumerate(table.columns)
    ]
    if table.show_seeds:
        seeds = [GridCell(number=str(row.seeds or "")) for row in table.rows]
        columns.insert(0, _build_column(("seeds",), estimate_points("seeds"), seeds))
    return Grid(
        escape(table.head), tuple(_label(row) for row in table.rows), tuple(columns),
        tuple(row.rule for row in table.rows),
        max(estimate_points(text) for text in (table.head, *(row.label for row in table.rows))),
    )  # fmt: skip


def lay_out_transposed(table: Table) -> Grid:
    """Lay out metrics as rows and systems as columns."""
    labels = [" ".join(_format_metric_head(column)) for column in table.columns]
    columns = []
    for row in table.rows:
        cells = [_make_grid_cell(table, cell, column) for cell, column in zip(row.cells, table.columns, strict=True)]
        if table.show_seeds:
            cells.insert(0, GridCell(text=str(row.seeds or "")))
        lines = _wrap(row.label)
        points = max(estimate_points(line) for line in lines)
        columns.append(_build_column(tuple(_emphasize(escape(line), row) for line in lines), points, cells))
    longest = max(estimate_points(column.heading) for column in table.columns)
    seeds = ["seeds"] if table.show_seeds else []
    rules = [bool(seeds) and i == 1 for i in range(len(labels) + len(seeds))]
    return Grid("Metric", (*seeds, *labels), tuple(columns), tuple(rules), longest)


def format_tabular(grid: Grid, columns: range, rows: range) -> list[str]:
    """Format some rows and columns of a grid as a tabular."""
    part = [grid.columns[i] for i in columns]
    heads = [_protect(grid.head), *(_format_head(column) for column in part)]
    lines = [
        rf"\begin{{tabular}}{{l{''.join(_format_column_type(column) for column in part)}}}", r"\toprule",
        " & ".join(heads) + r" \\", r"\midrule",
    ]  # fmt: skip
    for i in rows:
        lines += [r"\midrule"] if grid.rules[i] and i != rows.start else []
        lines.append(format_row(grid, i, part))
    return [*lines, r"\bottomrule", r"\end{tabular}"]


def format_row(grid: Grid, row: int, columns: Sequence[GridColumn]) -> str:
    """Format one line of a tabular."""
    cells = [_format_cell(column.cells[row], column) for column in columns]
    return " & ".join([_protect(grid.labels[row]), *cells]) + r" \\"


def _build_column(head: tuple[str, ...], points: float, cells: Sequence[GridCell]) -> GridColumn:
    words = any(len(cell.text) > len("--") for cell in cells)
    sign, whole, decimals = _find_number_format(cells)
    digits = f"{sign}{'0' * whole}{',' * ((whole - 1) // 3)}{'.' * bool(decimals)}{'0' * decimals}"
    number = estimate_points(digits) * (BOLD if any(cell.bold for cell in cells) else 1)
    tail = max((cell.tail_points for cell in cells), default=0.0)
    width = max(number, *(cell.points for cell in cells), 0.0) + (tail + THIN if tail else 0.0)
    return GridColumn(head, tuple(cells), max(points, width) + 2 * SEP, words)


def _find_number_format(cells: Sequence[GridCell]) -> tuple[str, int, int]:
    """Return a sign if any number has one, and the most digits before and after the point."""
    numbers = [cell.number for cell in cells if cell.number]
    sign = next((n[0] for n in numbers if n[0] in "+-"), "")
    whole = max((len(n.lstrip("+-").partition(".")[0]) for n in numbers), default=0)
    return sign, whole, max((len(n.partition(".")[2]) for n in numbers), default=0)


def _make_grid_cell(table: Table, cell: Cell, column: Column) -> GridCell:
    number, spread = table.text(cell, column)
    if cell.words or not math.isfinite(cell.value):
        return GridCell(text=escape(number), points=estimate_points(number))
    digits = number.removesuffix(cell.suffix)
    suffix = cell.suffix.strip()
    stars = len(suffix) - len(suffix.lstrip("*"))
    parts = [f"$^{{{'*' * stars}}}$"] if stars else []
    parts += [rf"{{\scriptsize {escape(text)}}}" for text in (suffix[stars:].strip(), spread) if text]
    tail_points = SMALL * estimate_points(f"{suffix} {spread}".strip())
    return GridCell(digits.replace(",", ""), tail=" ".join(parts), bold=cell.best, tail_points=tail_points)


def _format_cell(cell: GridCell, column: GridColumn) -> str:
    if column.words:
        text = cell.text or cell.number
    else:
        text = f"{{{cell.text}}}" if cell.text else rf"\bfseries {cell.number}" if cell.bold else cell.number
    return f"{text} & {cell.tail}".rstrip() if column.has_tail else text


def _format_column_type(column: GridColumn) -> str:
    """Return the column type: text at the left, numbers at their decimal point with the widest number's format."""
    sign, whole, decimals = _find_number_format(column.cells)
    if column.words or not whole:
        return "l" if column.words else "c"
    form = f"S[table-format={sign}{whole}.{decimals}]" if decimals else f"S[table-format={sign}{whole}]"
    return f"{form}@{{~}}l" if column.has_tail else form


def _format_head(column: GridColumn) -> str:
    head = column.head[0] if len(column.head) == 1 else r"\shortstack{" + r" \\ ".join(column.head) + "}"
    if column.has_tail:
        return rf"\multicolumn{{2}}{{c}}{{{head}}}"
    return f"{{{head}}}"


def _format_metric_head(column: Column) -> tuple[str, ...]:
    """Return the heading of a metric in lines: the title with its arrow, the parts in parentheses, the interval."""
    title, sign, rest = column.title.partition(" (")
    lines = [column.title] if not sign or len(column.title) <= LONG else [title, *(f"({p}" for p in rest.split(" ("))]
    first = escape(lines[0]) + (r"$^\dagger$" if column.out_of_domain else "")
    symbol = "".join(SPECIAL.get(c, c) for c in arrow(column.direction, column.target)).replace("$", "")
    interval = [r"{}[95\,\% CI]"] if column.interval else []
    return (first + (f" ${symbol}$" if symbol else ""), *map(escape, lines[1:]), *interval)


def _estimate_metric_points(column: Column) -> float:
    """Estimate the width of a metric's heading."""
    long = len(column.title) > LONG
    parts = column.title.replace(" (", "\n(").split("\n") if long else [column.title]
    parts[0] += f" {arrow(column.direction, column.target)}{DAGGER * column.out_of_domain}"
    return max(estimate_points(part) for part in (*parts, *(["[95 % CI]"] if column.interval else [])))


def _label(row: TableRow) -> str:
    return _emphasize(escape(row.label), row)


def _emphasize(text: str, row: TableRow) -> str:
    return rf"\emph{{{text}}}" if row.system == "human" else text


def _wrap(label: str) -> list[str]:
    """Split the label of a system at spaces into lines of about `LONG` characters."""
    lines = [""]
    for word in label.split():
        if lines[-1] and len(lines[-1]) + len(word) >= LONG:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def _protect(text: str) -> str:
    r"""Protect the first cell of a row, since LaTeX reads `\\ [x]` as a length and `\\ *` as a variant."""
    return f"{{}}{text}" if text.startswith(("[", "*")) else text
