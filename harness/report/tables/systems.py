"""Tables of systems × metrics, built from aggregated values."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from openended.harness.core import DataError, SpecError, parse_signature
from openended.harness.report.analysis.intervals import choose_interval
from openended.harness.report.analysis.paired import compute_equality_p_value
from openended.harness.report.tables.best_cells import mark_best_cells
from openended.harness.report.tables.caveats import describe_resolution, list_run_notes, list_warnings
from openended.harness.report.tables.human import NOT_HUMAN, build_ceiling_cell
from openended.harness.report.tables.incomparable import mark_incomparable
from openended.harness.report.tables.numbers import RULE
from openended.harness.report.tables.run_summary import summarize_sources
from openended.harness.report.tables.selection import (
    name_files,
    select_comparable,
    select_pairs,
    split_axes,
    split_items,
)
from openended.harness.report.tables.table import Cell, Column, Table, TableRow, choose_column_decimals
from openended.harness.results import (
    Layout,
    Results,
    SystemValue,
    add_options,
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
    make_order_key,
)  # fmt: skip

NO_HUMAN = "No human value was measured."
NOT_MEASURED = "Not measured for this system."
NO_VARIATION = "No variation seen: all replicates of this value are equal, so there is no interval."

RowKey = tuple[tuple[str, str], ...]


def build_value_tables(results: Results, layout: Layout, name: str) -> list[Table]:
    """Build the tables of a layout of kind `values`, one per value of the axes in `split`."""
    items = results.values
    layout = dataclasses.replace(layout, split=split_axes(items, layout))
    parts = split_items(items, layout.split)
    return [
        dataclasses.replace(
            _ValueTable(part, layout, stem, split_values, results).build(), about=summarize_sources(part, results.runs)
        )
        for (split_values, part), stem in zip(parts.items(), name_files(name, list(parts)), strict=True)
    ]


@dataclass
class _ValueTable:
    """State shared by the steps that build one table."""

    items: Sequence[SystemValue]
    layout: Layout
    name: str
    parts: tuple[str, ...]
    results: Results
    axes: list[str] = field(default_factory=list)
    """Axes other than model and decoder that distinguish the rows."""
    columns: list[str] = field(default_factory=list)
    """Axes that get separate columns, with the options that distinguish columns."""
    reasons: dict[tuple[str, RowKey], str] = field(default_factory=dict)
    row_names: dict[RowKey, str] = field(default_factory=dict)
    signatures: dict[Column, set[tuple[tuple[str, str], ...]]] = field(default_factory=dict)
    """Column → signatures of its systems, without counts."""

    def build(self) -> Table:
        pairs = select_pairs(self.items, self.layout)
        if not pairs:
            requested = ", ".join(self.layout.metrics) or "any metric"
            raise DataError(f"table {self.name}: none of the runs measured {requested}")
        selected = [i for i in self.items if (i.metric, i.key) in set(pairs)]
        models = [i for i in selected if i.system == "model"]
        self.columns = self._name_columns(models)
        self.axes = [a for a in find_varying_axes(models) if a not in self._list_outer_axes(models[0])]
        rows = self._group_by_row(models)
        # The reason for a missing metric is shown in the cells of all its values.
        failed = [i for i in self.items if i.system == "model" and i.reason]
        self.reasons = {(i.metric, self._make_row_key(i)): i.reason for i in failed}
        humans = [i for i in selected if i.system != "model"]
        built = [
            self._build_column(pair, where, fields, part, rows)
            for pair in pairs
            for where in self._list_column_axes(models)
            for fields, part in self._get_variants(pair, selected)
        ]
        columns, cells = [b[0] for b in built], [b[1] for b in built]
        first = [row_items[0] for row_items in rows.values()]
        labels = self.row_names = dict(zip(rows, label_systems(first, self._list_outer_axes(first[0])), strict=True))
        table_rows = [
            TableRow(labels[key], "model", tuple(c[key] for c in cells), max((i.seeds for i in rows[key]), default=0))
            for key in rows
        ]
        if self.layout.human and not self.layout.gaps:
            top = self._build_human_rows(humans, models, columns)
            table_rows = [*top, *(dataclasses.replace(r, rule=bool(top) and i == 0) for i, r in enumerate(table_rows))]
        return Table(
            self.name, self._format_title(), tuple(columns), tuple(table_rows),
            remarks=(*describe_resolution(models, self.results), *list_run_notes(models, self.results, self._label)),
            warnings=list_warnings(models, self.items, self._label), rules=self._list_rules(models),
        )  # fmt: skip

    def _format_title(self) -> str:
        tasks = sorted({i.axes["task"] for i in self.items if i.system == "model" and i.axes.get("task")})
        parts = [f"{a}={v}" for a, v in zip(self.layout.split, self.parts, strict=True) if a != "task"]
        return ", ".join([f"{self.layout.title} on {', '.join(tasks)}" if tasks else self.layout.title, *parts])

    def _list_rules(self, models: Sequence[SystemValue]) -> tuple[str, ...]:
        counts = sorted({i.seeds for i in models if i.seeds > 1})
        return (*([f"Mean over {' or '.join(map(str, counts))} seeds, as the column says."] if counts else []), RULE)

    def _label(self, item: SystemValue) -> str:
        return self.row_names[self._make_row_key(item)]

    # Rows -------------------------------------------------------------------------------------------------------------

    def _make_row_key(self, item: SystemValue) -> RowKey:
        out = self._list_outer_axes(item)
        # Decoder options are included because beam search with another option is another row.
        names = add_options(self.layout.rows or [a for a in item.axes if not get_parent_axis(a)], item.axes)
        return tuple((a, item.axes.get(a, "")) for a in names if a not in out)

    def _list_outer_axes(self, item: SystemValue) -> set[str]:
        """Return the axes that the column titles or the table title already show."""
        return {*add_options(self.layout.columns, item.axes), *self.layout.split}

    def _group_by_row(self, models: Sequence[SystemValue]) -> dict[RowKey, list[SystemValue]]:
        outer = [a for a in (self.layout.rows or ("model", "decoder")) if a not in self.layout.columns]
        axes = list(dict.fromkeys([*outer, *self.axes, *(models[0].axes if models else ())]))
        rows: dict[RowKey, list[SystemValue]] = {}
        for item in sorted(models, key=lambda i: tuple(make_order_key(a, i) for a in axes)):
            rows.setdefault(self._make_row_key(item), []).append(item)
        return rows

    # Columns ----------------------------------------------------------------------------------------------------------

    def _name_columns(self, models: Sequence[SystemValue]) -> list[str]:
        names = add_options(self.layout.columns, models[0].axes) if models else []
        rows = list({tuple(i.axes.get(n, "") for n in names): i.axes for i in models}.values())
        differ = find_distinguishing_axes(rows, names)
        return [*self.layout.columns, *(n for n in names if n in differ and n not in self.layout.columns)]

    def _list_column_axes(self, models: Sequence[SystemValue]) -> list[dict[str, str]]:
        combos = {tuple(i.axes.get(a, "") for a in self.columns): None for i in models}
        return [dict(zip(self.columns, c, strict=True)) for c in sorted(combos)]

    def _get_variants(self, pair: tuple[str, str], items: Sequence[SystemValue]) -> list[tuple[str, list[SystemValue]]]:
        """Return (distinguishing options, values) per signature; a single group if signatures must not differ."""
        values = [i for i in items if (i.metric, i.key) == pair]
        models = [i for i in values if i.system == "model"]
        if self.layout.differing != "columns":
            return [("", values)]
        names = {s: format_options(pair[0], differ) for s, differ in find_differing_options(models, ignored=()).items()}
        order = sorted(names, key=lambda s: make_natural_sort_key(names[s]))
        return [(names[s], [i for i in values if i.signature == s or i.system == "ceiling"]) for s in order]

    def _build_column(
        self,
        pair: tuple[str, str],
        where: Mapping[str, str],
        fields: str,
        candidates: Sequence[SystemValue],
        rows: Mapping[RowKey, list[SystemValue]],
    ) -> tuple[Column, dict[RowKey, Cell]]:
        here = [i for i in candidates if all(i.axes.get(a, "") == v for a, v in where.items() if i.system == "model")]
        model_items = [i for i in here if i.system == "model"]
        humans = [i for i in here if i.system == "human"]
        model_items, others = select_comparable(pair[0], model_items, self.name, self.layout)
        first = (model_items or here or candidates)[0]
        by_row: dict[RowKey, list[SystemValue]] = {key: [] for key in rows}
        for item in model_items:
            by_row[self._make_row_key(item)].append(item)
        gap = self.layout.gaps and first.direction == "match_human"
        cells = {key: self._build_cell(items, pair, humans, gap, key) for key, items in by_row.items()}
        cells |= {key: mark_incomparable(i, first) for i in others if not by_row[key := self._make_row_key(i)]}
        digits = choose_column_decimals([*cells.values(), *([] if gap else [Cell(h.mean) for h in humans])])
        labels = [v if a in self.layout.columns else format_option(a, v) for a, v in where.items()]
        title = " ".join([f"|Δ {first.title}|" if gap else first.title, *(f"({v})" for v in (*labels, fields) if v)])
        direction = "lower" if gap else first.direction
        spans = any(cell.interval for cell in cells.values())
        column = Column(*pair, title, direction, digits, first.signature, gap, first.target, interval=spans)
        targets = {key: self._find_target(by_row[key], humans) for key in rows}
        column, cells = mark_best_cells(column, cells, targets, self._test)
        self.signatures[column] = {_drop_n(i.signature) for i in model_items}
        return column, cells

    def _test(self, cell: Cell, best: Cell) -> float:
        """Return the p-value of the test that a cell is as good as the best one; NaN without a test."""
        if cell.source is None or best.source is None:
            return math.nan
        return compute_equality_p_value(self.results, self.items, cell.source, best.source)

    def _build_cell(
        self, items: Sequence[SystemValue], pair: tuple[str, str], humans: Sequence[SystemValue], gap: bool, key: RowKey
    ) -> Cell:
        if len(items) > 1:
            raise SpecError(self._describe_crowded_cell(items, key))
        if not items:
            reason = self.reasons.get((pair[0], key))
            return Cell(note=f"{pair[0]}: {reason}" if reason else NOT_MEASURED)
        item = items[0]
        if not math.isfinite(item.mean):
            return Cell(note=f"{item.metric}: {item.reason}", source=item)
        value = item.mean
        if gap:
            target = self._find_target(items, humans)
            if not math.isfinite(target):
                return Cell(note=f"{item.metric}: {NO_HUMAN}")
            value = abs(value - target)
        interval = None if gap else choose_interval(item, self.items, self.results if self.layout.intervals else None)
        varies = interval is None or interval[0] < interval[1]
        return Cell(
            value, item.sd, item.seeds, item.error, note="" if varies else NO_VARIATION,
            interval=interval if varies else None, source=item,
        )  # fmt: skip

    def _describe_crowded_cell(self, items: Sequence[SystemValue], key: RowKey) -> str:
        """Return the error message for two values in one cell."""
        axes = find_differing_fields([i.axes for i in items])
        rows = ", ".join(a for a, _ in key if not get_parent_axis(a))
        if axes:
            fields_text = "; ".join(
                f"{a} ({' and '.join(i.axes.get(a) or 'none' for i in items[:2])})" for a in axes[:3]
            )
            return (
                f"table {self.name}: the rows ({rows}) put two systems into one cell; they differ in {fields_text}; "
                "name more axes in `rows`"
            )
        fields = [parse_signature(i.signature) for i in items]
        fields_text = "; ".join(
            f"{k} ({fields[0].get(k)} and {fields[1].get(k)})" for k in find_differing_fields(fields[:2])
        )
        return f"table {self.name}: {items[0].metric} has several values of one system, which differ in {fields_text}"

    def _find_target(self, items: Sequence[SystemValue], humans: Sequence[SystemValue]) -> float:
        """Return the human value for a row (same signature and data); NaN if there is none."""
        human = find_human_value([h for h in humans if math.isfinite(h.mean)], items[0]) if items else None
        return human.mean if human is not None else math.nan

    # The human row ----------------------------------------------------------------------------------------------------

    def _build_human_rows(
        self, humans: Sequence[SystemValue], models: Sequence[SystemValue], columns: Sequence[Column]
    ) -> list[TableRow]:
        """Build a row per set of human texts; sets with equal values share a row."""
        aside = set(add_options(self.layout.columns, models[0].axes)) if models else set()
        axes = [a for a in models[0].axes if describes_human_side(a) and a not in aside] if models else []
        groups: dict[tuple[str, ...], list[SystemValue]] = {}
        for item in sorted(humans, key=lambda i: tuple(make_order_key(a, i) for a in (*self.axes, *axes))):
            groups.setdefault(tuple(item.axes.get(a, "") for a in axes), []).append(item)
        rows: dict[tuple[Cell, ...], SystemValue] = {}
        for items in groups.values():
            mine = [m for m in models if has_same_data(items[0], m)]
            cells = tuple(self._build_human_cell(items, column, mine or models) for column in columns)
            rows.setdefault(cells, items[0])
        labels = label_systems(list(rows.values()), self._list_outer_axes(models[0])) if len(rows) > 1 else ["human"]
        return [TableRow(label, "human", cells) for cells, label in zip(rows, labels, strict=False)]

    def _build_human_cell(self, items: Sequence[SystemValue], column: Column, models: Sequence[SystemValue]) -> Cell:
        signatures = self.signatures[column]
        mine = [i for i in items if (i.metric, i.key) == (column.metric, column.key)]
        for item in sorted(mine, key=lambda i: (i.system != "human", i.signature != column.signature)):
            if not math.isfinite(item.mean) or _drop_n(item.signature) not in signatures:
                continue
            if item.system == "human":
                return Cell(item.mean, source=item)
            if item.system == "ceiling":
                return build_ceiling_cell(item, column)
        family = next((i.family for i in models if i.metric == column.metric), "")
        return Cell(note=next((i.reason for i in mine if i.reason), NOT_HUMAN.get(family, NO_HUMAN)))


def _drop_n(signature: str) -> tuple[tuple[str, str], ...]:
    """Return a signature without `n`, which differs for halves of the human texts or several samples per prompt."""
    return tuple((k, v) for k, v in parse_signature(signature).items() if k != "n")
