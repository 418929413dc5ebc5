"""Tables of systems × metrics, built from aggregated values."""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from openended.harness import core, results as measured
from openended.harness.core import DataError, SpecError, compare_signatures, find_member, parse_yaml
from openended.harness.report.analysis.paired import compute_equality_p_value, describe_estimates
from openended.harness.report.analysis.power import compute_resolution
from openended.harness.report.tables import frame as frames, selection
from openended.harness.report.tables.frame import Cell, Frame, Note, NoteKind, Quantity, make_cell
from openended.harness.report.tables.selection import TablePart
from openended.harness.results import Layout, Pair, SystemValue, find_human_value, find_interval, group_by

_TITLES = {"task.texts": "human texts", "task.digest": "data"}
NO_HUMAN = "No human value was measured."
NOT_HUMAN = {
    "two_sample": "Compares a system with the human text, so the human text itself has no value.",
    "teacher_forced": "Uses the decoder's distribution on human text, so the human text itself has no value.",
}
NOT_MEASURED = "Not measured for this system."
NO_VARIATION = "No variation seen: all replicates of this value are equal, so there is no interval."
NOT_COMPARABLE = "not comparable"
LEAST_COVERED, MOST_COVERED = 92, 98  # percent; outside, a line says so
CEILING = "Human–human reference: two disjoint sets of human text against each other"
UNSHARED = "The two sets of a human–human reference have different prompts, so a system can score above it."

RowKey = tuple[str, ...]
Label = Callable[[SystemValue], str]


def build_value_frames(part: TablePart, layout: Layout) -> list[Frame]:
    """Build the frame of systems × values of a part."""
    return [_ValueFrame(part, layout).build()]


def rank_systems(part: TablePart, pair: Pair) -> list[Cell]:
    """Return the cells of one value of the systems that may be best, best first, marked as in a table."""
    frame = _ValueFrame(part, Layout(metrics=(".".join(pair),), differing="mark"))
    quantity, contents, _ = frame.build_column(pair, {}, "", [i for i in part.items if i.pair == pair])
    cells = frames.mark_best(frames.fill_column(quantity, contents, ["model"] * len(contents)), frame.compare)
    return [] if frames.is_out_of_domain(quantity["signature"]) else [cells[at] for at in frames.rank_cells(cells)]


