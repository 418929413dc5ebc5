"""Systems × metrics: from folded values to a finished table."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from openended.harness.core import DataError, SpecError, parse_signature
from openended.harness.report.analysis.intervals import shown_interval
from openended.harness.report.tables.about import about_of
from openended.harness.report.tables.human import NOT_HUMAN, ceiling, own_spread, remarks_on_counts
from openended.harness.report.tables.numbers import RULE, printed
from openended.harness.report.tables.selection import check_signatures, split_axes, split_items, stems, wanted
from openended.harness.report.tables.table import Cell, Column, Table, TableRow, column_decimals
from openended.harness.results import (
    Folded,
    Layout,
    Results,
    differing,
    fold_seeds,
    head_of,
    human_value,
    labels_of,
    natural,
    of_human,
    order_key,
    own_options,
    said,
    same_data,
    telling,
    told_options,
    varying,
    with_options,
)  # fmt: skip

NO_HUMAN = "No human value was measured."
NOT_MEASURED = "Not measured for this system."

RowKey = tuple[tuple[str, str], ...]


def value_tables(results: Results, layout: Layout, name: str) -> list[Table]:
    """Build the tables of a layout of kind `values`: one, or one for each value of the axes in `split`.

    Raises:
        SpecError: If two values of one column have different signatures, or two systems would share a row.
        DataError: If none of the layout's metrics was measured.
    """
    items = fold_seeds(results)
    layout = dataclasses.replace(layout, split=split_axes(items, layout))
    parts = split_items(items, layout.split)
    return [
        dataclasses.replace(_ValueTable(part, layout, stem, own, results).build(), about=about_of(part, results.runs))
        for (own, part), stem in zip(parts.items(), stems(name, list(parts)), strict=True)
    ]


@dataclass
class _ValueTable:
    """Holds what the steps of building one table share."""

    items: Sequence[Folded]
    layout: Layout
    name: str
    parts: tuple[str, ...]
    results: Results
    axes: list[str] = field(default_factory=list)
    """Axes, model and decoder aside, that tell the rows apart."""
    columns: list[str] = field(default_factory=list)
    """Axes that make columns, with those of their options that tell columns apart."""
    reasons: dict[tuple[str, RowKey], str] = field(default_factory=dict)
    row_names: dict[RowKey, str] = field(default_factory=dict)
    signatures: dict[Column, set[tuple[tuple[str, str], ...]]] = field(default_factory=dict)
    """Those of the systems in a column."""

    def build(self) -> Table:
        pairs = wanted(self.items, self.layout)
        if not pairs:
            asked = ", ".join(self.layout.metrics) or "any metric"
            raise DataError(f"table {self.name}: none of the runs measured {asked}")
        shown = [i for i in self.items if (i.metric, i.key) in set(pairs)]
        models = [i for i in shown if i.system == "model"]
        self.columns = self._column_names(models)
        self.axes = [a for a in varying(models) if a not in self._aside(models[0])]
        rows = self._row_items(models)
        # Why a metric has no value at all for a row: said in the cells of its other values too.
        self.reasons = {(i.metric, self._row_key(i)): i.reason for i in self.items if i.system == "model" and i.reason}
        humans = [i for i in shown if i.system != "model"]
        built = [
            self._column(pair, where, fields, part, rows)
            for pair in pairs
            for where in self._column_axes(models)
            for fields, part in self._by_signature(pair, shown)
        ]
        columns, cells = [b[0] for b in built], [b[1] for b in built]
        first = [found[0] for found in rows.values()]
        labels = self.row_names = dict(zip(rows, labels_of(first, self._aside(first[0])), strict=True))
        table_rows = [
            TableRow(labels[key], "model", tuple(c[key] for c in cells), max((i.seeds for i in rows[key]), default=0))
            for key in rows
        ]
        if self.layout.human and not self.layout.gaps:
            top = self._human_rows(humans, models, columns)
            table_rows = [*top, *(dataclasses.replace(r, rule=bool(top) and i == 0) for i, r in enumerate(table_rows))]
        return Table(self.name, self._title(), tuple(columns), tuple(table_rows), self._remarks(models))

    def _title(self) -> str:
        tasks = sorted({i.axes["task"] for i in self.items if i.system == "model" and i.axes.get("task")})
        parts = [f"{a}={v}" for a, v in zip(self.layout.split, self.parts, strict=True) if a != "task"]
        return ", ".join([f"{self.layout.title} on {', '.join(tasks)}" if tasks else self.layout.title, *parts])

    def _remarks(self, models: Sequence[Folded]) -> tuple[str, ...]:
        counts = sorted({i.seeds for i in models if i.seeds > 1})
        notes: dict[str, set[str]] = {}
        for item in (i for i in models if i.note and math.isfinite(i.mean)):
            notes.setdefault(f"{item.metric}: {item.note}", set()).add(self.row_names[self._row_key(item)])
        for item in models:
            for note in {n for at, _ in item.sources for n in self.results.runs[at].notes}:
                notes.setdefault(note, set()).add(self.row_names[self._row_key(item)])
        every = set(self.row_names.values())
        lines = [f"{n}{'' if who == every else f' ({_some(who)})'}" for n, who in sorted(notes.items())]
        lines += remarks_on_counts(models, [i for i in self.items if i.system == "human"])
        seeds = f"Mean over {' or '.join(map(str, counts))} seeds, as the column says. " if counts else ""
        return (*lines, seeds + RULE)

    # Rows -------------------------------------------------------------------------------------------------------------

    def _row_key(self, item: Folded) -> RowKey:
        out = self._aside(item)
        # Beam and beam with an option are two rows.
        names = with_options(self.layout.rows or [a for a in item.axes if not head_of(a)], item.axes)
        return tuple((a, item.axes.get(a, "")) for a in names if a not in out)

    def _aside(self, item: Folded) -> set[str]:
        """Return the axes that the columns or the table's title say."""
        return {*with_options(self.layout.columns, item.axes), *self.layout.split}

    def _row_items(self, models: Sequence[Folded]) -> dict[RowKey, list[Folded]]:
        outer = [a for a in (self.layout.rows or ("model", "decoder")) if a not in self.layout.columns]
        axes = list(dict.fromkeys([*outer, *self.axes, *(models[0].axes if models else ())]))
        rows: dict[RowKey, list[Folded]] = {}
        for item in sorted(models, key=lambda i: tuple(order_key(a, i) for a in axes)):
            rows.setdefault(self._row_key(item), []).append(item)
        return rows

    # Columns ----------------------------------------------------------------------------------------------------------

    def _column_names(self, models: Sequence[Folded]) -> list[str]:
        names = with_options(self.layout.columns, models[0].axes) if models else []
        rows = list({tuple(i.axes.get(n, "") for n in names): i.axes for i in models}.values())
        differ = telling(rows, names)
        return [*self.layout.columns, *(n for n in names if n in differ and n not in self.layout.columns)]

    def _column_axes(self, models: Sequence[Folded]) -> list[dict[str, str]]:
        combos = {tuple(i.axes.get(a, "") for a in self.columns): None for i in models}
        return [dict(zip(self.columns, c, strict=True)) for c in sorted(combos)]

    def _by_signature(self, pair: tuple[str, str], shown: Sequence[Folded]) -> list[tuple[str, list[Folded]]]:
        """Return (what tells it from the others, values) for every signature; one group where differing is refused."""
        own = [i for i in shown if (i.metric, i.key) == pair]
        models = [i for i in own if i.system == "model"]
        if self.layout.differing == "refuse":
            return [("", own)]
        names = {s: told_options(pair[0], differ) for s, differ in own_options(models, aside=()).items()}
        order = sorted(names, key=lambda s: natural(names[s]))
        return [(names[s], [i for i in own if i.signature == s or i.system == "ceiling"]) for s in order]

    def _column(
        self,
        pair: tuple[str, str],
        where: Mapping[str, str],
        fields: str,
        shown: Sequence[Folded],
        rows: Mapping[RowKey, list[Folded]],
    ) -> tuple[Column, dict[RowKey, Cell]]:
        here = [i for i in shown if all(i.axes.get(a, "") == v for a, v in where.items() if i.system == "model")]
        own = [i for i in here if i.system == "model"]
        humans = [i for i in here if i.system == "human"]
        check_signatures(pair[0], own, self.name, self.layout.allow)
        first = (own or here or shown)[0]
        by_row: dict[RowKey, list[Folded]] = {key: [] for key in rows}
        for item in own:
            by_row[self._row_key(item)].append(item)
        gap = self.layout.gaps and first.direction == "match_human"
        cells = {key: self._cell(items, pair, humans, gap, key) for key, items in by_row.items()}
        place = column_decimals([*cells.values(), *([] if gap else [Cell(h.mean) for h in humans])])
        told = [v if a in self.layout.columns else said(a, v) for a, v in where.items()]
        title = " ".join([f"|Δ {first.title}|" if gap else first.title, *(f"({v})" for v in (*told, fields) if v)])
        direction = "lower" if gap else first.direction
        column = Column(*pair, title, direction, place, first.signature, gap, first.target)
        self.signatures[column] = {_but_n(i.signature) for i in own}
        return column, _with_best(column, cells, {key: self._target(by_row[key], humans) for key in rows})

    def _cell(
        self, items: Sequence[Folded], pair: tuple[str, str], humans: Sequence[Folded], gap: bool, key: RowKey
    ) -> Cell:
        if len(items) > 1:
            raise SpecError(self._crowded(items, key))
        if not items:
            reason = self.reasons.get((pair[0], key))
            return Cell(note=f"{pair[0]}: {reason}" if reason else NOT_MEASURED)
        item = items[0]
        if not math.isfinite(item.mean):
            return Cell(note=f"{item.metric}: {item.reason}", source=item)
        value = item.mean
        if gap:
            target = self._target(items, humans)
            if not math.isfinite(target):
                return Cell(note=f"{item.metric}: {NO_HUMAN}")
            value = abs(value - target)
        interval = None if gap else shown_interval(item, self.items, self.results if self.layout.intervals else None)
        return Cell(value, item.sd, item.seeds, own_spread(item), interval=interval, source=item)

    def _crowded(self, items: Sequence[Folded], key: RowKey) -> str:
        """Say why two values would share a cell."""
        axes = differing([i.axes for i in items])
        rows = ", ".join(a for a, _ in key if not head_of(a))
        if axes:
            told = "; ".join(f"{a} ({' and '.join(i.axes.get(a) or 'none' for i in items[:2])})" for a in axes[:3])
            return (
                f"table {self.name}: the rows ({rows}) put two systems into one cell, which differ in {told}; "
                "name more axes in `rows`"
            )
        fields = [parse_signature(i.signature) for i in items]
        told = "; ".join(f"{k} ({fields[0].get(k)} and {fields[1].get(k)})" for k in differing(fields[:2]))
        return f"table {self.name}: {items[0].metric} has several values of one system, which differ in {told}"

    def _target(self, items: Sequence[Folded], humans: Sequence[Folded]) -> float:
        """Return the human value that belongs to a row: of the same signature and the same data."""
        found = human_value([h for h in humans if math.isfinite(h.mean)], items[0]) if items else None
        return found.mean if found is not None else math.nan

    # The human row ----------------------------------------------------------------------------------------------------

    def _human_rows(
        self, humans: Sequence[Folded], models: Sequence[Folded], columns: Sequence[Column]
    ) -> list[TableRow]:
        """Build a row for every human side; sides of which all values are the same share one."""
        aside = set(with_options(self.layout.columns, models[0].axes)) if models else set()
        axes = [a for a in models[0].axes if of_human(a) and a not in aside] if models else []
        groups: dict[tuple[str, ...], list[Folded]] = {}
        for item in sorted(humans, key=lambda i: tuple(order_key(a, i) for a in (*self.axes, *axes))):
            groups.setdefault(tuple(item.axes.get(a, "") for a in axes), []).append(item)
        rows: dict[tuple[Cell, ...], Folded] = {}
        for items in groups.values():
            mine = [m for m in models if same_data(items[0], m)]
            cells = tuple(self._human_cell(items, column, mine or models) for column in columns)
            rows.setdefault(cells, items[0])
        labels = labels_of(list(rows.values()), self._aside(models[0])) if len(rows) > 1 else ["human"]
        return [TableRow(label, "human", cells) for cells, label in zip(rows, labels, strict=False)]

    def _human_cell(self, items: Sequence[Folded], column: Column, models: Sequence[Folded]) -> Cell:
        own = self.signatures[column]
        mine = [i for i in items if (i.metric, i.key) == (column.metric, column.key)]
        for item in sorted(mine, key=lambda i: (i.system != "human", i.signature != column.signature)):
            if item.system == "human" and math.isfinite(item.mean) and _but_n(item.signature) in own:
                return Cell(item.mean, source=item)
            if item.system == "ceiling" and math.isfinite(item.mean) and _but_n(item.signature) in own:
                return ceiling(item, column)
        family = next((i.family for i in models if i.metric == column.metric), "")
        return Cell(note=next((i.reason for i in mine if i.reason), NOT_HUMAN.get(family, NO_HUMAN)))


