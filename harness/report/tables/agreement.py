"""Tables about metrics: how they agree with people, across embedders, and how they spread over seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from openended.harness.core import DataError, SpecError
from openended.harness.report.tables.about import about_of
from openended.harness.report.tables.selection import check_signatures, split_axes, split_items, stems, wanted
from openended.harness.report.tables.systems import value_tables
from openended.harness.report.tables.table import Cell, Column, Table, TableRow, column_decimals
from openended.harness.results import (
    Folded,
    Layout,
    Pair,
    Results,
    System,
    filtered,
    fold_seeds,
    head_of,
    human_value,
    natural,
    own_options,
    said,
    systems_of,
    telling,
    told_options,
    values_of,
)

Make = Callable[[Sequence[Folded], Layout, str, str], Table]
FEW = "Fewer than three systems have both values, or one of them is the same for all."
ORIENTED = (
    "Values are turned so that a positive correlation is agreement: larger is better; where lower is, the sign is "
    "changed; where some value is best (the human one, or that of texts of one source), it is minus the distance to it."
)


def correlation_tables(results: Results, layout: Layout, name: str) -> list[Table]:
    """Build metrics × human scores (or discriminator): Spearman's ρ over systems (MAUVE's Tables 5, 10, 14)."""
    return _for_each_part(results, layout, name, _correlation)


def _correlation(items: Sequence[Folded], layout: Layout, name: str, title: str) -> Table:
    from openended.metrics.correlation import correlate

    targets = wanted(items, Layout(metrics=layout.targets, companions=False))
    pairs = [p for p in wanted(items, layout) if p not in targets]
    systems = systems_of(items)
    for pair in (*pairs, *targets):
        check_signatures(pair[0], [i for s in systems if (i := s.value(*pair))], name, layout.allow)
    targets = [t for t in targets if len(_known(systems, t)) > 2]
    if not targets or not pairs:
        raise DataError(f"table {name}: none of {', '.join(layout.targets)} was measured on three systems or more")
    rows, notes = [], set()
    for pair in pairs:
        cells = []
        for target in targets:
            both = [(_turned(s, pair, items), _turned(s, target, items)) for s in systems]
            both = [(a, b) for a, b in both if math.isfinite(a) and math.isfinite(b)]
            found = correlate(*zip(*both, strict=True)) if len(both) > 2 else None
            if found is None or not math.isfinite(found.value):
                cells.append(Cell(note=FEW))
                continue
            notes.add(found.n)
            cells.append(Cell(found.value, suffix=stars(found.p_value), signed=True))
        rows.append(TableRow(_title(items, pair), "metric", tuple(cells)))
    columns = tuple(Column(*t, f"{_title(items, t)}", "higher", 3, _signature(items, t)) for t in targets)
    remarks = (
        f"Spearman's ρ over {' or '.join(map(str, sorted(notes)))} systems, the human side left out. {ORIENTED}",
        "* p < 0.05, ** p < 0.01, *** p < 0.001: two-sided permutation test over systems, each cell by itself.",
    )
    return Table(name, title, columns, tuple(rows), remarks, head="Metric", show_seeds=False)


def embedder_tables(results: Results, layout: Layout, name: str) -> list[Table]:
    """Build the scores under several embedders and how their rankings agree (MAUVE's Table 12, P&R's Table B.1).

    Where a metric was measured under several of its own options (quantizers), each has tables of its own.
    """
    if "embedder" not in results.axes:
        raise DataError(f"table {name}: these runs have no embedder")
    tables: list[Table] = []
    for told, part in _by_options(results, layout.metrics):
        own = replace(layout, title=", ".join(filter(None, (layout.title, told))))
        tables += _of_embedders(part, own, "-".join(filter(None, (name, told.replace("=", "-").replace(", ", "-")))))
    return tables


def _by_options(results: Results, metrics: Sequence[str]) -> Iterator[tuple[str, Results]]:
    """Yield (options, runs) of the first metric that was measured under several; everything where none was."""
    for metric in metrics:
        own = [i for i in fold_seeds(results) if i.metric == metric]
        options = own_options(own)
        found = {tuple(options[i.signature].items()): None for i in own if i.system == "model"}
        if len(found) > 1:
            for where in found:
                part = filtered(results, {f"{metric}.{option}": value for option, value in where})
                yield told_options(metric, dict(where)), part
            return
    yield "", results


def _of_embedders(results: Results, layout: Layout, name: str) -> list[Table]:
    made = Layout(
        title=layout.title,
        metrics=layout.metrics,
        columns=("embedder",),
        human=False,
        split=layout.split,
        allow=("embedder",),
    )
    return [*value_tables(results, made, name), *_for_each_part(results, layout, f"{name}-agreement", _embedders)]


def _embedders(items: Sequence[Folded], layout: Layout, name: str, title: str) -> Table:
    """Correlate every embedder's scores with those of the first one that the systems share."""
    from openended.metrics.correlation import rank_correlation

    pairs = wanted(items, layout)
    own = [i for i in items if i.system == "model" and (i.metric, i.key) in set(pairs)]
    names = _embedder_names(own)
    embedders = sorted(set(names.values()), key=natural)
    scores: dict[tuple[Pair, str], dict[tuple[tuple[str, str], ...], float]] = {}
    for item in own:
        system = tuple(sorted((a, v) for a, v in item.axes.items() if "embedder" not in (a, head_of(a))))
        found = scores.setdefault(((item.metric, item.key), names[_embedder(item)]), {})
        if system in found:
            raise SpecError(f"table {name}: {item.metric} has several values of one system and embedder; split them")
        found[system] = item.mean
    rows = []
    for embedder in embedders:
        cells = []
        for pair in pairs:
            a, b = scores.get((pair, embedders[0]), {}), scores.get((pair, embedder), {})
            shared = [s for s in a if math.isfinite(a[s]) and math.isfinite(b.get(s, math.nan))]
            value = rank_correlation([a[s] for s in shared], [b[s] for s in shared]) if len(shared) > 2 else math.nan
            cells.append(Cell(value) if math.isfinite(value) else Cell(note=FEW))
        rows.append(TableRow(embedder, "embedder", tuple(cells)))
    columns = tuple(Column(*p, _title(items, p), "higher", 3) for p in pairs)
    remark = f"Spearman's ρ over systems with the values under {embedders[0]}."
    return Table(
        name, f"{title}: agreement of embedders", columns, tuple(rows), (remark,), head="Embedder", show_seeds=False
    )