class _ValueFrame:
    """The values of one table, and the systems that have them."""

    def __init__(self, part: TablePart, layout: Layout) -> None:
        if layout.gaps == "log":
            part = replace(part, items=measured.take_logarithms(part.items))
        self.part, self.layout = part, layout
        self.pairs = selection.select_pairs(part.items, layout.metrics)
        if not self.pairs:
            keys = sorted({".".join(item.pair) for item in part.items})
            requested = ", ".join(layout.metrics) or "any metric"
            raise DataError(f"none of the runs measured {requested}{core.suggest(requested, keys)}")
        valued = {i.pair for i in part.items if math.isfinite(i.mean)}
        visible = [pair for pair in self.pairs if pair in valued or layout.metrics] or self.pairs
        self.empty = [pair for pair in self.pairs if pair not in visible]
        self.pairs = visible
        self.models = [i for i in part.items if i.system == "model" and i.pair in self.pairs]
        self.names = list(self.models[0].axes)
        # Values are compared within each value of these axes.
        self.apart = measured.add_options(layout.list_compared_apart(), self.names)
        self.outer = {*self.apart, *part.where}  # shown by other headings and by the title
        self.varying = [a for a in measured.find_varying_axes(self.models) if a not in self.outer]
        self.axes = [a for a in self.names if a not in self.outer]  # those that tell systems apart
        ordered = measured.sort_values(self.models, ["model", "decoder", *self.varying, *self.names])
        self.rows: dict[RowKey, list[SystemValue]] = group_by(ordered, self.get_row)

    def get_row(self, item: SystemValue) -> RowKey:
        return tuple(item.axes.get(a, "") for a in self.axes)

    def build(self) -> Frame:
        layout, part, models, results = self.layout, self.part, self.models, self.part.results
        distinct = {tuple(i.axes[n] for n in self.apart): i.axes for i in models}
        differ = measured.find_distinguishing_axes(list(distinct.values()), self.apart)
        apart = [n for n in self.apart if n in layout.list_compared_apart() or n in differ]
        built = [
            self.build_column(pair, dict(zip(apart, where, strict=True)), options, candidates)
            for pair in self.pairs
            for where in sorted({tuple(i.axes[a] for a in apart) for i in models})
            for options, candidates in self.iterate_variants(pair)
        ]
        firsts = [items[0] for items in self.rows.values()]
        labels = dict(zip(self.rows, measured.label_systems(firsts, self.outer), strict=True))  # in notes
        humans = self.build_human_rows([(quantity, signatures) for quantity, _, signatures in built])
        printed = [
            a for a in (*layout.rows, *layout.columns) if a in self.names and a not in layout.list_compared_apart()
        ]
        titles = {axis: measured.label_axis(firsts, axis) for axis in printed}
        titles["system"] = measured.label_systems(firsts, {*self.outer, *measured.add_options(printed, self.names)})
        rows: list[tuple[dict[str, str], Mapping[str, str], int]]  # axes, also as typed, and number of seeds
        rows = [({"system": label}, {}, 0) for label, _ in humans]
        for at, items in enumerate(self.rows.values()):
            axes = {axis: of[at] for axis, of in titles.items()}
            rows.append((axes, items[0].axes, max(i.seeds for i in items)))
        roles = ["human"] * len(humans) + ["model"] * len(self.rows)
        columns = [
            frames.fill_column(quantity, [*(c[at] for _, c in humans), *contents], roles)
            for at, (quantity, contents, _) in enumerate(built)
        ]
        if layout.bold == "tests":
            columns = [frames.mark_best(cells, self.compare) for cells in columns]
        for cell, (axes, typed, seeds) in (both for cells in columns for both in zip(cells, rows, strict=True)):
            cell.axes, cell.typed, cell.seeds = {**cell.axes, **axes}, {**typed, **cell.typed}, seeds

        def label(item: SystemValue) -> str:
            return labels[self.get_row(item)]

        tested = {(cell.name, cell.key) for cells in columns for cell in cells if cell.rule == "tests"}
        estimates, signatures = describe_estimates(results, (item for item in models if item.pair in tested))
        counts = " or ".join(map(str, sorted({i.seeds for i in models if i.seeds > 1})))
        means = [f"Means over {counts} seeds."] if counts else []
        means += [] if layout.decimals or layout.significant else [frames.RULE]
        caveats = list_caveats(models, label, intervals=layout.uncertainty == "interval")
        noted = group_by([*list_run_notes(models, label), *caveats], lambda note: note.kind)
        remarks: list[str | Note] = [*describe_coverage(columns), *name_equal_systems(models, label)]
        remarks += [*self.describe_empty(), *noted.get("remark", ())]
        warnings = (*noted.get("warning", ()), *warn_of_human_counts(models, part.items), *self.list_unknown_keys())
        rules: list[str | Note] = [*describe_classifier_errors(models, label), *estimates]
        rules += [*describe_resolution(columns, part), *noted.get("rule", ())]
        rules += [*self.describe_ceilings(), *means, *signatures]
        options = (f"{_TITLES.get(axis, axis)}={value}" for axis, value in part.where.items() if axis != "task")
        title = ", ".join([f"{layout.title}{part.tasks}", *self.name_model(), *options])
        cells = tuple(itertools.chain.from_iterable(columns))
        return Frame(part.stem, title, cells, frames.make_notes(remarks, warnings, rules), heads={"system": "System"})

    def name_model(self) -> list[str]:
        """Name the model of all systems where they have one, which no row and no column shows then."""
        axes = {*self.outer, *self.layout.rows, *self.layout.columns}
        names = {(i.titles[0], i.axes.get("decoder") == "imported") for i in self.models}
        ((title, is_imported), *others) = names
        return [f"model={title}"] if title and not (others or is_imported or "model" in axes) else []

    def compare(self, cell: Cell, best: Cell) -> float:
        """Return the p-value that the systems of two cells are equally good; NaN if it cannot be tested."""
        is_log_gap = self.layout.gaps == "log" and cell.human is not None  # the tests are of values and distances
        if cell.source is None or best.source is None or is_log_gap:
            return math.nan
        return compute_equality_p_value(self.part.results, self.part.items, cell.source, best.source)

    def describe_ceilings(self) -> list[str]:
        """Say what the human–human reference of a task with prompts does not mean."""
        tasks = {i.axes.get("task", "") for i in self.part.items if i.system == "ceiling" and i.pair in self.pairs}
        has_prompts = any(getattr(find_member("task", task), "prompted", True) for task in tasks)
        is_printed = self.layout.ceilings and self.layout.human != "none"
        return [UNSHARED] if has_prompts and is_printed else []

    def describe_empty(self) -> list[str]:
        """Name the values that no system has, by the reason."""
        reasons = {i.pair: i.reason for i in self.part.items if i.system == "model"}
        groups = group_by(self.empty, reasons.__getitem__)
        names = {reason: ", ".join(dict.fromkeys(metric for metric, _ in pairs)) for reason, pairs in groups.items()}
        return [f"No column, for lack of values: {of}: {reason}." for reason, of in names.items()]

    def list_unknown_keys(self) -> list[str]:
        """Name the values that the layout requests of a measured metric and that neither it nor its class has."""
        titles = {metric: getattr(find_member("metric", metric), "titles", {}) for metric, _ in self.pairs}
        keys = {m: sorted({*of, *(i.key for i in self.models if i.metric == m)}) for m, of in titles.items()}
        requested = [pattern.partition(".") for pattern in self.layout.metrics]
        return [
            f"{metric} has no value {key!r}{core.suggest(key, keys[metric])}"
            for metric, _, key in requested
            if metric in keys and key not in ("", "*", *keys[metric])
        ]

    def iterate_variants(self, pair: Pair) -> Iterator[tuple[str, list[SystemValue]]]:
        """Yield (distinguishing options, values) per signature; a single group if signatures must not differ."""
        values = [i for i in self.part.items if i.pair == pair]
        if self.layout.differing != "columns":
            yield "", values
            return
        models = [i for i in values if i.system == "model"]
        defined = [i for i in models if math.isfinite(i.mean)]  # a value that is undefined has no column of its own
        options = measured.find_differing_options(defined or models, ignored=())
        names = {signature: measured.format_options(pair[0], differ) for signature, differ in options.items()}
        for signature in sorted(names, key=lambda s: measured.make_natural_sort_key(names[s])):
            # With several samples per prompt, systems have more texts than people.
            humans = [i for i in values if i.system == "human" and compare_signatures(i.signature, signature) == ["n"]]
            others = [i for i in values if i.signature == signature or i.system == "ceiling"]
            yield names[signature], [*others, *humans]

    def build_column(
        self, pair: Pair, where: Mapping[str, str], options: str, candidates: Sequence[SystemValue]
    ) -> tuple[Quantity, list[Cell], set[str]]:
        """Return what a value is and where it belongs, its cells, one per system, and the signatures of the systems."""
        layout = self.layout
        here = [i for i in candidates if i.system != "model" or all(i.axes[a] == v for a, v in where.items())]
        models, references = [i for i in here if i.system == "model"], [i for i in here if i.system != "model"]
        defined = [i for i in models if math.isfinite(i.mean)]
        models = [i for i in models if math.isfinite(i.mean) or not defined or i.signature == defined[0].signature]
        minority = selection.select_minority(models) if layout.differing == "mark" else []
        signatures = {i.signature for i in models} - {i.signature for i in minority}
        models = [i for i in models if i.signature in signatures]
        if layout.differing != "mark":
            selection.check_signatures(models, self.part.stem, layout.allow)
        first = ([i for i in models if i.direction != "none"] or models or here or candidates)[0]
        gap = layout.gaps and first.direction == "match_human"
        models_of_part = (i for i in self.part.items if i.system == "model" and i.metric == pair[0])
        missing = {self.get_row(i): i.reason for i in models_of_part if i.reason}
        # The reason for a missing metric is shown in the cells of all its values.
        cells = {key: make_cell(note=missing.get(key, NOT_MEASURED)) for key in self.rows}
        cells |= {self.get_row(i): mark_incomparable(i, first) for i in minority}
        filled: dict[RowKey, SystemValue] = {}
        for item in models:
            other = filled.setdefault(key := self.get_row(item), item)
            if other is not item:
                differ = measured.describe_differences(other.fields, item.fields)
                what = f"{item.metric} has several values of one system, which differ in {differ}"
                raise SpecError(f"table {self.part.stem}: {what}")
            cells[key] = self.build_cell(item, references, gap=gap)
        cells |= mark_other_sizes(filled, cells)
        humans = [make_cell(i.mean) for i in references if i.system == "human" and not gap]
        title = f"|Δ {first.title}|" if gap else first.title
        measure = ".".join(pair)
        axes = {axis: ", ".join(_label_value(where, axis)) for axis in layout.list_compared_apart() if axis in where}
        if "options" in (*layout.rows, *layout.columns):
            axes["options"] = options
        elif options:
            title, measure = f"{title} ({options})", f"{measure} ({options})"
        direction = "lower" if gap else first.direction
        decimals = frames.choose_column_decimals([*cells.values(), *humans])
        quantity = frames.make_quantity(*pair, title, direction, decimals, first.signature, gap=gap, aim=first.target)
        typed = {**where, "metric": pair[0] if first.primary else ".".join(pair), "options": options}
        axes = {"metric": measure, **axes}
        return {**quantity, "axes": axes, "typed": typed}, list(cells.values()), signatures

    def build_cell(self, item: SystemValue, humans: Sequence[SystemValue], *, gap: bool) -> Cell:
        """Build the cell of a value, or of its distance to the human value."""
        if not math.isfinite(item.mean):
            return make_cell(note=item.reason, source=item)
        human = find_human_value([h for h in humans if math.isfinite(h.mean)], item)
        if gap and human is None:
            same = (h for h in humans if h.pair == item.pair and measured.has_same_data(h, item))
            return make_cell(note=next((h.reason for h in same if h.reason), NO_HUMAN))
        interval = None if gap else find_metric_interval(item, self.part.items)
        # People's ratings have no other error: that of a metric of a judgments file is about its texts.
        is_only_error = item.family == "human" and item.seeds == 1 and math.isnan(item.metric_error)
        requested = self.layout.uncertainty == "interval" or (self.layout.uncertainty == "all" and is_only_error)
        if interval is None and not gap and requested:
            over = find_interval(self.part.results, item)
            interval = (over.low, over.high) if over is not None else None
        varies = interval is None or interval[0] < interval[1]
        value = abs(item.mean - human.mean) if gap and human is not None else item.mean
        cell = make_cell(value, item.sd, item.seeds, error=item.metric_error, source=item, human=human)
        cell.aim = human.mean if human is not None and item.direction == "match_human" else math.nan
        if not varies:
            return replace(cell, note=NO_VARIATION)
        return cell if interval is None else replace(cell, low=interval[0], high=interval[1])

    def build_human_rows(self, columns: Sequence[tuple[Quantity, set[str]]]) -> list[tuple[str, list[Cell]]]:
        """Return label and cells for each set of human texts; sets with equal values share a row."""
        if self.layout.gaps or self.layout.human == "none":
            return []
        axes = [a for a in self.names if measured.describes_human_side(a) and a not in self.apart]
        sides = ("human", "ceiling") if self.layout.ceilings else ("human",)
        humans = [i for i in self.part.items if i.system in sides and i.pair in self.pairs]
        sorted_humans = measured.sort_values(humans, (*self.varying, *axes))
        exact = {i.signature for i in humans if i.system == "human"}
        rows: dict[str, tuple[list[Cell], SystemValue]] = {}  # by what is printed
        for items in group_by(sorted_humans, lambda item: tuple(item.axes[a] for a in axes)).values():
            same = [m for m in self.models if measured.has_same_data(items[0], m)] or self.models
            cells = [_build_human_cell(items, *column, exact, same) for column in columns]
            rows.setdefault(repr([replace(cell, source=None) for cell in cells]), (cells, items[0]))
        firsts = [item for _, item in rows.values()]
        labels = measured.label_systems(firsts, self.outer) if len(rows) > 1 else ["human"]
        return [(label, cells) for label, (cells, _) in zip(labels, rows.values(), strict=False)]


