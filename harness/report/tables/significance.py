"""Tables of differences from a baseline system, tested as in `report.analysis.paired`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from openended.harness.core import SpecError, suggest
from openended.harness.report.analysis.paired import LEAST_SEEDS, SystemComparison, compare_systems, correct_by_holm
from openended.harness.report.tables.agreement import stars
from openended.harness.report.tables.selection import check_signatures, select_pairs
from openended.harness.report.tables.table import Cell, Column, Table, TableRow, choose_column_decimals
from openended.harness.results import Layout, Results, System, SystemValue, group_systems, select_values

UNTESTED = f"Not tested: no replicates or per-example values, and p < 0.05 needs {LEAST_SEEDS} seeds."
UNSURE = "\u00b0"  # the values differ, but maybe not their distances to the human value


def build_significance_tables(results: Results, baseline: str) -> list[Table]:
    """Build two tables: differences from the baseline with significance stars, and corrected p-values."""
    items = results.values
    systems = group_systems(items)
    labels = {s.name: s for s in systems}
    if baseline not in labels:
        raise SpecError(f"no system {baseline!r}{suggest(baseline, labels)}")
    others = [s for label, s in labels.items() if label != baseline]
    if not others:
        raise SpecError(f"no other system to compare {baseline!r} with")
    pairs = select_pairs(items, Layout())
    for pair in pairs:
        check_signatures(pair[0], select_values(items, *pair), "significance")
    tests = {(s.name, p): compare_systems(results, items, s, labels[baseline], p) for s in others for p in pairs}
    corrected = correct_by_holm({k: t.p_value for k, t in tests.items() if t is not None})
    return [
        _build_difference_table(items, others, pairs, tests, corrected, baseline),
        _build_p_value_table(items, others, pairs, corrected, baseline),
    ]


Key = tuple[str, tuple[str, str]]


def _build_difference_table(
    items: Sequence[SystemValue],
    others: Sequence[System],
    pairs: Sequence[tuple[str, str]],
    tests: Mapping[Key, SystemComparison | None],
    corrected: Mapping[Key, float],
    baseline: str,
) -> Table:
    columns, blocks = [], []
    for pair in pairs:
        cells = [_make_cell(tests[s.name, pair], corrected.get((s.name, pair), math.nan)) for s in others]
        first = select_values(items, *pair)[0]
        gap = first.direction == "match_human"
        title = f"Δ|Δ {first.title}|" if gap else f"Δ {first.title}"
        direction = "lower" if gap else "none" if first.target is not None else first.direction
        columns.append(Column(*pair, title, direction, choose_column_decimals(cells), first.signature, gap))
        blocks.append(cells)
    rows = [TableRow(s.name, "model", tuple(b[i] for b in blocks)) for i, s in enumerate(others)]
    seeds = sorted({t.n for t in tests.values() if t is not None and t.over == "seeds" and math.isfinite(t.p_value)})
    remarks = [
        f"Difference from {baseline}; Δ|Δ| is the difference of the distances to the human value.",
        "* p < 0.05, ** p < 0.01, *** p < 0.001, two-sided, after Holm's correction over the table.",
        "Tests over examples for means (sign flips), over paired replicates for other metrics, otherwise over seeds.",
    ]
    if any(c.suffix.endswith(UNSURE) for block in blocks for c in block):
        remarks.append(f"{UNSURE} The two values differ, but not significantly in their distance to the human value.")
    if seeds:
        floor = ", ".join(f"{2 / 2**n:.2g} for {n} seeds" for n in seeds)
        remarks.append(f"Smallest p-value that a test over seeds can reach, before the correction: {floor}.")
    return Table(
        "significance", f"Difference from {baseline}", tuple(columns), tuple(rows), tuple(remarks), show_seeds=False
    )


def _make_cell(test: SystemComparison | None, p_value: float) -> Cell:
    if test is None:
        return Cell(note="One of the two systems has no value, or there is no human value to compare with.")
    if not math.isfinite(p_value):
        return Cell(test.difference, signed=True, note=UNTESTED)
    sign = stars(p_value)
    unsure = UNSURE if sign and math.isfinite(test.nearer) and test.nearer >= 0.05 else ""
    return Cell(test.difference, n=test.n, signed=True, suffix=sign + unsure)


def _build_p_value_table(
    items: Sequence[SystemValue],
    others: Sequence[System],
    pairs: Sequence[tuple[str, str]],
    corrected: Mapping[Key, float],
    baseline: str,
) -> Table:
    titles = {(i.metric, i.key): i.title for i in items}
    columns = tuple(Column(*p, f"p {titles[p]}", "none", 4) for p in pairs)
    rows = []
    for s in others:
        cells = [corrected.get((s.name, p), math.nan) for p in pairs]
        row_cells = tuple(Cell(c) if math.isfinite(c) else Cell(note=UNTESTED) for c in cells)
        rows.append(TableRow(s.name, "model", row_cells))
    remarks = ("p-values after Holm's correction over all cells.",)
    return Table("significance-p", f"p-values against {baseline}", columns, tuple(rows), remarks, show_seeds=False)