def _but_n(signature: str) -> tuple[tuple[str, str], ...]:
    """Return a signature without its counts: halves of the human side, or several samples a prompt, have others."""
    return tuple((k, v) for k, v in parse_signature(signature).items() if k != "n")


def _some(names: set[str]) -> str:
    """List names, the first few where they are many."""
    ordered = sorted(names, key=natural)
    return ", ".join(ordered[:4]) + (f" and {len(ordered) - 4} more" if len(ordered) > 4 else "")


def _with_best(column: Column, cells: Mapping[RowKey, Cell], targets: Mapping[RowKey, float]) -> dict[RowKey, Cell]:
    """Mark the best cells; all that print the same as the best are best."""
    scores = {key: _score(column, cell, targets[key]) for key, cell in cells.items() if math.isfinite(cell.value)}
    scores = {key: s for key, s in scores.items() if math.isfinite(s)}
    if len(cells) < 2 or not scores:
        return dict(cells)
    top = min(scores.values())
    return {k: dataclasses.replace(c, best=scores.get(k) == top) for k, c in cells.items()}


def _score(column: Column, cell: Cell, target: float) -> float:
    """Return how far a cell is from the best, at the precision that is printed; smaller is better."""
    value = printed(cell.value, column.decimals)
    if column.direction == "higher":
        return -value
    if column.direction == "lower":
        return value
    if column.target is not None:
        return printed(abs(cell.value - column.target), column.decimals)
    if column.direction == "match_human":
        return printed(abs(cell.value - target), column.decimals) if math.isfinite(target) else math.nan
    return math.nan
