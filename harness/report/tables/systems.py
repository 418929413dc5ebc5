"""Tables of systems × metrics, built from aggregated values."""

from __future__ import annotations

import dataclasses
import math
import re
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from openended.harness.core import (
    OUT_OF_DOMAIN,
    DataError,
    SpecError,
    compare_signatures,
    describe_out_of_domain,
    load_members,
    parse_signature,
    suggest,
)  # fmt: skip
from openended.harness.report.analysis.paired import compute_equality_p_value
from openended.harness.report.tables.best_cells import mark_best_cells
from openended.harness.report.tables.selection import (
    TablePart,
    check_signatures,
    select_minority,
    select_pairs,
    split_results,
)  # fmt: skip
from openended.harness.report.tables.table import (
    RULE,
    Cell,
    Column,
    Table,
    TableRow,
    choose_column_decimals,
    format_fixed,
)  # fmt: skip
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
    find_interval,
    find_varying_axes,
    format_option,
    format_options,
    get_parent_axis,
    group_by,
    has_same_data,
    label_systems,
    make_natural_sort_key,
    sort_values,
)  # fmt: skip

NO_HUMAN = "No human value was measured."
NOT_HUMAN = {
    "two_sample": "Compares a system with the human text, so the human text itself has no value.",
    "teacher_forced": "Uses the decoder's distribution on human text, so the human text itself has no value.",
}
NOT_MEASURED = "Not measured for this system."
NO_VARIATION = "No variation seen: all replicates of this value are equal, so there is no interval."
NOT_COMPARABLE = "not comparable"
MAX_LISTED = 4  # systems that one line names
RESOLVED = 1.96 * math.sqrt(2)  # standard errors between two independent values that differ at 5 %
CEILING = "Human ceiling: two disjoint sets of human text against each other"
UNSHARED = "The two human sets have different prompts, so a system can score above this ceiling."

