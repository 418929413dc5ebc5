"""A printed table: rows and columns of cells with levels of labels, and the lines around it. Writers know only this."""

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from openended.harness.core import RunNote, find_member, parse_signature
from openended.harness.report.tables.frame import BOLD, DAGGER, LEGEND, Cell, Note, is_out_of_domain

OWN_STD = "metric's own std"


class Column(NamedTuple):
    """The heading of a column: what all its cells are, or the system that they are of."""

    title: str
    key: str = ""
    sign: str = ""  # ↑, ↓, ≈ or →x
    doubtful: bool = False  # whether a scoring model is out of its domain
    interval: bool = False  # whether its cells show a 95 % interval
    gap: bool = False
    signature: str = ""
    levels: tuple[str, ...] = ()  # of the printed heading, outermost first; empty: one
    role: str = ""  # kind of system, where that is what it names

    @property
    def heading(self) -> str:
        """Title with arrow, and what the cells show after the number."""
        doubt = DAGGER if self.doubtful else ""
        return " ".join(filter(None, (f"{self.title}{doubt}", self.sign, "[95 % CI]" if self.interval else "")))

    @property
    def lines(self) -> tuple[str, ...]:
        """The heading, a line for each level."""
        return tuple(filter(None, self.levels)) or (self.heading,)


class TableRow(NamedTuple):
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
    """Rows × columns with legend and notes."""

    name: str  # file stem
    title: str
    columns: tuple[Column, ...]
    rows: tuple[TableRow, ...]
    notes: tuple[Note, ...] = ()
    heads: tuple[str, ...] = ("System",)  # of the levels of the row labels
    show_seeds: bool = True
    over: str = "seeds"  # what the standard deviations of its cells are over
    about: tuple[str, ...] = ()
    """Lines about the runs: first task, number and length of the texts; then date and commands."""
    tex_width: float = 345.0  # text width in LaTeX points; wider tables get metrics as rows. `article` has 345
    caption: str = ""  # of the float in an article, before data and signs; empty: the title
    show_notes: bool = True  # whether legend, notes and remarks are printed; warnings always are

    def add_to_title(self, facts: Sequence[str]) -> "Table":
        """Return the table with further facts in its title and caption."""
        title, caption = (text and ", ".join([text, *facts]) for text in (self.title, self.caption))
        return replace(self, title=title, caption=caption)

    def list_notes(self, kind: str) -> list[str]:
        """Return the notes of one kind: `warning`, `remark` or `rule`."""
        return [str(note) for note in self.notes if note.kind == kind]

    def iterate_cells(self) -> Iterator[Cell]:
        """Yield the cells, column by column."""
        for at in range(len(self.columns)):
            yield from (row.cells[at] for row in self.rows)

    def find_text_columns(self) -> list[bool]:
        """Return for each column whether it contains text cells."""
        return [any(row.cells[at].words for row in self.rows) for at in range(len(self.columns))]

    def transpose(self) -> "Table":
        """Return the table with its rows as columns, without the numbers of seeds."""
        columns = tuple(Column(row.label, levels=row.levels, role=row.system) for row in self.rows)
        rows = tuple(
            TableRow(column.heading, "metric", tuple(row.cells[at] for row in self.rows), levels=column.levels)
            for at, column in enumerate(self.columns)
        )
        heads = tuple("" for _ in self.columns[0].levels) if self.columns else ()
        return replace(self, columns=columns, rows=rows, heads=heads or ("Metric",), show_seeds=False)

    def marks(self) -> dict[str, str]:
        """Return each note of the cells, in reading order → its mark: a, b, …, z, aa, ab, …; without a note, none."""
        notes = dict.fromkeys(cell.note for row in self.rows for cell in row.cells if cell.note)
        return {"": "", **{note: format_letters(index) for index, note in enumerate(notes)}}

    def signatures(self) -> list[str]:
        """Return the signatures of the columns, each followed by others of its cells that the layout allows."""
        named: dict[str, None] = {}
        for cell in (cell for cell in self.iterate_cells() if cell.signature):
            named[cell.signature] = None
            if cell.source is not None and cell.source.system == "model":
                named[cell.source.signature] = None
        return list(named)

    def describe_data(self, title: str) -> str:
        """Return task, number and length of texts, and seeds, without a task that the title names; empty if unknown."""
        data = self.about[0] if self.about else ""
        task, sign, rest = data.partition("; ")
        return rest if sign and f" on {task.removeprefix('Task ')}" in title else data

    def caveats(self) -> list[str]:
        """Return all warnings, beginning with those about scoring models out of their domain."""
        signatures = dict.fromkeys(cell.signature for cell in self.iterate_cells() if is_out_of_domain(cell.signature))
        names: dict[str, dict[str, None]] = {}
        for role, value in (field for signature in signatures for field in parse_signature(signature).items()):
            if is_out_of_domain(value):
                names.setdefault(value.partition("@")[0], {})[role] = None
        doubts = [RunNote("domain", (" and ".join(of), name)) for name, of in names.items()]
        return [*(f"{DAGGER} {doubt}" for doubt in doubts), *self.list_notes("warning")]

    def legend(self) -> list[str]:
        """Explain the arrows and uncertainties in one line; empty without any.

        An interval is explained by the heading of its column.
        """
        printed = " ".join(
            [*(row.label for row in self.rows), *(line for column in self.columns for line in column.lines)]
        )
        used = [text for text in (*LEGEND.values(), "→x closer to x") if text[0] in printed]
        parts = [f"{', '.join(used)} is better"] if used else []
        parts += [f"± std over {self.over}"] if self.has_std() else []
        parts += [f"(…) {words}" for words in self.name_metric_errors()]
        return [f"{'; '.join(parts)}."] if parts else []

    def has_std(self) -> bool:
        """Return whether a cell shows a standard deviation."""
        return any(math.isfinite(cell.sd) and not cell.interval for cell in self.iterate_cells())

    def name_metric_errors(self) -> list[str]:
        """Return what the errors are that the metrics report, which cells print in parentheses."""
        printed = {cell.name for cell in self.iterate_cells() if math.isfinite(cell.error) and not cell.interval}
        kinds = sorted({getattr(find_member("metric", metric), "error_kind", OWN_STD) for metric in printed})
        return [" or ".join(kinds)] if kinds else []

    def explain_bold(self, without: Collection[str] = ()) -> list[str]:
        """Explain bold face, or why there is none, in one line; several rules name the values that they apply to."""
        marked = dict.fromkeys((c.rule, c.title) for c in self.iterate_cells() if c.best or c.rule == "seeds")
        rules = {rule: [title for how, title in marked if how == rule] for rule in BOLD if rule not in without}
        titles = {rule: ", ".join(of) for rule, of in rules.items() if of}
        names = {rule: f" in {of}" if len(titles) > 1 else "" for rule, of in titles.items()}
        return [f"Bold{'; bold'.join(f'{name}: {BOLD[rule]}' for rule, name in names.items())}."] if names else []


def format_letters(index: int) -> str:
    """Format an index as a, b, …, z, aa, ab, …."""
    before, letter = divmod(index, 26)
    return (format_letters(before - 1) if before else "") + chr(ord("a") + letter)
