"""What the papers claim, what these runs measure, and whether it holds here: honest either way."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from openended.harness.report.findings.checks import ALIKE, ALIKE_EMBEDDERS, CLOSE, FAR, STEADY
from openended.harness.report.findings.claims import CLAIMS
from openended.harness.report.findings.uncertainty import AGREE, errors_of, judged
from openended.harness.report.findings.values import Check, Verdict
from openended.harness.report.tables.table import Cell, Column, Table, TableRow
from openended.harness.results import Folded, Layout, Results, by_data, fold_seeds


def _by_task(results: Results, check: Check, parts: Mapping[str, Sequence[Folded]]) -> Verdict | None:
    """Judge a claim on every task by itself: it holds if it does on each that can tell."""
    found = {}
    for task, part in parts.items():
        errors = results.memo(f"errors of {task}", lambda part=part: errors_of(results, part))  # type: ignore[misc]
        found[task] = judged(check, part, errors)
    known = {task: verdict for task, verdict in found.items() if verdict is not None}
    if len(parts) == 1 or not known:
        return next(iter(known.values()), None)
    said = "; ".join(f"{task}: {verdict.told}" for task, verdict in known.items())
    return Verdict(said, all(verdict.holds for verdict in known.values()), _together(list(known.values())))


def _together(verdicts: Sequence[Verdict]) -> bool | None:
    """Say how sure it is that all hold: one that surely does not decides it."""
    if any(v.sure and not v.holds for v in verdicts):
        return True
    return None if all(v.sure is None for v in verdicts) else all(v.sure is not False for v in verdicts)


def findings_tables(results: Results, layout: Layout, name: str) -> list[Table]:
    """Build the table of claims: source, what was measured, the verdict."""
    items = [i for i in fold_seeds(results) if math.isfinite(i.mean)]
    rows, parts = [], by_data(items)
    for claim in CLAIMS:
        verdict = _by_task(results, claim.check, parts)
        if verdict is None:
            cells = (Cell(words=claim.source), Cell(note=f"Needs {claim.needs}."), Cell(words="not measured"))
        else:
            cells = (
                Cell(words=claim.source),
                Cell(words=verdict.told),
                Cell(words=verdict.words),
            )
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
        "table. Means over seeds; compared only where all other settings are the same. Invented judgments count for "
        f"nothing. Undecided: with other texts it would come out otherwise in more than {1 - AGREE:.0%} of draws; "
        "the number of texts that would decide it goes by errors that shrink as 1/√n."
    )
    return [Table(name, layout.title, columns, tuple(rows), (remark,), head="Claim", show_seeds=False)]
