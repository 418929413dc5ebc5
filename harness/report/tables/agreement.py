"""Tables about metrics: agreement with human scores, across embedders and across options, and std over seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from openended.harness.core import DataError, SpecError
from openended.harness.report.tables.selection import TablePart, check_signatures, select_pairs, split_results
from openended.harness.report.tables.systems import build_value_tables
from openended.harness.report.tables.table import Cell, Column, Table, choose_column_decimals
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
    group_by,
    group_systems,
    make_natural_sort_key,
)

FEW = "Fewer than three systems have both values, or one value is constant."
ONE_SEED = "Only one seed."
ORIENTED = (
    "Values are oriented so that larger is better and a positive correlation means agreement. If lower is better, the "
    "sign is changed; if a target is best (the human value or a fixed one), minus the distance to it is used."
)
STAND_INS = ("mauve",)  # are compared with only where there are no people and no discriminator
AxisValues = tuple[tuple[str, str], ...]


def build_correlation_tables(results: Results, layout: Layout, name: str) -> list[Table]:
    """Build tables of Spearman's ρ between metrics and human scores or a discriminator (MAUVE's Tables 5, 10, 14)."""
    return _build_per_part(results, layout, name, _build_correlation_table)


def _build_correlation_table(part: TablePart, layout: Layout) -> Table:
    from openended.metrics.correlation import correlate

    items = part.items
    systems = group_systems(items)
    scores, pairs, targets = _collect_scores(part, layout, systems)
    # Under the metrics: how far the scores agree that they are compared with, and the metrics that stand in for them.
    criteria = [target for target in targets if target not in pairs] if len(targets) > 1 else []
    columns, counts = [], set()
    for target in targets:
        cells = []
        for pair in [*pairs, *criteria]:
            both = _pair_finite(scores[pair], scores[target])
            correlation = correlate(*zip(*both, strict=True)) if len(both) > 2 and pair != target else None
            if correlation is None or not math.isfinite(correlation.value):
                cells.append(Cell(blank=True) if pair == target else Cell(note=FEW))
                continue
            counts.add(correlation.n)
            cells.append(Cell(correlation.value, suffix=stars(correlation.p_value), signed=True))
        like = _find_like(items, target)
        columns.append((Column(*target, _name_target(items, target), "higher", 3, like.signature), cells))
    remarks = (
        f"Spearman's ρ over {' or '.join(map(str, sorted(counts)))} systems, without the human row. {ORIENTED}",
        "* p < 0.05, ** p < 0.01, *** p < 0.001: two-sided permutation test over systems, uncorrected.",
    )
    labels = [_find_like(items, pair).title for pair in pairs] + [_name_target(items, pair) for pair in criteria]
    kinds = ["metric"] * len(pairs) + ["summary"] * len(criteria)
    table = Table.from_columns(
        part.stem, f"{layout.title}{part.tasks}", labels, columns, remarks, kinds=kinds, head="Metric"
    )
    rows = tuple(replace(row, rule=at == len(pairs)) for at, row in enumerate(table.rows))
    return replace(table, rows=rows)


def _collect_scores(
    part: TablePart, layout: Layout, systems: Sequence[System]
) -> tuple[dict[Pair, list[float]], list[Pair], list[Pair]]:
    """Return the oriented scores of the systems, the metrics, and the scores that they are compared with."""
    targets = select_pairs(part.items, Layout(metrics=layout.targets, companions=False))
    people = [pair for pair in targets if pair[0] not in STAND_INS]
    metrics = [pair for pair in select_pairs(part.items, layout) if pair not in people]
    scores: dict[Pair, list[float]] = {}
    for pair in dict.fromkeys((*metrics, *targets)):
        values = [s.value(*pair) for s in systems]
        check_signatures(pair[0], [v for v in values if v is not None], part.stem, layout.allow)
        scores[pair] = [math.nan if v is None else orient_value(v, part.items) for v in values]
    measured = [pair for pair in targets if sum(map(math.isfinite, scores[pair])) > 2]
    several = [pair for pair in measured if not _repeats_criterion(pair, measured, scores)]
    chosen = [pair for pair in several if pair in people] or several
    pairs = [pair for pair in metrics if pair not in chosen]
    if not chosen or not pairs:
        raise DataError(f"table {part.stem}: none of {', '.join(layout.targets)} was measured on three systems or more")
    return scores, pairs, chosen


def _repeats_criterion(pair: Pair, others: Sequence[Pair], scores: Mapping[Pair, Sequence[float]]) -> bool:
    """Return whether a value is that of one of the metric's criteria."""
    metric, key = pair
    return key == metric and any(o[0] == metric and o != pair and scores[o] == scores[pair] for o in others)