NO_INTERVAL = re.compile(r"no interval(?: of ([^:]*))?: (.*)")
RowKey = tuple[str, ...]
Label = Callable[[SystemValue], str]


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
    measured = {item.metric for item in part.items}
    if layout.needs and not measured & set(layout.needs):
        raise DataError(
            f"layout {part.stem}: none of the runs measured {' or '.join(layout.needs)}; measured: "
            f"{', '.join(sorted(measured))}; another layout shows them"
        )
    if not pairs:
        requested = ", ".join(layout.metrics) or "any metric"
        hint = suggest(requested.partition(",")[0], measured)
        raise DataError(f"table {part.stem}: none of the runs measured {requested}{hint}")
    models = [i for i in part.items if i.system == "model" and i.pair in pairs]
    names = list(models[0].axes)
    outer = {*add_options(layout.columns, names), *part.where}  # shown by the titles of columns and table
    varying = [a for a in find_varying_axes(models) if a not in outer]
    # Decoder options are included because beam search with another option is another row.
    row_axes = add_options(layout.rows or [a for a in names if not get_parent_axis(a)], names)
    first_axes = [a for a in (layout.rows or ("model", "decoder")) if a not in layout.columns]
    pivot = _Pivot(results, layout, part, models, [a for a in row_axes if a not in outer], {})
    ordered = sorted(sort_values(models, [*first_axes, *varying, *names]), key=lambda i: _rank_by_names(i, layout))
    pivot.rows.update(group_by(ordered, pivot.get_row))
    column_axes = add_options(layout.columns, names)
    distinct = {tuple(i.axes.get(n, "") for n in column_axes): i.axes for i in models}
    differ = find_distinguishing_axes(list(distinct.values()), column_axes)
    column_axes = [n for n in column_axes if n in layout.columns or n in differ]
    wheres = sorted({tuple(i.axes.get(a, "") for a in column_axes) for i in models})
    combinations = [dict(zip(column_axes, values, strict=True)) for values in wheres]
    built = [
        _build_column(pivot, pair, where, options, candidates)
        for pair in pairs
        for where in combinations
        for options, candidates in _iterate_variants(pair, part.items, layout)
    ]
    firsts = [row[0] for row in pivot.rows.values()]
    named = [axis for axis in layout.names if len({first.axes.get(axis) for first in firsts}) > 1]
    texts = [_name_row(first, {axis: layout.names[axis] for axis in named or layout.names}) for first in firsts]
    texts = label_systems(firsts, outer) if "" in texts or len(set(texts)) < len(texts) else texts
    labels = dict(zip(pivot.rows, texts, strict=True))
    columns = [(column, signatures) for column, _, signatures in built]
    top = _build_human_rows(pivot, columns, outer, varying) if layout.human else []
    rows = [
        TableRow(labels[key], "model", tuple(cells[at] for _, cells, _ in built), max(i.seeds for i in pivot.rows[key]))
        for at, key in enumerate(pivot.rows)
    ]
    rows[0] = dataclasses.replace(rows[0], rule=bool(top) and not layout.human_last)
    if len(named) > 1:  # a line between the groups of the outer axis
        groups = [first.axes.get(named[0], "") for first in firsts]
        rows[1:] = [
            dataclasses.replace(row, rule=before != group)
            for row, before, group in zip(rows[1:], groups, groups[1:], strict=False)
        ]
    rows = [*rows, *(dataclasses.replace(row, rule=True) for row in top)] if layout.human_last else [*top, *rows]
    counts = " or ".join(map(str, sorted({i.seeds for i in models if i.seeds > 1})))
    title = ", ".join([f"{layout.title}{part.tasks}", *(f"{a}={v}" for a, v in part.where.items() if a != "task")])

    def label(item: SystemValue) -> str:
        return labels[pivot.get_row(item)]

    return Table(
        part.stem, title, tuple(column for column, _ in columns), tuple(rows), about=part.about,
        remarks=(
            *describe_coverage(column for column, _ in columns), *describe_resolution(models, results),
            *list_run_notes(models, results, label),
        ),
        warnings=list_warnings(models, part.items, label, intervals=layout.intervals),
        rules=(*([f"Mean over {counts} seeds, as the column says."] if counts else []), RULE),
    )  # fmt: skip


def _rank_by_names(item: SystemValue, layout: Layout) -> tuple[int, ...]:
    """Return the rank of a row by the order of the names in the layout."""
    ranks = ({value: rank for rank, value in enumerate(names)} for names in layout.names.values())
    return tuple(rank.get(item.axes.get(axis, ""), len(rank)) for axis, rank in zip(layout.names, ranks, strict=True))


def _name_row(item: SystemValue, names: Mapping[str, Mapping[str, str]]) -> str:
    """Return the label of a row by the names of its axes; empty if there are none."""
    options = {axis.removeprefix("decoder."): value for axis, value in item.axes.items() if axis.startswith("decoder.")}
    values = [(item.axes.get(axis, ""), of_axis) for axis, of_axis in names.items()]
    return " ".join(of_axis.get(value, value).format_map(options) for value, of_axis in values if value)


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
    models, references = [i for i in here if i.system == "model"], [i for i in here if i.system != "model"]
    minority = select_minority(models) if layout.differing == "mark" and models else []
    signatures = {i.signature for i in minority}
    column_items = [i for i in models if i.signature not in signatures]
    if layout.differing != "mark":
        check_signatures(pair[0], column_items, pivot.part.stem, layout.allow)
    ranked = [i for i in column_items if i.direction != "none"]
    first = (ranked or column_items or here or candidates)[0]
    gap = layout.gaps and first.direction == "match_human"
    reasons = {pivot.get_row(i): i.reason for i in items if i.system == "model" and i.metric == pair[0] and i.reason}
    # The reason for a missing metric is shown in the cells of all its values.
    cells = {key: Cell(note=f"{pair[0]}: {reasons[key]}" if key in reasons else NOT_MEASURED) for key in pivot.rows}
    cells |= {pivot.get_row(i): mark_incomparable(i, first) for i in minority}
    filled: dict[RowKey, SystemValue] = {}
    for item in column_items:
        other = filled.setdefault(key := pivot.get_row(item), item)
        if other is not item:
            raise _crowd(pivot, other, item)
        cells[key] = _build_cell(pivot, item, references, gap=gap)
    humans = [Cell(i.mean) for i in references if i.system == "human" and not gap]
    digits = choose_column_decimals([*cells.values(), *humans])
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
    interval = None if gap else find_metric_interval(item, pivot.part.items)
    if interval is None and not gap and pivot.layout.intervals and (over := find_interval(pivot.results, item)):
        interval = over.low, over.high
    varies = interval is None or interval[0] < interval[1]
    return Cell(
        abs(item.mean - target) if gap else item.mean, item.sd, item.seeds, item.error,
        note="" if varies else NO_VARIATION, interval=interval if varies else None, source=item, human=target,
    )  # fmt: skip


