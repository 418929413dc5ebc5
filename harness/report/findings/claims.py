"""What a report finds: a table that says whether each claim of claims.yaml holds, and a sentence on the best system."""

import math
from collections.abc import Mapping, Sequence
from functools import cache, partial
from importlib import resources
from typing import Any, NamedTuple

import numpy as np

from openended.harness.core import parse_signature, parse_yaml, show_progress
from openended.harness.report.findings import checks, uncertainty
from openended.harness.report.findings.checks import format_number, join_components
from openended.harness.report.findings.uncertainty import LEVEL, Check, Errors, Outcome, Sample
from openended.harness.report.tables.frame import Cell, Frame, Quantity
from openended.harness.report.tables.selection import INVENTED, TablePart, select_pairs
from openended.harness.report.tables.values import rank_systems
from openended.harness.results import Layout, Results, SystemValue, group_by_data, group_systems, load_replicates

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
HEADLINES = ("bradley_terry", "huse", "mauve")  # people first; without them the first metric that ranks systems
_TITLES = ("source", "measured", "verdict")
MAX_NAMED = 3  # systems named in one list


class Claim(NamedTuple):
    """One finding of a paper."""

    claim: str
    source: str
    check: Check
    needs: str  # data that the check needs


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
    items = [item for item in part.items if math.isfinite(item.mean) and not _is_invented(item)]
    by_data, errors = group_by_data(items), Errors(part.results)
    rows, claims = [], load_claims()
    with show_progress("findings", len(claims), unit="claims", enabled=True) as advance:
        for claim in claims:
            rows.append((claim.source, *_check_claim(claim, by_data, errors)))
            advance(1)
    columns = [(Quantity("", title, title), [row[at] for row in rows]) for at, title in enumerate(_TITLES)]
    checked = sum(verdict != "not measured" for *_, verdict in rows)
    expected = f"of {checked} claims about equal systems, {LEVEL * checked:.1f} would be sure by chance."
    remarks = (REMARK, f"The {LEVEL:.0%} are of each claim: {expected}")
    labels = [claim.claim for claim in claims]
    return [Frame.build(part.stem, layout.title, labels, columns, remarks, kinds="claim", head="Claim")]


def _check_claim(claim: Claim, parts: Mapping[str, Sequence[SystemValue]], errors: Errors) -> tuple[Cell | str, str]:
    """Return what was measured, and the verdict."""
    by_task = {task: uncertainty.check_with_uncertainty(claim.check, part, errors) for task, part in parts.items()}
    verdicts = {task: verdict for task, verdict in by_task.items() if verdict is not None}
    if not verdicts:
        return Cell(note=f"Needs {claim.needs}."), "not measured"
    (verdict,) = verdicts.values() if len(parts) == 1 else [uncertainty.combine_tasks(verdicts)]
    return verdict.measured_text, verdict.words


def _is_invented(item: SystemValue) -> bool:
    """Return whether a value is based on the shipped example judgments."""
    file = parse_signature(item.signature).get("judgments", "").partition("@")[0]
    return item.metric in ("huse", "bradley_terry") and bool({item.axes.get("task", ""), file} & set(INVENTED))


# The headline ---------------------------------------------------------------------------------------------------------


def write_headline(results: Results) -> str:
    """Return which system is best by the headline metric, and how sure that is; empty if there are not two systems.

    The test of two systems and its correction are those of bold face.
    """
    parts = group_by_data([item for item in results.values if math.isfinite(item.mean)])
    ranks = {metric: rank for rank, metric in enumerate(HEADLINES)}
    for task, part in parts.items():
        pairs = select_pairs(part, companions=False)
        for pair in sorted(pairs, key=lambda pair: ranks.get(pair[0], len(ranks))):
            cells = rank_systems(TablePart(results, part, "headline", {}, ()), pair)
            if len(cells) > 1:
                sentence = _compare_best(cells, part, results)
                return f"On {task}, {sentence}" if len(parts) > 1 else sentence
    return ""


def _compare_best(cells: Sequence[Cell], part: Sequence[SystemValue], results: Results) -> str:
    """Compare the first value, which is the best, with all others, with 95 % margins of the differences."""
    values = [cell.source for cell in cells if cell.source is not None]
    first = values[0]
    items = [*values, *(i for i in part if i.system != "model" and i.pair == first.pair)]
    errors = Errors(results)
    sample = Sample(items, errors)
    oriented = [sample.orient(value) for value in values]
    others = range(1, len(values))

    def check(moved: Sample) -> Outcome | None:
        if len(moved.items) < len(items):  # values without variation are left out: their differences have no test
            return None
        numbers = [moved.orient(value) for value in values]
        return join_components("", [numbers[0] > numbers[at] for at in others])

    verdict = uncertainty.check_with_uncertainty(check, items, errors)
    system_names = {tuple(system.items[0].axes.items()): system.name for system in group_systems(part)}
    names = [system_names[tuple(value.axes.items())] for value in values]
    ahead, tied, untested = [], [], []
    for at in others:
        differences = oriented[0] - oriented[at]
        low, high = np.quantile(differences[1:], (LEVEL / 2, 1 - LEVEL / 2))
        gap = float(abs(differences[0]))
        margin = f"{format_number(gap)} ± {format_number(float(high - low) / 2)}"
        if not math.isfinite(cells[at].p_value):
            untested.append((gap, names[at]))
        elif cells[at].best:
            tied.append((gap, f"{names[at]} (difference {margin})"))
        else:
            ahead.append((gap, f"{names[at]} by {margin}"))
    words = {"higher": "the highest", "lower": "the lowest"}.get(first.direction, "the best")
    sentence = f"{names[0]} has {words} {first.title}, {format_number(values[0].mean)}"
    clauses = [f"ahead of {_join_names(ahead)}"] if ahead else []
    clauses += [f"not told apart from {_join_names(tied)}"] if tied else []
    if tied and verdict is not None and verdict.decides:  # the verdict is sure once the smallest difference is
        rivals = "every other system" if len(others) > 1 else names[1]
        clauses += [f"{verdict.decides} would tell {names[0]} from {rivals}"]
    hint = " (intervals=200 would test it)" if any(load_replicates(results, value) is None for value in values) else ""
    clauses += [f"not tested against {_join_names(untested)}{hint}"] if untested else []
    return f"{sentence}: {'; '.join(clauses)}."


def _join_names(entries: Sequence[tuple[float, str]]) -> str:
    """Join the systems nearest to the best; of many only the first few are named."""
    texts = [text for _, text in sorted(entries)]
    more = [f"{len(texts) - MAX_NAMED} more"] if len(texts) > MAX_NAMED else []
    texts = texts[:MAX_NAMED] + more
    return " and ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))
