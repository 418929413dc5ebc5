"""Systems × metrics: from folded values to a finished table."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from openended.harness.errors import DataError, SpecError
from openended.harness.report.read.fold import Folded, fold, label_of, natural, order_key, varying
from openended.harness.report.read.frame import Results, Run, filtered, of_human
from openended.harness.report.read.layout import Layout
from openended.harness.report.read.systems import human_value
from openended.harness.report.tables.human import ceiling, own_spread, remarks_on_counts
from openended.harness.report.tables.numbers import RULE, printed
from openended.harness.report.tables.table import Cell, Column, Row, Table, column_decimals, target_of
from openended.harness.signature import parse_signature

# A primary value that must not be read without the others: perplexity says nothing without diversity, precision
# nothing without recall, HUSE nothing without its two parts.
COMPANIONS: Mapping[str, tuple[str, ...]] = {
    "gen_ppl": ("entropy",),
    "knn_precision_recall": ("precision", "recall"),
    "huse": ("huse_q", "huse_d"),
}
NOT_HUMAN = {
    "two_sample": "Compares a system with the human text; the human text has no value of its own.",
    "teacher_forced": "Reads the decoder's distribution on human text; there is none of the human's own.",
}
NO_HUMAN = "No human value was measured."
NOT_MEASURED = "Not measured for this system."
# Axes that the signatures know: values that differ in them are not comparable.
DATA_AXES = ("task", "num_examples", "max_new_tokens", "samples", "scorer", "embedder", "embedder.max_length")

RowKey = tuple[tuple[str, str], ...]


def value_tables(results: Results, layout: Layout, name: str) -> list[Table]:
    """Build the tables of a layout of kind `values`: one, or one for each value of the axes in `split`.

    Raises:
        SpecError: If two values of one column have different signatures, or two systems would share a row.
        DataError: If none of the layout's metrics was measured.
    """
    items = fold(results)
    layout = dataclasses.replace(layout, split=split_axes(items, layout))
    parts = split_items(items, layout.split)
    return [
        _ValueTable(items, layout, f"{name}{''.join('-' + slug(v) for v in values)}", values, results.runs).build()
        for values, items in parts.items()
    ]


def split_axes(items: Sequence[Folded], layout: Layout) -> tuple[str, ...]:
    """Return the axes that make tables of their own; `auto` are the axes of the data in which the runs differ."""
    if layout.split != ("auto",):
        return layout.split
    taken = {*layout.rows, *layout.columns}
    return tuple(a for a in varying(items) if a in DATA_AXES and a not in taken)


def select(results: Results, layout: Layout) -> Results:
    """Apply a layout's own filter; a filter on an axis that these runs lack leaves everything."""
    where = {k: str(v) for k, v in layout.where.items() if k in results.frame.columns}
    return filtered(results, where) if where else results


def split_items(items: Sequence[Folded], axes: Sequence[str]) -> dict[tuple[str, ...], list[Folded]]:
    """Group items by the axes that make tables of their own."""
    for axis in axes:
        if items and axis not in items[0].axes:
            raise SpecError(f"split: no axis {axis!r} in these runs; they have {', '.join(items[0].axes)}")
    parts: dict[tuple[str, ...], list[Folded]] = {}
    for item in sorted((i for i in items if i.system == "model"), key=lambda i: tuple(order_key(a, i) for a in axes)):
        parts.setdefault(tuple(item.axes[a] for a in axes), []).append(item)
    for item in (i for i in items if i.system != "model"):  # the human side stands in every table that it fits
        for values, part in parts.items():
            if all(item.axes[a] == v for a, v in zip(axes, values, strict=True) if of_human(a)):
                part.append(item)
    return parts


def slug(text: str) -> str:
    """Return a text as part of a file name."""
    return "".join(c if c.isalnum() or c in "._=" else "_" for c in text) or "none"


def wanted(items: Sequence[Folded], layout: Layout) -> list[tuple[str, str]]:
    """Return the (metric, key) pairs that the layout shows, in order; those not measured are left out."""
    have: dict[str, list[str]] = {}
    primary: dict[str, str] = {}
    for item in (i for i in items if i.system == "model"):
        keys = have.setdefault(item.metric, [])
        if item.key not in keys:
            keys.append(item.key)
        if item.primary:
            primary.setdefault(item.metric, item.key)
    out: dict[tuple[str, str], None] = {}
    for pattern in layout.metrics or tuple(have):
        metric, _, key = pattern.partition(".")
        if metric in have:
            out |= dict.fromkeys((metric, k) for k in _keys(metric, key, have[metric], primary, layout.companions))
    asked = {tuple(pattern.split(".", 1)) for pattern in layout.metrics}
    named = [p for p in out if p in asked or (p[0], "*") in asked or p[1] not in COMPANIONS.get(p[0], ())]
    return [p for p in out if p in named or not _repeated(p, out, items)]


