"""Data model of a finished table, independent of the output format."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from openended.harness.core import OUT_OF_DOMAIN, describe_out_of_domain, parse_signature
from openended.harness.report.tables.numbers import DASH, choose_decimals, format_fixed
from openended.harness.results import SystemValue

ARROWS = {"higher": "↑", "lower": "↓", "match_human": "≈", "none": ""}
LEGEND = {"higher": "↑ higher", "lower": "↓ lower", "match_human": "≈ closer to human"}
DAGGER = "†"  # marks the headings of columns that should not be trusted
BoldRule = Literal["", "tests", "intervals", "printed"]
BOLD = {
    "tests": "best, or not separated from it by a paired test (Holm, p ≥ 0.05)",
    "intervals": "best, or its interval overlaps that of the best",
    "printed": "best printed value (not tested)",
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
    bold: BoldRule = ""
    """How the best cells were found; empty if none is marked."""
    interval: bool = False
    """Whether its cells show a 95 % interval."""

    @property
    def heading(self) -> str:
        """Title with arrow, and what the cells show after the number."""
        doubt = DAGGER if self.out_of_domain else ""
        interval = "[95 % CI]" if self.interval else ""
        return " ".join(filter(None, (f"{self.title}{doubt}", arrow(self.direction, self.target), interval)))

    @property
    def out_of_domain(self) -> bool:
        """Whether a bundled scorer or embedder scored texts of another domain than its own."""
        return OUT_OF_DOMAIN in self.signature


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
    """How to read the values."""
    head: str = "System"
    show_seeds: bool = True
    about: tuple[str, ...] = ()
    """Lines about the runs: first task, number and length of the texts; then date and commands."""
    warnings: tuple[str, ...] = ()
    """Reasons to doubt values."""
    rules: tuple[str, ...] = ()
    """How numbers are printed; of interest only to those who ask."""
    tex_width: float = 345.0
    """Text width in LaTeX points; wider tables get metrics as rows or are split. `article` has 345."""
    tex_signatures: bool = False
    """Whether LaTeX prints the signatures; otherwise they are comments."""

    def notes(self) -> list[str]:
        """Return the distinct notes of the cells in reading order; the first gets mark `a`."""
        return list(dict.fromkeys(cell.note for row in self.rows for cell in row.cells if cell.note))

    def mark(self, cell: Cell) -> str:
        """Return the mark of a cell's note."""
        return format_letters(self.notes().index(cell.note)) if cell.note else ""

    def signatures(self) -> list[str]:
        """Return the distinct signatures of the columns."""
        return list(dict.fromkeys(c.signature for c in self.columns if c.signature))

    @property
    def data(self) -> str:
        """Task, number and length of the texts, and seeds, without a task that the title names; empty if unknown."""
        data = self.about[0] if self.about else ""
        task, sign, rest = data.partition("; ")
        return rest if sign and f" on {task.removeprefix('Task ')}" in self.title else data

    def caveats(self) -> list[str]:
        """Return all warnings, beginning with those about scoring models out of their domain."""
        fields = [parse_signature(c.signature) for c in self.columns if c.out_of_domain]
        roles = [(role, value.partition("@")[0]) for f in fields for role, value in f.items() if OUT_OF_DOMAIN in value]
        return [*(f"{DAGGER} {describe_out_of_domain(*r)}" for r in dict.fromkeys(roles)), *self.warnings]

    def text(self, cell: Cell, column: Column) -> tuple[str, str]:
        """Format a cell's number and its uncertainty: the interval, else std over seeds and the metric's own error."""
        if cell.words:
            return cell.words, ""
        if not math.isfinite(cell.value):
            return ("" if cell.blank else DASH), ""
        digits = column.decimals if cell.decimals is None else cell.decimals
        number = format_fixed(cell.value, digits)
        sign = "+" if cell.signed and cell.value > 0 and number.strip("0.,") else ""
        if cell.interval:
            spreads = [f"[{', '.join(format_fixed(end, digits) for end in cell.interval)}]"]
        else:
            spreads = [f"± {format_fixed(cell.sd, digits)}"] if math.isfinite(cell.sd) else []
            spreads += [f"({format_fixed(cell.metric_error, digits)})"] if math.isfinite(cell.metric_error) else []
        return f"{sign}{number}{cell.suffix}", " ".join(spreads)

    def legend(self) -> tuple[str, ...]:
        """Explain the arrows and uncertainties, then bold face, in one line each; lines without content are left out.

        An interval is explained by the heading of its column.
        """
        used = [text for direction, text in LEGEND.items() if any(c.direction == direction for c in self.columns)]
        if any(c.target is not None for c in self.columns):
            used.append("→x closer to x")
        parts = [f"{', '.join(used)} is better"] if used else []
        cells = [cell for row in self.rows for cell in row.cells if not cell.interval]
        if any(math.isfinite(cell.sd) for cell in cells):
            parts.append("± std over seeds")
        if any(math.isfinite(cell.metric_error) for cell in cells):
            parts.append("(…) metric's own std")
        lines = ("; ".join(parts), self._explain_bold())
        return tuple(f"{line}." for line in lines if line)

    def _explain_bold(self) -> str:
        """Explain which cells are bold; if columns differ in the rule, name the columns of all rules but the first."""
        marked = [c for i, c in enumerate(self.columns) if any(row.cells[i].best for row in self.rows)]
        parts: list[str] = []
        for rule, text in BOLD.items():
            titles = [c.title for c in marked if (c.bold or "printed") == rule]
            where = f" in {', '.join(titles)}" if parts else ""
            parts += [f"{'bold' if parts else 'Bold'}{where}: {text}"] if titles else []
        return "; ".join(parts)


def format_letters(index: int) -> str:
    """Format an index as a, b, …, z, aa, ab, …."""
    text = ""
    index += 1
    while index:
        index, digit = divmod(index - 1, 26)
        text = chr(ord("a") + digit) + text
    return text


def choose_column_decimals(cells: Sequence[Cell]) -> int:
    """Choose the decimals of a column from its cells."""
    return choose_decimals([c.value for c in cells], [c.sd for c in cells])