def _label_value(where: Mapping[str, str], axis: str) -> list[str]:
    """Return the value of an axis, and the options in which it differs from others."""
    return [
        v if a == axis else measured.format_option(a, v)
        for a, v in where.items()
        if axis in (a, measured.get_parent_axis(a))
    ]


def _build_human_cell(
    items: Sequence[SystemValue], column: Quantity, signatures: set[str], exact: set[str], models: Sequence[SystemValue]
) -> Cell:
    """Build the cell of a human value or ceiling; of another number of texts only if none has that of the systems."""
    values = [i for i in items if i.pair == (column["name"], column["key"])]
    for item in sorted(values, key=lambda i: (i.system != "human", i.signature != column["signature"])):
        may_differ = ["n"] if item.system != "human" or not exact & signatures else []
        fits = any(compare_signatures(item.signature, s) in ([], may_differ) for s in signatures)
        if math.isfinite(item.mean) and fits:
            return make_cell(item.mean, source=item) if item.system == "human" else build_ceiling_cell(item, column)
    family = next((i.family for i in models if i.metric == column["name"]), "")
    return make_cell(note=next((i.reason for i in values if i.reason), NOT_HUMAN.get(family, NO_HUMAN)))


def build_ceiling_cell(item: SystemValue, column: Quantity) -> Cell:
    """Build the cell of the human–human reference; its value moves to the note if its number of texts differs."""
    n, n_systems = (core.parse_signature(s).get("n", "") for s in (item.signature, column["signature"]))
    if n != n_systems and column["signature"]:
        value = frames.format_fixed(item.mean, int(column["decimals"]))
        missing = f"No human–human reference with as many texts as the systems (n {n_systems})."
        return make_cell(note=f"{missing} {CEILING}: {value} at n {n}.")
    note = f"{CEILING}{f' (n {n})' if n else ''}."
    return make_cell(item.mean, error=item.metric_error, note=note, source=item)


