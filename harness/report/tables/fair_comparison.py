"""Tables of `--layout fair`: best of N settings, Pareto front, and wins, ties and losses.

A sweep is the settings of one decoder with everything else equal. A decoder with a wider sweep has a better best
setting, and the best of many noisy values is biased upward. Therefore every decoder gets the same number N of settings,
drawn without replacement from its m, and the setting that is best on one part of the seeds is scored on the other part:

    E = Σ_i s_(i) · C(i - 1, N - 1) / C(m, N),    i = 1 … m the ranks by the selection seeds, worst first.

N = 1 is the mean of a sweep, N = m its best. Recommended by the critique of min-p by Schaeffer et al. 2025.
"""

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from openended.harness import results as measured
from openended.harness.core import F64, DataError
from openended.harness.report.analysis import paired
from openended.harness.report.analysis.paired import LEVEL
from openended.harness.report.tables import frame as frames, selection
from openended.harness.report.tables.frame import Filled, Frame, build_frame, make_cell, make_quantity
from openended.harness.report.tables.selection import TablePart, make_slug
from openended.harness.results import Layout, Pair, System, SystemValue, find_target, orient, select_values

MIN_SETTINGS = 2  # of a sweep
MOST_SPLITS = 20  # of the seeds into halves; with more than six seeds, only the first and second half
QUALITY_DIVERSITY: tuple[tuple[Pair, Pair], ...] = (
    (("gen_ppl", "gen_ppl"), ("gen_ppl", "entropy")),
    (("knn_precision_recall", "precision"), ("knn_precision_recall", "recall")),
)
COUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)  # numbers of settings that get a column
_DRAWN = (
    "Expected value of the best of N settings drawn without replacement from a decoder's sweep, equal N for all; N=1 "
    "is the mean of the sweep."
)
_FRESH = (
    "Selected on one half of the seeds and scored on the other, mean over splits, with 95 % intervals over seeds, "
    "which are symmetric and may end beyond the range of the value. "
    "Same seeds: selected and scored on all seeds, which is biased upward."
)
_SEEN = "One seed: selected and scored on the same texts, which is biased upward; run two or more seeds."
_WINNER = (
    "Best setting: selected on the first half of the seeds, its value and 95 % interval on the others; with one seed, "
    "on the same texts, with their interval over examples."
)
_DOMINATED = "Dominated: another setting is at least as good in both values and better in one, by the means over seeds."
_CHOSEN = (
    "Each decoder uses the best setting of the first half of the seeds; the other half tests it against every other "
    "decoder."
)
_TESTS = "Tests over examples, over replicates or, without either, over seeds; ?: no test, since the seeds are too few."

Tests = dict[tuple[str, str], tuple[float, float]]
"""(decoder, decoder) → (cost of the first minus that of the second, p-value or NaN)."""


@dataclass(frozen=True, slots=True)
class DecoderSweep:
    """A decoder and the systems with its settings."""

    name: str
    systems: tuple[System, ...]


@dataclass(frozen=True, slots=True)
class BestOfN:
    """A decoder's expected best score for every N from 1 to the number of its settings."""

    name: str
    settings: int
    seen: tuple[float, ...]  # selected and scored on the same seeds (all); biased upward
    fresh: tuple[float, ...]  # selected on one part of the seeds, scored on the other, mean over splits; or NaN
    half: tuple[float, ...]  # half-width of the 95 % interval of `fresh` over seeds; NaN with one seed or equal values


def build_fair_frames(part: TablePart, layout: Layout) -> list[Frame]:
    """Build the tables of a layout of kind `fair`."""
    pairs = selection.select_pairs(part.items, layout.metrics)
    for pair in pairs:
        selection.check_signatures(select_values(part.items, *pair), part.stem, layout.allow)
    best = [table for pair in pairs if (table := _build_best_of_n_frame(part, pair)) is not None]
    if not best:
        raise DataError(
            "layout fair: no decoder has two or more settings; sweep an option, for example decoder.p=0.8,0.9"
        )
    both = [_build_pareto_frame(part, pairs_of) for pairs_of in QUALITY_DIVERSITY if set(pairs_of) <= set(pairs)]
    return [*best, *filter(None, [*both, _build_win_frame(part, pairs)])]


def is_gap(item: SystemValue) -> bool:
    """Return whether the distance to a target is printed instead of the value."""
    return item.direction == "match_human" or item.target is not None


def describe_printed_value(item: SystemValue) -> tuple[str, str]:
    """Return title and direction of the printed number: the distance if the value has a target, else the value."""
    return (f"|Δ {item.title}|", "lower") if is_gap(item) else (item.title, item.direction)


def is_ranked(item: SystemValue, target: float | None) -> bool:
    """Return whether some value is best: more or less is, or the target is known."""
    return item.direction in ("higher", "lower") or (target is not None and math.isfinite(target))


