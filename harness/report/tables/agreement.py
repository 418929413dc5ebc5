"""Tables about metrics: correlation with human scores, agreement across embedders and options, std over texts."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from openended.harness import results as measured
from openended.harness.core import F64, DataError
from openended.harness.report.tables.frame import Cell, Filled, Frame, build_frame, make_cell, make_notes, make_quantity
from openended.harness.report.tables.selection import TablePart, check_signatures, select_pairs
from openended.harness.report.tables.values import build_value_frames
from openended.harness.results import Layout, Pair, SystemValue, group_by, group_systems

FEW = "Fewer than three systems have both values, or one value is constant."
ORIENTED = (
    "Values are oriented so that larger is better and a positive correlation means agreement. If lower is better, the "
    "sign is changed; if a target is best (the human value or a fixed one), minus the distance to it is used."
)
STARS = "* p < 0.05, ** p < 0.01, *** p < 0.001: two-sided permutation test over systems, uncorrected."
STAND_INS = ("mauve",)  # are compared with only where there are no people and no discriminator
SET_AXES = ("task.start", "task.texts", "task.digest")  # of sets of human texts; the axis of generated ones is the seed
SETS = ("Varying Q", "Varying P", "Varying P and Q")
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


def correlate(
    pairs: Iterable[Sequence[float] | F64], note: str = "", few: str = FEW, *, test: bool = False, signed: bool = False
) -> Cell:
    """Return the cell of Spearman's ρ over the pairs that have both values, with stars if it is tested.

    `note` says how many pairs these are.
    """
    from openended.metrics import correlation

    first, second = np.array(list(pairs), dtype=np.float64).reshape(-1, 2).T
    value = correlation.rank_correlation(first, second)
    if math.isnan(value):
        return make_cell(note=few)
    suffix = stars(correlation.correlate(first, second, draws=0).p_value) if test else ""
    return make_cell(value, note=note.format(np.isfinite(first + second).sum()), mark=suffix, signed=signed)


def _find_like(items: Iterable[SystemValue], pair: Pair) -> SystemValue:
    """Return a system's value of this kind, for title and signature."""
    return next(i for i in items if i.system == "model" and i.pair == pair)


# People and discriminators --------------------------------------------------------------------------------------------


def build_correlation_frames(part: TablePart, layout: Layout) -> list[Frame]:
    """Build a frame of Spearman's ρ between metrics and human scores or a discriminator (MAUVE's Tables 5, 10, 14).

    Its axes are `metric`, `target` and those that the layout names besides, such as `task`: systems are compared within
    each of their values.
    """
    apart = [axis for axis in (*layout.rows, *layout.columns) if axis not in ("metric", "target")]
    sections, lacking = [], []
    for values, items in group_by(part.items, lambda item: tuple(item.axes[a] for a in apart)).items():
        try:
            sections.append((values, items, *_collect_scores(replace(part, items=items), layout)))
        except DataError as err:
            lacking.append(err)
    if not sections:
        raise lacking[0]
    metrics_in_order = [target.partition(".")[0] for target in layout.targets]
    sections.sort(key=lambda section: metrics_in_order.index(section[-1][0][0]))
    pairs = list(dict.fromkeys(pair for *_, metrics, _ in sections for pair in metrics))
    # Under the metrics: how far the scores agree that they are compared with, and the metrics that stand in for them.
    several = [target for *_, targets in sections for target in targets if len(targets) > 1]
    criteria = [target for target in dict.fromkeys(several) if target not in pairs] if layout.summaries else []
    titles = {pair: _find_like(part.items, pair).title for pair in pairs}
    titles |= {target: _name_target(part.items, target) for target in criteria}
    cells, counts = list[Cell](), set[int]()
    for values, items, scores, _, targets in sections:
        for target in targets:
            name = _name_target(items, target)
            quantity = make_quantity(*target, name, "higher", 3, _find_like(items, target).signature)
            where = dict(zip(apart, values, strict=True)) | {"target": ".".join(target)}
            for pair in [*pairs, *criteria]:
                cell = Cell(blank=True)
                if pair in scores and pair != target:
                    both = zip(scores[pair], scores[target], strict=True)
                    cell = correlate(both, test=layout.stars, signed=layout.stars)
                axes, labels = {"metric": ".".join(pair), **where}, {"metric": titles[pair], "target": name}
                typed, role = {"metric": pair[0], "target": target[0]}, "metric" if pair in pairs else "summary"
                cells.append(replace(cell, **quantity, axes=axes, labels=labels, typed=typed, role=role))
            others = [scores[pair] for pair in [*pairs, *criteria] if pair in scores and pair != target]
            counts |= {int(np.isfinite(np.add(other, scores[target])).sum()) for other in others} - {0, 1, 2}
    sizes = " to ".join(map(str, sorted({min(counts, default=0), max(counts, default=0)})))
    remarks = [f"Spearman's ρ over {sizes} systems, without the human row. {ORIENTED}"]
    remarks += [STARS] if layout.stars else []
    title, notes, sides = f"{layout.title}{part.tasks}", make_notes(remarks), (("metric",), ("target",))
    return [Frame(part.stem, title, tuple(cells), notes, *sides, {"metric": "Metric"}, "target", show_seeds=False)]


