"""Tables of `--layout fair`: best of N settings, Pareto front, and wins, ties and losses."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import Counter
from collections.abc import Sequence

from openended.harness.core import DataError
from openended.harness.report.analysis.decoder_sweeps import (
    DecoderSweep,
    choose_setting,
    compute_curves,
    describe_printed_value,
    find_cost_rule,
    group_sweeps,
    is_gap,
)
from openended.harness.report.analysis.paired import compare_systems, correct_by_holm
from openended.harness.report.tables.best_cells import mark_best_cells
from openended.harness.report.tables.run_summary import summarize_sources
from openended.harness.report.tables.selection import (
    check_signatures,
    make_slug,
    name_files,
    select_pairs,
    split_axes,
    split_items,
)
from openended.harness.report.tables.table import Cell, Column, Table, TableRow, choose_column_decimals
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
SHOWN = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
LEVEL = 0.05
_DRAWN = (
    "Expected value of the best of N settings drawn without replacement from a decoder's sweep, equal N for all; N=1 "
    "is the mean of the sweep."
)
_FRESH = (
    "Selected on one half of the seeds and scored on the other, mean over splits; ± is the half-width of the 95 % "
    "interval over seeds. Same seeds: selected and scored on all seeds, which is biased upward."
)
_SEEN = "One seed: selected and scored on the same texts, which is biased upward; run two or more seeds."
_CHOSEN = (
    "Each decoder uses the best setting of the first half of the seeds; the other half tests it against every other "
    "decoder."
)
_BY = "Tests over examples, over replicates or, without either, over seeds; ?: too few seeds for a test."


def build_fair_tables(results: Results, layout: Layout, name: str) -> list[Table]:
    """Build the tables of a layout of kind `fair` for every value of the axes in `split`."""
    items = results.values
    layout = dataclasses.replace(layout, split=split_axes(items, layout))
    parts = split_items(items, layout.split)
    out: list[Table] = []
    for part, stem in zip(parts.values(), name_files(name, list(parts)), strict=True):
        about = summarize_sources(part, results.runs)
        out += [dataclasses.replace(table, about=about) for table in _build_tables(results, part, layout, stem)]
    if not any("best" in table.name for table in out):
        raise DataError(
            "layout fair: no decoder has two or more settings; sweep an option, for example decoder.p=0.8,0.9"
        )
    return out


def _build_tables(results: Results, items: Sequence[SystemValue], layout: Layout, stem: str) -> list[Table]:
    pairs = select_pairs(items, layout)
    for pair in pairs:
        check_signatures(pair[0], select_values(items, *pair), stem, layout.allow)
    out = [table for pair in pairs if (table := _build_best_of_n_table(items, pair, stem)) is not None]
    out += [
        t
        for pair in QUALITY_DIVERSITY
        if set(pair) <= set(pairs) and (t := _build_pareto_table(items, pair, stem)) is not None
    ]
    counts = _build_win_table(results, items, pairs, stem)
    return out + ([counts] if counts is not None else [])


def _build_best_of_n_table(items: Sequence[SystemValue], pair: Pair, stem: str) -> Table | None:
    """Build the best-of-N table: one row per decoder, one column per N up to the smallest sweep."""
    curves, without = compute_curves(items, pair)
    if not curves:
        return None
    first, most = select_values(items, *pair)[0], min(c.settings for c in curves)
    counts = sorted({n for n in SHOWN if n <= most} | {most})
    fresh = any(math.isfinite(c.fresh[0]) for c in curves)
    title, direction = describe_printed_value(first)
    columns = [Column("", "settings", "settings", "none", 0)]
    blocks = [[Cell(c.settings, decimals=0) for c in curves]]
    for n in counts:
        value = [Cell((c.fresh if fresh else c.seen)[n - 1]) for c in curves]
        digits = max(choose_column_decimals(value), 3 if most > 1 and direction == "higher" else 0)
        spread = [c.half[n - 1] for c in curves]
        cells = [_append_interval(cell, h, digits) for cell, h in zip(value, spread, strict=True)]
        column = Column(*pair, f"N={n}", direction, digits, first.signature)
        column, marked = mark_best_cells(column, dict(enumerate(cells)), dict.fromkeys(range(len(cells)), math.nan))
        columns.append(column)
        blocks.append(list(marked.values()))
    if fresh:
        columns.append(Column(*pair, f"N={most}, same seeds", "none", columns[-1].decimals))
        blocks.append([Cell(c.seen[most - 1]) for c in curves])
    rows = [TableRow(c.name, "model", tuple(b[i] for b in blocks)) for i, c in enumerate(curves)]
    remarks = [_DRAWN, _FRESH if fresh else _SEEN]
    remarks += [f"Without a sweep of two settings: {', '.join(without)}."] if without else []
    name, title = f"{stem}-best-{make_slug(pair[1])}", f"Best of N settings: {title}"
    return Table(name, title, tuple(columns), tuple(rows), tuple(remarks), head="Decoder", show_seeds=False)


def _append_interval(cell: Cell, half: float, digits: int) -> Cell:
    if not math.isfinite(half):
        return cell
    return dataclasses.replace(cell, suffix=f" ± {half:.{digits}f}")


def _build_pareto_table(items: Sequence[SystemValue], pairs: tuple[Pair, Pair], stem: str) -> Table | None:
    """Build the Pareto table: one row per setting, with a setting of the front that dominates it."""
    settings = [(s, (a, b)) for s, a, b in select_systems_with_both(items, *pairs)]
    costs: list[list[float]] = []
    for _, values in settings:
        rules = [find_cost_rule(v, items) for v in values]
        if None in rules:
            return None
        costs.append(
            [_compute_displayed_value(v, r) * (r["sign"] if r else 1) for v, r in zip(values, rules, strict=True)]
        )
    if len(settings) < 2:
        return None
    by = [next((i for i in _find_front(costs) if dominates(costs[i], cost)), None) for cost in costs]
    columns, blocks = [], []
    for index, pair in enumerate(pairs):
        first = select_values(items, *pair)[0]
        cells = [
            Cell(_compute_displayed_value(v[index], find_cost_rule(v[index], items)), v[index].sd, v[index].seeds)
            for _, v in settings
        ]
        title, direction = describe_printed_value(first)
        columns.append(Column(*pair, title, direction, choose_column_decimals(cells), first.signature, is_gap(first)))
        blocks.append(cells)
    columns.append(Column("", "pareto", "dominated by", "none"))
    blocks.append([Cell(words="none (Pareto)" if i is None else settings[i][0].name) for i in by])
    rows = [TableRow(s.name, "model", tuple(b[i] for b in blocks)) for i, (s, _) in enumerate(settings)]
    remark = "Dominated: another setting is at least as good in both values and better in one, by the means over seeds."
    title = "Quality and diversity: Pareto front"
    return Table(
        f"{stem}-pareto-{make_slug(pairs[0][0])}", title, tuple(columns), tuple(rows), (remark,), show_seeds=False
    )


def _compute_displayed_value(value: SystemValue, cost: dict[str, float] | None) -> float:
    return abs(value.mean - cost["target"]) if cost is not None and math.isfinite(cost["target"]) else value.mean


def _find_front(costs: Sequence[list[float]]) -> list[int]:
    return [i for i, cost in enumerate(costs) if not any(dominates(other, cost) for other in costs)]


def _build_win_table(results: Results, items: Sequence[SystemValue], pairs: Sequence[Pair], stem: str) -> Table | None:
    """Build the table of wins, ties and losses of decoders at their selected settings, Holm-corrected."""
    sweeps = group_sweeps(items)
    if len(sweeps) < 2:
        return None
    tests = {pair: _test_pairs(results, items, sweeps, pair) for pair in pairs}
    corrected = correct_by_holm(
        {(pair, key): p for pair, pair_results in tests.items() for key, (_, p) in pair_results.items()}
    )
    columns, blocks = [], []
    for pair in pairs:
        if not tests[pair]:
            continue
        tally = _tally(
            sweeps, tests[pair], {key: p for (tested_pair, key), p in corrected.items() if tested_pair == pair}
        )
        columns.append(
            Column(*pair, f"{describe_printed_value(select_values(items, *pair)[0])[0]}: win/tie/loss", "none")
        )
        blocks.append([Cell(words=_format_tally(tally[s.name])) for s in sweeps])
    if not columns:
        return None
    rows = [TableRow(s.name, "model", tuple(b[i] for b in blocks)) for i, s in enumerate(sweeps)]
    remarks = (
        _CHOSEN,
        f"p < {LEVEL:g} after Holm's correction over all {len(corrected)} tests of the table; else a tie.",
        _BY,
    )
    title = "Wins, ties and losses"
    return Table(f"{stem}-wins", title, tuple(columns), tuple(rows), remarks, head="Decoder", show_seeds=False)


Tests = dict[tuple[str, str], tuple[float, float]]


def _test_pairs(results: Results, items: Sequence[SystemValue], sweeps: Sequence[DecoderSweep], pair: Pair) -> Tests:
    """Return (decoder, decoder) → (cost of the first minus that of the second, p-value or NaN)."""
    chosen_settings = [(s, c) for s in sweeps if (c := choose_setting(s, items, pair)) is not None]
    scoring = tuple(dict.fromkeys(seed for _, (_, seeds) in chosen_settings for seed in seeds))
    out: Tests = {}
    for (sweep, (a, _)), (other, (b, _)) in itertools.combinations(chosen_settings, 2):
        left, right = (_restrict_to_seeds(s, scoring) for s in (a, b))
        value = left.value(*pair)
        rule = find_cost_rule(value, items) if value is not None else None
        tested = compare_systems(results, items, left, right, pair)
        if tested is not None and rule is not None:
            p_value = tested.p_value if math.isnan(rule["target"]) else tested.nearer
            out[sweep.name, other.name] = (rule["sign"] * tested.difference, p_value)
    return out


def _restrict_to_seeds(system: System, seeds: Sequence[str]) -> System:
    """Restrict the values of a system to some seeds; values without any of them are unchanged."""
    items = []
    for item in system.items:
        indices = [i for i, seed in enumerate(item.values) if seed in seeds and math.isfinite(item.values[seed])]
        if not indices:
            items.append(item)
            continue
        values = {seed: item.values[seed] for i, seed in enumerate(item.values) if i in indices}
        mean = math.fsum(values.values()) / len(values)
        sources = tuple(item.sources[i] for i in indices)
        items.append(dataclasses.replace(item, values=values, mean=mean, seeds=len(values), sources=sources))
    return System(system.name, tuple(items))


def _tally(
    sweeps: Sequence[DecoderSweep], tests: Tests, corrected: dict[tuple[str, str], float]
) -> dict[str, Counter[str]]:
    out: dict[str, Counter[str]] = {s.name: Counter() for s in sweeps}
    for key, (difference, _) in tests.items():
        first, second = key
        if key not in corrected:
            outcome = "??"
        elif corrected[key] >= LEVEL or difference == 0:
            outcome = "=="
        else:
            outcome = "+-" if difference < 0 else "-+"
        out[first][outcome[0]] += 1
        out[second][outcome[1]] += 1
    return out


def _format_tally(tally: Counter[str]) -> str:
    unknown = f" ?{tally['?']}" if tally["?"] else ""
    return f"{tally['+']}/{tally['=']}/{tally['-']}{unknown}"
