"""What a report finds: a table that says whether each claim of claims.yaml holds."""

import math
from collections.abc import Mapping, Sequence
from functools import cache, partial
from importlib import resources
from typing import Any, NamedTuple

from openended.harness.core import parse_yaml, show_progress
from openended.harness.report.analysis import uncertainty
from openended.harness.report.analysis.uncertainty import LEVEL, Check, Errors
from openended.harness.report.findings import checks
from openended.harness.report.tables.frame import Cell, Frame, build_frame, make_cell
from openended.harness.report.tables.selection import TablePart
from openended.harness.results import Layout, SystemValue, group_by_data

REMARK = (
    f"≪: less than {checks.FAR:g} times; close, alike: within {checks.CLOSE:g} of the distance to nucleus "
    f"sampling; rankings survive: Spearman's ρ of at least {checks.ALIKE:g}; agree across embedders: of at least "
    f"0.67, the lowest in the paper's table; steady: a standard deviation of at most "
    f"0.024, the largest in the paper's table. Means over seeds; compared only where all other "
    "settings are the same. Judgments of simulated raters and shipped examples are ignored. Undecided: other texts "
    f"could give the other verdict; of two equal systems {LEVEL:.0%} get a sure verdict. The number of texts that "
    "would decide it assumes errors that shrink as 1/√n. No variation seen: the replicates of a value are all equal, "
    "so they give no verdict."
)
_TITLES = ("source", "measured", "verdict")


class Claim(NamedTuple):
    """One finding of a paper."""

    claim: str
    source: str
    check: Check
    needs: str  # data that the check needs
    across: bool = False  # whether it is about values of several tasks or options of a task, which it compares


@cache
def load_claims() -> tuple[Claim, ...]:
    """Return the claims of claims.yaml."""

    def build_check(node: Mapping[str, Any]) -> Check:
        ((kind, options),) = node.items()
        if kind == "all":
            return partial(checks.check_all, checks={title: build_check(part) for title, part in options.items()})
        if kind == "first":
            return partial(checks.check_first, checks=[build_check(part) for part in options])
        values = [tuple(value.split(".", 1)) for value in options["values"]]
        return partial(getattr(checks, f"check_{kind}"), **{**options, "values": values})

    text = (resources.files(__package__) / "claims.yaml").read_text(encoding="utf-8")
    return tuple(Claim(**{**entry, "check": build_check(entry["check"])}) for entry in parse_yaml(text))


def build_findings_frames(part: TablePart, layout: Layout) -> list[Frame]:
    """Build the table of claims with source, measured values and verdict; a claim is checked on every task."""
    items = [item for item in part.items if math.isfinite(item.mean) and not item.invented]
    by_data, errors = group_by_data(items), Errors(part.results)
    rows, claims = [], load_claims()
    with show_progress("findings", len(claims), unit="claims", enabled=True) as advance:
        for claim in claims:
            rows.append((claim.source, *_check_claim(claim, {"": items} if claim.across else by_data, errors)))
            advance(1)
    columns = zip(_TITLES, zip(*rows, strict=True), strict=True)
    checked = sum(verdict != "not measured" for *_, verdict in rows)
    expected = f"of {checked} claims about equal systems, {LEVEL * checked:.1f} would be sure by chance."
    remarks = (REMARK, f"The {LEVEL:.0%} are of each claim: {expected}")
    labels = [claim.claim for claim in claims]
    return [build_frame(part.stem, layout.title, labels, columns, remarks, roles="claim", head="Claim")]


def _check_claim(claim: Claim, parts: Mapping[str, Sequence[SystemValue]], errors: Errors) -> tuple[Cell | str, str]:
    """Return what was measured, and the verdict."""
    by_task = {task: uncertainty.check_with_uncertainty(claim.check, part, errors) for task, part in parts.items()}
    verdicts = {task: verdict for task, verdict in by_task.items() if verdict is not None}
    if not verdicts:
        return make_cell(note=f"Needs {claim.needs}."), "not measured"
    (verdict,) = verdicts.values() if len(parts) == 1 else [uncertainty.combine_tasks(verdicts)]
    return verdict.measured_text, verdict.words