def _collect_scores(part: TablePart, layout: Layout) -> tuple[dict[Pair, list[float]], list[Pair], list[Pair]]:
    """Return the oriented scores of the systems, the metrics, and the scores that they are compared with."""
    targets = select_pairs(part.items, layout.targets, companions=False)
    people = [pair for pair in targets if pair[0] not in STAND_INS]
    metrics = [pair for pair in select_pairs(part.items, layout.metrics) if pair not in people]
    systems = group_systems(part.items)
    scores: dict[Pair, list[float]] = {}
    for pair in dict.fromkeys((*metrics, *targets)):
        values = [s.value(*pair) for s in systems]
        check_signatures([v for v in values if v is not None], part.stem, layout.allow)
        scores[pair] = [math.nan if v is None else orient_value(v, part.items) for v in values]
    enough = [pair for pair in targets if sum(map(math.isfinite, scores[pair])) > 2]

    # A metric's own value may repeat that of its only criterion.
    others = {p: [other for other in enough if other[0] == p[0] and other != p] for p in enough}
    several = [p for p in enough if p[0] != p[1] or all(scores[other] != scores[p] for other in others[p])]
    chosen = [pair for pair in several if pair in people] or several
    pairs = [pair for pair in metrics if pair not in chosen]
    if not chosen or not pairs:
        raise DataError(f"none of {', '.join(layout.targets)} was measured on three systems or more")
    return scores, pairs, chosen


def _name_target(items: Sequence[SystemValue], pair: Pair) -> str:
    """Return the name of what metrics are compared with: a criterion of people, or the value's title."""
    title = _find_like(items, pair).title
    return f"BT/{pair[1].replace('_', '-')}" if pair[0] == "bradley_terry" != pair[1] else title


# Embedders and options ------------------------------------------------------------------------------------------------


def build_embedder_frames(part: TablePart, layout: Layout) -> list[Frame]:
    """Build tables of scores per embedder and of the agreement of rankings (MAUVE's Table 12, P&R's Table B.1).

    If a metric was measured under several of its own options (quantizers), each gets separate tables.
    """
    if "embedder" not in part.results.axes:
        raise DataError("these runs have no embedder; set embedder=…")
    tables: list[Frame] = []
    for options, items in _iterate_option_sets(part.items, layout.metrics):
        stem = "-".join(filter(None, (part.stem, options.replace("=", "-").replace(", ", "-"))))
        same = replace(part, items=items, stem=stem)
        title = ", ".join(filter(None, (layout.title, options)))
        values = replace(layout, title=title, human="none", allow=(*layout.allow, "embedder"))
        (agreement,) = build_embedder_agreement_frames(same, replace(layout, title=title))
        name, about = f"{stem}-agreement", f"{agreement.title}: agreement of embedders"
        tables += [*build_value_frames(same, values), replace(agreement, name=name, title=about, appendix=True)]
    return tables


def _iterate_option_sets(items: list[SystemValue], metrics: Sequence[str]) -> Iterator[tuple[str, list[SystemValue]]]:
    """Yield (options, items) for each option set of the first metric with several; all items if there is none."""
    for metric in metrics:
        options = measured.find_differing_options([i for i in items if i.metric == metric])
        option_sets = {
            tuple(options[i.signature].items()): None for i in items if (i.system, i.metric) == ("model", metric)
        }
        if len(option_sets) > 1:
            for where in option_sets:
                of_set = (i.metric != metric or set(where) <= i.fields.items() for i in items)
                words = measured.format_options(metric, dict(where))
                yield words, [i for i, fits in zip(items, of_set, strict=True) if fits]
            return
    yield "", items


def build_embedder_agreement_frames(part: TablePart, layout: Layout) -> list[Frame]:
    """Build a frame of Spearman's ρ between the values under each embedder and the first (P&R's Table B.1).

    The first embedder that the layout names is the one that the others are compared with.
    """
    named, allow = layout.list_values("embedder"), (*layout.allow, "embedder")
    values = replace(layout, rows=(), columns=("metric", "embedder"), human="none", bold="none", allow=allow)
    (frame,) = build_value_frames(part, values)

    def rank(cell: Cell) -> tuple[Any, ...]:
        at = named.index(name) if (name := cell.typed["embedder"]) in named else len(named)
        return at, measured.make_natural_sort_key(cell.axes["embedder"])

    columns: list[Filled] = []
    by_embedder: dict[str, list[Cell]] = {}
    for cells in group_by(sorted(frame.cells, key=rank), lambda cell: cell.axes["metric"]).values():
        by_embedder = group_by(cells, lambda cell: cell.axes["embedder"])
        first, *_ = by_embedder.values()
        cells = [correlate((a.value, b.value) for a, b in zip(first, of, strict=True)) for of in by_embedder.values()]
        columns.append((make_quantity(first[0].name, first[0].key, first[0].title, "higher", 3), cells))
    embedders, title = list(by_embedder), f"{layout.title}{part.tasks}"
    remark = f"Spearman's ρ over systems with the values under {embedders[0]}."
    return [build_frame(part.stem, title, embedders, columns, [remark], roles="embedder", head="Embedder")]


