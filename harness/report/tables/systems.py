"""Tables of systems × metrics, built from aggregated values."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence

from openended.harness.core import DataError, SpecError, compare_signatures, load_members, parse_signature
from openended.harness.report.analysis.intervals import choose_interval
from openended.harness.report.analysis.paired import compute_equality_p_value
from openended.harness.report.tables.best_cells import mark_best_cells
from openended.harness.report.tables.caveats import describe_resolution, list_run_notes, list_warnings
from openended.harness.report.tables.selection import (
    TablePart,
    check_signatures,
    select_minority,
    select_pairs,
    split_results,
)
from openended.harness.report.tables.table import (
    RULE,
    Cell,
    Column,
    Table,
    TableRow,
    choose_column_decimals,
    format_fixed,
)
from openended.harness.results import (
    Layout,
    Pair,
    Results,
    SystemValue,
    add_options,
    describe_differences,
    describes_human_side,
    find_differing_fields,
    find_differing_options,
    find_distinguishing_axes,
    find_human_value,
    find_varying_axes,
    format_option,
    format_options,
    get_parent_axis,
    has_same_data,
    label_systems,
    make_natural_sort_key,
    sort_values,
)

NO_HUMAN = "No human value was measured."
NOT_HUMAN = {
    "two_sample": "Compares a system with the human text, so the human text itself has no value.",
    "teacher_forced": "Uses the decoder's distribution on human text, so the human text itself has no value.",
}
NOT_MEASURED = "Not measured for this system."
NO_VARIATION = "No variation seen: all replicates of this value are equal, so there is no interval."
NOT_COMPARABLE = "not comparable"
CEILING = "Human ceiling: two disjoint sets of human text against each other"
UNSHARED = "The two human sets have different prompts, so a system can score above this ceiling."

RowKey = tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class _Pivot:
    """What the columns of one table share: its values, and the axes and keys of its rows."""

    results: Results
    layout: Layout
    part: TablePart
    models: list[SystemValue]
    """The systems' values that the table shows."""
    row_axes: list[str]
    rows: dict[RowKey, list[SystemValue]]
    """Row → its values, in the order of the table."""

    def get_row(self, item: SystemValue) -> RowKey:
        return tuple(item.axes.get(a, "") for a in self.row_axes)


def build_value_tables(results: Results, layout: Layout, name: str) -> list[Table]:
    """Build the tables of a layout of kind `values`, one per value of the axes in `split`."""
    return [_build_table(results, layout, part) for part in split_results(results, layout, name)]


def _build_table(results: Results, layout: Layout, part: TablePart) -> Table:
    pairs = select_pairs(part.items, layout)
    if not pairs:
        requested = ", ".join(layout.metrics) or "any metric"
        raise DataError(f"table {part.stem}: none of the runs measured {requested}")
    models = [i for i in part.items if i.system == "model" and i.pair in pairs]
    names = list(models[0].axes)
    outer = {*add_options(layout.columns, names), *part.where}  # shown by the titles of columns and table
    varying = [a for a in find_varying_axes(models) if a not in outer]
    # Decoder options are included because beam search with another option is another row.
    row_axes = add_options(layout.rows or [a for a in names if not get_parent_axis(a)], names)
    pivot = _Pivot(results, layout, part, models, [a for a in row_axes if a not in outer], {})
    first_axes = [a for a in (layout.rows or ("model", "decoder")) if a not in layout.columns]
    for item in sort_values(models, [*first_axes, *varying, *names]):
        pivot.rows.setdefault(pivot.get_row(item), []).append(item)
    built = [
        _build_column(pivot, pair, where, options, candidates)
        for pair in pairs
        for where in _list_column_axes(models, layout)
        for options, candidates in _iterate_variants(pair, part.items, layout)
    ]
    labels = dict(zip(pivot.rows, label_systems([row[0] for row in pivot.rows.values()], outer), strict=True))
    columns = [(column, signatures) for column, _, signatures in built]
    top = _build_human_rows(pivot, columns, outer, varying) if layout.human else []
    rows = [
        TableRow(labels[key], "model", tuple(cells[at] for _, cells, _ in built), max(i.seeds for i in pivot.rows[key]))
        for at, key in enumerate(pivot.rows)
    ]
    rows[0] = dataclasses.replace(rows[0], rule=bool(top))
    counts = " or ".join(map(str, sorted({i.seeds for i in models if i.seeds > 1})))
    title = ", ".join([f"{layout.title}{part.tasks}", *(f"{a}={v}" for a, v in part.where.items() if a != "task")])

    def label(item: SystemValue) -> str:
        return labels[pivot.get_row(item)]

    return Table(
        part.stem, title, tuple(column for column, _ in columns), (*top, *rows), about=part.about,
        remarks=(*describe_resolution(models, results), *list_run_notes(models, results, label)),
        warnings=list_warnings(models, part.items, label),
        rules=(*([f"Mean over {counts} seeds, as the column says."] if counts else []), RULE),
    )  # fmt: skip


