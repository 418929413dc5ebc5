"""Tables about metrics: correlation with human scores, agreement across embedders and options, std over texts."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any

from openended.harness import results as measured
from openended.harness.core import DataError, SpecError
from openended.harness.report.tables.selection import TablePart, check_signatures, select_pairs, split_results
from openended.harness.report.tables.table import Cell, Column, Table, choose_column_decimals
from openended.harness.report.tables.values import build_value_tables
from openended.harness.results import Layout, Pair, Results, SystemValue, get_parent_axis, group_by, group_systems

FEW = "Fewer than three systems have both values, or one value is constant."
ONE_SEED = "Only one seed."
ORIENTED = (
    "Values are oriented so that larger is better and a positive correlation means agreement. If lower is better, the "
    "sign is changed; if a target is best (the human value or a fixed one), minus the distance to it is used."
)
STAND_INS = ("mauve",)  # are compared with only where there are no people and no discriminator
SET_AXES = ("task.start", "task.texts", "task.digest")  # of sets of human texts; the axis of generated ones is the seed
SETS = ("varying Q", "varying P", "varying P and Q")
SETS_REMARKS = (
    "Q: generated texts, one set per seed; P: human texts, one set per task.start.",
    "Sample standard deviation (n − 1), averaged over the other side's sets; mean ± std over systems.",
    "Varying P and Q: the first P with the first Q, the second with the second, and so on.",
)


def stars(p_value: float) -> str:
    """Return significance stars: * for p < 0.05, ** for p < 0.01, *** for p < 0.001."""
    return "*" * sum(p_value < level for level in (0.05, 0.01, 0.001))


def orient_value(value: SystemValue, items: Iterable[SystemValue]) -> float:
    """Return a value oriented so that larger is better: unchanged, negated, or minus the distance to its target."""
    if not math.isfinite(value.mean):
        return math.nan
    return float(measured.orient(value.mean, value.direction, measured.find_target(value, items)))


def correlate(pairs: Iterable[tuple[float, float]], note: str = "", few: str = FEW, **options: Any) -> Cell:  # noqa: ANN401
    """Return the cell of Spearman's ρ over the pairs that have both values; `note` says how many these are."""
    from openended.metrics.correlation import rank_correlation

    both = _select_finite(pairs)
    value = rank_correlation(*zip(*both, strict=True)) if len(both) > 2 else math.nan
    return Cell(value, note=note.format(len(both)), **options) if math.isfinite(value) else Cell(note=few)