def _embedder(item: Folded) -> tuple[tuple[str, str], ...]:
    return tuple((a, v) for a, v in item.axes.items() if "embedder" in (a, head_of(a)))


def _embedder_names(items: Sequence[Folded]) -> dict[tuple[tuple[str, str], ...], str]:
    """Return embedder → its name, with the options in which embedders of one name differ."""
    every = list(dict.fromkeys(_embedder(i) for i in items))
    rows = [dict(e) for e in every]
    differ = telling(rows, [n for n in dict.fromkeys(n for r in rows for n in r) if n != "embedder"])
    return {e: " ".join([r["embedder"], *(said(n, r[n]) for n in differ)]) for e, r in zip(every, rows, strict=True)}


def spread_tables(results: Results, layout: Layout, name: str) -> list[Table]:
    """Build the standard deviation of every value over seeds, averaged over systems (P&R's Table B.5)."""
    return _for_each_part(results, layout, name, _spread)


def _spread(items: Sequence[Folded], layout: Layout, name: str, title: str) -> Table:
    pairs = wanted(items, layout)
    rows, columns, cells = systems_of(items), [], []
    for pair in pairs:
        values = [s.value(*pair) for s in rows]
        column = [Cell(v.sd, n=v.seeds) if v and math.isfinite(v.sd) else Cell(note="One seed alone.") for v in values]
        spreads = [c.value for c in column if math.isfinite(c.value)]
        mean = math.fsum(spreads) / len(spreads) if spreads else math.nan
        column.append(Cell(mean) if spreads else Cell(note="One seed alone."))
        columns.append(
            Column(
                *pair, f"sd {_title(items, pair)}", "none", min(4, column_decimals(column) + 1), _signature(items, pair)
            )
        )
        cells.append(column)
    labels = [(s.label, "model", max(i.seeds for i in s.items)) for s in rows] + [("mean over systems", "summary", 0)]
    made = [
        TableRow(label, system, tuple(c[i] for c in cells), seeds, rule=system == "summary")
        for i, (label, system, seeds) in enumerate(labels)
    ]
    return Table(name, title, tuple(columns), tuple(made), ("Sample standard deviation (n − 1) over seeds.",))


def _for_each_part(results: Results, layout: Layout, name: str, make: Make) -> list[Table]:
    items = fold_seeds(results)
    axes = split_axes(items, layout)
    tables: list[Table] = []
    lacking: list[DataError] = []
    parts = split_items(items, axes)
    for part, stem in zip(parts.values(), stems(name, list(parts)), strict=True):
        tasks = sorted({i.axes.get("task", "") for i in part if i.system == "model"})
        title = f"{layout.title} on {', '.join(filter(None, tasks))}" if any(tasks) else layout.title
        try:
            tables.append(replace(make(part, layout, stem, title), about=about_of(part, results.runs)))
        except DataError as err:  # of one task: another one may have what this one lacks
            lacking.append(err)
    if not tables and lacking:
        raise lacking[0]
    return tables


def _turned(system: System, pair: Pair, items: Iterable[Folded]) -> float:
    """Return a system's value, turned so that larger is better."""
    value = system.value(*pair)
    return math.nan if value is None else turned(value, items)


def turned(value: Folded, items: Iterable[Folded]) -> float:
    """Return a value turned so that larger is better: as it is, negated, or minus the distance to its target."""
    from openended.metrics.correlation import agreement_scores

    if not math.isfinite(value.mean):
        return math.nan
    if value.target is not None:
        return -abs(value.mean - value.target)
    human = human_value(items, value)
    if value.direction == "match_human" and (human is None or not math.isfinite(human.mean)):
        return math.nan
    target = human.mean if human is not None else None
    return float(agreement_scores([value.mean], direction=value.direction, human=target)[0])  # type: ignore[arg-type]


def _known(systems: Iterable[System], pair: Pair) -> list[System]:
    return [s for s in systems if (v := s.value(*pair)) is not None and math.isfinite(v.mean)]


def _title(items: Iterable[Folded], pair: Pair) -> str:
    return next((i.title for i in items if (i.metric, i.key) == pair), pair[1])


def _signature(items: Iterable[Folded], pair: Pair) -> str:
    return next((i.signature for i in values_of(items, *pair)), "")


def stars(p_value: float) -> str:
    """Return the stars of a p-value: * below 0.05, ** below 0.01, *** below 0.001."""
    return "*" * sum(p_value < level for level in (0.05, 0.01, 0.001))