def build_variant_frames(part: TablePart, layout: Layout) -> list[Frame]:
    """Build a table of scores with one column per option set, and a table of Spearman's ρ between the columns."""
    (frame,) = build_value_frames(part, replace(layout, differing="columns"))
    systems = [cell for cell in frame.cells if cell.role == "model"]
    columns = list(group_by(systems, lambda cell: cell.axes["metric"]).values())
    if len(columns) < 2:
        return [frame]
    # Shown are the options without the metric's name, or only their values if all titles list the same options.
    options = [[part.partition("=") for part in cells[0].typed["options"].split(", ")] for cells in columns]
    alike = len({tuple(name for name, _, _ in parts) for parts in options}) == 1
    filled, titles = [], [cells[0].title for cells in columns]
    for (first, *_), cells, parts in zip(columns, columns, options, strict=True):
        short = ", ".join(value if alike else f"{name}{sign}{value}" for name, sign, value in parts) or first.title
        pairs = [[(a.value, b.value) for a, b in zip(other, cells, strict=True)] for other in columns]
        filled.append((make_quantity(first.name, first.key, short, decimals=3), list(map(correlate, pairs))))
    title = f"{frame.title}: agreement of rankings"
    remark = f"Spearman's ρ over {len(columns[0])} systems, without the human row, of the values above."
    agreement = build_frame(
        f"{frame.name}-agreement", title, titles, filled, [remark], roles="metric", head="Scores", appendix=True
    )
    return [frame, agreement]


# Seeds and sets of texts ----------------------------------------------------------------------------------------------


def build_text_set_frames(part: TablePart, layout: Layout) -> list[Frame]:
    """Build a table of stds of values over sets of generated texts, of human texts, and of both (P&R, Table B.5)."""
    models = [i for i in part.items if i.system == "model"]
    columns = []
    for pair in select_pairs(models, layout.metrics):
        values = measured.sort_values((i for i in models if i.pair == pair), SET_AXES)  # the first set starts first
        systems = group_by(values, lambda item: tuple(a for a in item.axes.items() if a[0] not in SET_AXES))
        stds = np.array([_compute_stds(members) for members in systems.values()]).reshape(-1, len(SETS))
        cells = []
        for finite in (column[np.isfinite(column)] for column in stds.T):
            std = float(finite.std(ddof=1)) if len(finite) > 1 else math.nan
            empty = make_cell(note="it needs two sets or more")
            cells.append(make_cell(float(finite.mean()), std, len(finite)) if len(finite) else empty)
        like = _find_like(models, pair)
        columns.append((make_quantity(*pair, f"sd {like.title}", decimals=3, signature=like.signature), cells))
    title = f"{layout.title}{part.tasks}"
    return [build_frame(part.stem, title, SETS, columns, SETS_REMARKS, head="Sets", over="systems")]


def build_tokens_per_word_frames(part: TablePart, layout: Layout) -> list[Frame]:
    """Build a frame of tokens per word of the same texts under each scorer's tokenizer (P&R, Table B.2)."""
    lengths = [i for i in part.items if i.system == "model" and i.pair == ("length", "length")]
    units = {(i.axes["scorer"], i.fields.get("unit")): i.mean for i in lengths}
    scorers = [scorer for scorer, unit in units if unit == "tokens" and (scorer, "words") in units]
    if not scorers:
        raise DataError("no lengths in tokens and in words; set metric.length.unit=tokens,words")
    cells = [units[scorer, "tokens"] / units[scorer, "words"] for scorer in scorers]
    column = make_quantity("length", "tokens_per_word", "Average Tokens per Word", decimals=3)
    remark = "Mean number of tokens divided by the mean number of words at white space."
    return [build_frame(part.stem, f"{layout.title}{part.tasks}", scorers, [(column, cells)], [remark], head="Scorer")]


def _compute_stds(values: Sequence[SystemValue]) -> tuple[float, float, float]:
    """Return the stds of one system over seeds, over sets of human texts (one value each), and over both at once."""
    seeds = sorted(set.intersection(*(set(value.values) for value in values)))
    grid = np.array([[value.values[seed] for seed in seeds] for value in values])  # sets × seeds
    over_seeds = grid.std(axis=1, ddof=1).mean() if len(seeds) > 1 else math.nan
    over_sets = grid.std(axis=0, ddof=1).mean() if len(values) > 1 and seeds else math.nan
    both = np.diag(grid)
    return float(over_seeds), float(over_sets), float(both.std(ddof=1)) if len(both) > 1 else math.nan
