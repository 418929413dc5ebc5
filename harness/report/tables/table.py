"""A finished table, ready for any renderer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from openended.harness.report.tables.numbers import DASH, decimals, fixed
from openended.harness.results import Folded

ARROWS = {"higher": "↑", "lower": "↓", "match_human": "≈", "none": ""}
LEGEND = {
    "higher": "↑ higher is better",
    "lower": "↓ lower is better",
    "match_human": "≈ nearest to the human row is best",
}


def arrow(direction: str, target: float | None = None) -> str:
    """Return the mark of a direction: ↑, ↓, ≈, →0.5 or nothing."""
    return ARROWS.get(direction, "") if target is None else f"→{target:g}"


@dataclass(frozen=True, slots=True)
class Column:
    """One column of numbers: one value of one metric under one signature."""

    metric: str
    key: str
    title: str
    direction: str
    """`higher`, `lower`, `match_human`, `target` or `none`; of what is printed (a gap is `lower`)."""
    decimals: int = 3
    signature: str = ""
    gap: bool = False
    """True if |model − human| is printed."""
    target: float | None = None
    """The number that is best, where the direction is `target`."""

    @property
    def heading(self) -> str:
        """Title with its arrow."""
        return f"{self.title} {arrow(self.direction, self.target)}".rstrip()


@dataclass(frozen=True, slots=True)
class Cell:
    """One number, or the reason why there is none."""

    value: float = math.nan
    sd: float = math.nan
    n: int = 0
    """Seeds behind it."""
    own: float = math.nan
    """Spread that the metric itself states: over its own repetitions, or a standard error."""
    best: bool = False
    note: str = ""
    """Shown under the table, with a mark in the cell: why there is no value, or what is special about it."""
    interval: tuple[float, float] | None = None
    """Of the metric itself, over examples: stands after the number as `[low, high]`."""
    suffix: str = ""
    """Stands after the number (stars of a test)."""
    signed: bool = False
    """Print a plus sign too."""
    decimals: int | None = None
    """In place of the column's."""
    words: str = ""
    """Stands in place of a number."""
    blank: bool = False
    """Nothing belongs here, and nothing needs saying about it."""
    source: Folded | None = field(default=None, compare=False, repr=False)
    """What the number is read from; the page tells its story."""


@dataclass(frozen=True, slots=True)
class TableRow:
    """One system."""

    label: str
    system: str
    """`model`, `human`, or another word for a row that does not compete."""
    cells: tuple[Cell, ...]
    seeds: int = 0
    rule: bool = False
    """True if a line stands above this row."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows × columns with everything that is said under them."""

    name: str
    """The stem of its files."""
    title: str
    columns: tuple[Column, ...]
    rows: tuple[TableRow, ...]
    remarks: tuple[str, ...] = ()
    head: str = "System"
    show_seeds: bool = True
    about: tuple[str, ...] = ()
    """What it is of: task, number and length of the texts, date, command; a line each."""
    tex_width: float = 345.0
    """Points of a line in LaTeX; wider tables are split. 345: the line of `article`."""
    tex_signatures: bool = False
    """Print the signatures under the table in LaTeX too; else they are comments there."""

    def notes(self) -> list[str]:
        """Return the distinct notes of the cells, in reading order; the first has mark `a`."""
        return list(dict.fromkeys(cell.note for row in self.rows for cell in row.cells if cell.note))

    def mark(self, cell: Cell) -> str:
        """Return the mark of a cell's note."""
        return letters(self.notes().index(cell.note)) if cell.note else ""

    def signatures(self) -> list[str]:
        """Return the signatures of the columns, each once."""
        return list(dict.fromkeys(c.signature for c in self.columns if c.signature))

    def text(self, cell: Cell, column: Column) -> tuple[str, str]:
        """Return a cell's number and its spread (empty if there is none) as text: over seeds, then the metric's own."""
        if cell.words:
            return cell.words, ""
        if not math.isfinite(cell.value):
            return ("" if cell.blank else DASH), ""
        places = column.decimals if cell.decimals is None else cell.decimals
        number = fixed(cell.value, places)
        sign = "+" if cell.signed and cell.value > 0 and number.strip("0.,") else ""
        around = f" [{', '.join(fixed(end, places) for end in cell.interval)}]" if cell.interval else ""
        spreads = [f"± {fixed(cell.sd, places)}"] if math.isfinite(cell.sd) else []
        spreads += [f"({fixed(cell.own, places)})"] if math.isfinite(cell.own) else []
        return f"{sign}{number}{cell.suffix}{around}", " ".join(spreads)

    def legend(self) -> str:
        """Explain the arrows, the bold face and the spreads that occur; each sign means one thing in every table."""
        used = [text for direction, text in LEGEND.items() if any(c.direction == direction for c in self.columns)]
        if any(c.target is not None for c in self.columns):
            used.append("→x: nearest to x, the value of texts of one source, is best")
        if any(cell.best for row in self.rows for cell in row.cells):
            used.append("bold: best (all that print the same)")
        if any(math.isfinite(cell.sd) for row in self.rows for cell in row.cells):
            used.append("± standard deviation over seeds")
        if any(math.isfinite(cell.own) for row in self.rows for cell in row.cells):
            used.append("in brackets: the metric's own spread (over clusterings or draws, or a standard error)")
        if any(cell.interval for row in self.rows for cell in row.cells):
            used.append(
                "[low, high] 95 % interval (the metric's own, at the level that its signature names, or over examples)"
            )
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
    """Return the decimals of a column from its cells."""
    return decimals([c.value for c in cells], [c.sd for c in cells])
