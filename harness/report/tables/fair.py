"""`--layout fair`: best of N, what no other setting beats, and wins, ties and losses, each as a table."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import Counter
from collections.abc import Sequence

from openended.harness.core import DataError
from openended.harness.report.analysis.paired import compare, holm_of
from openended.harness.report.analysis.sweeps import SweepOf, chosen, cost_of, curves_of, is_gap, printed_as, sweeps_of
from openended.harness.report.tables.about import about_of
from openended.harness.report.tables.selection import check_signatures, slug, split_axes, split_items, stems, wanted
from openended.harness.report.tables.table import Cell, Column, Table, TableRow, column_decimals
from openended.harness.results import Folded, Layout, Pair, Results, System, dominates, fold_seeds, values_of, with_both

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
    "Chosen on one half of the seeds and scored on the other, mean over the splits; after ± half of the 95 % interval "
    "over seeds for these settings. Same seeds: chosen and scored on all of them, which is too good."
)
_SEEN = "One seed: chosen and scored on the same texts, which is too good; run two seeds or more."
_CHOSEN = (
    "Each decoder with the setting that the first half of the seeds calls best, tested on the other seeds against "
    "every other decoder's."
)
_BY = "Tests by example, by draws or, where there are neither, by seeds; ?: too few seeds for a test."


def fair_tables(results: Results, layout: Layout, name: str) -> list[Table]:
    """Build the tables of a layout of kind `fair`, for every value of the axes in `split`.

    Raises:
        SpecError: If two values of one metric have different signatures.
        DataError: If no decoder has several settings.
    """
    items = fold_seeds(results)
    layout = dataclasses.replace(layout, split=split_axes(items, layout))
    parts = split_items(items, layout.split)
    out: list[Table] = []
    for part, stem in zip(parts.values(), stems(name, list(parts)), strict=True):
        about = about_of(part, results.runs)
        out += [dataclasses.replace(table, about=about) for table in _tables(results, part, layout, stem)]
    if not any("best" in table.name for table in out):
        raise DataError("layout fair: no decoder has two settings or more; sweep its options, as in decoder.p=0.8,0.9")
    return out


def _tables(results: Results, items: Sequence[Folded], layout: Layout, stem: str) -> list[Table]:
    pairs = wanted(items, layout)
    for pair in pairs:
        check_signatures(pair[0], values_of(items, *pair), stem, layout.allow)
    out = [table for pair in pairs if (table := _best_of_n(items, pair, stem)) is not None]
    out += [
        t for pair in QUALITY_DIVERSITY if set(pair) <= set(pairs) and (t := _pareto(items, pair, stem)) is not None
    ]
    counts = _counts(results, items, pairs, stem)
    return out + ([counts] if counts is not None else [])


def _best_of_n(items: Sequence[Folded], pair: Pair, stem: str) -> Table | None:
    """A row a decoder; a column an N, as many as the smallest sweep has settings."""
    curves, without = curves_of(items, pair)
    if not curves:
        return None
    first, most = values_of(items, *pair)[0], min(c.settings for c in curves)
    shown = sorted({n for n in SHOWN if n <= most} | {most})
    fresh = any(math.isfinite(c.fresh[0]) for c in curves)
    title, direction = printed_as(first)
    columns = [Column("", "settings", "settings", "none", 0)]
    blocks = [[Cell(c.settings, decimals=0) for c in curves]]
    for n in shown:
        value = [Cell((c.fresh if fresh else c.seen)[n - 1]) for c in curves]
        places = max(column_decimals(value), 3 if most > 1 and direction == "higher" else 0)
        spread = [c.half[n - 1] for c in curves]
        made = [_with_interval(cell, h, places) for cell, h in zip(value, spread, strict=True)]
        columns.append(Column(*pair, f"N={n}", direction, places))
        blocks.append(_bold(made, direction))
    if fresh:
        columns.append(Column(*pair, f"N={most}, same seeds", "none", columns[-1].decimals))
        blocks.append([Cell(c.seen[most - 1]) for c in curves])
    rows = [TableRow(c.name, "model", tuple(b[i] for b in blocks)) for i, c in enumerate(curves)]
    remarks = [_DRAWN, _FRESH if fresh else _SEEN]
    remarks += [f"Without a sweep of two settings: {', '.join(without)}."] if without else []
    name, title = f"{stem}-best-{slug(pair[1])}", f"Best of N settings: {title}"
    return Table(name, title, tuple(columns), tuple(rows), tuple(remarks), head="Decoder", show_seeds=False)


def _with_interval(cell: Cell, half: float, places: int) -> Cell:
    if not math.isfinite(half):
        return cell
    return dataclasses.replace(cell, suffix=f" ± {half:.{places}f}")


def _bold(cells: Sequence[Cell], direction: str) -> list[Cell]:
    sign = -1 if direction == "higher" else 1
    known = [sign * c.value for c in cells if math.isfinite(c.value)]
    best = min(known, default=math.nan)
    return [dataclasses.replace(c, best=len(known) > 1 and sign * c.value == best) for c in cells]


def _pareto(items: Sequence[Folded], pairs: tuple[Pair, Pair], stem: str) -> Table | None:
    """A row a setting; says which are beaten in both values, and by which setting that is beaten by none."""
    known = [(s, (a, b)) for s, a, b in with_both(items, *pairs)]
    costs: list[list[float]] = []
    for _, values in known:
        rules = [cost_of(v, items) for v in values]
        if None in rules:
            return None
        costs.append([_printed(v, r) * (r["sign"] if r else 1) for v, r in zip(values, rules, strict=True)])
    if len(known) < 2:
        return None
    by = [next((i for i in _front(costs) if dominates(costs[i], own)), None) for own in costs]
    columns, blocks = [], []
    for place, pair in enumerate(pairs):
        first = values_of(items, *pair)[0]
        cells = [Cell(_printed(v[place], cost_of(v[place], items)), v[place].sd, v[place].seeds) for _, v in known]
        title, direction = printed_as(first)
        columns.append(Column(*pair, title, direction, column_decimals(cells), first.signature, is_gap(first)))
        blocks.append(cells)
    columns.append(Column("", "pareto", "beaten by", "none"))
    blocks.append([Cell(words="none (Pareto)" if i is None else known[i][0].name) for i in by])
    rows = [TableRow(s.name, "model", tuple(b[i] for b in blocks)) for i, (s, _) in enumerate(known)]
    remark = "Beaten: another setting is at least as good in both values and better in one, by the means over seeds."
    title = "Quality and diversity: what no other setting beats"
    return Table(f"{stem}-pareto-{slug(pairs[0][0])}", title, tuple(columns), tuple(rows), (remark,), show_seeds=False)


def _printed(value: Folded, cost: dict[str, float] | None) -> float:
    return abs(value.mean - cost["target"]) if cost is not None and math.isfinite(cost["target"]) else value.mean


def _front(costs: Sequence[list[float]]) -> list[int]:
    return [i for i, own in enumerate(costs) if not any(dominates(other, own) for other in costs)]


def _counts(results: Results, items: Sequence[Folded], pairs: Sequence[Pair], stem: str) -> Table | None:
    """Wins, ties and losses of every decoder, each with its chosen setting, against all others; Holm over all tests."""
    sweeps = sweeps_of(items)
    if len(sweeps) < 2:
        return None
    tests = {pair: _tests(results, items, sweeps, pair) for pair in pairs}
    corrected = holm_of({(pair, key): p for pair, own in tests.items() for key, (_, p) in own.items()})
    columns, blocks = [], []
    for pair in pairs:
        if not tests[pair]:
            continue
        tally = _tally(sweeps, tests[pair], {key: p for (one, key), p in corrected.items() if one == pair})
        columns.append(Column(*pair, f"{printed_as(values_of(items, *pair)[0])[0]}: win/tie/loss", "none"))
        blocks.append([Cell(words=_said(tally[s.name])) for s in sweeps])
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


def _tests(results: Results, items: Sequence[Folded], sweeps: Sequence[SweepOf], pair: Pair) -> Tests:
    """Return (decoder, decoder) → (cost of the first minus the second, p-value; NaN where there is no test)."""
    found = [(s, c) for s in sweeps if (c := chosen(s, items, pair)) is not None]
    scoring = tuple(dict.fromkeys(seed for _, (_, seeds) in found for seed in seeds))
    out: Tests = {}
    for (one, (a, _)), (other, (b, _)) in itertools.combinations(found, 2):
        left, right = (_on_seeds(s, scoring) for s in (a, b))
        value = left.value(*pair)
        rule = cost_of(value, items) if value is not None else None
        tested = compare(results, items, left, right, pair)
        if tested is not None and rule is not None:
            p_value = tested.p_value if math.isnan(rule["target"]) else tested.nearer
            out[one.name, other.name] = (rule["sign"] * tested.difference, p_value)
    return out


def _on_seeds(system: System, seeds: Sequence[str]) -> System:
    """Return a system with the values of some seeds alone; as it is where it has none of them."""
    kept = []
    for item in system.items:
        places = [i for i, seed in enumerate(item.values) if seed in seeds and math.isfinite(item.values[seed])]
        if not places:
            kept.append(item)
            continue
        values = {seed: item.values[seed] for i, seed in enumerate(item.values) if i in places}
        mean = math.fsum(values.values()) / len(values)
        sources = tuple(item.sources[i] for i in places)
        kept.append(dataclasses.replace(item, values=values, mean=mean, seeds=len(values), sources=sources))
    return System(system.label, tuple(kept))


def _tally(sweeps: Sequence[SweepOf], tests: Tests, corrected: dict[tuple[str, str], float]) -> dict[str, Counter[str]]:
    out: dict[str, Counter[str]] = {s.name: Counter() for s in sweeps}
    for key, (difference, _) in tests.items():
        one, other = key
        if key not in corrected:
            outcome = "??"
        elif corrected[key] >= LEVEL or difference == 0:
            outcome = "=="
        else:
            outcome = "+-" if difference < 0 else "-+"
        out[one][outcome[0]] += 1
        out[other][outcome[1]] += 1
    return out


def _said(tally: Counter[str]) -> str:
    unknown = f" ?{tally['?']}" if tally["?"] else ""
    return f"{tally['+']}/{tally['=']}/{tally['-']}{unknown}"