def find_metric_interval(item: SystemValue, items: Iterable[SystemValue]) -> tuple[float, float] | None:
    """Return the interval that a metric reports (`huse_low`, `huse_high`), unless the value is a mean over seeds."""
    if item.seeds != 1:
        return None
    names, same = (f"{item.key}_low", f"{item.key}_high"), (item.system, item.metric, item.signature, item.axes)
    ends = {i.key: i.mean for i in items if i.key in names and (i.system, i.metric, i.signature, i.axes) == same}
    low, high = (ends.get(name, math.nan) for name in names)
    return (low, high) if math.isfinite(low) and math.isfinite(high) else None


def mark_incomparable(item: SystemValue, column: SystemValue) -> Cell:
    """Return a cell that says "not comparable" and in which fields its signature differs from the column's."""
    fields, usual = parse_signature(item.signature), parse_signature(column.signature)
    names = compare_signatures(item.signature, column.signature)
    differ = "; ".join(f"{name} ({fields.get(name)}, the column has {usual.get(name)})" for name in names)
    return Cell(words=NOT_COMPARABLE, note=f"Not comparable: its signature differs in {differ}.", source=item)


def _crowd(pivot: _Pivot, first: SystemValue, second: SystemValue) -> SpecError:
    """Return the error for two values in one cell."""
    stem, axes = pivot.part.stem, find_differing_fields([first.axes, second.axes])
    if not axes:
        differ = describe_differences(parse_signature(first.signature), parse_signature(second.signature))
        return SpecError(f"table {stem}: {first.metric} has several values of one system, which differ in {differ}")
    rows = ", ".join(a for a in pivot.row_axes if not get_parent_axis(a))
    differ = "; ".join(f"{a} ({first.axes.get(a) or 'none'} and {second.axes.get(a) or 'none'})" for a in axes[:3])
    why = f"the rows ({rows}) put two systems into one cell; they differ in {differ}"
    return SpecError(f"table {stem}: {why}; name more axes in `rows`")


# Warnings and remarks -------------------------------------------------------------------------------------------------


