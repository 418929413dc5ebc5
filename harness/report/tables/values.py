"""Tables of systems × metrics, built from aggregated values."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from openended.harness import core, results as measured
from openended.harness.core import DataError, SpecError, compare_signatures, load_members, parse_signature
from openended.harness.report.analysis.paired import compute_equality_p_value, describe_estimates
from openended.harness.report.analysis.power import describe_resolution
from openended.harness.report.tables import selection, table as tables
from openended.harness.report.tables.selection import TablePart
from openended.harness.report.tables.table import Cell, Column, Table, choose_column_decimals, format_fixed
from openended.harness.results import Layout, Pair, Results, SystemValue, find_human_value, find_interval, group_by

NO_HUMAN = "No human value was measured."
NOT_HUMAN = {
    "two_sample": "Compares a system with the human text, so the human text itself has no value.",
    "teacher_forced": "Uses the decoder's distribution on human text, so the human text itself has no value.",
}
NOT_MEASURED = "Not measured for this system."
NO_VARIATION = "No variation seen: all replicates of this value are equal, so there is no interval."
NOT_COMPARABLE = "not comparable"
MAX_LISTED = 4  # systems that one line names
CEILING = "Human ceiling: two disjoint sets of human text against each other"
UNSHARED = "The two human sets have different prompts, so a system can score above this ceiling."

NO_INTERVAL = re.compile(r"no interval(?: of ([^:]*))?: (.*)")
RowKey = tuple[str, ...]
Label = Callable[[SystemValue], str]


def build_value_tables(part: TablePart, layout: Layout) -> list[Table]:
    """Build the table of systems × values of a part."""
    return [_Pivot(part, layout).build()]


class _Pivot:
    """One table: its values, and the axes and keys of its rows, which all columns share."""

    def __init__(self, part: TablePart, layout: Layout) -> None:
        self.part, self.layout = part, layout
        self.pairs = selection.select_pairs(part.items, layout)
        if not self.pairs:
            keys = sorted({".".join(item.pair) for item in part.items})
            requested = ", ".join(layout.metrics) or "any metric"
            raise DataError(f"table {part.stem}: none of the runs measured {requested}{core.suggest(requested, keys)}")
        self.models = [i for i in part.items if i.system == "model" and i.pair in self.pairs]
        self.names = list(self.models[0].axes)
        self.column_axes = measured.add_options(layout.columns, self.names)
        self.outer = {*self.column_axes, *part.where}  # shown by the titles of columns and table
        self.varying = [a for a in measured.find_varying_axes(self.models) if a not in self.outer]
        # Decoder options are included because beam search with another option is another row.
        row_axes = layout.rows or [a for a in self.names if not measured.get_parent_axis(a)]
        self.row_axes = [a for a in measured.add_options(row_axes, self.names) if a not in self.outer]
        first_axes = [a for a in (layout.rows or ("model", "decoder")) if a not in layout.columns]
        ordered = measured.sort_values(self.models, [*first_axes, *self.varying, *self.names])

        def rank_by_names(item: SystemValue) -> list[int]:
            """Rank by the order of the names in the layout; values without a name come last."""
            named = [(list(names), item.axes.get(axis, "")) for axis, names in layout.names.items()]
            return [names.index(value) if value in names else len(names) for names, value in named]

        self.rows: dict[RowKey, list[SystemValue]] = group_by(sorted(ordered, key=rank_by_names), self.get_row)

    def get_row(self, item: SystemValue) -> RowKey:
        return tuple(item.axes.get(a, "") for a in self.row_axes)

    def build(self) -> Table:
        layout, part, models, results = self.layout, self.part, self.models, self.part.results
        distinct = {tuple(i.axes[n] for n in self.column_axes): i.axes for i in models}
        differ = measured.find_distinguishing_axes(list(distinct.values()), self.column_axes)
        column_axes = [n for n in self.column_axes if n in layout.columns or n in differ]
        built = [
            self.build_column(pair, dict(zip(column_axes, where, strict=True)), options, candidates)
            for pair in self.pairs
            for where in sorted({tuple(i.axes[a] for a in column_axes) for i in models})
            for options, candidates in self.iterate_variants(pair)
        ]
        labels, groups = self.label_rows()
        humans = self.build_human_rows([(column, signatures) for column, _, signatures in built])
        cells = [cells for _, cells, _ in built]
        rows = [  # label, kind, number of seeds, cells and section
            (labels[key], "model", max(i.seeds for i in items), tuple(column[at] for column in cells), groups[at])
            for at, (key, items) in enumerate(self.rows.items())
        ]
        top = [(label, "human", 0, row_cells, "human") for label, row_cells in humans]
        labeled, kinds, seeds, row_cells, sections = zip(
            *(rows + top if layout.human_last else top + rows), strict=True
        )
        counts = " or ".join(map(str, sorted({i.seeds for i in models if i.seeds > 1})))

        def compare(cell: Cell, best: Cell) -> float:
            if cell.source is None or best.source is None:
                return math.nan
            return compute_equality_p_value(results, part.items, cell.source, best.source)

        def label(item: SystemValue) -> str:
            return labels[self.get_row(item)]

        table = Table.build(
            part.stem,
            ", ".join([f"{layout.title}{part.tasks}", *(f"{a}={v}" for a, v in part.where.items() if a != "task")]),
            labeled, zip([column for column, *_ in built], zip(*row_cells, strict=True), strict=True),
            kinds=kinds, seeds=seeds, sections=sections, ranked=True, compare=compare,
            warnings=(
                *list_warnings(models, part.items, label, intervals=layout.intervals), *self.list_unknown_keys()
            ),
        )  # fmt: skip
        tested = {(column.metric, column.key) for column in table.columns if column.bold == "tests"}
        estimates, signatures = describe_estimates(results, (item for item in models if item.pair in tested))
        remarks = (
            *describe_coverage(table.columns), *estimates, *describe_resolution(models, results),
            *list_run_notes(models, results, label),
        )  # fmt: skip
        means = [f"Mean over {counts} seeds, as the column says."] if counts else []
        return replace(table, remarks=remarks, rules=(*means, tables.RULE, *signatures))

    def list_unknown_keys(self) -> list[str]:
        """Name the values that the layout requests of a measured metric and that neither it nor its class has."""
        titles = {name: getattr(cls, "titles", {}) for name, cls in load_members("metric").items()}
        keys = {
            metric: sorted({*titles.get(metric, {}), *(i.key for i in self.models if i.metric == metric)})
            for metric, _ in self.pairs
        }
        requested = [pattern.partition(".") for pattern in self.layout.metrics]
        return [
            f"{metric} has no value {key!r}{core.suggest(key, keys[metric])}"
            for metric, _, key in requested
            if metric in keys and key not in ("", "*", *keys[metric])
        ]

    def label_rows(self) -> tuple[dict[RowKey, str], list[str]]:
        """Return the labels of the rows, and the outermost of several named axes, whose groups lines separate."""
        firsts = [items[0] for items in self.rows.values()]
        several = [axis for axis in self.layout.names if len({first.axes.get(axis) for first in firsts}) > 1]
        texts = []
        for axes in (first.axes for first in firsts):
            options = {a.removeprefix("decoder."): value for a, value in axes.items() if a.startswith("decoder.")}
            named = [(axes.get(axis, ""), self.layout.names[axis]) for axis in several or self.layout.names]
            texts.append(" ".join(names.get(value, value).format_map(options) for value, names in named if value))
        if "" in texts or len(set(texts)) < len(texts):
            texts = measured.label_systems(firsts, self.outer)
        groups = [first.axes.get(several[0], "") if len(several) > 1 else "" for first in firsts]
        return dict(zip(self.rows, texts, strict=True)), groups

    def iterate_variants(self, pair: Pair) -> Iterator[tuple[str, list[SystemValue]]]:
        """Yield (distinguishing options, values) per signature; a single group if signatures must not differ."""
        values = [i for i in self.part.items if i.pair == pair]
        if self.layout.differing != "columns":
            yield "", values
            return
        options = measured.find_differing_options([i for i in values if i.system == "model"], ignored=())
        names = {signature: measured.format_options(pair[0], differ) for signature, differ in options.items()}
        for signature in sorted(names, key=lambda s: measured.make_natural_sort_key(names[s])):
            # With several samples per prompt, systems have more texts than people.
            humans = [i for i in values if i.system == "human" and compare_signatures(i.signature, signature) == ["n"]]
            others = [i for i in values if i.signature == signature or i.system == "ceiling"]
            yield names[signature], [*others, *humans]

    def build_column(
        self, pair: Pair, where: Mapping[str, str], options: str, candidates: Sequence[SystemValue]
    ) -> tuple[Column, list[Cell], set[str]]:
        """Build a column with one cell per row; also return the signatures of its systems."""
        layout, results = self.layout, self.part.results
        here = [i for i in candidates if i.system != "model" or all(i.axes[a] == v for a, v in where.items())]
        models, references = [i for i in here if i.system == "model"], [i for i in here if i.system != "model"]
        minority = selection.select_minority(models) if layout.differing == "mark" else []
        signatures = {i.signature for i in models} - {i.signature for i in minority}
        models = [i for i in models if i.signature in signatures]
        if layout.differing != "mark":
            selection.check_signatures(results, models, self.part.stem, layout.allow)
        first = ([i for i in models if i.direction != "none"] or models or here or candidates)[0]
        gap = layout.gaps and first.direction == "match_human"
        models_of_part = (i for i in self.part.items if i.system == "model" and i.metric == pair[0])
        missing = {self.get_row(i): i.reason for i in models_of_part if i.reason}
        # The reason for a missing metric is shown in the cells of all its values.
        cells = {key: Cell(note=f"{pair[0]}: {missing[key]}" if key in missing else NOT_MEASURED) for key in self.rows}
        cells |= {self.get_row(i): mark_incomparable(i, first) for i in minority}
        filled: dict[RowKey, SystemValue] = {}
        for item in models:
            other = filled.setdefault(key := self.get_row(item), item)
            if other is not item:
                raise self.describe_crowd(other, item)
            cells[key] = self.build_cell(item, references, gap=gap)
        humans = [Cell(i.mean) for i in references if i.system == "human" and not gap]
        labels = [v if a in layout.columns else measured.format_option(a, v) for a, v in where.items()]
        title = " ".join([f"|Δ {first.title}|" if gap else first.title, *(f"({v})" for v in (*labels, options) if v)])
        column = Column(
            *pair, title, "lower" if gap else first.direction, choose_column_decimals([*cells.values(), *humans]),
            first.signature, gap, first.target, interval=any(cell.interval for cell in cells.values()),
        )  # fmt: skip
        return column, list(cells.values()), signatures

    def build_cell(self, item: SystemValue, humans: Sequence[SystemValue], *, gap: bool) -> Cell:
        """Build the cell of a value, or of its distance to the human value."""
        if not math.isfinite(item.mean):
            return Cell(note=f"{item.metric}: {item.reason}", source=item)
        human = find_human_value([h for h in humans if math.isfinite(h.mean)], item)
        if gap and human is None:
            return Cell(note=f"{item.metric}: {NO_HUMAN}")
        interval = None if gap else find_metric_interval(item, self.part.items)
        if interval is None and not gap and self.layout.intervals and (over := find_interval(self.part.results, item)):
            interval = over.low, over.high
        varies = interval is None or interval[0] < interval[1]
        return Cell(
            abs(item.mean - human.mean) if gap and human is not None else item.mean, item.sd, item.seeds,
            item.metric_error, note="" if varies else NO_VARIATION, interval=interval if varies else None,
            source=item, human=human,
        )  # fmt: skip

    def describe_crowd(self, first: SystemValue, second: SystemValue) -> SpecError:
        """Return the error for two values in one cell."""
        table, axes = f"table {self.part.stem}", measured.find_differing_fields([first.axes, second.axes])
        if not axes:
            differ = measured.describe_differences(parse_signature(first.signature), parse_signature(second.signature))
            return SpecError(f"{table}: {first.metric} has several values of one system, which differ in {differ}")
        rows = ", ".join(a for a in self.row_axes if not measured.get_parent_axis(a))
        differ = "; ".join(f"{a} ({first.axes.get(a) or 'none'} and {second.axes.get(a) or 'none'})" for a in axes[:3])
        why = f"the rows ({rows}) put two systems into one cell; they differ in {differ}"
        return SpecError(f"{table}: {why}; name more axes in `rows`")

    def build_human_rows(self, columns: Sequence[tuple[Column, set[str]]]) -> list[tuple[str, tuple[Cell, ...]]]:
        """Return label and cells for each set of human texts; sets with equal values share a row."""
        if self.layout.gaps or not self.layout.human:
            return []
        axes = [a for a in self.names if measured.describes_human_side(a) and a not in self.column_axes]
        humans = [i for i in self.part.items if i.system != "model" and i.pair in self.pairs]
        sorted_humans = measured.sort_values(humans, (*self.varying, *axes))
        rows: dict[tuple[Cell, ...], SystemValue] = {}
        for items in group_by(sorted_humans, lambda item: tuple(item.axes[a] for a in axes)).values():
            same = [m for m in self.models if measured.has_same_data(items[0], m)] or self.models
            rows.setdefault(tuple(_build_human_cell(items, *column, same) for column in columns), items[0])
        labels = measured.label_systems(list(rows.values()), self.outer) if len(rows) > 1 else ["human"]
        return list(zip(labels, rows, strict=False))


def _build_human_cell(
    items: Sequence[SystemValue], column: Column, signatures: set[str], models: Sequence[SystemValue]
) -> Cell:
    """Build the cell of a human value or ceiling; the number of texts may differ from that of the systems."""
    values = [i for i in items if i.pair == (column.metric, column.key)]
    for item in sorted(values, key=lambda i: (i.system != "human", i.signature != column.signature)):
        fits = any(compare_signatures(item.signature, s) in ([], ["n"]) for s in signatures)
        if math.isfinite(item.mean) and fits:
            return Cell(item.mean, source=item) if item.system == "human" else build_ceiling_cell(item, column)
    family = next((i.family for i in models if i.metric == column.metric), "")
    return Cell(note=next((i.reason for i in values if i.reason), NOT_HUMAN.get(family, NO_HUMAN)))


def build_ceiling_cell(item: SystemValue, column: Column) -> Cell:
    """Build the cell of the human ceiling; its value moves to the note if its number of texts differs."""
    n, n_systems = (parse_signature(s).get("n", "") for s in (item.signature, column.signature))
    if n != n_systems and column.signature:
        value = format_fixed(item.mean, column.decimals or 0)
        missing = f"No human ceiling with as many texts as the systems (n {n_systems})."
        return Cell(note=f"{missing} {CEILING}: {value} at n {n}.")
    task = load_members("task").get(item.axes.get("task", ""))
    prompts = f" {UNSHARED}" if getattr(task, "prompted", True) else ""
    note = f"{CEILING}{f' (n {n})' if n else ''}.{prompts}"
    return Cell(item.mean, metric_error=item.metric_error, note=note, source=item)


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


# Warnings and remarks -------------------------------------------------------------------------------------------------


def list_warnings(
    models: Sequence[SystemValue], items: Sequence[SystemValue], label: Label, *, intervals: bool = False
) -> tuple[str, ...]:
    """Return the caveats about values, and remarks on human values of another number of texts than the systems'.

    Missing intervals are named if intervals are printed. One line tells a caveat of all metrics and systems.
    """
    kinds: dict[str, dict[str, set[str]]] = {}  # caveat → metric or title of a value → systems
    for item in (i for i in models if i.note and math.isfinite(i.mean)):
        others = []
        for part in item.note.split("; "):
            missing = NO_INTERVAL.fullmatch(part)
            if missing is None:
                others.append(part)
            elif intervals and (missing[1] is None or item.key in missing[1].split(", ")):
                kinds.setdefault(f"no interval: {missing[2]}", {}).setdefault(item.title, set()).add(label(item))
        if others:
            kinds.setdefault("; ".join(others), {}).setdefault(item.metric, set()).add(label(item))
    notes = {f"{', '.join(names)}: {caveat}": set().union(*names.values()) for caveat, names in kinds.items()}
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
    line = f"Coverage of 95 % intervals of 100 real texts, as measured, where it is far from 95 %: {listed}."
    return (line,) if listed else ()


def list_run_notes(models: Sequence[SystemValue], results: Results, label: Label) -> tuple[str, ...]:
    """Return the notes of the runs behind a table, without the warning that its marked headings repeat."""
    notes: dict[str, set[str]] = {}
    for item in models:
        for note in (n for at, _ in item.sources for n in results.runs[at].notes):
            # Notes of naive systems begin with their name, which the list of systems says.
            notes.setdefault(note.removeprefix(f"{item.axes.get('model')}: "), set()).add(label(item))
    fields = dict.fromkeys(field for item in models for field in parse_signature(item.signature).items())
    for role, model in fields:
        if core.OUT_OF_DOMAIN in model:
            notes.pop(core.describe_out_of_domain(role, model.partition("@")[0]), None)
    return tuple(_join_notes(notes, {label(i) for i in models}))


def _join_notes(notes: Mapping[str, set[str]], systems: set[str]) -> list[str]:
    """Return one line per note, with the systems that it is about unless it is about all of them."""
    lines = []
    for note, names in sorted(notes.items()):
        ordered = sorted(names, key=measured.make_natural_sort_key)
        more = f" and {len(ordered) - MAX_LISTED} more" if len(ordered) > MAX_LISTED else ""
        lines.append(note if names == systems else f"{note} ({', '.join(ordered[:MAX_LISTED])}{more})")
    return lines
