"""Build the findings table: the papers' claims, the measured values, and whether each claim holds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from openended.harness.core import F64
from openended.harness.report.findings.checks import ALIKE, ALIKE_EMBEDDERS, CLOSE, FAR, STEADY
from openended.harness.report.findings.claim_values import Check, Verdict
from openended.harness.report.findings.claims import CLAIMS
from openended.harness.report.findings.uncertainty import LEVEL, check_with_uncertainty, draw_errors, is_sure
from openended.harness.report.tables.table import Cell, Column, Table, TableRow
from openended.harness.results import Layout, Results, SystemValue, group_by_data


def _check_by_task(
    check: Check, parts: Mapping[str, Sequence[SystemValue]], errors: Mapping[str, list[F64 | None]]
) -> Verdict | None:
    """Check a claim on every task; it holds if it does on each task with enough data."""
    verdicts = {task: check_with_uncertainty(check, part, errors[task]) for task, part in parts.items()}
    conclusive = {task: verdict for task, verdict in verdicts.items() if verdict is not None}
    if len(parts) == 1 or not conclusive:
        return next(iter(conclusive.values()), None)
    text = "; ".join(f"{task}: {verdict.measured_text}" for task, verdict in conclusive.items())
    return _combine(text, list(conclusive.values()))


def _combine(text: str, verdicts: Sequence[Verdict]) -> Verdict:
    """Combine the verdicts of several tasks; it holds if all do, and one sure failure decides it."""
    components = tuple(holds for verdict in verdicts for holds in verdict.outcomes)
    doubts = tuple(doubt for verdict in verdicts for doubt in verdict.doubts or [1.0] * len(verdict.outcomes))
    joint = Verdict(text, all(components), components=components, doubts=doubts)
    if not joint.holds and is_sure(joint):
        return replace(joint, sure=True)
    sure = None if all(v.sure is None for v in verdicts) else all(v.sure is not False for v in verdicts) and joint.holds
    return replace(joint, sure=sure, varies=all(v.varies for v in verdicts))


def build_findings_tables(results: Results, layout: Layout, name: str) -> list[Table]:
    """Build the table of claims with source, measured values and verdict."""
    items = [i for i in results.values if math.isfinite(i.mean)]
    rows, parts = [], group_by_data(items)
    errors = {task: draw_errors(results, part) for task, part in parts.items()}
    for claim in CLAIMS:
        verdict = _check_by_task(claim.check, parts, errors)
        if verdict is None:
            cells = (Cell(words=claim.source), Cell(note=f"Needs {claim.needs}."), Cell(words="not measured"))
        else:
            cells = (Cell(words=claim.source), Cell(words=verdict.measured_text), Cell(words=verdict.words))
        rows.append(TableRow(claim.text, "claim", cells))
    columns = (
        Column("", "source", "source", "none"),
        Column("", "measured", "measured", "none"),
        Column("", "verdict", "verdict", "none"),
    )
    remark = (
        f"≪: less than {FAR:g} times; close, alike: within {CLOSE:g} of the distance to nucleus sampling; rankings "
        f"survive: Spearman's ρ of at least {ALIKE:g}; agree across embedders: of at least {ALIKE_EMBEDDERS:g}, the "
        f"lowest in the paper's table; steady: a standard deviation of at most {STEADY:g}, the largest in the paper's "
        "table. Means over seeds; compared only where all other settings are the same. Shipped example judgments are "
        f"ignored. Undecided: other texts could give the other verdict; of two equal systems {LEVEL:.0%} get a sure "
        "verdict. The number of texts that would decide it assumes errors that shrink as 1/√n. No variation seen: the "
        "replicates of a value are all equal, so they give no verdict."
    )
    return [Table(name, layout.title, columns, tuple(rows), (remark,), head="Claim", show_seeds=False)]
