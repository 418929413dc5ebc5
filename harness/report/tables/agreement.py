"""Tables about metrics: agreement with human scores and across embedders, and std over seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from openended.harness.core import DataError, SpecError
from openended.harness.report.tables.run_summary import summarize_sources
from openended.harness.report.tables.selection import (
    check_signatures,
    name_files,
    select_pairs,
    split_axes,
    split_items,
)
from openended.harness.report.tables.systems import build_value_tables
from openended.harness.report.tables.table import Cell, Column, Table, TableRow, choose_column_decimals
from openended.harness.results import (
    Layout,
    Pair,
    Results,
    System,
    SystemValue,
    filter_results,
    find_differing_options,
    find_distinguishing_axes,
    find_human_value,
    format_option,
    format_options,
    get_parent_axis,
    group_systems,
    make_natural_sort_key,
    select_values,
)

Make = Callable[[Sequence[SystemValue], Layout, str, str], Table]
FEW = "Fewer than three systems have both values, or one value is constant."
ORIENTED = (
    "Values are oriented so that larger is better and a positive correlation means agreement. If lower is better, the "
    "sign is changed; if a target is best (the human value or a fixed one), minus the distance to it is used."
)


def build_correlation_tables(results: Results, layout: Layout, name: str) -> list[Table]:
    """Build tables of Spearman's ρ between metrics and human scores or a discriminator (MAUVE's Tables 5, 10, 14)."""
    return _build_per_part(results, layout, name, _build_correlation_table)


def _build_correlation_table(items: Sequence[SystemValue], layout: Layout, name: str, title: str) -> Table:
    from openended.metrics.correlation import correlate

    targets = select_pairs(items, Layout(metrics=layout.targets, companions=False))
    pairs = [p for p in select_pairs(items, layout) if p not in targets]
    systems = group_systems(items)
    for pair in (*pairs, *targets):
        check_signatures(pair[0], [i for s in systems if (i := s.value(*pair))], name, layout.allow)
    targets = [t for t in targets if len(_select_measured(systems, t)) > 2]
    if not targets or not pairs:
        raise DataError(f"table {name}: none of {', '.join(layout.targets)} was measured on three systems or more")
    rows, notes = [], set()
    for pair in pairs:
        cells = []
        for target in targets:
            both = [(_orient_system(s, pair, items), _orient_system(s, target, items)) for s in systems]
            both = [(a, b) for a, b in both if math.isfinite(a) and math.isfinite(b)]
            correlation = correlate(*zip(*both, strict=True)) if len(both) > 2 else None
            if correlation is None or not math.isfinite(correlation.value):
                cells.append(Cell(note=FEW))
                continue
            notes.add(correlation.n)
            cells.append(Cell(correlation.value, suffix=stars(correlation.p_value), signed=True))
        rows.append(TableRow(_find_title(items, pair), "metric", tuple(cells)))
    columns = tuple(Column(*t, f"{_find_title(items, t)}", "higher", 3, _find_signature(items, t)) for t in targets)
    remarks = (
        f"Spearman's ρ over {' or '.join(map(str, sorted(notes)))} systems, without the human row. {ORIENTED}",
        "* p < 0.05, ** p < 0.01, *** p < 0.001: two-sided permutation test over systems, uncorrected.",
    )
    return Table(name, title, columns, tuple(rows), remarks, head="Metric", show_seeds=False)


def build_embedder_tables(results: Results, layout: Layout, name: str) -> list[Table]:
    """Build tables of scores per embedder and of the agreement of rankings (MAUVE's Table 12, P&R's Table B.1).

    If a metric was measured under several of its own options (quantizers), each gets separate tables.
    """
    if "embedder" not in results.axes:
        raise DataError(f"table {name}: these runs have no embedder; set embedder=…")
    tables: list[Table] = []
    for option_text, part in _iterate_option_sets(results, layout.metrics):
        part_layout = replace(layout, title=", ".join(filter(None, (layout.title, option_text))))
        tables += _build_embedder_tables(
            part, part_layout, "-".join(filter(None, (name, option_text.replace("=", "-").replace(", ", "-"))))
        )
    return tables


def _iterate_option_sets(results: Results, metrics: Sequence[str]) -> Iterator[tuple[str, Results]]:
    """Yield (options, results) for each option set of the first metric with several; all results if there is none."""
    for metric in metrics:
        values = [i for i in results.values if i.metric == metric]
        options = find_differing_options(values)
        option_sets = {tuple(options[i.signature].items()): None for i in values if i.system == "model"}
        if len(option_sets) > 1:
            for where in option_sets:
                part = filter_results(results, {f"{metric}.{option}": value for option, value in where})
                yield format_options(metric, dict(where)), part
            return
    yield "", results


def _build_embedder_tables(results: Results, layout: Layout, name: str) -> list[Table]:
    values_layout = Layout(
        title=layout.title,
        metrics=layout.metrics,
        columns=("embedder",),
        human=False,
        split=layout.split,
        allow=("embedder",),
    )
    return [
        *build_value_tables(results, values_layout, name),
        *_build_per_part(results, layout, f"{name}-agreement", _build_agreement_table),
    ]


def _build_agreement_table(items: Sequence[SystemValue], layout: Layout, name: str, title: str) -> Table:
    """Correlate every embedder's scores with those of the first embedder over the systems they share."""
    from openended.metrics.correlation import rank_correlation

    pairs = select_pairs(items, layout)
    values = [i for i in items if i.system == "model" and (i.metric, i.key) in set(pairs)]
    names = _name_embedders(values)
    embedders = sorted(set(names.values()), key=make_natural_sort_key)
    scores: dict[tuple[Pair, str], dict[tuple[tuple[str, str], ...], float]] = {}
    for item in values:
        system = tuple(sorted((a, v) for a, v in item.axes.items() if "embedder" not in (a, get_parent_axis(a))))
        scores_by_system = scores.setdefault(((item.metric, item.key), names[_identify_embedder(item)]), {})
        if system in scores_by_system:
            raise SpecError(
                f"table {name}: {item.metric} has several values for one system and embedder; add an axis to `split`"
            )
        scores_by_system[system] = item.mean
    rows = []
    for embedder in embedders:
        cells = []
        for pair in pairs:
            a, b = scores.get((pair, embedders[0]), {}), scores.get((pair, embedder), {})
            shared = [s for s in a if math.isfinite(a[s]) and math.isfinite(b.get(s, math.nan))]
            value = rank_correlation([a[s] for s in shared], [b[s] for s in shared]) if len(shared) > 2 else math.nan
            cells.append(Cell(value) if math.isfinite(value) else Cell(note=FEW))
        rows.append(TableRow(embedder, "embedder", tuple(cells)))
    columns = tuple(Column(*p, _find_title(items, p), "higher", 3) for p in pairs)
    remark = f"Spearman's ρ over systems with the values under {embedders[0]}."
    return Table(
        name, f"{title}: agreement of embedders", columns, tuple(rows), (remark,), head="Embedder", show_seeds=False
    )


