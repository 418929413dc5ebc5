"""Tables of differences from a baseline system, tested as in `report.analysis.paired`."""

from __future__ import annotations

import math

from openended.harness.core import SpecError, suggest
from openended.harness.report.analysis.paired import LEAST_SEEDS, SystemComparison, compare_systems, correct_by_holm
from openended.harness.report.tables.agreement import stars
from openended.harness.report.tables.selection import check_signatures, select_pairs
from openended.harness.report.tables.table import Cell, Column, Table, choose_column_decimals
from openended.harness.results import Layout, Results, group_systems, select_values

UNTESTED = f"Not tested: no replicates or per-example values, and p < 0.05 needs {LEAST_SEEDS} seeds."
UNSURE = "\u00b0"  # the values differ, but maybe not their distances to the human value


def build_significance_tables(results: Results, baseline: str) -> list[Table]:
    """Build two tables: differences from the baseline with significance stars, and corrected p-values."""
    items = results.values
    systems = {s.name: s for s in group_systems(items)}
    if baseline not in systems:
        raise SpecError(f"no system {baseline!r}{suggest(baseline, systems)}")
    names = [name for name in systems if name != baseline]
    if not names:
        raise SpecError(f"no other system to compare {baseline!r} with")
    pairs = select_pairs(items, Layout())
    for pair in pairs:
        check_signatures(pair[0], select_values(items, *pair), "significance")
    tests = {(n, p): compare_systems(results, items, systems[n], systems[baseline], p) for n in names for p in pairs}
    corrected = correct_by_holm({k: t.p_value for k, t in tests.items() if t is not None})
    differences, p_values = [], []
    for pair in pairs:
        cells = [_make_cell(tests[name, pair], corrected.get((name, pair), math.nan)) for name in names]
        first = select_values(items, *pair)[0]
        gap = first.direction == "match_human"
        title = f"Δ|Δ {first.title}|" if gap else f"Δ {first.title}"
        direction = "lower" if gap else "none" if first.target is not None else first.direction
        column = Column(*pair, title, direction, choose_column_decimals(cells), first.signature, gap)
        differences.append((column, cells))
        p_cells = [Cell(corrected[n, pair]) if (n, pair) in corrected else Cell(note=UNTESTED) for n in names]
        p_values.append((Column(*pair, f"p {first.title}", "none", 4), p_cells))
    remarks = [
        f"Difference from {baseline}; Δ|Δ| is the difference of the distances to the human value.",
        "* p < 0.05, ** p < 0.01, *** p < 0.001, two-sided, after Holm's correction over the table.",
        "Tests over examples for means (sign flips), over paired replicates for other metrics, otherwise over seeds.",
    ]
    if any(c.suffix.endswith(UNSURE) for _, cells in differences for c in cells):
        remarks.append(f"{UNSURE} The two values differ, but not significantly in their distance to the human value.")
    seeds = sorted({t.n for t in tests.values() if t is not None and t.over == "seeds" and math.isfinite(t.p_value)})
    if seeds:
        floor = ", ".join(f"{2 / 2**n:.2g} for {n} seeds" for n in seeds)
        remarks.append(f"Smallest p-value that a test over seeds can reach, before the correction: {floor}.")
    holm = ["p-values after Holm's correction over all cells."]
    return [
        Table.from_columns("significance", f"Difference from {baseline}", names, differences, remarks),
        Table.from_columns("significance-p", f"p-values against {baseline}", names, p_values, holm),
    ]


def _make_cell(test: SystemComparison | None, p_value: float) -> Cell:
    if test is None:
        return Cell(note="One of the two systems has no value, or there is no human value to compare with.")
    if not math.isfinite(p_value):
        return Cell(test.difference, signed=True, note=UNTESTED)
    sign = stars(p_value)
    unsure = UNSURE if sign and math.isfinite(test.nearer) and test.nearer >= 0.05 else ""
    return Cell(test.difference, n=test.n, signed=True, suffix=sign + unsure)