def _name_target(items: Sequence[SystemValue], pair: Pair) -> str:
    """Return the name of what metrics are compared with: a criterion of people, or the value's title."""
    title = _find_like(items, pair).title
    return f"BT/{pair[1].replace('_', '-')}" if pair[0] == "bradley_terry" != pair[1] else title


def build_embedder_tables(results: Results, layout: Layout, name: str) -> list[Table]:
    """Build tables of scores per embedder and of the agreement of rankings (MAUVE's Table 12, P&R's Table B.1).

    If a metric was measured under several of its own options (quantizers), each gets separate tables.
    """
    if "embedder" not in results.axes:
        raise DataError(f"table {name}: these runs have no embedder; set embedder=…")
    tables: list[Table] = []
    for options, part in _iterate_option_sets(results, layout.metrics):
        title = ", ".join(filter(None, (layout.title, options)))
        stem = "-".join(filter(None, (name, options.replace("=", "-").replace(", ", "-"))))
        values = Layout(
            title=title, metrics=layout.metrics, columns=("embedder",), human=False, split=layout.split,
            allow=("embedder",),
        )  # fmt: skip
        tables += build_value_tables(part, values, stem)
        tables += _build_per_part(part, replace(layout, title=title), f"{stem}-agreement", _build_agreement_table)
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


def _build_agreement_table(part: TablePart, layout: Layout) -> Table:
    """Correlate every embedder's scores with those of the first embedder over the systems they share."""
    pairs = select_pairs(part.items, layout)
    values = [i for i in part.items if i.system == "model" and i.pair in pairs]
    sides = {id(i): group_by(i.axes.items(), lambda a: "embedder" in (a[0], get_parent_axis(a[0]))) for i in values}
    rows = {tuple(axes[True]): dict(axes[True]) for axes in sides.values()}
    options = [n for n in dict.fromkeys(n for r in rows.values() for n in r) if n != "embedder"]
    differ = find_distinguishing_axes(list(rows.values()), options)  # if embedders of one name differ in them
    names = {e: " ".join([r["embedder"], *(format_option(n, r[n]) for n in differ)]) for e, r in rows.items()}
    embedders = sorted(set(names.values()), key=make_natural_sort_key)
    scores: dict[tuple[Pair, str], dict[AxisValues, float]] = {}
    for item in values:
        system = tuple(sorted(sides[id(item)].get(False, ())))
        scores_by_system = scores.setdefault((item.pair, names[tuple(sides[id(item)][True])]), {})
        if system in scores_by_system:
            what = f"{item.metric} has several values for one system and embedder"
            raise SpecError(f"table {part.stem}: {what}; add an axis to `split`")
        scores_by_system[system] = item.mean
    columns = []
    for pair in pairs:
        first = scores.get((pair, embedders[0]), {})
        others = [scores.get((pair, embedder), {}) for embedder in embedders]
        cells = [_correlate([(first[s], other.get(s, math.nan)) for s in first]) for other in others]
        columns.append((Column(*pair, _find_like(part.items, pair).title, "higher", 3), cells))
    title = f"{layout.title}{part.tasks}: agreement of embedders"
    remark = f"Spearman's ρ over systems with the values under {embedders[0]}."
    kinds = ["embedder"] * len(embedders)
    return Table.from_columns(part.stem, title, embedders, columns, [remark], kinds=kinds, head="Embedder")


def build_variant_tables(results: Results, layout: Layout, name: str) -> list[Table]:
    """Build a table of scores with one column per option set, and a table of Spearman's ρ between the columns."""
    tables: list[Table] = []
    for table in build_value_tables(results, replace(layout, kind="values", differing="columns"), name):
        tables += [table, *([_build_variant_agreement(table)] if len(table.columns) > 1 else [])]
    return tables