def find_metric_interval(item: SystemValue, items: Iterable[SystemValue]) -> tuple[float, float] | None:
    """Return the interval that a metric reports (`huse_low`, `huse_high`), unless the value is a mean over seeds."""
    if item.seeds != 1:
        return None
    names, same = (f"{item.key}_low", f"{item.key}_high"), (item.system, item.metric, item.signature, item.axes)
    ends = {i.key: i.mean for i in items if i.key in names and (i.system, i.metric, i.signature, i.axes) == same}
    low, high = (ends.get(name, math.nan) for name in names)
    return (low, high) if math.isfinite(low) and math.isfinite(high) else None


def mark_other_sizes(values: Mapping[RowKey, SystemValue], cells: Mapping[RowKey, Cell]) -> dict[RowKey, Cell]:
    """Return the cells of values of another number of texts than most have, unless the metric is a mean over texts.

    They say so, and do not compete.
    """
    sizes = {key: item.fields.get("n", "") for key, item in values.items() if item.mean == item.mean}
    if len(set(sizes.values())) < 2:
        return {}
    metric = find_member("metric", next(iter(values.values())).metric)
    is_mean = getattr(metric, "resampling", "") == "bootstrap"
    usual = Counter(sizes.values()).most_common(1)[0][0]
    others = {key: f"Of n {size}, where others have n {usual}." for key, size in sizes.items() if size != usual}
    words = {key: note if is_mean else f"{note[:-1]}: not compared." for key, note in others.items()}
    return {
        key: replace(cells[key], note=" ".join(filter(None, (cells[key].note, note))), is_ranked=is_mean)
        for key, note in words.items()
    }