# Sweeps ---------------------------------------------------------------------------------------------------------------


def group_sweeps(items: Sequence[SystemValue]) -> list[DecoderSweep]:
    """Group systems that differ only in decoder options, in table order."""
    groups = measured.group_by(
        measured.group_systems(items),
        lambda system: tuple((k, v) for k, v in system.items[0].axes.items() if not k.startswith("decoder.")),
    )
    rows = [dict(key) for key in groups]
    counts = Counter(row.get("decoder", "") for row in rows)
    axis_names = measured.find_distinguishing_axes(rows, [a for row in rows[:1] for a in row if a != "decoder"])
    sweeps = []
    for row, members in zip(rows, groups.values(), strict=True):
        name = row.get("decoder", "")
        options = [measured.format_option(a, row[a]) for a in axis_names] if counts[name] > 1 else []
        sweeps.append(DecoderSweep(", ".join([name, *options]), tuple(members)))
    return sweeps


def choose_setting(
    sweep: DecoderSweep, items: Sequence[SystemValue], pair: Pair
) -> tuple[System, SystemValue, tuple[str, ...]] | None:
    """Select the best setting of a decoder by the first half of the seeds; also return its value and the other seeds.

    With one seed, the best setting overall is returned without other seeds.
    """
    candidates = [(s, v) for s in sweep.systems if (v := s.value(*pair)) is not None and math.isfinite(v.mean)]
    first = candidates[0][1] if candidates else None
    if first is None or not is_ranked(first, target := find_target(first, items)):
        return None
    seeds = [s for s in first.values if all(s in v.values for _, v in candidates)]
    choosing, scoring = (halves(len(seeds)) or [(tuple(range(len(seeds))), ())])[0]

    def score(value: SystemValue) -> float:
        mean = math.fsum(value.values[seeds[i]] for i in choosing) / len(choosing) if choosing else value.mean
        return float(orient(mean, value.direction, target))

    return *max(candidates, key=lambda candidate: score(candidate[1])), tuple(seeds[i] for i in scoring)


def compute_curves(items: Sequence[SystemValue], pair: Pair) -> tuple[list[BestOfN], list[str]]:
    """Return the curve of every decoder with a sweep, and the names of decoders without one."""
    curves, without = [], []
    for sweep in group_sweeps(items):
        values = [v for s in sweep.systems if (v := s.value(*pair)) is not None and math.isfinite(v.mean)]
        target = find_target(values[0], items) if values else None
        if len(values) < MIN_SETTINGS or not is_ranked(values[0], target):
            without.append(sweep.name)
            continue
        curves.append(compute_curve(sweep.name, [v.values for v in values], values[0].direction, target))
    return curves, without


def compute_curve(
    name: str, values: Sequence[Mapping[str, float]], direction: str, target: float | None = None
) -> BestOfN:
    """Compute the best-of-N curve of one decoder from the values (seed → value) of each setting.

    Only seeds that all settings have are used. The scores are as printed: values, or distances to the target.
    """
    seeds = [s for s in values[0] if all(s in v and math.isfinite(v[s]) for v in values)]
    table = np.array([[v[s] for s in seeds] for v in values], dtype=np.float64)
    counts = range(1, len(values) + 1)

    def score(columns: Sequence[int]) -> F64:
        scores: F64 = orient(table[:, list(columns)].mean(axis=1), direction, target)
        return scores

    seen = [compute_expected_best(score(range(len(seeds))), n) for n in counts]
    fresh, half = np.full(len(values), math.nan), np.full(len(values), math.nan)
    if splits := halves(len(seeds)):
        noise, degrees = pool_std(table)
        squares = [float((compute_weights(len(values), n) ** 2).sum()) for n in counts]
        best_scores, errors = [], []
        for choosing, scoring in splits:
            by, scores = score(choosing), score(scoring)
            best_scores.append([compute_expected_best(scores, n, by) for n in counts])
            errors.append([math.sqrt(square / len(scoring)) for square in squares])
        fresh = np.mean(best_scores, axis=0)
        # The mean of estimates is at most as uncertain as each of them, so the interval is conservative.
        if noise > 0:  # equal values say nothing about the error
            half = paired.compute_student_quantile(degrees) * noise * np.mean(errors, axis=0)
    sign = 1.0 if direction == "higher" else -1.0
    printed = [tuple(sign * float(v) for v in row) for row in (seen, fresh)]
    return BestOfN(name, len(values), printed[0], printed[1], tuple(map(float, half)))


def compute_expected_best(scores: Sequence[float] | F64, count: int, by: Sequence[float] | F64 | None = None) -> float:
    """Return the expected score of the best of `count` settings, selected by the scores `by`, or by `scores`.

    Ties are equally likely to be selected.
    """
    _, group = np.unique(scores if by is None else by, return_inverse=True)
    means = np.bincount(group, weights=scores) / np.bincount(group)
    return float(compute_weights(len(scores), count) @ means[np.sort(group)])


