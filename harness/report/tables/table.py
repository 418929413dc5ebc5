"""A printed table: rows and columns of cells with levels of labels, and the lines around it. Writers know only this."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from openended.harness.core import OUT_OF_DOMAIN, describe_out_of_domain, find_member, parse_signature
from openended.harness.report.tables.frame import (
    BOLD,
    DAGGER,
    DASH,
    LEGEND,
    BoldRule,
    Cell,
    Quantity,
    format_fixed,
    format_p_value,
)

OWN_STD = "metric's own std"


@dataclass(frozen=True, slots=True)
class Column(Quantity):
    """A column: what all its cells are, or only its heading where the quantities are in the rows."""

    levels: tuple[str, ...] = ()  # of the printed heading, outermost first; empty: one
    names_system: bool = False  # whether the heading names a system, and what the cells are is in the rows

    @property
    def lines(self) -> tuple[str, ...]:
        """The heading, a line for each level."""
        return tuple(filter(None, self.levels)) or (self.heading,)


@dataclass(frozen=True, slots=True)
class TableRow:
    """One row: of a system, or of a metric where the systems are the columns."""

    label: str
    system: str  # `model`, `human`, or another kind of row that is not ranked
    cells: tuple[Cell, ...]
    seeds: int = 0
    rule: bool = False  # whether to draw a line above this row
    levels: tuple[str, ...] = ()  # of the label, outermost first; empty: one

    @property
    def labels(self) -> tuple[str, ...]:
        return self.levels or (self.label,)


@dataclass(frozen=True, slots=True)
class Table:
    """Rows × columns with legend, notes and remarks."""

    name: str  # file stem
    title: str
    columns: tuple[Column, ...]
    rows: tuple[TableRow, ...]
    remarks: tuple[str, ...] = ()  # how to read the values
    heads: tuple[str, ...] = ("System",)  # of the levels of the row labels
    show_seeds: bool = True
    over: str = "seeds"  # what the standard deviations of its cells are over
    about: tuple[str, ...] = ()
    """Lines about the runs: first task, number and length of the texts; then date and commands."""
    warnings: tuple[str, ...] = ()  # reasons to doubt values
    rules: tuple[str, ...] = ()  # how numbers are printed; of interest only to those who ask
    tex_width: float = 345.0  # text width in LaTeX points; wider tables get metrics as rows. `article` has 345
    caption: str = ""  # of the float in an article, before data and signs; empty: the title
    show_notes: bool = True  # whether legend, notes and remarks are printed; warnings always are

    def list_quantities(self) -> list[Quantity]:
        """Return what the cells are, in the order of the columns."""
        return list(dict.fromkeys(quantity for quantity, _ in self.iterate_cells())) or list(self.columns)

    def iterate_cells(self) -> Iterator[tuple[Quantity, Cell]]:
        """Yield each cell with what it is, column by column."""
        for at, column in enumerate(self.columns):
            yield from ((row.cells[at].quantity or column, row.cells[at]) for row in self.rows)

    def transpose(self) -> "Table":
        """Return the table with its rows as columns, without the numbers of seeds."""
        columns = tuple(Column("", row.system, row.label, levels=row.levels, names_system=True) for row in self.rows)
        rows = tuple(
            TableRow(
                column.heading, "metric",
                tuple(replace(row.cells[at], quantity=row.cells[at].quantity or column) for row in self.rows),
                levels=column.levels,
            )
            for at, column in enumerate(self.columns)
        )  # fmt: skip
        heads = tuple("" for _ in self.columns[0].levels) if self.columns else ()
        return replace(self, columns=columns, rows=rows, heads=heads or ("Metric",), show_seeds=False)

    def marks(self) -> dict[str, str]:
        """Return each note of the cells, in reading order → its mark: a, b, …, z, aa, ab, …; without a note, none."""
        notes = dict.fromkeys(cell.note for row in self.rows for cell in row.cells if cell.note)
        return {"": "", **{note: format_letters(index) for index, note in enumerate(notes)}}

    def signatures(self) -> list[str]:
        """Return the signatures of the columns, each followed by others of its cells that the layout allows."""
        both = ((q.signature, c.source) for q, c in self.iterate_cells() if q.signature)
        named = [[s, *([c.signature] if c is not None and c.system == "model" else [])] for s, c in both]
        return list(dict.fromkeys(signature for signatures in named for signature in signatures))

    def describe_data(self, title: str) -> str:
        """Return task, number and length of texts, and seeds, without a task that the title names; empty if unknown."""
        data = self.about[0] if self.about else ""
        task, sign, rest = data.partition("; ")
        return rest if sign and f" on {task.removeprefix('Task ')}" in title else data

    def caveats(self) -> list[str]:
        """Return all warnings, beginning with those about scoring models out of their domain."""
        fields = [parse_signature(q.signature) for q in self.list_quantities() if q.out_of_domain]
        roles = [(role, value.partition("@")[0]) for f in fields for role, value in f.items() if OUT_OF_DOMAIN in value]
        names: dict[str, dict[str, None]] = {}
        for role, name in roles:
            names.setdefault(name, {})[role] = None
        doubts = [describe_out_of_domain(" and ".join(of), name) for name, of in names.items()]
        return [*(f"{DAGGER} {doubt}" for doubt in doubts), *self.warnings]

    def text(self, cell: Cell, column: Quantity) -> tuple[str, str]:
        """Format a cell's number and its uncertainty: the interval, else std over seeds and the metric's own error."""
        if cell.words:
            return cell.words, ""
        if not math.isfinite(cell.value):
            return ("" if cell.blank else DASH), ""
        quantity = cell.quantity or column
        digits = next(digits for digits in (cell.decimals, quantity.decimals, 3) if digits is not None)
        is_p_value = quantity.p_values or quantity.key == "p_value"
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
        printed = " ".join(
            [*(row.label for row in self.rows), *(line for column in self.columns for line in column.lines)]
        )
        used = [text for text in (*LEGEND.values(), "→x closer to x") if text[0] in printed]
        parts = [f"{', '.join(used)} is better"] if used else []
        cells = [cell for row in self.rows for cell in row.cells if not cell.interval]
        parts += [f"± std over {self.over}"] if any(math.isfinite(cell.sd) for cell in cells) else []
        parts += [f"(…) {words}" for words in self.name_metric_errors()]
        return [f"{'; '.join(parts)}."] if parts else []

    def name_metric_errors(self) -> list[str]:
        """Return what the errors are that the metrics report, which cells print in parentheses."""
        printed = {quantity.metric for quantity, cell in self.iterate_cells()
                   if math.isfinite(cell.metric_error) and not cell.interval}  # fmt: skip
        kinds = sorted({getattr(find_member("metric", metric), "error_kind", OWN_STD) for metric in printed})
        return [" or ".join(kinds)] if kinds else []

    def find_bold_rules(self) -> dict[BoldRule, list[str]]:
        """Return how the cells in bold were found, or why there are none → the titles of these values."""
        marked = dict.fromkeys(q for q, cell in self.iterate_cells() if cell.best or q.bold == "seeds")
        rules = {rule: list(dict.fromkeys(q.title for q in marked if q.bold == rule)) for rule in BOLD}
        return {rule: titles for rule, titles in rules.items() if titles}

    def explain_bold(self) -> list[str]:
        """Explain bold face in one line; several rules name their values."""
        rules = self.find_bold_rules()
        names = {rule: f" in {', '.join(titles)}" if len(rules) > 1 else "" for rule, titles in rules.items()}
        return [f"Bold{'; bold'.join(f'{names[rule]}: {BOLD[rule]}' for rule in rules)}."] if rules else []


def format_letters(index: int) -> str:
    """Format an index as a, b, …, z, aa, ab, …."""
    before, letter = divmod(index, 26)
    return (format_letters(before - 1) if before else "") + chr(ord("a") + letter)