def _identify_embedder(item: SystemValue) -> tuple[tuple[str, str], ...]:
    return tuple((a, v) for a, v in item.axes.items() if "embedder" in (a, get_parent_axis(a)))


def _name_embedders(items: Sequence[SystemValue]) -> dict[tuple[tuple[str, str], ...], str]:
    """Return embedder → its name, with options if embedders of that name differ in them."""
    every = list(dict.fromkeys(_identify_embedder(i) for i in items))
    rows = [dict(e) for e in every]
    differ = find_distinguishing_axes(rows, [n for n in dict.fromkeys(n for r in rows for n in r) if n != "embedder"])
    return {
        e: " ".join([r["embedder"], *(format_option(n, r[n]) for n in differ)])
        for e, r in zip(every, rows, strict=True)
    }


def build_seed_std_tables(results: Results, layout: Layout, name: str) -> list[Table]:
    """Build tables of the standard deviation of every value over seeds and its mean over systems (P&R's Table B.5)."""
    return _build_per_part(results, layout, name, _build_seed_std_table)


def _build_seed_std_table(items: Sequence[SystemValue], layout: Layout, name: str, title: str) -> Table:
    pairs = select_pairs(items, layout)
    rows, columns, cells = group_systems(items), [], []
    for pair in pairs:
        values = [s.value(*pair) for s in rows]
        column = [Cell(v.sd, n=v.seeds) if v and math.isfinite(v.sd) else Cell(note="Only one seed.") for v in values]
        spreads = [c.value for c in column if math.isfinite(c.value)]
        mean = math.fsum(spreads) / len(spreads) if spreads else math.nan
        column.append(Cell(mean) if spreads else Cell(note="Only one seed."))
        columns.append(
            Column(
                *pair,
                f"sd {_find_title(items, pair)}",
                "none",
                min(4, choose_column_decimals(column) + 1),
                _find_signature(items, pair),
            )
        )
        cells.append(column)
    labels = [(s.name, "model", max(i.seeds for i in s.items)) for s in rows] + [("mean over systems", "summary", 0)]
    table_rows = [
        TableRow(label, system, tuple(c[i] for c in cells), seeds, rule=system == "summary")
        for i, (label, system, seeds) in enumerate(labels)
    ]
    return Table(name, title, tuple(columns), tuple(table_rows), ("Sample standard deviation (n − 1) over seeds.",))


