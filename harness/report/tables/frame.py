"""The tidy frame of a table: one entry per printed number, with its axes, its uncertainty and whether it is the best.

An analysis turns results into a frame; `pivot.build_table` turns a frame into a table as a layout says.

Which value is best is known only from the data, so any two systems may turn out to be the two that are compared. The
p-values behind bold cells are therefore corrected for all pairs of systems: by Holm's method, where the pairs without
the best count as not significant. Among equal systems, in at most 5 % of columns one of them is not marked.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from openended.harness.core import OUT_OF_DOMAIN
from openended.harness.report.analysis.paired import LEVEL, compute_margin_p_value, correct_by_holm
from openended.harness.results import SystemValue, orient

DASH = "–"
MOST_DECIMALS = 8
CONTROLS = ("naive:", "damage:")  # models that are naive systems or damaged human texts
RULE = (
    "Decimals of a column: 3 if its largest value is below 2, 2 below 100, 1 below 1,000, else 0; fewer if the "
    "typical standard deviation would show more than two significant digits."
)
ARROWS = {"higher": "↑", "lower": "↓", "match_human": "≈", "none": ""}
LEGEND = {"higher": "↑ higher", "lower": "↓ lower", "match_human": "≈ closer to human"}
DAGGER = "†"  # marks the headings of columns that should not be trusted
BoldRule = Literal["", "tests", "intervals", "printed", "reference", "seeds"]
BOLD: Mapping[BoldRule, str] = {
    "tests": "best, or not separated from it by a paired test (Holm over all pairs, p ≥ 0.05)",
    "intervals": "best, or not separated from it by the intervals (Holm over all pairs, p ≥ 0.05)",
    "printed": "best printed value (not tested)",
    "reference": "what the others are compared with",
    "seeds": "nothing, since no test compares these means (intervals=200 adds one; ↑ and ↓ have one from 6 seeds on)",
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


def count_decimals(size: float, least: int = 0) -> int:
    """Return the number of decimals that show two significant digits of a size, such as a standard error.

    >>> count_decimals(0.0123), count_decimals(40.0), count_decimals(math.nan, 3)
    (3, 0, 3)
    """
    return min(MOST_DECIMALS, max(least, 1 - math.floor(math.log10(size)))) if 0 < size < math.inf else least


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
class Quantity:
    """What a printed number is: one value of one metric with one signature."""

    metric: str
    key: str
    title: str
    direction: str = "none"
    """`higher`, `lower`, `match_human`, `target` or `none`; of the printed number (`lower` for gaps)."""
    decimals: int | None = None  # None: chosen from the cells by `RULE`
    signature: str = ""
    gap: bool = False  # whether |model − human| is printed
    target: float | None = None  # the best possible value if the direction is `target`
    bold: BoldRule = ""  # how the best cells were found; empty: none is marked
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
    is_ranked: bool = True  # whether it may be best
    source: SystemValue | None = field(default=None, compare=False, repr=False)
    """The value behind the number; used by the page."""
    human: SystemValue | None = field(default=None, compare=False, repr=False)
    """The human value that the number is compared with."""
    quantity: Quantity | None = None  # what it is, where the column of its table does not say that
    p_value: float = field(default=math.nan, compare=False, repr=False)
    """That the best system is no better, corrected as for bold face; NaN if it is not tested."""


BLANK = Cell(blank=True)
Comparison = Callable[[Cell, Cell], float]
"""The p-value of two cells being equally good; NaN if it is unknown."""
Filled = tuple[Quantity, Iterable[Any]]
"""A quantity, and what a frame says of it for each row: a `Cell`, a number, words, or None for an empty cell."""


@dataclass(frozen=True, slots=True)
class FrameEntry:
    """One printed number and where it belongs."""

    axes: Mapping[str, str]  # axis → value; `metric` and `system` are axes like any other
    quantity: Quantity
    cell: Cell
    titles: Mapping[str, str] = field(default_factory=dict)  # axis → how its value is printed, where that differs
    settings: Mapping[str, str] = field(default_factory=dict)
    """Axis → value as typed, with the options of decoders and models; the layout's `names` read it."""
    role: str = "model"  # or `human`, or another one that is not ranked
    seeds: int = 0
    section: object = None  # entries of other sections are separated by a line


