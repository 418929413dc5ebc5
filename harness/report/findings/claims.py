"""The table that says whether each claim of the papers in claims.yaml holds in the runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache, partial
from importlib import resources
from typing import Any, NamedTuple

from openended.harness.core import parse_signature, show_progress
from openended.harness.report.findings import checks
from openended.harness.report.findings.uncertainty import LEVEL, Check, Errors, check_with_uncertainty, combine_tasks
from openended.harness.report.tables.run_summary import INVENTED
from openended.harness.report.tables.table import Cell, Column, Table, TableRow
from openended.harness.results import Layout, Results, SystemValue, group_by_data

REMARK = (
    f"≪: less than {checks.FAR:g} times; close, alike: within {checks.CLOSE:g} of the distance to nucleus "
    f"sampling; rankings survive: Spearman's ρ of at least {checks.ALIKE:g}; agree across embedders: of at least "
    f"0.67, the lowest in the paper's table; steady: a standard deviation of at most "
    f"0.024, the largest in the paper's table. Means over seeds; compared only where all other "
    "settings are the same. Shipped example judgments are ignored. Undecided: other texts could give the other "
    f"verdict; of two equal systems {LEVEL:.0%} get a sure verdict. The number of texts that would decide it "
    "assumes errors that shrink as 1/√n. No variation seen: the replicates of a value are all equal, so they give "
    "no verdict."
)


class Claim(NamedTuple):
    """One finding of a paper."""

    claim: str
    source: str
    check: Check
    needs: str
    """Data that the check needs."""


@cache
def load_claims() -> tuple[Claim, ...]:
    """Return the claims of claims.yaml."""
    import yaml

    def build_check(kind: str, values: list[str], **options: Any) -> Check:  # noqa: ANN401
        metric_keys = [tuple(value.split(".", 1)) for value in values]
        return partial(getattr(checks, f"check_{kind}"), values=metric_keys, **options)

    text = (resources.files(__package__) / "claims.yaml").read_text(encoding="utf-8")
    return tuple(
        Claim(**{**entry, "check": build_check(kind, **options)})
        for entry in yaml.safe_load(text)
        for kind, options in entry["check"].items()
    )


def build_findings_tables(results: Results, layout: Layout, name: str) -> list[Table]:
    """Build the table of claims with source, measured values and verdict; a claim is checked on every task."""
    items = [item for item in results.values if math.isfinite(item.mean) and not _is_invented(item)]
    parts, errors = group_by_data(items), Errors(results)
    rows, claims = [], load_claims()
    with show_progress("findings", len(claims), unit="claims", enabled=True) as advance:
        for claim in claims:
            rows.append(_build_row(claim, parts, errors))
            advance(1)
    columns = tuple(Column("", title, title, "none") for title in ("source", "measured", "verdict"))
    return [Table(name, layout.title, columns, tuple(rows), (REMARK,), head="Claim", show_seeds=False)]


def _build_row(claim: Claim, parts: Mapping[str, Sequence[SystemValue]], errors: Errors) -> TableRow:
    by_task = {task: check_with_uncertainty(claim.check, part, errors) for task, part in parts.items()}
    verdicts = {task: verdict for task, verdict in by_task.items() if verdict is not None}
    if not verdicts:
        measured, words = Cell(note=f"Needs {claim.needs}."), "not measured"
    else:
        (verdict,) = verdicts.values() if len(parts) == 1 else [combine_tasks(verdicts)]
        measured, words = Cell(words=verdict.measured_text), verdict.words
    return TableRow(claim.claim, "claim", (Cell(words=claim.source), measured, Cell(words=words)))


def _is_invented(item: SystemValue) -> bool:
    """Return whether a value is based on the shipped example judgments."""
    file = parse_signature(item.signature).get("judgments", "").partition("@")[0]
    return item.metric in ("huse", "bradley_terry") and bool({item.axes.get("task", ""), file} & set(INVENTED))