def mark_incomparable(item: SystemValue, column: SystemValue) -> Cell:
    """Return a cell that says "not comparable" and in which fields its signature differs from the column's."""
    fields, usual = item.fields, column.fields
    names = compare_signatures(item.signature, column.signature)
    differ = "; ".join(f"{name} ({fields.get(name)}, the column has {usual.get(name)})" for name in names)
    return make_cell(words=NOT_COMPARABLE, note=f"Not comparable: its signature differs in {differ}.", source=item)


# Warnings and remarks -------------------------------------------------------------------------------------------------


def list_caveats(models: Sequence[SystemValue], label: Label, *, intervals: bool = False) -> list[Note]:
    """Return the caveats about values, each in one line for all metrics and systems, and missing intervals if asked.

    What a metric of judgments says is how it counted them: a remark.
    """
    titles: dict[tuple[NoteKind, str], dict[str, set[str]]] = {}  # caveat → metric, or title of a value → systems
    for item in (i for i in models if math.isfinite(i.mean)):
        rows = measured.find_results(item)
        caveats = [(note, item.metric) for row in rows for note in row.notes]
        reasons = [row.no_interval[item.key] for row in rows if intervals and item.key in row.no_interval]
        caveats += [(f"no interval: {reason}", item.title) for reason in reasons]
        for caveat, title in caveats:
            kind: NoteKind = "remark" if item.family == "human" else "warning"
            titles.setdefault((kind, caveat), {}).setdefault(title, set()).add(label(item))
    about = {(kind, f"{', '.join(of)}: {text}"): set().union(*of.values()) for (kind, text), of in titles.items()}
    return name_systems(about, models, label)