@dataclass(frozen=True, slots=True)
class Frame:
    """The entries of one table, the axes of its rows and columns where the layout names none, and what to say of it."""

    name: str  # file stem
    title: str
    entries: tuple[FrameEntry, ...]
    remarks: tuple[str, ...] = ()  # how to read the values
    rows: tuple[str, ...] = ("system",)
    columns: tuple[str, ...] = ("metric",)
    heads: Mapping[str, str] = field(default_factory=dict)  # axis → title of its column of labels
    measure: str = "metric"  # the axis whose values are the quantities
    appendix: bool = False  # whether it is about another frame, and printed by its own axes
    show_seeds: bool = True
    over: str = "seeds"  # what the standard deviations of its cells are over
    warnings: tuple[str, ...] = ()  # reasons to doubt values
    rules: tuple[str, ...] = ()  # how numbers are printed; of interest only to those who ask

    @classmethod
    def build(
        cls, name: str, title: str, labels: Sequence[str], columns: Iterable[Filled], remarks: Iterable[str] = (), *,
        head: str = "System", kinds: Sequence[str] | str = "model", seeds: Sequence[int] = (),
        sections: Sequence[object] = (), ranked: bool = False, compare: "Comparison | None" = None,
        **options: Any,  # noqa: ANN401
    ) -> "Frame":  # fmt: skip
        """Build a frame from declared columns.

        Args:
            name: File stem of the table.
            title: Its title.
            labels: Of the rows.
            columns: Quantities with one entry per label.
            remarks: How to read the values.
            head: Title of the labels.
            kinds: Of the rows, or one for all: `model`, `human`, or another one that is not ranked.
            seeds: Numbers of seeds of the rows, which add a column.
            sections: Of the rows, separated by lines.
            ranked: Whether to mark the best cells of each column.
            compare: The test of two cells.
            options: Further fields of the frame.
        """
        kinds, axis, styled = [kinds] * len(labels) if isinstance(kinds, str) else kinds, head.lower(), []
        for quantity, contents in columns:
            cells = list(map(to_cell, contents))
            digits = choose_column_decimals(cells) if quantity.decimals is None else quantity.decimals
            filled = replace(quantity, decimals=digits)
            styled.append(mark_best(filled, cells, kinds, compare) if ranked else (filled, cells))
        ids = [f"{q.metric}.{q.key}" if q.metric else q.key for q, _ in styled]
        entries = []
        for at, label in enumerate(labels):
            where = label if labels.count(label) == 1 else f"{label}\0{at}"  # texts may be equal
            for (quantity, cells), measure in zip(styled, ids, strict=True):
                axes = {axis: where, "metric": measure if ids.count(measure) == 1 else quantity.title}
                entries.append(
                    FrameEntry(
                        axes, quantity, cells[at], {axis: label}, role=kinds[at], seeds=seeds[at] if seeds else 0,
                        section=sections[at] if sections else None,
                    )
                )  # fmt: skip
        return cls(
            name, title, tuple(entries), tuple(remarks), (axis,), heads={axis: head},
            **{"show_seeds": bool(seeds), **options},
        )  # fmt: skip