def compute_weights(settings: int, count: int) -> F64:
    """Return the probability that the i-th worst setting is the best of `count` drawn without replacement.

    >>> compute_weights(4, 2).tolist()  # best in 0, 1, 2 and 3 of 6 pairs
    [0.0, 0.16666666666666666, 0.3333333333333333, 0.5]
    """
    every = math.comb(settings, count)
    return np.array([math.comb(i, count - 1) / every for i in range(settings)], dtype=np.float64)


def halves(count: int) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return (indices for selection, indices for scoring) for every split of seeds into halves; empty for one seed.

    >>> halves(2)
    [((0,), (1,)), ((1,), (0,))]
    """
    if count < 2:
        return []
    every = tuple(range(count))
    sides = [s for size in {count // 2, count - count // 2} for s in itertools.combinations(every, size)]
    if len(sides) > MOST_SPLITS:
        sides = [every[: count // 2], every[count // 2 :]]
    return [(side, tuple(i for i in every if i not in side)) for side in sides]


def pool_std(table: F64) -> tuple[float, int]:
    """Return the standard deviation over seeds, pooled over the settings of a decoder, and its degrees of freedom."""
    degrees = table.shape[0] * (table.shape[1] - 1)
    squares = float(((table - table.mean(axis=1, keepdims=True)) ** 2).sum())
    return math.sqrt(squares / degrees), degrees


# Tables ---------------------------------------------------------------------------------------------------------------


def _build_best_of_n_frame(part: TablePart, pair: Pair) -> Frame | None:
    """Build the best-of-N table: one row per decoder, one column per N up to the smallest sweep."""
    curves, without = compute_curves(part.items, pair)
    if not curves:
        return None
    first, most = select_values(part.items, *pair)[0], min(c.settings for c in curves)
    fresh = any(math.isfinite(c.fresh[0]) for c in curves)
    title, direction = describe_printed_value(first)
    columns: list[Filled] = [(make_quantity("", "settings", "settings", decimals=0), [c.settings for c in curves])]
    digits = 0
    for n in sorted({n for n in COUNTS if n <= most} | {most}):
        values = (((c.fresh if fresh else c.seen)[n - 1], c.half[n - 1]) for c in curves)
        cells = [make_cell(value, interval=(value - half, value + half)) for value, half in values]
        digits = max(frames.choose_column_decimals(cells), 3 if most > 1 and direction == "higher" else 0)
        columns.append((make_quantity(*pair, f"N={n}", direction, digits, first.signature), cells))
    if fresh:
        seen = [c.seen[most - 1] for c in curves]
        columns.append((make_quantity(*pair, f"N={most}, same seeds", "none", digits), seen))
    sweeps = {sweep.name: sweep for sweep in group_sweeps(part.items)}
    names = [_name_best_setting(sweeps[c.name], part.items, pair, c.half[-1], digits) for c in curves]
    columns.append((make_quantity("", "setting", "best setting"), names))
    remarks = [_DRAWN, _FRESH if fresh else _SEEN, _WINNER]
    remarks += [f"Without a sweep of two settings: {', '.join(without)}."] if without else []
    labels, stem = [c.name for c in curves], f"{part.stem}-best-{make_slug(pair[1])}"
    return build_frame(stem, f"Best of N settings: {title}", labels, columns, remarks, head="Decoder", ranked=True)


def _name_best_setting(sweep: DecoderSweep, items: Sequence[SystemValue], pair: Pair, half: float, digits: int) -> str:
    """Return the selected setting of a decoder with its value and 95 % interval on texts that did not select it."""
    choice = choose_setting(sweep, items, pair)
    if choice is None:
        return ""
    setting, value, fresh = choice
    target = find_target(value, items)
    mean = math.fsum(value.values[seed] for seed in fresh) / len(fresh) if fresh else value.mean
    if not math.isfinite(half) and value.interval is not None:
        half = sum(value.reach) / 2
    margin = f" ± {half:.{digits}f}" if math.isfinite(half) else ""
    return f"{setting.name}: {mean if target is None else abs(mean - target):.{digits}f}{margin}"


def _build_pareto_frame(part: TablePart, pairs: tuple[Pair, Pair]) -> Frame | None:
    """Build the Pareto table: one row per setting, with a setting of the front that dominates it."""
    settings = measured.select_systems_with_both(part.items, *pairs)
    rows = [[(v, find_target(v, part.items)) for v in values] for _, *values in settings]
    if len(settings) < 2 or not all(is_ranked(*entry) for row in rows for entry in row):
        return None
    costs = [[float(-orient(v.mean, v.direction, target)) for v, target in row] for row in rows]
    front = [i for i, cost in enumerate(costs) if not any(measured.dominates(other, cost) for other in costs)]
    columns: list[Filled] = []
    for pair, entries in zip(pairs, zip(*rows, strict=True), strict=True):
        printed = [v.mean if target is None else abs(v.mean - target) for v, target in entries]
        cells = [make_cell(number, v.sd, v.seeds) for number, (v, _) in zip(printed, entries, strict=True)]
        first = select_values(part.items, *pair)[0]
        column = make_quantity(*pair, *describe_printed_value(first), None, first.signature, gap=is_gap(first))
        columns.append((column, cells))
    names = [system.name for system, *_ in settings]
    by = [next((names[i] for i in front if measured.dominates(costs[i], cost)), "none (Pareto)") for cost in costs]
    columns.append((make_quantity("", "pareto", "dominated by"), by))
    stem = f"{part.stem}-pareto-{make_slug(pairs[0][0])}"
    return build_frame(stem, "Quality and diversity: Pareto front", names, columns, [_DOMINATED])


def _build_win_frame(part: TablePart, pairs: Sequence[Pair]) -> Frame | None:
    """Build the table of wins, ties and losses of decoders at their selected settings, Holm-corrected."""
    sweeps = group_sweeps(part.items)
    names = [sweep.name for sweep in sweeps]
    tests = {pair: _test_pairs(part, sweeps, pair) for pair in pairs}
    corrected = paired.correct_by_holm({(pair, key): p for pair in pairs for key, (_, p) in tests[pair].items()})
    columns = []
    for pair in (pair for pair in pairs if tests[pair]):
        tally = tally_wins(names, tests[pair], {key: p for (tested, key), p in corrected.items() if tested == pair})
        title, _ = describe_printed_value(select_values(part.items, *pair)[0])
        words = [f"{c['+']}/{c['=']}/{c['-']}" + (f" ?{c['?']}" if c["?"] else "") for c in tally.values()]
        columns.append((make_quantity(*pair, f"{title}: win/tie/loss"), words))
    if len(names) < 2 or not columns:
        return None
    holm = f"p < {LEVEL:g} after Holm's correction over all {len(corrected)} tests of the table; else a tie."
    return build_frame(
        f"{part.stem}-wins", "Wins, ties and losses", names, columns, [_CHOSEN, holm, _TESTS], head="Decoder"
    )


def _test_pairs(part: TablePart, sweeps: Sequence[DecoderSweep], pair: Pair) -> Tests:
    """Test the selected settings of all pairs of decoders on the seeds that selected none of them."""
    choices = [(s.name, *c[1:]) for s in sweeps if (c := choose_setting(s, part.items, pair)) is not None]
    scoring = {seed for *_, seeds in choices for seed in seeds}
    is_fresh = scoring or all(len(sweep.systems) == 1 for sweep in sweeps)  # else the texts also selected the settings
    values = {name: _restrict_to_seeds(value, scoring) for name, value, _ in choices}
    tests: Tests = {}
    for (name, a), (other, b) in itertools.combinations(values.items(), 2):
        if math.isfinite(a.mean) and math.isfinite(b.mean):
            target = find_target(a, part.items)
            p_value = paired.compute_equality_p_value(part.results, part.items, a, b)
            cost = float(orient(b.mean, a.direction, target) - orient(a.mean, a.direction, target))
            tests[name, other] = (cost, p_value if is_fresh else math.nan)
    return tests


def _restrict_to_seeds(item: SystemValue, seeds: set[str]) -> SystemValue:
    """Restrict a value to some seeds; a value without any of them is unchanged."""
    pairs = zip(item.values.items(), item.sources, strict=True)
    rows = [(seed, value, source) for (seed, value), source in pairs if seed in seeds and math.isfinite(value)]
    if not rows:
        return item
    values = {seed: value for seed, value, _ in rows}
    mean, sources = math.fsum(values.values()) / len(values), tuple(source for *_, source in rows)
    return replace(item, values=values, mean=mean, seeds=len(values), sources=sources)


def tally_wins(
    names: Sequence[str], tests: Tests, corrected: Mapping[tuple[str, str], float]
) -> dict[str, Counter[str]]:
    """Return decoder → its numbers of wins (`+`), ties (`=`), losses (`-`) and comparisons without a test (`?`)."""
    counts: dict[str, Counter[str]] = {name: Counter() for name in names}
    for key, (difference, _) in tests.items():
        outcome = "+-" if difference < 0 else "-+"
        if key not in corrected:
            outcome = "??"
        elif corrected[key] >= LEVEL or difference == 0:
            outcome = "=="
        for name, sign in zip(key, outcome, strict=True):
            counts[name][sign] += 1
    return counts
