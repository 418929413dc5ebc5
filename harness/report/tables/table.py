"""Data model of a finished table, independent of the output format."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from openended.harness.report.tables.numbers import DASH, choose_decimals, format_fixed
from openended.harness.results import SystemValue

ARROWS = {"higher": "↑", "lower": "↓", "match_human": "≈", "none": ""}
LEGEND = {
    "higher": "↑ higher is better",
    "lower": "↓ lower is better",
    "match_human": "≈ closest to the human row is best",
}


def arrow(direction: str, target: float | None = None) -> str:
    """Return the symbol of a direction: ↑, ↓, ≈, →0.5 or nothing."""
    return ARROWS.get(direction, "") if target is None else f"→{target:g}"


@dataclass(frozen=True, slots=True)
class Column:
    """One column: one value of one metric with one signature."""

    metric: str
    key: str
    title: str
    direction: str
    """`higher`, `lower`, `match_human`, `target` or `none`; of the printed number (`lower` for gaps)."""
    decimals: int = 3
    signature: str = ""
    gap: bool = False
    """Whether |model − human| is printed."""
    target: float | None = None
    """The best possible value if the direction is `target`."""

    @property
    def heading(self) -> str:
        """Title with arrow."""
        return f"{self.title} {arrow(self.direction, self.target)}".rstrip()


@dataclass(frozen=True, slots=True)
class Cell:
    """One number, or the reason why it is missing."""

    value: float = math.nan
    sd: float = math.nan
    n: int = 0
    """Number of seeds."""
    metric_error: float = math.nan
    """Uncertainty that the metric itself reports: sd over its repetitions, or a standard error."""
    best: bool = False
    note: str = ""
    """Footnote of the cell: why there is no value, or a caveat."""
    interval: tuple[float, float] | None = None
    """95 % interval, printed after the number as `[low, high]`."""
    suffix: str = ""
    """Text after the number (stars of a test)."""
    signed: bool = False
    """Whether to print a plus sign."""
    decimals: int | None = None
    """Overrides the decimals of the column."""
    words: str = ""
    """Text instead of a number."""
    blank: bool = False
    """Whether the cell is empty on purpose."""
    source: SystemValue | None = field(default=None, compare=False, repr=False)
    """The value behind the number; used by the page."""


@dataclass(frozen=True, slots=True)
class TableRow:
    """One system."""

    label: str
    system: str
    """`model`, `human`, or another kind of row that is not ranked."""
    cells: tuple[Cell, ...]
    seeds: int = 0
    rule: bool = False
    """Whether to draw a line above this row."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows × columns with legend, notes and remarks."""

    name: str
    """File stem."""
    title: str
    columns: tuple[Column, ...]
    rows: tuple[TableRow, ...]
    remarks: tuple[str, ...] = ()
    head: str = "System"
    show_seeds: bool = True
    about: tuple[str, ...] = ()
    """Lines about the runs: task, number and length of the texts, date, commands."""
    tex_width: float = 345.0
    """Line width in LaTeX points; wider tables are split. `article` has 345."""
    tex_signatures: bool = False
    """Whether LaTeX prints the signatures; otherwise they are comments."""

    def notes(self) -> list[str]:
        """Return the distinct notes of the cells in reading order; the first gets mark `a`."""
        return list(dict.fromkeys(cell.note for row in self.rows for cell in row.cells if cell.note))

    def mark(self, cell: Cell) -> str:
        """Return the mark of a cell's note."""
        return letters(self.notes().index(cell.note)) if cell.note else ""

    def signatures(self) -> list[str]:
        """Return the distinct signatures of the columns."""
        return list(dict.fromkeys(c.signature for c in self.columns if c.signature))

    def text(self, cell: Cell, column: Column) -> tuple[str, str]:
        """Format a cell's number and its uncertainties: std over seeds, then the error reported by the metric."""
        if cell.words:
            return cell.words, ""
        if not math.isfinite(cell.value):
            return ("" if cell.blank else DASH), ""
        digits = column.decimals if cell.decimals is None else cell.decimals
        number = format_fixed(cell.value, digits)
        sign = "+" if cell.signed and cell.value > 0 and number.strip("0.,") else ""
        around = f" [{', '.join(format_fixed(end, digits) for end in cell.interval)}]" if cell.interval else ""
        spreads = [f"± {format_fixed(cell.sd, digits)}"] if math.isfinite(cell.sd) else []
        spreads += [f"({format_fixed(cell.metric_error, digits)})"] if math.isfinite(cell.metric_error) else []
        return f"{sign}{number}{cell.suffix}{around}", " ".join(spreads)

    def legend(self) -> str:
        """Explain the arrows, bold face and uncertainties that occur in the table."""
        used = [text for direction, text in LEGEND.items() if any(c.direction == direction for c in self.columns)]
        if any(c.target is not None for c in self.columns):
            used.append("→x: closest to x, the value for texts of one source, is best")
        if any(cell.best for row in self.rows for cell in row.cells):
            used.append("bold: best; equal printed values are all bold")
        if any(math.isfinite(cell.sd) for row in self.rows for cell in row.cells):
            used.append("± standard deviation over seeds")
        if any(math.isfinite(cell.metric_error) for row in self.rows for cell in row.cells):
            used.append("(…): the metric's own uncertainty (sd over clusterings or replicates, or a standard error)")
        if any(cell.interval for row in self.rows for cell in row.cells):
            used.append("[low, high]: 95 % interval over examples, or from the metric at the level in its signature")
        return "; ".join(used) + "." if used else ""


def letters(index: int) -> str:
    """Return a, b, …, z, aa, ab, …."""
    text = ""
    index += 1
    while index:
        index, digit = divmod(index - 1, 26)
        text = chr(ord("a") + digit) + text
    return text


def column_decimals(cells: Sequence[Cell]) -> int:
    """Choose the decimals of a column from its cells."""
    return choose_decimals([c.value for c in cells], [c.sd for c in cells])