def _list_column_axes(models: Sequence[SystemValue], layout: Layout) -> list[dict[str, str]]:
    """Return the values of the axes that get separate columns, with the options that distinguish columns."""
    names = add_options(layout.columns, models[0].axes)
    rows = list({tuple(i.axes.get(n, "") for n in names): i.axes for i in models}.values())
    differ = find_distinguishing_axes(rows, names)
    axes = [n for n in names if n in layout.columns or n in differ]
    combinations = sorted({tuple(i.axes.get(a, "") for a in axes) for i in models})
    return [dict(zip(axes, values, strict=True)) for values in combinations]


def _iterate_variants(
    pair: Pair, items: Sequence[SystemValue], layout: Layout
) -> Iterator[tuple[str, list[SystemValue]]]:
    """Yield (distinguishing options, values) per signature; a single group if signatures must not differ."""
    values = [i for i in items if i.pair == pair]
    if layout.differing != "columns":
        yield "", values
        return
    options = find_differing_options([i for i in values if i.system == "model"], ignored=())
    names = {signature: format_options(pair[0], differ) for signature, differ in options.items()}
    for signature in sorted(names, key=lambda s: make_natural_sort_key(names[s])):
        # With several samples per prompt, systems have more texts than people.
        humans = [i for i in values if i.system == "human" and compare_signatures(i.signature, signature) == ["n"]]
        others = [i for i in values if i.signature == signature or i.system == "ceiling"]
        yield names[signature], [*others, *humans]


def _build_column(
    pivot: _Pivot, pair: Pair, where: Mapping[str, str], options: str, candidates: Sequence[SystemValue]
) -> tuple[Column, list[Cell], set[str]]:
    """Build a column with one cell per row, the best ones marked; also return the signatures of its systems."""
    layout, results, items = pivot.layout, pivot.results, pivot.part.items
    here = [i for i in candidates if i.system != "model" or all(i.axes.get(a, "") == v for a, v in where.items())]
    models, humans = ([i for i in here if i.system == system] for system in ("model", "human"))
    minority = select_minority(models) if layout.differing == "mark" and models else []
    signatures = {i.signature for i in minority}
    column_items = [i for i in models if i.signature not in signatures]
    if layout.differing != "mark":
        check_signatures(pair[0], column_items, pivot.part.stem, layout.allow)
    first = (column_items or here or candidates)[0]
    gap = layout.gaps and first.direction == "match_human"
    reasons = {pivot.get_row(i): i.reason for i in items if i.system == "model" and i.metric == pair[0] and i.reason}
    # The reason for a missing metric is shown in the cells of all its values.
    cells = {key: Cell(note=f"{pair[0]}: {reasons[key]}" if key in reasons else NOT_MEASURED) for key in pivot.rows}
    cells |= {pivot.get_row(i): mark_incomparable(i, first) for i in minority}
    filled: dict[RowKey, SystemValue] = {}
    for item in column_items:
        other = filled.setdefault(key := pivot.get_row(item), item)
        if other is not item:
            raise SpecError(_describe_crowded_cell(pivot, [other, item]))
        cells[key] = _build_cell(pivot, item, humans, gap=gap)
    digits = choose_column_decimals([*cells.values(), *(Cell(h.mean) for h in humans if not gap)])
    labels = [v if a in layout.columns else format_option(a, v) for a, v in where.items()]
    title = " ".join([f"|Δ {first.title}|" if gap else first.title, *(f"({v})" for v in (*labels, options) if v)])
    column = Column(
        *pair, title, "lower" if gap else first.direction, digits, first.signature, gap, first.target,
        interval=any(cell.interval for cell in cells.values()),
    )  # fmt: skip

    def compute_p_value(cell: Cell, best: Cell) -> float:
        if cell.source is None or best.source is None:
            return math.nan
        return compute_equality_p_value(results, items, cell.source, best.source)

    return *mark_best_cells(column, list(cells.values()), compute_p_value), {i.signature for i in column_items}


def _build_cell(pivot: _Pivot, item: SystemValue, humans: Sequence[SystemValue], *, gap: bool) -> Cell:
    """Build the cell of a value, or of its distance to the human value."""
    if not math.isfinite(item.mean):
        return Cell(note=f"{item.metric}: {item.reason}", source=item)
    human = find_human_value([h for h in humans if math.isfinite(h.mean)], item)
    target = human.mean if human is not None else math.nan
    if gap and human is None:
        return Cell(note=f"{item.metric}: {NO_HUMAN}")
    results = pivot.results if pivot.layout.intervals else None
    interval = None if gap else choose_interval(item, pivot.part.items, results)
    varies = interval is None or interval[0] < interval[1]
    return Cell(
        abs(item.mean - target) if gap else item.mean, item.sd, item.seeds, item.error,
        note="" if varies else NO_VARIATION, interval=interval if varies else None, source=item, human=target,
    )  # fmt: skip