def _select_finite(pairs: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    return [(a, b) for a, b in pairs if math.isfinite(a) and math.isfinite(b)]


def _find_like(items: Iterable[SystemValue], pair: Pair) -> SystemValue:
    """Return a system's value of this kind, for title and signature."""
    return next(i for i in items if i.system == "model" and i.pair == pair)


def build_each_part(build: Callable[[TablePart, Layout], Table]) -> Callable[[Results, Layout, str], list[Table]]:
    """Build a table for every part that has enough data; if none has, the first error is raised."""

    @wraps(build)
    def build_tables(results: Results, layout: Layout, name: str) -> list[Table]:
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

    return build_tables


# People and discriminators --------------------------------------------------------------------------------------------


@build_each_part
def build_correlation_tables(part: TablePart, layout: Layout) -> Table:
    """Build a table of Spearman's ρ between metrics and human scores or a discriminator (MAUVE's Tables 5, 10, 14).

    The axes in `columns` (`task`) give each of their values columns of its own, in one table.
    """
    sections, lacking = [], []
    for values, items in group_by(part.items, lambda item: tuple(item.axes[a] for a in layout.columns)).items():
        try:
            sections.append((", ".join(values), items, _collect_scores(replace(part, items=items), layout)))
        except DataError as err:
            lacking.append(err)
    if not sections:
        raise lacking[0]
    metrics_in_order = [target.partition(".")[0] for target in layout.targets]
    sections.sort(key=lambda section: metrics_in_order.index(section[2][2][0][0]))
    pairs = list(dict.fromkeys(pair for _, _, (_, metrics, _) in sections for pair in metrics))
    # Under the metrics: how far the scores agree that they are compared with, and the metrics that stand in for them.
    several = [target for *_, (_, _, targets) in sections for target in targets if len(targets) > 1]
    criteria = [target for target in dict.fromkeys(several) if target not in pairs]
    columns, counts = [], set()
    for section, items, (scores, _, targets) in sections:
        for target in targets:
            cells = []
            for pair in [*pairs, *criteria]:
                cell, count = _correlate_scores(scores, pair, target)
                cells.append(cell)
                counts |= {count} - {0}
            title = ", ".join(filter(None, (_name_target(items, target), section)))
            signature = _find_like(items, target).signature
            columns.append((Column(*target, title, "higher", 3, signature), cells))
    sizes = " to ".join(map(str, sorted({min(counts, default=0), max(counts, default=0)})))
    remarks = (
        f"Spearman's ρ over {sizes} systems, without the human row. {ORIENTED}",
        "* p < 0.05, ** p < 0.01, *** p < 0.001: two-sided permutation test over systems, uncorrected.",
    )
    labels = [_find_like(part.items, pair).title for pair in pairs] + [_name_target(part.items, p) for p in criteria]
    kinds = ["metric"] * len(pairs) + ["summary"] * len(criteria)
    title = f"{layout.title}{part.tasks}"
    return Table.from_columns(
        part.stem, title, labels, columns, remarks, kinds=kinds, lines=[len(pairs)], head="Metric"
    )


def _correlate_scores(scores: Mapping[Pair, Sequence[float]], pair: Pair, target: Pair) -> tuple[Cell, int]:
    """Return the cell of Spearman's ρ of two scores and the number of systems, 0 if there is no correlation."""
    from openended.metrics.correlation import correlate

    if pair == target or pair not in scores:
        return Cell(blank=True), 0
    both = _select_finite(zip(scores[pair], scores[target], strict=True))
    correlation = correlate(*zip(*both, strict=True)) if len(both) > 2 else None
    if correlation is None or not math.isfinite(correlation.value):
        return Cell(note=FEW), 0
    return Cell(correlation.value, suffix=stars(correlation.p_value), signed=True), correlation.n


def _collect_scores(part: TablePart, layout: Layout) -> tuple[dict[Pair, list[float]], list[Pair], list[Pair]]:
    """Return the oriented scores of the systems, the metrics, and the scores that they are compared with."""
    targets = select_pairs(part.items, Layout(metrics=layout.targets, companions=False))
    people = [pair for pair in targets if pair[0] not in STAND_INS]
    metrics = [pair for pair in select_pairs(part.items, layout) if pair not in people]
    systems = group_systems(part.items)
    scores: dict[Pair, list[float]] = {}
    for pair in dict.fromkeys((*metrics, *targets)):
        values = [s.value(*pair) for s in systems]
        check_signatures(pair[0], [v for v in values if v is not None], part.stem, layout.allow)
        scores[pair] = [math.nan if v is None else orient_value(v, part.items) for v in values]
    enough = [pair for pair in targets if sum(map(math.isfinite, scores[pair])) > 2]

    def repeats_criterion(pair: Pair) -> bool:
        metric, key = pair
        return key == metric and any(o[0] == metric and o != pair and scores[o] == scores[pair] for o in enough)

    several = [pair for pair in enough if not repeats_criterion(pair)]
    chosen = [pair for pair in several if pair in people] or several
    pairs = [pair for pair in metrics if pair not in chosen]
    if not chosen or not pairs:
        raise DataError(f"table {part.stem}: none of {', '.join(layout.targets)} was measured on three systems or more")
    return scores, pairs, chosen


def _name_target(items: Sequence[SystemValue], pair: Pair) -> str:
    """Return the name of what metrics are compared with: a criterion of people, or the value's title."""
    title = _find_like(items, pair).title
    return f"BT/{pair[1].replace('_', '-')}" if pair[0] == "bradley_terry" != pair[1] else title


# Embedders and options ------------------------------------------------------------------------------------------------


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
        tables += _build_embedder_agreement(part, replace(layout, title=title), f"{stem}-agreement")
    return tables


def _iterate_option_sets(results: Results, metrics: Sequence[str]) -> Iterator[tuple[str, Results]]:
    """Yield (options, results) for each option set of the first metric with several; all results if there is none."""
    for metric in metrics:
        values = [i for i in results.values if i.metric == metric]
        options = measured.find_differing_options(values)
        option_sets = {tuple(options[i.signature].items()): None for i in values if i.system == "model"}
        if len(option_sets) > 1:
            for where in option_sets:
                part = measured.filter_results(results, {f"{metric}.{option}": value for option, value in where})
                yield measured.format_options(metric, dict(where)), part
            return
    yield "", results


@build_each_part
def _build_embedder_agreement(part: TablePart, layout: Layout) -> Table:
    """Correlate every embedder's scores with those of the first embedder over the systems they share."""
    pairs = select_pairs(part.items, layout)
    values = [i for i in part.items if i.system == "model" and i.pair in pairs]
    sides = {id(i): group_by(i.axes.items(), lambda a: "embedder" in (a[0], get_parent_axis(a[0]))) for i in values}
    rows = {tuple(axes[True]): dict(axes[True]) for axes in sides.values()}
    options = [n for n in dict.fromkeys(n for r in rows.values() for n in r) if n != "embedder"]
    same = group_by(rows.values(), lambda row: row["embedder"])
    names = {}
    for key, row in rows.items():  # with the options in which embedders of one name differ
        differ = measured.find_distinguishing_axes(same[row["embedder"]], options) if len(same) < len(rows) else []
        names[key] = " ".join([row["embedder"], *(measured.format_option(n, row[n]) for n in differ)])
    embedders = sorted(set(names.values()), key=measured.make_natural_sort_key)
    scores: dict[tuple[Pair, str], dict[tuple[tuple[str, str], ...], float]] = {}
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
        cells = [correlate((first[s], other.get(s, math.nan)) for s in first) for other in others]
        columns.append((Column(*pair, _find_like(part.items, pair).title, "higher", 3), cells))
    title = f"{layout.title}{part.tasks}: agreement of embedders"
    remark = f"Spearman's ρ over systems with the values under {embedders[0]}."
    return Table.from_columns(part.stem, title, embedders, columns, [remark], kinds="embedder", head="Embedder")


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
        cells = [correlate(zip(other, column_values, strict=True)) for other in values]
        columns.append((Column(column.metric, column.key, short), cells))
    remark = f"Spearman's ρ over {len(systems)} systems, without the human row, of the values above."
    return Table.from_columns(
        f"{table.name}-agreement", f"{table.title}: agreement of rankings", titles, columns, [remark], kinds="metric",
        head="Scores", about=table.about,
    )  # fmt: skip


# Seeds and sets of texts ----------------------------------------------------------------------------------------------


@build_each_part
def build_seed_std_tables(part: TablePart, layout: Layout) -> Table:
    """Build a table of the standard deviation of every value over seeds and its mean over systems (P&R's Table B.5)."""
    systems = group_systems(part.items)
    columns = []
    for pair in select_pairs(part.items, layout):
        values = [s.value(*pair) for s in systems]
        cells = [Cell(v.sd, n=v.seeds) if v and math.isfinite(v.sd) else Cell(note=ONE_SEED) for v in values]
        finite = [c.value for c in cells if math.isfinite(c.value)]
        cells.append(Cell(math.fsum(finite) / len(finite)) if finite else Cell(note=ONE_SEED))
        columns.append(_build_std_column(part.items, pair, cells))
    seeds = [*(max(i.seeds for i in s.items) for s in systems), 0]
    return Table.from_columns(
        part.stem, f"{layout.title}{part.tasks}", [*(s.name for s in systems), "mean over systems"], columns,
        ["Sample standard deviation (n − 1) over seeds."], show_seeds=True, seeds=seeds,
        kinds=[*("model" for _ in systems), "summary"], lines=[len(systems)],
    )  # fmt: skip


def _build_std_column(items: Sequence[SystemValue], pair: Pair, cells: list[Cell]) -> tuple[Column, list[Cell]]:
    like, digits = _find_like(items, pair), min(4, choose_column_decimals(cells) + 1)
    return Column(*pair, f"sd {like.title}", "none", digits, like.signature), cells


@build_each_part
def build_text_set_tables(part: TablePart, layout: Layout) -> Table:
    """Build a table of stds of values over sets of generated texts, of human texts, and of both (P&R, Table B.5)."""
    import numpy as np

    models = [i for i in part.items if i.system == "model"]
    columns = []
    for pair in select_pairs(models, layout):
        values = [i for i in models if i.pair == pair]
        systems = group_by(values, lambda item: tuple(a for a in item.axes.items() if a[0] not in SET_AXES))
        stds = np.array([_compute_stds(members) for members in systems.values()]).reshape(-1, len(SETS))
        cells = []
        for finite in (column[np.isfinite(column)] for column in stds.T):
            std = float(finite.std(ddof=1)) if len(finite) > 1 else math.nan
            empty = Cell(note="it needs two sets or more")
            cells.append(Cell(float(finite.mean()), std, len(finite)) if len(finite) else empty)
        columns.append(_build_std_column(models, pair, cells))
    return Table.from_columns(part.stem, f"{layout.title}{part.tasks}", SETS, columns, SETS_REMARKS, head="Sets")


def _compute_stds(values: Sequence[SystemValue]) -> tuple[float, float, float]:
    """Return the stds of one system over seeds, over sets of human texts (one value each), and over both at once."""
    import numpy as np

    seeds = sorted(set.intersection(*(set(value.values) for value in values)))
    grid = np.array([[value.values[seed] for seed in seeds] for value in values])  # sets × seeds
    over_seeds = grid.std(axis=1, ddof=1).mean() if len(seeds) > 1 else math.nan
    over_sets = grid.std(axis=0, ddof=1).mean() if len(values) > 1 and seeds else math.nan
    both = np.diag(grid)
    return float(over_seeds), float(over_sets), float(both.std(ddof=1)) if len(both) > 1 else math.nan