def _repeated(pair: tuple[str, str], others: Iterable[tuple[str, str]], items: Sequence[Folded]) -> bool:
    """Say whether a column of another metric shows the same numbers (two metrics state the entropy of a text)."""
    values: dict[tuple[str, str], dict[tuple[str, ...], float]] = {}
    for item in (i for i in items if i.system == "model"):
        values.setdefault((item.metric, item.key), {})[tuple(item.axes.values())] = item.mean
    own = values.get(pair, {})
    columns = [values.get(o, {}) for o in others if o[0] != pair[0]]
    return any(
        own.keys() == c.keys() and all(math.isclose(v, c[a], rel_tol=1e-9) for a, v in own.items()) for c in columns
    )


def _keys(metric: str, key: str, have: Sequence[str], primary: Mapping[str, str], companions: bool) -> list[str]:
    first = [primary[metric]] if metric in primary else list(have[:1])
    if key == "*":
        return [*first, *(k for k in have if k not in first)]
    if key:
        return [key] if key in have else []
    return [*first, *(k for k in COMPANIONS.get(metric, ()) if companions and k in have and k not in first)]


@dataclass
class _ValueTable:
    """Holds what the steps of building one table share."""

    items: Sequence[Folded]
    layout: Layout
    name: str
    parts: tuple[str, ...]
    runs: Sequence[Run]
    axes: list[str] = field(default_factory=list)
    """Axes, model and decoder aside, in which the rows differ."""
    reasons: dict[tuple[str, RowKey], str] = field(default_factory=dict)
    row_names: dict[RowKey, str] = field(default_factory=dict)

    def build(self) -> Table:
        pairs = wanted(self.items, self.layout)
        if not pairs:
            asked = ", ".join(self.layout.metrics) or "any metric"
            raise DataError(f"table {self.name}: none of the runs measured {asked}")
        shown = [i for i in self.items if (i.metric, i.key) in set(pairs)]
        models = [i for i in shown if i.system == "model"]
        self.axes = [a for a in varying(models) if a not in {*self.layout.columns, *self.layout.split}]
        several = len({i.titles[0] for i in models}) > 1
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
        labels = self.row_names = self._labels(rows, several)
        table_rows = [
            Row(labels[key], "model", tuple(c[key] for c in cells), max((i.seeds for i in rows[key]), default=0))
            for key in rows
        ]
        if self.layout.human and not self.layout.gaps:
            top = self._human_rows(humans, models, columns, several)
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
            for note in {n for at, _ in item.sources for n in self.runs[at].notes}:
                notes.setdefault(note, set()).add(self.row_names[self._row_key(item)])
        every = set(self.row_names.values())
        lines = [f"{n}{'' if who == every else f' ({_some(who)})'}" for n, who in sorted(notes.items())]
        lines += remarks_on_counts(models, [i for i in self.items if i.system == "human"])
        seeds = f"Mean over {' or '.join(map(str, counts))} seeds, as the column says. " if counts else ""
        return (*lines, seeds + RULE)

    # Rows -------------------------------------------------------------------------------------------------------------

    def _row_key(self, item: Folded) -> RowKey:
        out = {*self.layout.columns, *self.layout.split}
        names = list(self.layout.rows) or [a for a in item.axes if not of_human(a) or a in self.axes]
        if "decoder" in names and not any(name.startswith("decoder.") for name in names):
            names += [a for a in item.axes if a.startswith("decoder.")]  # beam and beam with an option are two rows
        return tuple((a, item.axes.get(a, "")) for a in names if a not in out)

    def _row_items(self, models: Sequence[Folded]) -> dict[RowKey, list[Folded]]:
        outer = [a for a in (self.layout.rows or ("model", "decoder")) if a not in self.layout.columns]
        axes = [*outer, *(a for a in self.axes if a not in outer)]
        rows: dict[RowKey, list[Folded]] = {}
        for item in sorted(models, key=lambda i: tuple(order_key(a, i) for a in axes)):
            rows.setdefault(self._row_key(item), []).append(item)
        return rows

    def _labels(self, rows: Mapping[RowKey, list[Folded]], several: bool) -> dict[RowKey, str]:
        """Name the rows; where two names are alike, the options in which they differ are added."""
        labels = {key: label_of(items[0], self.axes, several_models=several) for key, items in rows.items()}
        for label in {v for v in labels.values() if list(labels.values()).count(v) > 1}:
            keys = [k for k, v in labels.items() if v == label]
            for key in keys:
                others = [dict(k) for k in keys if k != key]
                own = [f"{a.rpartition('.')[2]}={v}" for a, v in key if any(o.get(a) != v for o in others)]
                labels[key] = f"{label} ({', '.join(own)})" if own else label
        return labels

    # Columns ----------------------------------------------------------------------------------------------------------

    def _column_axes(self, models: Sequence[Folded]) -> list[dict[str, str]]:
        combos = {tuple(i.axes.get(a, "") for a in self.layout.columns): None for i in models}
        return [dict(zip(self.layout.columns, c, strict=True)) for c in sorted(combos)]

    def _by_signature(self, pair: tuple[str, str], shown: Sequence[Folded]) -> list[tuple[str, list[Folded]]]:
        """Return (what tells it from the others, values) for every signature; one group where differing is refused."""
        own = [i for i in shown if (i.metric, i.key) == pair]
        models = [i for i in own if i.system == "model"]
        if self.layout.differing == "refuse":
            return [("", own)]
        signatures = list(dict.fromkeys(i.signature for i in models))
        fields = {s: parse_signature(s) for s in signatures}
        differ = [k for k in fields[signatures[0]] if len({f.get(k) for f in fields.values()}) > 1]
        names = {s: ", ".join(f"{k}={fields[s].get(k)}" for k in differ) for s in signatures}
        order = sorted(signatures, key=lambda s: natural(names[s]))
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
        title = " ".join(
            [f"|Δ {first.title}|" if gap else first.title, *(f"({v})" for v in (*where.values(), fields) if v)]
        )
        direction = "lower" if gap else first.direction
        column = Column(*pair, title, direction, place, first.signature, gap)
        return column, _with_best(column, cells, {key: self._target(by_row[key], humans) for key in rows})

    def _cell(
        self, items: Sequence[Folded], pair: tuple[str, str], humans: Sequence[Folded], gap: bool, key: RowKey
    ) -> Cell:
        if len({tuple(i.axes.items()) for i in items}) > 1:
            raise SpecError(
                f"table {self.name}: the rows ({', '.join(a for a, _ in key)}) put {items[0].titles} and "
                f"{items[1].titles} into one cell; name more axes in `rows`"
            )
        if not items:
            reason = self.reasons.get((pair[0], key))
            return Cell(note=f"{pair[0]}: {reason}" if reason else NOT_MEASURED)
        item = items[0]
        if not math.isfinite(item.mean):
            return Cell(note=f"{item.metric}: {item.reason}")
        value, sd = item.mean, item.sd
        if gap:
            target = self._target(items, humans)
            if not math.isfinite(target):
                return Cell(note=f"{item.metric}: {NO_HUMAN}")
            value = abs(value - target)
        return Cell(value, sd, item.seeds, own_spread(item))

    def _target(self, items: Sequence[Folded], humans: Sequence[Folded]) -> float:
        """Return the human value that belongs to a row: of the same signature and the same data."""
        found = human_value([h for h in humans if math.isfinite(h.mean)], items[0]) if items else None
        return found.mean if found is not None else math.nan

    # The human row ----------------------------------------------------------------------------------------------------

    def _human_rows(
        self, humans: Sequence[Folded], models: Sequence[Folded], columns: Sequence[Column], several: bool
    ) -> list[Row]:
        axes = [a for a in self.axes if of_human(a)]
        groups: dict[tuple[str, ...], list[Folded]] = {}
        for item in sorted(humans, key=lambda i: tuple(order_key(a, i) for a in axes)):
            groups.setdefault(tuple(item.axes.get(a, "") for a in axes), []).append(item)
        rows: dict[tuple[Cell, ...], str] = {}
        for items in groups.values():
            cells = tuple(self._human_cell(items, column, models) for column in columns)
            rows.setdefault(cells, label_of(items[0], axes, several_models=several))
        if len(rows) == 1:
            rows = dict.fromkeys(rows, "human")
        return [Row(label, "human", cells) for cells, label in rows.items()]

    def _human_cell(self, items: Sequence[Folded], column: Column, models: Sequence[Folded]) -> Cell:
        mine = [i for i in items if (i.metric, i.key) == (column.metric, column.key)]
        for item in sorted(mine, key=lambda i: (i.system != "human", i.signature != column.signature)):
            if item.system == "human" and math.isfinite(item.mean):
                return Cell(item.mean)
            if item.system == "ceiling" and math.isfinite(item.mean):
                return ceiling(item, column)
        family = next(i.family for i in models if i.metric == column.metric)
        return Cell(note=next((i.reason for i in mine if i.reason), NOT_HUMAN.get(family, NO_HUMAN)))


def check_signatures(metric: str, own: Sequence[Folded], table: str, allow: Sequence[str] = ()) -> None:
    """Refuse to set values of different signatures side by side.

    Raises:
        SpecError: Names the fields that differ, their values and the two systems.
    """
    for item in own[1:]:
        first = own[0]
        if item.signature == first.signature:
            continue
        left, right = parse_signature(first.signature), parse_signature(item.signature)
        differ = [k for k in {**left, **right} if left.get(k) != right.get(k) and k not in allow]
        if differ:
            fields = "; ".join(f"{k} ({left.get(k)} and {right.get(k)})" for k in differ)
            one, other = (label_of(i, varying(own), several_models=True) for i in (first, item))
            raise SpecError(
                f"table {table}, column {metric}: two values are not comparable, their signatures differ in {fields}: "
                f"{one} and {other}; separate them with --split or --where"
            )


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
    best = target_of(column.direction)
    if best is not None:
        return printed(abs(cell.value - best), column.decimals)
    if column.direction == "match_human":
        return printed(abs(cell.value - target), column.decimals) if math.isfinite(target) else math.nan
    return math.nan