def list_warnings(
    models: Sequence[SystemValue], items: Sequence[SystemValue], label: Label, *, intervals: bool = False
) -> tuple[str, ...]:
    """Return the caveats about values, and remarks on human values of another number of texts than the systems'.

    Missing intervals are named if intervals are printed. One line tells a caveat of all metrics and systems.
    """
    kinds: dict[str, dict[str, set[str]]] = {}  # caveat → metric or title of a value → systems
    for item in (i for i in models if i.note and math.isfinite(i.mean)):
        parts = item.note.split("; ")
        missing = [match for part in parts if (match := NO_INTERVAL.fullmatch(part))]
        for keys, why in (match.groups() for match in missing if intervals):
            if keys is None or item.key in keys.split(", "):
                kinds.setdefault(f"no interval: {why}", {}).setdefault(item.title, set()).add(label(item))
        if rest := "; ".join(part for part in parts if not NO_INTERVAL.fullmatch(part)):
            kinds.setdefault(rest, {}).setdefault(item.metric, set()).add(label(item))
    notes = {f"{', '.join(of)}: {caveat}": set().union(*of.values()) for caveat, of in kinds.items()}
    pairs = [(find_human_value(items, m), m) for m in models if m.direction == "match_human"]
    counts = {tuple(parse_signature(i.signature).get("n", "") for i in (h, m)) for h, m in pairs if h is not None}
    return (
        *_join_notes(notes, {label(i) for i in models}),
        *(
            f"The human values are based on {human} texts, those of the systems on {model}. Values that depend "
            "on the number of texts (distinct n-grams, Self-BLEU, Zipf, …) are not comparable."
            for human, model in sorted(counts)
            if human != model
        ),
    )


def describe_coverage(columns: Iterable[Column]) -> tuple[str, ...]:
    """Return a line with the intervals shown that contain the true value less or more often than they say."""
    metrics = load_members("metric")
    shares = ((c.title, getattr(metrics.get(c.metric), "coverage", {}).get(c.key)) for c in columns if c.interval)
    listed = ", ".join(f"{title} {percent} %" for title, percent in shares if percent is not None)
    return (
        (f"Coverage of 95 % intervals, as measured on real text, where it is far from 95 %: {listed}.",)
        if listed
        else ()
    )


def describe_resolution(models: Sequence[SystemValue], results: Results) -> tuple[str, ...]:
    """Return a line with the smallest difference of two systems that these texts resolve, for every value.

    Two independent values differ at 5 % if they are 1.96 times the root of the sum of their squared errors apart; the
    error is the median of the systems' standard errors.
    """
    errors: dict[str, list[float]] = {}
    for item in models:
        interval = find_interval(results, item)
        if interval is not None and math.isfinite(interval.std_error) and interval.std_error > 0:
            errors.setdefault(item.title, []).append(interval.std_error)
    if not errors:
        return ()
    listed = ", ".join(f"{title} {RESOLVED * statistics.median(e):.2g}" for title, e in errors.items())
    return (f"Smallest difference of two systems that these texts resolve at 5 % without pairing: {listed}.",)


def list_run_notes(models: Sequence[SystemValue], results: Results, label: Label) -> tuple[str, ...]:
    """Return the notes of the runs behind a table, without the warning that its marked headings repeat."""
    notes: dict[str, set[str]] = {}
    repeated = set[str]()
    for item in models:
        fields = parse_signature(item.signature)
        repeated |= {describe_out_of_domain(k, v.partition("@")[0]) for k, v in fields.items() if OUT_OF_DOMAIN in v}
        for note in {n for at, _ in item.sources for n in results.runs[at].notes}:
            # Notes of naive systems begin with their name, which the list of systems says.
            notes.setdefault(note.removeprefix(f"{item.axes.get('model')}: "), set()).add(label(item))
    others = {note: systems for note, systems in notes.items() if note not in repeated}
    return tuple(_join_notes(others, {label(i) for i in models}))


def _join_notes(notes: Mapping[str, set[str]], systems: set[str]) -> list[str]:
    """Return one line per note, with the systems that it is about unless it is about all of them."""
    lines = []
    for note, names in sorted(notes.items()):
        ordered = sorted(names, key=make_natural_sort_key)
        more = f" and {len(ordered) - MAX_LISTED} more" if len(ordered) > MAX_LISTED else ""
        lines.append(note if names == systems else f"{note} ({', '.join(ordered[:MAX_LISTED])}{more})")
    return lines


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
    sorted_humans = sort_values(humans if not pivot.layout.gaps else [], (*varying, *axes))
    groups = group_by(sorted_humans, lambda item: tuple(item.axes.get(a, "") for a in axes))
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
