"""Tables of `--layout fair`: best of N settings, Pareto front, and wins, ties and losses."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from openended.harness.core import DataError
from openended.harness.report.analysis.decoder_sweeps import (
    choose_setting,
    compute_curves,
    describe_printed_value,
    find_cost_rule,
    group_sweeps,
    is_gap,
)
from openended.harness.report.analysis.paired import LEVEL, compare_systems, correct_by_holm
from openended.harness.report.tables.best_cells import mark_best_cells
from openended.harness.report.tables.selection import (
    TablePart,
    check_signatures,
    make_slug,
    select_pairs,
    split_results,
)
from openended.harness.report.tables.table import Cell, Column, Table, choose_column_decimals
from openended.harness.results import (
    Layout,
    Pair,
    Results,
    System,
    SystemValue,
    dominates,
    select_systems_with_both,
    select_values,
)

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
    "Selected on one half of the seeds and scored on the other, mean over splits; ± is the half-width of the 95 % "
    "interval over seeds. Same seeds: selected and scored on all seeds, which is biased upward."
)
_SEEN = "One seed: selected and scored on the same texts, which is biased upward; run two or more seeds."
_DOMINATED = "Dominated: another setting is at least as good in both values and better in one, by the means over seeds."
_CHOSEN = (
    "Each decoder uses the best setting of the first half of the seeds; the other half tests it against every other "
    "decoder."
)
_BY = "Tests over examples, over replicates or, without either, over seeds; ?: no test, since the seeds are too few."

Tests = dict[tuple[str, str], tuple[float, float]]
"""(decoder, decoder) → (cost of the first minus that of the second, p-value or NaN)."""


def build_fair_tables(results: Results, layout: Layout, name: str) -> list[Table]:
    """Build the tables of a layout of kind `fair` for every value of the axes in `split`."""
    tables: list[Table] = []
    for part in split_results(results, layout, name):
        pairs = select_pairs(part.items, layout)
        for pair in pairs:
            check_signatures(pair[0], select_values(part.items, *pair), part.stem, layout.allow)
        tables += filter(None, (_build_best_of_n_table(part, pair) for pair in pairs))
        both = (pairs_of for pairs_of in QUALITY_DIVERSITY if set(pairs_of) <= set(pairs))
        tables += filter(None, (_build_pareto_table(part, pairs_of) for pairs_of in both))
        tables += filter(None, [_build_win_table(results, part, pairs)])
    if not any("best" in table.name for table in tables):
        raise DataError(
            "layout fair: no decoder has two or more settings; sweep an option, for example decoder.p=0.8,0.9"
        )
    return tables


def _build_best_of_n_table(part: TablePart, pair: Pair) -> Table | None:
    """Build the best-of-N table: one row per decoder, one column per N up to the smallest sweep."""
    curves, without = compute_curves(part.items, pair)
    if not curves:
        return None
    first, most = select_values(part.items, *pair)[0], min(c.settings for c in curves)
    fresh = any(math.isfinite(c.fresh[0]) for c in curves)
    title, direction = describe_printed_value(first)
    columns = [(Column("", "settings", "settings", "none", 0), [Cell(c.settings, decimals=0) for c in curves])]
    for n in sorted({n for n in COUNTS if n <= most} | {most}):
        cells = [_build_best_cell((c.fresh if fresh else c.seen)[n - 1], c.half[n - 1]) for c in curves]
        digits = max(choose_column_decimals(cells), 3 if most > 1 and direction == "higher" else 0)
        column, marked = mark_best_cells(Column(*pair, f"N={n}", direction, digits, first.signature), cells)
        halves = [f" ± {c.half[n - 1]:.{digits}f}" if math.isfinite(c.half[n - 1]) else "" for c in curves]
        cells = [replace(cell, interval=None, suffix=half) for cell, half in zip(marked, halves, strict=True)]
        columns.append((column, cells))
    if fresh:
        last = Column(*pair, f"N={most}, same seeds", "none", columns[-1][0].decimals)
        columns.append((last, [Cell(c.seen[most - 1]) for c in curves]))
    remarks = [_DRAWN, _FRESH if fresh else _SEEN]
    remarks += [f"Without a sweep of two settings: {', '.join(without)}."] if without else []
    return Table.from_columns(
        f"{part.stem}-best-{make_slug(pair[1])}", f"Best of N settings: {title}", [c.name for c in curves], columns,
        remarks, head="Decoder", about=part.about,
    )  # fmt: skip


def _build_best_cell(value: float, half: float) -> Cell:
    return Cell(value, interval=(value - half, value + half) if math.isfinite(half) else None)


def _build_pareto_table(part: TablePart, pairs: tuple[Pair, Pair]) -> Table | None:
    """Build the Pareto table: one row per setting, with a setting of the front that dominates it."""
    settings = select_systems_with_both(part.items, *pairs)
    rules = [[find_cost_rule(v, part.items) for v in values] for _, *values in settings]
    if len(settings) < 2 or any(rule is None for pair_rules in rules for rule in pair_rules):
        return None
    printed: list[list[float]] = []
    costs: list[list[float]] = []
    for (_, *values), pair_rules in zip(settings, rules, strict=True):
        targets = [rule["target"] if rule else math.nan for rule in pair_rules]
        printed.append([abs(v.mean - t) if math.isfinite(t) else v.mean for v, t in zip(values, targets, strict=True)])
        costs.append([n * rule["sign"] for n, rule in zip(printed[-1], pair_rules, strict=True) if rule])
    front = find_front(costs)
    columns = []
    for at, pair in enumerate(pairs):
        values = [(a, b)[at] for _, a, b in settings]
        cells = [Cell(numbers[at], v.sd, v.seeds) for numbers, v in zip(printed, values, strict=True)]
        first = select_values(part.items, *pair)[0]
        title, direction = describe_printed_value(first)
        digits = choose_column_decimals(cells)
        columns.append((Column(*pair, title, direction, digits, first.signature, is_gap(first)), cells))
    by = [next((settings[i][0].name for i in front if dominates(costs[i], cost)), "none (Pareto)") for cost in costs]
    columns.append((Column("", "pareto", "dominated by"), [Cell(words=name) for name in by]))
    return Table.from_columns(
        f"{part.stem}-pareto-{make_slug(pairs[0][0])}", "Quality and diversity: Pareto front",
        [s.name for s, *_ in settings], columns, [_DOMINATED], about=part.about,
    )  # fmt: skip


def find_front(costs: Sequence[list[float]]) -> list[int]:
    """Return the indices of the costs that no other one dominates."""
    return [i for i, cost in enumerate(costs) if not any(dominates(other, cost) for other in costs)]


def _build_win_table(results: Results, part: TablePart, pairs: Sequence[Pair]) -> Table | None:
    """Build the table of wins, ties and losses of decoders at their selected settings, Holm-corrected."""
    names = [sweep.name for sweep in group_sweeps(part.items)]
    tests = {pair: _test_pairs(results, part.items, pair) for pair in pairs}
    corrected = correct_by_holm({(pair, key): p for pair in pairs for key, (_, p) in tests[pair].items()})
    columns = []
    for pair in (pair for pair in pairs if tests[pair]):
        tally = tally_wins(names, tests[pair], {key: p for (tested, key), p in corrected.items() if tested == pair})
        title, _ = describe_printed_value(select_values(part.items, *pair)[0])
        words = [f"{c['+']}/{c['=']}/{c['-']}" + (f" ?{c['?']}" if c["?"] else "") for c in tally.values()]
        columns.append((Column(*pair, f"{title}: win/tie/loss"), [Cell(words=text) for text in words]))
    if len(names) < 2 or not columns:
        return None
    holm = f"p < {LEVEL:g} after Holm's correction over all {len(corrected)} tests of the table; else a tie."
    return Table.from_columns(
        f"{part.stem}-wins", "Wins, ties and losses", names, columns, [_CHOSEN, holm, _BY], head="Decoder",
        about=part.about,
    )  # fmt: skip


def _test_pairs(results: Results, items: Sequence[SystemValue], pair: Pair) -> Tests:
    sweeps = group_sweeps(items)
    selected = any(len(sweep.systems) > 1 for sweep in sweeps)
    choices = [(s.name, c) for s in sweeps if (c := choose_setting(s, items, pair)) is not None]
    scoring = {seed for _, (_, seeds) in choices for seed in seeds}
    tests: Tests = {}
    for (name, (a, _)), (other, (b, _)) in itertools.combinations(choices, 2):
        left, right = (_restrict_to_seeds(s, scoring) for s in (a, b))
        value = left.value(*pair)
        rule = find_cost_rule(value, items) if value is not None else None
        test = compare_systems(results, items, left, right, pair)
        if test is not None and rule is not None:
            p_value = test.p_value if math.isnan(rule["target"]) else test.nearer
            fresh = scoring or not selected  # the texts that selected a setting cannot test it
            tests[name, other] = (rule["sign"] * test.difference, p_value if fresh else math.nan)
    return tests


def _restrict_to_seeds(system: System, seeds: set[str]) -> System:
    """Restrict the values of a system to some seeds; values without any of them are unchanged."""
    items = []
    for item in system.items:
        pairs = zip(item.values.items(), item.sources, strict=True)
        rows = [(seed, value, source) for (seed, value), source in pairs if seed in seeds and math.isfinite(value)]
        if rows:
            values = {seed: value for seed, value, _ in rows}
            mean, sources = math.fsum(values.values()) / len(values), tuple(source for *_, source in rows)
            item = replace(item, values=values, mean=mean, seeds=len(values), sources=sources)
        items.append(item)
    return System(system.name, tuple(items))


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