def mark_incomparable(item: SystemValue, column: SystemValue) -> Cell:
    """Return a cell that says "not comparable" and in which fields its signature differs from the column's."""
    fields, usual = parse_signature(item.signature), parse_signature(column.signature)
    names = compare_signatures(item.signature, column.signature)
    differ = "; ".join(f"{name} ({fields.get(name)}, the column has {usual.get(name)})" for name in names)
    return Cell(words=NOT_COMPARABLE, note=f"Not comparable: its signature differs in {differ}.", source=item)


def _describe_crowded_cell(pivot: _Pivot, items: Sequence[SystemValue]) -> str:
    """Return the error message for two values in one cell."""
    axes = find_differing_fields([i.axes for i in items])
    if not axes:
        first, second = (parse_signature(i.signature) for i in items[:2])
        differ = describe_differences(first, second)
        return f"table {pivot.part.stem}: {items[0].metric} has several values of one system, which differ in {differ}"
    rows = ", ".join(a for a in pivot.row_axes if not get_parent_axis(a))
    differ = "; ".join(f"{a} ({' and '.join(i.axes.get(a) or 'none' for i in items[:2])})" for a in axes[:3])
    return (
        f"table {pivot.part.stem}: the rows ({rows}) put two systems into one cell; they differ in {differ}; "
        "name more axes in `rows`"
    )


# The human row --------------------------------------------------------------------------------------------------------


def _build_human_rows(
    pivot: _Pivot, columns: Sequence[tuple[Column, set[str]]], outer: set[str], varying: Sequence[str]
) -> list[TableRow]:
    """Build a row per set of human texts; sets with equal values share a row. Distances have no human row."""
    models = pivot.models
    aside = add_options(pivot.layout.columns, models[0].axes)
    axes = [a for a in models[0].axes if describes_human_side(a) and a not in aside]
    pairs = {i.pair for i in models}
    humans = [i for i in pivot.part.items if i.system != "model" and i.pair in pairs]
    groups: dict[tuple[str, ...], list[SystemValue]] = {}
    for item in sort_values(humans if not pivot.layout.gaps else [], (*varying, *axes)):
        groups.setdefault(tuple(item.axes.get(a, "") for a in axes), []).append(item)
    rows: dict[tuple[Cell, ...], SystemValue] = {}
    for items in groups.values():
        same = [m for m in models if has_same_data(items[0], m)] or models
        rows.setdefault(tuple(_build_human_cell(items, *column, same) for column in columns), items[0])
    labels = label_systems(list(rows.values()), outer) if len(rows) > 1 else ["human"]
    return [TableRow(label, "human", cells) for cells, label in zip(rows, labels, strict=False)]


def _build_human_cell(
    items: Sequence[SystemValue], column: Column, signatures: set[str], models: Sequence[SystemValue]
) -> Cell:
    """Build the cell of a human value or ceiling; the number of texts may differ from that of the systems."""

    def fits(item: SystemValue) -> bool:
        return any(compare_signatures(item.signature, s) in ([], ["n"]) for s in signatures)

    values = [i for i in items if i.pair == (column.metric, column.key)]
    for item in sorted(values, key=lambda i: (i.system != "human", i.signature != column.signature)):
        if math.isfinite(item.mean) and fits(item):
            return Cell(item.mean, source=item) if item.system == "human" else build_ceiling_cell(item, column)
    family = next((i.family for i in models if i.metric == column.metric), "")
    return Cell(note=next((i.reason for i in values if i.reason), NOT_HUMAN.get(family, NO_HUMAN)))


def build_ceiling_cell(item: SystemValue, column: Column) -> Cell:
    """Build the cell of the human ceiling; its value moves to the note if its number of texts differs."""
    n, of = (parse_signature(s).get("n", "") for s in (item.signature, column.signature))
    if n != of and column.signature:
        value = format_fixed(item.mean, column.decimals)
        return Cell(note=f"No human ceiling with as many texts as the systems (n {of}). {CEILING}: {value} at n {n}.")
    task = load_members("task").get(item.axes.get("task", ""))
    prompts = f" {UNSHARED}" if getattr(task, "prompted", True) else ""
    note = f"{CEILING}{f' (n {n})' if n else ''}.{prompts}"
    return Cell(item.mean, metric_error=item.error, note=note, source=item)