def warn_of_human_counts(models: Sequence[SystemValue], items: Sequence[SystemValue]) -> list[str]:
    """Return a line for each number of human texts that is not that of the systems."""
    pairs = [(find_human_value(items, m), m) for m in models if m.direction == "match_human"]
    counts = {tuple(i.fields.get("n", "") for i in (h, m)) for h, m in pairs if h is not None}
    return [
        f"The human values are based on {human} texts, those of the systems on {model}. Values that depend "
        "on the number of texts (distinct n-grams, Self-BLEU, Zipf, …) are not comparable."
        for human, model in sorted(counts)
        if model not in (human, "0")
    ]


def describe_coverage(columns: Iterable[Sequence[Cell]]) -> tuple[str, ...]:
    """Return a line with the intervals shown that contain the true value less or more often than they say.

    The shares are those of the least and of the most covered kind of text, of the measured size nearest to that of the
    run: the study `coverage` of `scripts/studies` writes them.
    """
    with_interval = [cells[0] for cells in columns if cells[0].shows_interval]
    if not with_interval:
        return ()
    measured_shares = parse_yaml(Path(__file__).with_name("coverage.yaml").read_text(encoding="utf-8"))
    listed = []
    for quantity in with_interval:
        shares = measured_shares.get(quantity.name, {}).get(quantity.key)
        sizes = measured.parse_sizes(quantity.signature)
        if shares and sizes:
            nearest = min(shares, key=lambda size: abs(math.log(size / max(min(sizes), 1))))
            low, high = shares[nearest]
            if low < LEAST_COVERED or high > MOST_COVERED:
                span = f"{low}" if low == high else f"{low} to {high}"
                listed.append(f"{quantity.title} {span} % ({nearest} texts)")
    head = "Coverage of 95 % intervals by kind of real text, as measured, where it is far from 95 %"
    return (f"{head}: {', '.join(listed)}.",) if listed else ()