def join_tasks(frames: Mapping[str, Frame], name: str, title: str) -> Frame:
    """Join frames of one analysis on several tasks: rows are grouped by task, columns have equal decimals.

    A line that is not about all tasks names its own.
    """
    decimals: dict[str, int] = {}
    for entry in (entry for frame in frames.values() for entry in frame.entries):
        measure = entry.axes["metric"]
        decimals[measure] = max(decimals.get(measure, 0), entry.quantity.decimals or 0)
    entries = [
        replace(
            entry, axes={"task": task, **entry.axes}, settings={"task": task, **entry.settings},
            quantity=replace(entry.quantity, decimals=decimals[entry.axes["metric"]]),
        )
        for task, frame in frames.items() for entry in frame.entries
    ]  # fmt: skip

    def join_lines(lines_of: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
        tasks: dict[str, list[str]] = {}
        for task, lines in lines_of.items():
            for line in lines:
                tasks.setdefault(line, []).append(task)
        return tuple(
            line if len(of) == len(lines_of) else f"{line} ({', '.join(of)})" for line, of in tasks.items()
        )  # fmt: skip

    first = next(iter(frames.values()))
    return replace(
        first, name=name, title=title, entries=tuple(entries), rows=("task", *first.rows),
        heads={"task": "Task", **first.heads}, remarks=join_lines({task: f.remarks for task, f in frames.items()}),
        warnings=join_lines({task: f.warnings for task, f in frames.items()}),
        rules=join_lines({task: f.rules for task, f in frames.items()}),
    )  # fmt: skip


# Style ----------------------------------------------------------------------------------------------------------------


def to_cell(content: Cell | float | str | None) -> Cell:
    """Return the cell of a number, of words or of nothing."""
    if isinstance(content, Cell):
        return content
    if content is None:
        return BLANK
    return Cell(words=content) if isinstance(content, str) else Cell(float(content))


def choose_column_decimals(cells: Sequence[Cell]) -> int:
    """Choose the decimals of a quantity from its cells."""
    return choose_decimals([c.value for c in cells], [c.sd if math.isfinite(c.sd) else c.metric_error for c in cells])


def mark_best(
    quantity: Quantity, cells: Sequence[Cell], kinds: Sequence[str], compare: Comparison | None = None, *,
    tested: bool = True,
) -> tuple[Quantity, list[Cell]]:  # fmt: skip
    """Mark the best cells of a quantity, and note in the quantity how they were found.

    Cells of systems are compared by tests if there are any, else by intervals, else by the printed value, unless that
    is a mean over seeds, whose variation is known not to be 0. A cell that cannot be tested is not separated from the
    best. Without tests, costs (values, or distances to the human value or target) that are printed alike are ties. With
    tests, the quantity gets as many decimals as it takes to print what they separate from the best differently. Nothing
    is marked in a quantity whose scoring model is out of its domain, nor is a lone value. If not `tested`, the best
    printed values are marked, as many tables of articles have them.
    """
    costs, decimals = rank_cells(quantity, cells, kinds), quantity.decimals or 0
    if len(costs) < 2 or quantity.out_of_domain:
        return replace(quantity, bold=""), [replace(cell, best=False) for cell in cells]
    best = next(iter(costs))
    texts = {
        at: format_fixed(cost, digits if (digits := cells[at].decimals) is not None else decimals)
        for at, cost in costs.items()
    }
    marked = {at for at in costs if texts[at] == texts[best]}
    others = [at for at in costs if at != best]
    tests: dict[BoldRule, dict[int, float]] = {}
    if tested:
        tests["tests"] = {at: compare(cells[at], cells[best]) for at in others} if compare is not None else {}
        tests["intervals"] = {at: _compare_intervals(quantity, cells[at], cells[best]) for at in others}
    corrected = {rule: correct_by_holm(p_values, math.comb(len(costs), 2)) for rule, p_values in tests.items()}
    rule: BoldRule = next((rule for rule in tests if corrected[rule]), "printed")
    p_values = corrected.get(rule, {})
    if rule == "printed" and tested and any(cells[at].n > 1 for at in costs):
        rule, marked = "seeds", set()
    elif rule != "printed":
        alike, marked = marked, {at for at in costs if p_values.get(at, 1.0) >= LEVEL}
        gaps = [costs[at] - costs[best] for at in alike - marked]
        decimals = max([decimals, *(count_decimals(gap) for gap in gaps)])
        quantity = replace(quantity, decimals=decimals)
    return replace(quantity, bold=rule), [
        replace(cell, best=at in marked, p_value=p_values.get(at, math.nan)) for at, cell in enumerate(cells)
    ]


def rank_cells(quantity: Quantity, cells: Sequence[Cell], kinds: Sequence[str]) -> dict[int, float]:
    """Return the positions of the cells that may be best → their costs, best first.

    Naive systems and damaged texts never are.
    """
    systems = (at for at, kind in enumerate(kinds) if kind == "model" and competes(cells[at]))
    costs = {at: compute_cost(quantity, cells[at], cells[at].value) for at in systems}
    return dict(sorted(((at, cost) for at, cost in costs.items() if math.isfinite(cost)), key=lambda item: item[1]))


def competes(cell: Cell) -> bool:
    """Return whether a value may be best: not of a control, nor one that is not ranked for a reason in its note."""
    source = cell.source
    is_control = source is not None and source.axes.get("model", "").startswith(CONTROLS)
    return cell.is_ranked and not is_control and (source is None or source.direction != "none")


def compute_cost(quantity: Quantity, cell: Cell, value: float) -> float:
    """Return the cost of a value of a cell; lower is better, NaN if the quantity has no direction."""
    target = quantity.target
    if quantity.direction == "match_human":
        target = cell.human.mean if cell.human is not None else math.nan
    is_ranked = target is not None or quantity.direction in ("higher", "lower")
    return float(-orient(value, quantity.direction, target)) if is_ranked else math.nan


def _compare_intervals(quantity: Quantity, cell: Cell, best: Cell) -> float:
    """Return the p-value of two equal costs from their intervals, as if the two were independent; NaN without both.

    The error of the human value cancels between values on one side of it, and counts twice between its two sides.
    """
    spans, center, reach = [], None if quantity.direction in ("higher", "lower") else quantity.target, 0.0
    if quantity.direction == "match_human" and best.human is not None:
        center = best.human.mean
        if (cell.value - center) * (best.value - center) < 0:
            reach = max(best.human.reach) if best.human.interval is not None else math.nan
    for side in (cell, best):
        ends = side.interval or (side.source.interval if side.source is not None and not quantity.gap else None)
        if ends is None:  # there is no interval of the printed value
            return math.nan
        low, high = sorted(compute_cost(quantity, side, end) for end in ends)
        spans.append((0.0 if center is not None and ends[0] <= center <= ends[1] else low, high))
    cost, lowest = (compute_cost(quantity, side, side.value) for side in (cell, best))
    return compute_margin_p_value(cost - lowest, math.hypot(cost - spans[0][0], spans[1][1] - lowest, 2 * reach))
