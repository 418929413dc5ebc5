"""The tidy frame of a table: one row per printed number, with its axes, its uncertainty and whether it is the best.

An analysis turns results into a frame; `pivot.build_table` turns a frame into a table as a layout says.

Which value is best is known only from the data, so any two systems may turn out to be the two that are compared. The
p-values behind bold cells are therefore corrected for all pairs of systems (`correct_best_p_values`). Among equal
systems, in about 5 % of columns one of them is not marked.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from openended.harness.core import OUT_OF_DOMAIN
from openended.harness.report.analysis.paired import LEVEL, compute_margin_p_value, correct_best_p_values
from openended.harness.results import SystemValue, orient

DASH = "–"
MOST_DECIMALS = 8
MAX_LISTED = 4  # systems that a note names
CONTROLS = ("naive:", "perturbation:")  # models that are naive systems or perturbed human texts
RULE = (
    "Decimals of a column: 3 if its largest value (of percentages, as a fraction) is below 2, 2 below 100, 1 below "
    "1,000, else 0; fewer if the typical standard deviation or error would show more than two significant digits."
)
ARROWS = {"higher": "↑", "lower": "↓", "match_human": "≈", "none": ""}
LEGEND = {"higher": "↑ higher", "lower": "↓ lower", "match_human": "≈ closer to human"}
DAGGER = "†"  # marks the headings of columns that should not be trusted
NoteKind = Literal["warning", "remark", "rule"]
BoldRule = Literal["", "tests", "intervals", "printed", "reference", "seeds"]
BOLD: Mapping[BoldRule, str] = {
    "tests": "best, or not separated from it by a paired test (corrected for all pairs, p ≥ 0.05)",
    "intervals": (
        "best, or not separated from it by the intervals, as if each had its own prompts (corrected for all pairs, "
        "p ≥ 0.05; on the same prompts about 1 % of equal systems are separated)"
    ),
    "printed": "best printed value (not tested)",
    "reference": "what the others are compared with",
    "seeds": "nothing, since no test compares these means (intervals=200 adds one; ↑ and ↓ have one from 6 seeds on)",
}


@dataclass(slots=True)
class Cell:
    """One number of a table: what it is, its uncertainty, whether it is the best, how it is printed, where it belongs.

    As it is, a dash.
    """

    # The number.
    value: float = math.nan
    sd: float = math.nan
    n: int = 0  # number of seeds
    low: float = math.nan  # of its 95 % interval, which is printed after it
    high: float = math.nan
    error: float = math.nan  # that the metric itself reports: sd over its repetitions, or a standard error
    note: str = ""  # footnote: why there is no value, or a caveat
    # What the number is.
    name: str = ""  # its metric
    key: str = ""
    title: str = ""
    direction: str = "none"  # `higher`, `lower`, `match_human`, `target` or `none`; of the printed number
    aim: float = math.nan  # the best possible value: the target, or the human value
    signature: str = ""
    gap: bool = False  # whether it is |model − human|
    is_p: bool = False  # whether it is a p-value
    source: SystemValue | None = None  # the value behind it
    human: SystemValue | None = None  # the human one that it is compared with
    # Whether it is the best.
    is_ranked: bool = True  # whether it may be
    best: bool = False
    rule: BoldRule = ""  # how the best cells of its column were found; empty: none is marked
    p: float = math.nan  # that the best system is no better, corrected as for bold face; NaN if it is not tested
    # How it is printed.
    number: str = ""
    spread: str = ""  # its uncertainty
    decimals: float = math.nan  # of its column
    own_decimals: float = math.nan  # that override those
    scale: float = 1.0  # times which the measured value is printed: 100 in percent
    shows_interval: bool = False  # whether its column has intervals
    mark: str = ""  # text after the number (stars of a test)
    signed: bool = False  # whether to print a plus sign
    words: str = ""  # text instead of a number
    blank: bool = False  # whether it is empty on purpose
    # Where it belongs.
    axes: Mapping[str, str] = field(default_factory=dict)  # its place in a frame
    labels: Mapping[str, str] = field(default_factory=dict)  # axis → how its value is printed, where that differs
    typed: Mapping[str, str] = field(default_factory=dict)  # axis → its value as typed, which the layout's `names` read
    role: str = "model"  # or `human`, or another one that is not ranked
    seeds: int = 0  # of its row
    section: object = None  # numbers of other sections are separated by a line

    @property
    def interval(self) -> tuple[float, float] | None:
        return (self.low, self.high) if math.isfinite(self.low) and math.isfinite(self.high) else None


Quantity = Mapping[str, Any]
"""The fields of `Cell` that all numbers of a column share: what they are."""
Comparison = Callable[[Cell, Cell], float]
"""The p-value of two cells being equally good; NaN if it is unknown."""
Filled = tuple[Quantity | str, Iterable[Any]]
"""What the numbers of a column are (or its title), and its contents: cells, numbers, words, or None: an empty cell."""


class Note(NamedTuple):
    """A line under a table: a reason to doubt values, how to read them, or a rule that only some readers ask for."""

    kind: NoteKind
    text: str
    systems: tuple[str, ...] = ()  # that it is about; empty: all
    tasks: tuple[str, ...] = ()

    def __str__(self) -> str:
        more = f" and {len(self.systems) - MAX_LISTED} more" if len(self.systems) > MAX_LISTED else ""
        separator = "; " if any(", " in name for name in self.systems) else ", "
        about = f"{separator.join(self.systems[:MAX_LISTED])}{more}", ", ".join(self.tasks)
        return " ".join([self.text, *(f"({names})" for names in about if names)])


def make_notes(
    remarks: Iterable[str | Note] = (), warnings: Iterable[str | Note] = (), rules: Iterable[str | Note] = ()
) -> tuple[Note, ...]:
    """Return lines of the three kinds as notes."""
    kinds: dict[NoteKind, Iterable[str | Note]] = {"warning": warnings, "remark": remarks, "rule": rules}
    return tuple(n if isinstance(n, Note) else Note(kind, n) for kind, notes in kinds.items() for n in notes)


def make_quantity(
    name: str, key: str, title: str, direction: str = "none", decimals: float | None = None, signature: str = "", *,
    gap: bool = False, aim: float | None = None, is_p: bool = False,
) -> Quantity:  # fmt: skip
    """Describe what the numbers of a column are; without `decimals` these are chosen by `RULE`."""
    numbers = {"aim": math.nan if aim is None else aim, "decimals": math.nan if decimals is None else decimals}
    kind = {"gap": gap, "is_p": is_p or key == "p_value"}
    return {"name": name, "key": key, "title": title, "direction": direction, "signature": signature} | numbers | kind


def make_cell(
    value: float = math.nan, sd: float = math.nan, n: int = 0, *, interval: Sequence[float] | None = None,
    **fields: Any,  # noqa: ANN401 - of the cell
) -> Cell:  # fmt: skip
    """Return the cell of a number with its standard deviation over n seeds, its interval, and any other fields."""
    low, high = interval or (math.nan, math.nan)
    return Cell(value, sd, n, low, high, **fields)


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """The numbers of one table, its default axes for rows and columns, and its remarks."""

    name: str  # file stem
    title: str
    cells: tuple[Cell, ...]
    notes: tuple[Note, ...] = ()
    rows: tuple[str, ...] = ("system",)
    columns: tuple[str, ...] = ("metric",)
    heads: Mapping[str, str] = field(default_factory=dict)  # axis → title of its column of labels
    measure: str = "metric"  # the axis whose values are the quantities
    appendix: bool = False  # whether it is about another frame, and printed by its own axes
    show_seeds: bool = True
    over: str = "seeds"  # what the standard deviations of its cells are over


def build_frame(
    name: str, title: str, labels: Sequence[str], columns: Iterable[Filled], remarks: Iterable[str] = (), *,
    head: str = "System", roles: Sequence[str] | str = "model", sections: Sequence[object] = (), ranked: bool = False,
    compare: Comparison | None = None, warnings: Iterable[str] = (), rules: Iterable[str] = (),
    **options: Any,  # noqa: ANN401 - fields of the frame
) -> Frame:  # fmt: skip
    """Build a frame from declared columns: what the numbers of each are, with one content per label.

    `head` is the title of the labels; `roles` of the rows (or one for all) and `sections`, which lines separate, are
    optional. If `ranked`, the best cells are marked by the test `compare`.
    """
    axis = head.lower()
    roles = [roles] * len(labels) if isinstance(roles, str) else roles
    filled = [fill_column(quantity, contents, roles) for quantity, contents in columns]
    ids = [".".join(filter(None, (cells[0].name, cells[0].key))) for cells in filled if cells]
    numbers: list[Cell] = []
    for cells, measure in zip(filled, ids, strict=False):
        metric = measure if ids.count(measure) == 1 else cells[0].title
        for at, cell in enumerate(mark_best(cells, compare) if ranked else cells):
            cell.labels, cell.section = {axis: labels[at]}, sections[at] if sections else None
            label = labels[at] if labels.count(labels[at]) == 1 else f"{labels[at]}\0{at}"  # texts may be equal
            cell.axes = {axis: label, "metric": metric}
            numbers.append(cell)
    notes, options = make_notes(remarks, warnings, rules), {"show_seeds": False, **options}
    return Frame(name, title, tuple(numbers), notes, (axis,), heads={axis: head}, **options)


def fill_column(quantity: Quantity | str, contents: Iterable[Any], roles: Sequence[str]) -> list[Cell]:
    """Return the cells of a column, with its decimals; a number keeps its own best possible value if it has one."""
    quantity = make_quantity("", quantity, quantity) if isinstance(quantity, str) else quantity
    cells = []
    for content, role in zip(contents, roles, strict=True):
        cell = to_cell(content)
        aim = cell.aim if math.isfinite(cell.aim) else quantity["aim"]
        typed = {**quantity.get("typed", {}), **cell.typed}
        cells.append(replace(cell, **{**quantity, "aim": aim, "typed": typed, "role": role}))
    decimals = quantity["decimals"]
    decimals = choose_column_decimals(cells) if math.isnan(decimals) else decimals
    shows_interval = any(cell.interval for cell in cells)
    return [replace(cell, decimals=decimals, shows_interval=shows_interval) for cell in cells]


def to_cell(content: Cell | float | str | None) -> Cell:
    """Return the cell of a number, of words or of nothing."""
    if isinstance(content, Cell):
        return content
    if content is None:
        return Cell(blank=True)
    return Cell(words=content) if isinstance(content, str) else Cell(float(content))


def join_tasks(frames: Mapping[str, Frame], name: str, title: str) -> Frame:
    """Join frames of one analysis on several tasks: rows are grouped by task, columns have equal decimals."""
    decimals: dict[str, float] = {}
    for cell in (cell for frame in frames.values() for cell in frame.cells):
        decimals[cell.axes["metric"]] = max(decimals.get(cell.axes["metric"], 0), cell.decimals)
    cells = list[Cell]()
    for task, cell in ((task, cell) for task, frame in frames.items() for cell in frame.cells):
        axes, typed = {**cell.axes, "task": task}, {"task": task, **cell.typed}
        cells.append(replace(cell, axes=axes, typed=typed, decimals=decimals[cell.axes["metric"]]))
    tasks: dict[Note, dict[str, None]] = {}
    for task, frame in frames.items():
        for note in frame.notes:
            tasks.setdefault(note, {})[task] = None
    notes = tuple(note._replace(tasks=tuple(of) if len(of) < len(frames) else ()) for note, of in tasks.items())
    first = next(iter(frames.values()))
    rows, heads = ("task", *first.rows), {"task": "Task", **first.heads}
    return replace(first, name=name, title=title, cells=tuple(cells), notes=notes, rows=rows, heads=heads)


# Style ----------------------------------------------------------------------------------------------------------------


def choose_decimals(values: Iterable[float], spreads: Iterable[float] = ()) -> int:
    """Return the number of decimals of a column (see `RULE`)."""
    size = max((abs(v) for v in values if math.isfinite(v)), default=0.0)
    by_size = next((3 - i for i, most in enumerate((2, 100, 1000)) if size < most), 0)
    finite = sorted(s for s in spreads if math.isfinite(s) and s > 0)
    if not finite:
        return by_size
    typical = finite[len(finite) // 2]
    return min(by_size, max(0, 1 - math.floor(math.log10(typical))))


def choose_column_decimals(cells: Sequence[Cell]) -> int:
    """Choose the decimals of a quantity from its cells."""
    return choose_decimals([c.value for c in cells], [c.sd if math.isfinite(c.sd) else c.error for c in cells])


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


def format_p_equation(p_value: float, digits: int = 4) -> str:
    """Format what follows the letter p: `= 0.0123`, or `<.0001`."""
    text = format_p_value(p_value, digits)
    return text if text.startswith("<") else f"= {text}"


def arrow(direction: str, target: float | None = None) -> str:
    """Return the symbol of a direction: ↑, ↓, ≈, →0.5 or nothing."""
    return ARROWS.get(direction, "") if target is None else f"→{target:g}"


def is_out_of_domain(signature: str) -> bool:
    """Return whether a bundled scorer or embedder scored texts of another domain than its own."""
    return OUT_OF_DOMAIN in signature


def format_cell(cell: Cell) -> tuple[str, str]:
    """Format a cell's number and its uncertainty: the interval, else std over seeds and the metric's own error."""
    if cell.words:
        return cell.words, ""
    if not math.isfinite(cell.value):
        return ("" if cell.blank else DASH), ""
    digits = int(next(digits for digits in (cell.own_decimals, cell.decimals, 3) if math.isfinite(digits)))
    number = (format_p_value if cell.is_p else format_fixed)(cell.value, digits)
    sign = "+" if cell.signed and cell.value > 0 and number.strip("0.,") else ""
    if cell.interval:
        spreads = [f"[{format_fixed(cell.low, digits)}, {format_fixed(cell.high, digits)}]"]
    else:
        spreads = [f"± {format_fixed(cell.sd, digits)}"] if math.isfinite(cell.sd) else []
        spreads += [f"({format_fixed(cell.error, digits)})"] if math.isfinite(cell.error) else []
    return f"{sign}{number}", " ".join(spreads)


# The best cells -------------------------------------------------------------------------------------------------------


def mark_best(cells: Sequence[Cell], compare: Comparison | None = None, *, tested: bool = True) -> list[Cell]:
    """Mark the best cells of a column, and how they were found.

    Cells of systems are compared by tests if there are any, else by intervals, else by the printed value. Means over
    seeds are never compared by the printed value, because they vary. A cell that cannot be tested is not separated
    from the best. Without tests, costs (values, or distances to the human value or target) that are printed alike are
    ties. With tests, the column gets as many decimals as it takes to print what they separate from the best
    differently. Nothing is marked in a column whose scoring model is out of its domain, nor is a lone value. If not
    `tested`, the best printed values are marked, as many tables of articles have them.
    """
    costs = rank_cells(cells)
    if len(costs) < 2 or is_out_of_domain(cells[0].signature):
        return [replace(cell, best=False, rule="", p=math.nan) for cell in cells]
    decimals = int(cells[0].decimals)
    best = next(iter(costs))
    texts = {
        at: format_fixed(cost, decimals if math.isnan(digits := cells[at].own_decimals) else int(digits))
        for at, cost in costs.items()
    }
    marked = {at for at in costs if texts[at] == texts[best]}
    others = [at for at in costs if at != best]
    tests: dict[BoldRule, dict[int, float]] = {}
    if tested:
        tests["tests"] = {at: compare(cells[at], cells[best]) for at in others} if compare is not None else {}
        tests["intervals"] = {at: _compare_intervals(cells[at], cells[best]) for at in others}
    corrected = {rule: correct_best_p_values(p_values, len(costs)) for rule, p_values in tests.items()}
    rule: BoldRule = next((rule for rule in tests if corrected[rule]), "printed")
    p_values = corrected.get(rule, {})
    if rule == "printed" and tested and any(cells[at].n > 1 for at in costs):
        rule, marked = "seeds", set()
    elif rule != "printed":
        alike, marked = marked, {at for at in costs if p_values.get(at, 1.0) >= LEVEL}
        gaps = [costs[at] - costs[best] for at in alike - marked]
        decimals = max([decimals, *(count_decimals(gap) for gap in gaps)])
    return [
        replace(cell, best=at in marked, rule=rule, p=p_values.get(at, math.nan), decimals=decimals)
        for at, cell in enumerate(cells)
    ]


def explain_bold(cell: Cell) -> str:
    """Say why a cell is bold, or which p-value separates it from the best; empty where nothing is compared."""
    p_value = f"p {format_p_equation(cell.p)} against the best" if math.isfinite(cell.p) else ""
    return "; ".join(filter(None, (BOLD[cell.rule] if cell.best else "no" if p_value else "", p_value)))


def rank_cells(cells: Sequence[Cell]) -> dict[int, float]:
    """Return the positions of the cells that may be best → their costs, best first."""
    costs = {at: compute_cost(cell, cell.value) for at, cell in enumerate(cells) if competes(cell)}
    return dict(sorted(((at, cost) for at, cost in costs.items() if math.isfinite(cost)), key=lambda item: item[1]))


def competes(cell: Cell) -> bool:
    """Return whether a value may be best: of a model that is no control, and ranked unless its note says why not."""
    source = cell.source
    is_control = source is not None and source.axes.get("model", "").startswith(CONTROLS)
    is_ranked = cell.is_ranked and (source is None or source.direction != "none")
    return cell.role == "model" and is_ranked and not is_control


def compute_cost(cell: Cell, value: float) -> float:
    """Return the cost of a value of a cell; lower is better, NaN if nothing is best."""
    if cell.direction in ("match_human", "target"):
        return abs(value - cell.aim)
    return float(-orient(value, cell.direction)) if cell.direction in ("higher", "lower") else math.nan


def _compare_intervals(cell: Cell, best: Cell) -> float:
    """Return the p-value of two equal costs from their intervals, as if the two were independent; NaN without both.

    The error of the human value cancels between values on one side of it, and counts twice between its two sides.
    """
    spans, reach = [], 0.0
    center = best.aim if best.direction in ("match_human", "target") else math.nan
    if best.direction == "match_human" and (cell.value - center) * (best.value - center) < 0:
        human = best.human
        reach = max(human.reach) if human is not None and human.interval is not None else math.nan
    for side in (cell, best):
        ends = side.interval
        if ends is None:  # that of the printed value, which a distance has not
            ends = side.source.interval if side.source is not None and not side.gap else None
        if ends is None:
            return math.nan
        low, high = sorted(compute_cost(side, end) for end in ends)
        spans.append((0.0 if ends[0] <= center <= ends[1] else low, high))
    cost, lowest = (compute_cost(side, side.value) for side in (cell, best))
    return compute_margin_p_value(cost - lowest, math.hypot(cost - spans[0][0], spans[1][1] - lowest, 2 * reach))