def describe_resolution(columns: Iterable[Sequence[Cell]], part: TablePart) -> tuple[str, ...]:
    """Return a line with the smallest difference at which the tests separate the best system from its nearest rival."""
    listed, targets = list[str](), False
    for cells in columns:
        ranked = [source for at in frames.rank_cells(cells) if (source := cells[at].source) is not None]
        if cells[0].rule == "tests" and len(ranked) > 1:
            resolved = compute_resolution(part.results, part.items, ranked[0], ranked[1], len(ranked))
            low, high = getattr(find_member("metric", cells[0].name), "bounds", (-math.inf, math.inf))
            if resolved <= high - low:
                listed.append(f"{cells[0].title} {resolved:.2g}")
                targets |= cells[0].direction not in ("higher", "lower")
    if not listed:
        return ()
    where = " For ≈ and →, the difference is that of the distances to the human value or the target." if targets else ""
    head = "Smallest difference between the best two systems that a paired test detects with 80 % power"
    return (f"{head}: {', '.join(listed)}.{where}",)


def describe_classifier_errors(models: Sequence[SystemValue], label: Label) -> tuple[str, ...]:
    """Return a line with the error that HUSE implies, and what it bounds (Hashimoto et al. 2019, appendix A.2)."""
    errors = [f"{label(i)} {i.mean / 2:.3f}" for i in models if i.pair == ("huse", "huse") and math.isfinite(i.mean)]
    bound = (
        "the error of the best classifier is no higher, and lower by at most 2 (1 − 2^−I), where I are the bits of its "
        "decision that ratings and probabilities lack"
    )
    return (f"Error of the classifier, HUSE / 2: {', '.join(errors)}; {bound}.",) if errors else ()


def name_equal_systems(models: Sequence[SystemValue], label: Label) -> tuple[str, ...]:
    """Name systems whose values are all of the same texts, as of nucleus p=1 and ancestral sampling."""
    artifacts: dict[str, set[str | None]] = {}
    for item in models:
        artifacts.setdefault(label(item), set()).update(artifact for _, artifact in item.sources)
    names: dict[frozenset[str | None], list[str]] = {}
    for name, paths in artifacts.items():
        names.setdefault(frozenset(paths), []).append(name)
    equal = [" = ".join(same) for key, same in names.items() if len(same) > 1 and None not in key]
    head = "The same texts, letter for letter, so one system under several names"
    return (f"{head}: {'; '.join(equal)}.",) if equal else ()


def list_run_notes(models: Sequence[SystemValue], label: Label) -> list[Note]:
    """Return the notes of the runs behind a table, without the warning that its marked headings repeat."""
    fields = {field for item in models for field in item.fields.items()}
    marked = {(role, model.partition("@")[0]) for role, model in fields if frames.is_out_of_domain(model)}
    about: dict[tuple[NoteKind, str], set[str]] = {}
    for item in models:
        for run, _ in item.sources:
            of_run: list[tuple[NoteKind, str]] = [("rule", line) for line in run.skipped]
            notes = (note for note in run.notes if note.kind != "domain" or note.arguments not in marked)
            of_run += [("warning" if note.kind == "fault" else "remark", str(note)) for note in notes]
            for note in of_run:
                about.setdefault(note, set()).add(label(item))
    return name_systems(about, models, label)


def name_systems(
    about: Mapping[tuple[NoteKind, str], set[str]], models: Sequence[SystemValue], label: Label
) -> list[Note]:
    """Return notes by kind and text, each with the systems that it is about unless it is about all of them."""
    systems = {label(item) for item in models}
    return [
        Note(kind, text, tuple(sorted(names, key=measured.make_natural_sort_key)) if names != systems else ())
        for (kind, text), names in sorted(about.items())
    ]