def _build_variant_agreement(table: Table) -> Table:
    """Correlate all pairs of columns over the systems that have both values."""
    systems = [row for row in table.rows if row.system == "model"]
    values = [[row.cells[i].value for row in systems] for i in range(len(table.columns))]
    titles = [c.title for c in table.columns]
    # Shown are the options without the metric's name, or only their values if all titles list the same options.
    options = [[part.partition("=") for part in t.partition("(")[2].rpartition(")")[0].split(", ")] for t in titles]
    alike = len({tuple(name for name, _, _ in parts) for parts in options}) == 1
    columns = []
    for column, column_values, parts in zip(table.columns, values, options, strict=True):
        short = ", ".join(value if alike else f"{name}{sign}{value}" for name, sign, value in parts) or column.title
        cells = [_correlate(list(zip(other, column_values, strict=True))) for other in values]
        columns.append((Column(column.metric, column.key, short), cells))
    remark = f"Spearman's ρ over {len(systems)} systems, without the human row, of the values above."
    return Table.from_columns(
        f"{table.name}-agreement", f"{table.title}: agreement of rankings", titles, columns, [remark],
        kinds=["metric"] * len(titles), head="Scores", about=table.about,
    )  # fmt: skip


def build_seed_std_tables(results: Results, layout: Layout, name: str) -> list[Table]:
    """Build tables of the standard deviation of every value over seeds and its mean over systems (P&R's Table B.5)."""
    return _build_per_part(results, layout, name, _build_seed_std_table)


def _build_seed_std_table(part: TablePart, layout: Layout) -> Table:
    systems = group_systems(part.items)
    columns = []
    for pair in select_pairs(part.items, layout):
        values = [s.value(*pair) for s in systems]
        cells = [Cell(v.sd, n=v.seeds) if v and math.isfinite(v.sd) else Cell(note=ONE_SEED) for v in values]
        finite = [c.value for c in cells if math.isfinite(c.value)]
        cells.append(Cell(math.fsum(finite) / len(finite)) if finite else Cell(note=ONE_SEED))
        like = _find_like(part.items, pair)
        digits = min(4, choose_column_decimals(cells) + 1)
        columns.append((Column(*pair, f"sd {like.title}", "none", digits, like.signature), cells))
    remarks = ("Sample standard deviation (n − 1) over seeds.",)
    labels = [*(s.name for s in systems), "mean over systems"]
    table = Table.from_columns(
        part.stem, f"{layout.title}{part.tasks}", labels, columns, remarks, show_seeds=True,
        kinds=[*("model" for _ in systems), "summary"],
    )  # fmt: skip
    seeds = [replace(r, seeds=max(i.seeds for i in s.items)) for r, s in zip(table.rows, systems, strict=False)]
    return replace(table, rows=(*seeds, replace(table.rows[-1], rule=True)))


def _build_per_part(
    results: Results, layout: Layout, name: str, build: Callable[[TablePart, Layout], Table]
) -> list[Table]:
    """Build a table for every part that has enough data; if none has, the first error is raised."""
    tables: list[Table] = []
    lacking: list[DataError] = []
    for part in split_results(results, layout, name):
        try:
            tables.append(replace(build(part, layout), about=part.about))
        except DataError as err:
            lacking.append(err)
    if not tables and lacking:
        raise lacking[0]
    return tables


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


def _correlate(pairs: Sequence[tuple[float, float]]) -> Cell:
    """Return the cell of Spearman's ρ over the pairs that have both values."""
    from openended.metrics.correlation import rank_correlation

    both = _pair_finite(*zip(*pairs, strict=True)) if pairs else []
    value = rank_correlation(*zip(*both, strict=True)) if len(both) > 2 else math.nan
    return Cell(value) if math.isfinite(value) else Cell(note=FEW)


def _pair_finite(first: Sequence[float], second: Sequence[float]) -> list[tuple[float, float]]:
    return [(a, b) for a, b in zip(first, second, strict=True) if math.isfinite(a) and math.isfinite(b)]


def _find_like(items: Iterable[SystemValue], pair: Pair) -> SystemValue:
    """Return a system's value of this kind, for title and signature."""
    return next(i for i in items if i.system == "model" and i.pair == pair)


def stars(p_value: float) -> str:
    """Return significance stars: * for p < 0.05, ** for p < 0.01, *** for p < 0.001."""
    return "*" * sum(p_value < level for level in (0.05, 0.01, 0.001))