def _build_per_part(results: Results, layout: Layout, name: str, make: Make) -> list[Table]:
    items = results.values
    axes = split_axes(items, layout)
    tables: list[Table] = []
    lacking: list[DataError] = []
    parts = split_items(items, axes)
    for part, stem in zip(parts.values(), name_files(name, list(parts)), strict=True):
        tasks = sorted({i.axes.get("task", "") for i in part if i.system == "model"})
        title = f"{layout.title} on {', '.join(filter(None, tasks))}" if any(tasks) else layout.title
        try:
            tables.append(replace(make(part, layout, stem, title), about=summarize_sources(part, results.runs)))
        except DataError as err:  # this part lacks data; another part may have it
            lacking.append(err)
    if not tables and lacking:
        raise lacking[0]
    return tables


def _orient_system(system: System, pair: Pair, items: Iterable[SystemValue]) -> float:
    """Return a system's value oriented so that larger is better; NaN if there is none."""
    value = system.value(*pair)
    return math.nan if value is None else orient_value(value, items)


def orient_value(value: SystemValue, items: Iterable[SystemValue]) -> float:
    """Return a value oriented so that larger is better: unchanged, negated, or minus the distance to its target."""
    from openended.metrics.correlation import agreement_scores

    if not math.isfinite(value.mean):
        return math.nan
    if value.target is not None:
        return -abs(value.mean - value.target)
    human = find_human_value(items, value)
    if value.direction == "match_human" and (human is None or not math.isfinite(human.mean)):
        return math.nan
    target = human.mean if human is not None else None
    return float(agreement_scores([value.mean], direction=value.direction, human=target)[0])  # type: ignore[arg-type]


def _select_measured(systems: Iterable[System], pair: Pair) -> list[System]:
    return [s for s in systems if (v := s.value(*pair)) is not None and math.isfinite(v.mean)]


def _find_title(items: Iterable[SystemValue], pair: Pair) -> str:
    return next((i.title for i in items if (i.metric, i.key) == pair), pair[1])


def _find_signature(items: Iterable[SystemValue], pair: Pair) -> str:
    return next((i.signature for i in select_values(items, *pair)), "")


def stars(p_value: float) -> str:
    """Return significance stars: * for p < 0.05, ** for p < 0.01, *** for p < 0.001."""
    return "*" * sum(p_value < level for level in (0.05, 0.01, 0.001))
