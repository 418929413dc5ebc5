"""The one shape of all tables: rows, declared columns that say what a cell of each row is, and how cells are printed.

`Table.build` fills and styles every table. Which value is best is known only from the data, so any two systems may turn
out to be the two that are compared. The p-values behind bold cells are therefore corrected for all pairs of systems: by
Holm's method, where the pairs without the best count as not significant. Among equal systems, in at most 5 % of columns
one of them is not marked.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

from openended.harness.core import OUT_OF_DOMAIN, describe_out_of_domain, parse_signature
from openended.harness.report.analysis.paired import LEVEL, compute_margin_p_value, correct_by_holm
from openended.harness.results import SystemValue, orient

T = TypeVar("T")

DASH = "–"
CONTROLS = ("naive:", "damage:")  # models that are naive systems or damaged human texts
RULE = (
    "Decimals of a column: 3 if its largest value is below 2, 2 below 100, 1 below 1,000, else 0; fewer if the "
    "typical standard deviation would show more than two significant digits."
)
ARROWS = {"higher": "↑", "lower": "↓", "match_human": "≈", "none": ""}
LEGEND = {"higher": "↑ higher", "lower": "↓ lower", "match_human": "≈ closer to human"}
DAGGER = "†"  # marks the headings of columns that should not be trusted
BoldRule = Literal["", "tests", "intervals", "printed"]
BOLD: Mapping[BoldRule, str] = {
    "tests": "best, or not separated from it by a paired test (Holm over all pairs, p ≥ 0.05)",
    "intervals": "best, or not separated from it by the intervals (Holm over all pairs, p ≥ 0.05)",
    "printed": "best printed value (not tested)",
}


def choose_decimals(values: Iterable[float], spreads: Iterable[float] = ()) -> int:
    """Return the number of decimals of a column (see `RULE`)."""
    size = max((abs(v) for v in values if math.isfinite(v)), default=0.0)
    by_size = next((3 - i for i, most in enumerate((2, 100, 1000)) if size < most), 0)
    finite = sorted(s for s in spreads if math.isfinite(s) and s > 0)
    if not finite:
        return by_size
    typical = finite[len(finite) // 2]
    return min(by_size, max(0, 1 - math.floor(math.log10(typical))))


def format_fixed(value: float, digits: int) -> str:
    """Format a finite number with fixed decimals and thousands separators, never as minus zero."""
    text = f"{value:,.{digits}f}"
    return text.lstrip("-") if float(text.replace(",", "")) == 0 else text


def format_p_value(p_value: float, digits: int = 4) -> str:
    """Format a p-value with fixed decimals; a smaller one as below the last of them.

    >>> format_p_value(0.0123), format_p_value(1e-9)
    ('0.0123', '<.0001')
    """
    least = f"{10**-digits:.{digits}f}"
    return f"<{least.removeprefix('0')}" if p_value < 10**-digits else format_fixed(p_value, digits)


def arrow(direction: str, target: float | None = None) -> str:
    """Return the symbol of a direction: ↑, ↓, ≈, →0.5 or nothing."""
    return ARROWS.get(direction, "") if target is None else f"→{target:g}"


@dataclass(frozen=True, slots=True)
class Column:
    """One column: one value of one metric with one signature."""

    metric: str
    key: str
    title: str
    direction: str = "none"
    """`higher`, `lower`, `match_human`, `target` or `none`; of the printed number (`lower` for gaps)."""
    decimals: int | None = None  # None: chosen from the cells by `RULE`
    signature: str = ""
    gap: bool = False  # whether |model − human| is printed
    target: float | None = None  # the best possible value if the direction is `target`
    bold: BoldRule = ""  # how the best cells were found; empty if none is marked
    interval: bool = False  # whether its cells show a 95 % interval
    p_values: bool = False  # whether its cells are p-values

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
    n: int = 0  # number of seeds
    metric_error: float = math.nan
    """Uncertainty that the metric itself reports: sd over its repetitions, or a standard error."""
    best: bool = False
    note: str = ""  # footnote of the cell: why there is no value, or a caveat
    interval: tuple[float, float] | None = None  # 95 % interval, printed after the number as `[low, high]`
    suffix: str = ""  # text after the number (stars of a test)
    signed: bool = False  # whether to print a plus sign
    decimals: int | None = None  # overrides the decimals of the column
    words: str = ""  # text instead of a number
    blank: bool = False  # whether the cell is empty on purpose
    source: SystemValue | None = field(default=None, compare=False, repr=False)
    """The value behind the number; used by the page."""
    human: SystemValue | None = field(default=None, compare=False, repr=False)
    """The human value that the number is compared with."""


BLANK = Cell(blank=True)


Filled = tuple[Column, Iterable[Any]]
"""A declared column, and what it says of each row: a `Cell`, a number, words, or None for an empty cell."""


@dataclass(frozen=True, slots=True)
class TableRow:
    """One system."""

    label: str
    system: str  # `model`, `human`, or another kind of row that is not ranked
    cells: tuple[Cell, ...]
    seeds: int = 0
    rule: bool = False  # whether to draw a line above this row


@dataclass(frozen=True, slots=True)
class Table:
    """Rows × columns with legend, notes and remarks."""

    name: str  # file stem
    title: str
    columns: tuple[Column, ...]
    rows: tuple[TableRow, ...]
    remarks: tuple[str, ...] = ()  # how to read the values
    head: str = "System"
    show_seeds: bool = True
    about: tuple[str, ...] = ()
    """Lines about the runs: first task, number and length of the texts; then date and commands."""
    warnings: tuple[str, ...] = ()  # reasons to doubt values
    rules: tuple[str, ...] = ()  # how numbers are printed; of interest only to those who ask
    tex_width: float = 345.0  # text width in LaTeX points; wider tables get metrics as rows. `article` has 345
    tex_signatures: bool = False  # whether LaTeX prints the signatures; otherwise they are comments

    @classmethod
    def build(
        cls, name: str, title: str, labels: Sequence[str], columns: Iterable[Filled], remarks: Iterable[str] = (), *,
        kinds: Sequence[str] | str = "model", seeds: Sequence[int] = (), sections: Sequence[object] = (),
        ranked: bool = False, compare: Callable[[Cell, Cell], float] | None = None, **options: Any,  # noqa: ANN401
    ) -> "Table":  # fmt: skip
        """Build and style a table.

        Args:
            name: Its file stem.
            title: Its title.
            labels: Of the rows.
            columns: Declared columns with one entry per label.
            remarks: How to read the values.
            kinds: Of the rows, or one for all: `model`, `human`, or another one that is not ranked.
            seeds: Numbers of seeds of the rows, which add a column.
            sections: Of the rows, separated by lines; by default their kinds.
            ranked: Whether to mark the best cells of each column.
            compare: p-value of two cells being equally good, NaN if it is unknown.
            options: Further fields of the table.
        """
        kinds = [kinds] * len(labels) if isinstance(kinds, str) else kinds
        styled = []
        for column, contents in columns:
            cells = list(map(to_cell, contents))
            if column.decimals is None:
                column = replace(column, decimals=choose_column_decimals(cells))
            styled.append(mark_best_cells(column, cells, kinds, compare) if ranked else (column, cells))
        sections, rows = sections or kinds, []
        for at, label in enumerate(labels):
            row_cells, starts = tuple(column_cells[at] for _, column_cells in styled), sections[at] != sections[at - 1]
            rows.append(TableRow(label, kinds[at], row_cells, seeds[at] if seeds else 0, rule=at > 0 and starts))
        heads = tuple(column for column, _ in styled)
        return cls(name, title, heads, tuple(rows), tuple(remarks), **{"show_seeds": bool(seeds), **options})

    def transpose(self) -> "Table":
        """Return the table with one row per metric and one column per system, without the numbers of seeds."""
        bold = {column.bold for at, column in enumerate(self.columns) if any(row.cells[at].best for row in self.rows)}
        rule: BoldRule = bold.pop() if len(bold) == 1 else ""
        columns = tuple(Column("", row.label, row.label, bold=rule) for row in self.rows)
        rows = []
        for at, column in enumerate(self.columns):
            cells = (row.cells[at] for row in self.rows)
            digits = (replace(c, decimals=column.decimals if c.decimals is None else c.decimals) for c in cells)
            rows.append(TableRow(column.heading, "metric", tuple(digits)))
        directions = (f"{line.partition(';')[0].rstrip('.')}." for line in self.legend()[:1])
        return replace(
            self, columns=columns, rows=tuple(rows), head="Metric", show_seeds=False,
            remarks=(*directions, *self.remarks), warnings=tuple(self.caveats()),
            rules=(*self.rules, *self.signatures()),
        )  # fmt: skip

    def marks(self) -> dict[str, str]:
        """Return each note of the cells, in reading order → its mark: a, b, …, z, aa, ab, …; without a note, none."""
        notes = dict.fromkeys(cell.note for row in self.rows for cell in row.cells if cell.note)
        return {"": "", **{note: format_letters(index) for index, note in enumerate(notes)}}

    def signatures(self) -> list[str]:
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
        digits = next(digits for digits in (cell.decimals, column.decimals, 3) if digits is not None)
        is_p_value = column.p_values or column.key == "p_value"
        number = (format_p_value if is_p_value else format_fixed)(cell.value, digits)
        sign = "+" if cell.signed and cell.value > 0 and number.strip("0.,") else ""
        if cell.interval:
            spreads = [f"[{', '.join(format_fixed(end, digits) for end in cell.interval)}]"]
        else:
            spreads = [f"± {format_fixed(cell.sd, digits)}"] if math.isfinite(cell.sd) else []
            spreads += [f"({format_fixed(cell.metric_error, digits)})"] if math.isfinite(cell.metric_error) else []
        return f"{sign}{number}{cell.suffix}", " ".join(spreads)

    def legend(self) -> list[str]:
        """Explain the arrows and uncertainties in one line; empty without any.

        An interval is explained by the heading of its column.
        """
        used = [text for direction, text in LEGEND.items() if any(c.direction == direction for c in self.columns)]
        used += ["→x closer to x"] if any(c.target is not None for c in self.columns) else []
        parts = [f"{', '.join(used)} is better"] if used else []
        cells = [cell for row in self.rows for cell in row.cells if not cell.interval]
        parts += ["± std over seeds"] if any(math.isfinite(cell.sd) for cell in cells) else []
        parts += ["(…) metric's own std"] if any(math.isfinite(cell.metric_error) for cell in cells) else []
        return [f"{'; '.join(parts)}."] if parts else []

    def find_bold_rules(self) -> dict[BoldRule, list[str]]:
        """Return how the cells in bold were found → the titles of these columns."""
        marked = [c for i, c in enumerate(self.columns) if any(row.cells[i].best for row in self.rows)]
        rules = {rule: [c.title for c in marked if (c.bold or "printed") == rule] for rule in BOLD}
        return {rule: titles for rule, titles in rules.items() if titles}

    def explain_bold(self) -> list[str]:
        """Explain bold face in one line; of several rules, all but the first name their columns."""
        rules = self.find_bold_rules()
        if not rules:
            return []
        first, *others = rules
        parts = [f"bold in {', '.join(rules[rule])}: {BOLD[rule]}" for rule in others]
        return [f"{'; '.join([f'Bold: {BOLD[first]}', *parts])}."]


def format_letters(index: int) -> str:
    """Format an index as a, b, …, z, aa, ab, …."""
    before, letter = divmod(index, 26)
    return (format_letters(before - 1) if before else "") + chr(ord("a") + letter)


# Style ----------------------------------------------------------------------------------------------------------------


def to_cell(content: Cell | float | str | None) -> Cell:
    """Return the cell of a number, of words or of nothing."""
    if isinstance(content, Cell):
        return content
    if content is None:
        return BLANK
    return Cell(words=content) if isinstance(content, str) else Cell(float(content))


def choose_column_decimals(cells: Sequence[Cell]) -> int:
    """Choose the decimals of a column from its cells."""
    return choose_decimals([c.value for c in cells], [c.sd for c in cells])


def mark_best_cells(
    column: Column, cells: Sequence[Cell], kinds: Sequence[str], compare: Callable[[Cell, Cell], float] | None = None
) -> tuple[Column, list[Cell]]:
    """Mark the best cells of a column, and note in the column how they were found.

    Cells of systems are compared by tests if there are any, else by intervals, else by the printed value. A cell that
    cannot be tested, and one with the same printed value as the best, is not separated from it. Naive systems and
    damaged texts are never marked, and nothing is in a column whose scoring model is out of its domain.
    """
    systems = [at for at, kind in enumerate(kinds) if kind == "model"]
    costs = {at: _compute_cost(column, cells[at], cells[at].value) for at in systems if _competes(cells[at].source)}
    costs = {at: cost for at, cost in costs.items() if math.isfinite(cost)}
    if len(systems) < 2 or not costs or column.out_of_domain:
        return column, list(cells)
    best = min(costs, key=lambda at: costs[at])
    texts = {at: format_fixed(cost, column.decimals or 0) for at, cost in costs.items()}  # printed alike, they are ties
    marked = {at for at in costs if texts[at] == texts[best]}
    others = [at for at in costs if at != best]
    p_values: dict[BoldRule, dict[int, float]] = {
        "tests": {at: compare(cells[at], cells[best]) for at in others} if compare is not None else {},
        "intervals": {at: _compare_intervals(column, cells[at], cells[best]) for at in others},
    }
    corrected = {rule: correct_by_holm(tests, math.comb(len(costs), 2)) for rule, tests in p_values.items()}
    rule: BoldRule = next((rule for rule in p_values if corrected[rule]), "printed")
    if rule != "printed":
        marked |= {at for at in costs if corrected[rule].get(at, 1.0) >= LEVEL}
    return replace(column, bold=rule), [replace(cell, best=at in marked) for at, cell in enumerate(cells)]


def _competes(source: SystemValue | None) -> bool:
    """Whether a value may be best: not of a control, nor one that its metric does not rank for a reason in its note."""
    return source is None or (source.direction != "none" and not source.axes.get("model", "").startswith(CONTROLS))


def _compute_cost(column: Column, cell: Cell, value: float) -> float:
    """Return the cost of a value of a cell; lower is better, NaN if the column has no direction."""
    target = column.target
    if column.direction == "match_human":
        target = cell.human.mean if cell.human is not None else math.nan
    is_ranked = target is not None or column.direction in ("higher", "lower")
    return float(-orient(value, column.direction, target)) if is_ranked else math.nan


def _compare_intervals(column: Column, cell: Cell, best: Cell) -> float:
    """Return the p-value of two equal costs from their intervals, as if the two were independent; NaN without both.

    The error of the human value cancels between values on one side of it, and counts twice between its two sides.
    """
    spans, center, reach = [], None if column.direction in ("higher", "lower") else column.target, 0.0
    if column.direction == "match_human" and best.human is not None:
        center = best.human.mean
        if (cell.value - center) * (best.value - center) < 0:
            reach = max(best.human.reach) if best.human.interval is not None else math.nan
    for side in (cell, best):
        ends = side.interval or (side.source.interval if side.source is not None and not column.gap else None)
        if ends is None:  # there is no interval of the printed value
            return math.nan
        low, high = sorted(_compute_cost(column, side, end) for end in ends)
        spans.append((0.0 if center is not None and ends[0] <= center <= ends[1] else low, high))
    cost, lowest = (_compute_cost(column, side, side.value) for side in (cell, best))
    return compute_margin_p_value(cost - lowest, math.hypot(cost - spans[0][0], spans[1][1] - lowest, 2 * reach))
