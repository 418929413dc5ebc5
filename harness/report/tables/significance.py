"""Tables of the differences of every system from one of them, tested as in `report.analysis.paired`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from openended.harness.core import SpecError, suggest
from openended.harness.report.analysis.paired import LEAST_SEEDS, Tested, compare, holm_of
from openended.harness.report.tables.agreement import stars
from openended.harness.report.tables.selection import check_signatures, wanted
from openended.harness.report.tables.table import Cell, Column, Table, TableRow, column_decimals
from openended.harness.results import Folded, Layout, Results, System, fold_seeds, systems_of, values_of

UNTESTED = (
    f"Not tested: no draws, no values by example, and under {LEAST_SEEDS} seeds no p-value below 0.05 is possible."
)
UNSURE = "\u00b0"  # the values differ, the distances to the human value may not


def significance(results: Results, baseline: str) -> list[Table]:
    """Build two tables: the differences of every system from the baseline with stars, and the corrected p-values.

    Args:
        results: Runs of the systems.
        baseline: A system's label as it stands in the tables.

    Raises:
        SpecError: If no system has this label, or there is no other.
    """
    items = fold_seeds(results)
    systems = systems_of(items)
    labels = {s.name: s for s in systems}
    if baseline not in labels:
        raise SpecError(f"no system {baseline!r}{suggest(baseline, labels)}")
    others = [s for label, s in labels.items() if label != baseline]
    if not others:
        raise SpecError(f"there is no system beside {baseline!r} to compare with")
    pairs = wanted(items, Layout())
    for pair in pairs:
        check_signatures(pair[0], values_of(items, *pair), "significance")
    tests = {(s.label, p): compare(results, items, s, labels[baseline], p) for s in others for p in pairs}
    corrected = holm_of({k: t.p_value for k, t in tests.items() if t is not None})
    return [
        _differences(items, others, pairs, tests, corrected, baseline),
        _p_values(items, others, pairs, corrected, baseline),
    ]


Key = tuple[str, tuple[str, str]]


def _differences(
    items: Sequence[Folded],
    others: Sequence[System],
    pairs: Sequence[tuple[str, str]],
    tests: Mapping[Key, Tested | None],
    corrected: Mapping[Key, float],
    baseline: str,
) -> Table:
    columns, blocks = [], []
    for pair in pairs:
        cells = [_cell(tests[s.label, pair], corrected.get((s.label, pair), math.nan)) for s in others]
        first = values_of(items, *pair)[0]
        gap = first.direction == "match_human"
        title = f"Δ|Δ {first.title}|" if gap else f"Δ {first.title}"
        direction = "lower" if gap else "none" if first.target is not None else first.direction
        columns.append(Column(*pair, title, direction, column_decimals(cells), first.signature, gap))
        blocks.append(cells)
    rows = [TableRow(s.name, "model", tuple(b[i] for b in blocks)) for i, s in enumerate(others)]
    seeds = sorted({t.n for t in tests.values() if t is not None and t.over == "seeds" and math.isfinite(t.p_value)})
    remarks = [
        f"Difference from {baseline}; Δ|Δ| is the difference of the distances to the human value.",
        "* p < 0.05, ** p < 0.01, *** p < 0.001, two-sided, after Holm's correction over the table.",
        "Over examples where the metric is a mean of them (sign flips), over paired draws for others, else over seeds.",
    ]
    if any(c.suffix.endswith(UNSURE) for block in blocks for c in block):
        remarks.append(f"{UNSURE} The two values differ; whether one is nearer to the human value cannot be told.")
    if seeds:
        floor = ", ".join(f"{2 / 2**n:.2g} for {n} seeds" for n in seeds)
        remarks.append(f"Smallest p-value that a test over seeds can reach, before the correction: {floor}.")
    return Table(
        "significance", f"Difference from {baseline}", tuple(columns), tuple(rows), tuple(remarks), show_seeds=False
    )


def _cell(test: Tested | None, p_value: float) -> Cell:
    if test is None:
        return Cell(note="One of the two has no value, or there is no human value to compare with.")
    if not math.isfinite(p_value):
        return Cell(test.difference, signed=True, note=UNTESTED)
    sign = stars(p_value)
    unsure = UNSURE if sign and math.isfinite(test.nearer) and test.nearer >= 0.05 else ""
    return Cell(test.difference, n=test.n, signed=True, suffix=sign + unsure)


def _p_values(
    items: Sequence[Folded],
    others: Sequence[System],
    pairs: Sequence[tuple[str, str]],
    corrected: Mapping[Key, float],
    baseline: str,
) -> Table:
    titles = {(i.metric, i.key): i.title for i in items}
    columns = tuple(Column(*p, f"p {titles[p]}", "none", 4) for p in pairs)
    rows = []
    for s in others:
        cells = [corrected.get((s.label, p), math.nan) for p in pairs]
        made = tuple(Cell(c) if math.isfinite(c) else Cell(note=UNTESTED) for c in cells)
        rows.append(TableRow(s.name, "model", made))
    remarks = ("p-values after Holm's correction over all cells.",)
    return Table("significance-p", f"p-values against {baseline}", columns, tuple(rows), remarks, show_seeds=False)
