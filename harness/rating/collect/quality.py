"""The quality sheet: how fast, how even, how consistent raters were; nothing here removes an answer."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from openended.harness.core import F64
from openended.harness.rating.collect.answers import AnsweredItem, AnsweredSheet
from openended.harness.rating.collect.collect import Gathered
from openended.harness.rating.key import StudyKey
from openended.metrics.correlation import rank_correlation
from openended.metrics.judgments import SIMULATED, agreement


@dataclass(frozen=True, slots=True)
class RaterQuality:
    """One rater, or all of them together."""

    rater: str
    items: int
    """Answered, controls among them."""
    median_seconds: float
    too_fast: float
    """Share of items that took less than the protocol's minimum; NaN where nobody took the time."""
    ties: float
    """Share of answers that are ties; NaN for ratings."""
    side_a: float
    """Share of side A among the answers that are no ties."""
    side_p: float
    """Two-sided binomial p-value of that share against one half."""
    controls: str
    """`passed/seen`."""
    with_rest: float
    """Agreement with the others on shared items: share of equal outcomes (pairs), rank correlation with their mean."""


def raters_of(gathered: Gathered) -> list[RaterQuality]:
    """Return the quality of every rater, and of all under the name `all`."""
    rest = _with_rest(gathered)
    rows = [_quality(gathered.key, s.rater, s.items, rest.get(s.rater, math.nan)) for s in gathered.sheets]
    everything = [item for sheet in gathered.sheets for item in sheet.items]
    known = [row.with_rest for row in rows if not math.isnan(row.with_rest)]
    return [*rows, _quality(gathered.key, "all", everything, float(np.mean(known)) if known else math.nan)]


def _quality(key: StudyKey, rater: str, items: Sequence[AnsweredItem], rest: float) -> RaterQuality:
    from scipy.stats import binomtest

    seconds = np.array([item.seconds for item in items if not math.isnan(item.seconds)])
    own = [item for item in items if not key.by_id[item.task].is_control]
    outcomes = [key.protocol.choices[n - 1].outcome for item in own for n in item.choices.values()]
    # One item counts once on the question of sides: its questions are answered together, and lean together.
    leans = [_lean(key, item) for item in own]
    a, b = sum(x > 0 for x in leans), sum(x < 0 for x in leans)
    pairs = key.protocol.kind == "pairs"
    passed = [ok for item in items for ok in _controls(key, item)]
    return RaterQuality(
        rater=rater, items=len(items),
        median_seconds=float(np.median(seconds)) if len(seconds) else math.nan,
        too_fast=float((seconds < key.protocol.min_seconds).mean()) if len(seconds) else math.nan,
        ties=outcomes.count("tie") / len(outcomes) if pairs and outcomes else math.nan,
        side_a=a / (a + b) if a + b else math.nan,
        side_p=float(binomtest(a, a + b).pvalue) if a + b else math.nan,
        controls=f"{sum(passed)}/{len(passed)}", with_rest=rest,
    )  # fmt: skip


def _lean(key: StudyKey, item: AnsweredItem) -> int:
    """Return above 0 where more questions went to A than to B."""
    sides = [key.protocol.choices[n - 1].outcome for n in item.choices.values()]
    return sides.count("a") - sides.count("b")


def _controls(key: StudyKey, item: AnsweredItem) -> list[bool]:
    task = key.by_id[item.task]
    if not task.is_control:
        return []
    control = key.control(task)
    number = item.choices.get(control.criterion)
    return [] if number is None else [control.passed(key.protocol.choices[number - 1])]


Unit = tuple[str, ...]
Tables = Mapping[str, Mapping[Unit, Mapping[str, float]]]


def _tables(gathered: Gathered) -> Tables:
    """Return question → rated thing → rater → level; of a pair from the side of its first player by name."""
    key = gathered.key
    made: dict[str, dict[Unit, dict[str, float]]] = {q: defaultdict(dict) for q in key.protocol.questions}
    levels = np.linspace(1.0, -1.0, len(key.protocol.choices))
    for sheet in gathered.sheets:
        for item in sheet.items:
            task = key.by_id[item.task]
            if task.is_control:
                continue
            sides = sorted(task.sides)
            turn = 1.0 if tuple(sides) == task.sides else -1.0
            for question, number in item.choices.items():
                rating = key.protocol.choices[number - 1].rating
                level = turn * float(levels[number - 1]) if rating is None else rating
                made[question][task.example, *sides][sheet.rater] = level
    return made


def alphas(gathered: Gathered) -> dict[str, float]:
    """Return question → Krippendorff's α (ordinal); NaN where no item has two raters."""
    return {question: agreement(_matrix(units, gathered.sheets)) for question, units in _tables(gathered).items()}


def _matrix(units: Mapping[Unit, Mapping[str, float]], sheets: Sequence[AnsweredSheet]) -> F64:
    place = {sheet.rater: i for i, sheet in enumerate(sheets)}
    out = np.full((max(len(units), 1), len(place)), np.nan)
    for row, unit in enumerate(sorted(units)):
        for rater, level in units[unit].items():
            out[row, place[rater]] = level
    return out


def _with_rest(gathered: Gathered) -> dict[str, float]:
    """Return rater → agreement with the others on what they rated too; raters who share nothing are not in it."""
    shared: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for units in _tables(gathered).values():
        for own in units.values():
            for rater, level in own.items():
                others = [v for name, v in own.items() if name != rater]
                if others:
                    shared[rater].append((level, float(np.mean(others))))
    if gathered.key.protocol.kind == "pairs":
        return {r: float(np.mean([np.sign(x) == np.sign(y) for x, y in pairs])) for r, pairs in shared.items()}
    return {
        rater: rank_correlation([x for x, _ in pairs], [y for _, y in pairs])
        for rater, pairs in shared.items()
        if len(pairs) >= 3
    }


def quality_lines(gathered: Gathered) -> list[str]:
    """Return the quality sheet as Markdown."""
    key, rows = gathered.key, raters_of(gathered)
    p = key.protocol
    simulated = sum(sheet.rater.startswith(SIMULATED) for sheet in gathered.sheets)
    out = [f"# Quality of study {key.study} ({p.label})", ""]
    if simulated:
        out += [f"**{simulated} of {len(gathered.sheets)} raters are simulated: nobody rated anything.**", ""]
    out += [f"- {remark}" for remark in gathered.remarks]
    out += [f"- Krippendorff's α, {question}: {_alpha(value)}" for question, value in alphas(gathered).items()]
    rest = "agrees with the rest" if p.kind == "pairs" else "ρ with the rest"
    heads = ("rater", "items", "median s", f"under {p.min_seconds:g} s", "ties", "side A (p)", "controls", rest)
    out += ["", f"| {' | '.join(heads)} |", f"| --- |{' ---: |' * (len(heads) - 1)}"]
    out += [f"| {' | '.join(_cells(row))} |" for row in rows]
    out += ["", "Controls: passed of seen. Nothing was removed."]
    if p.kind == "pairs":
        out[-1] += (
            " Side A: share of pairs in which A won more questions than B, with a binomial p-value. "
            "`metric.bradley_terry.min_seconds` leaves out what was too fast."
        )
    return [*out, ""]


def _alpha(value: float) -> str:
    return "not told: no item has two raters who differ (--raters 2 or more)" if math.isnan(value) else f"{value:.2f}"


def _cells(row: RaterQuality) -> list[str]:
    def share(value: float) -> str:
        return "–" if math.isnan(value) else f"{value:.0%}"

    side = "–" if math.isnan(row.side_a) else f"{row.side_a:.0%} ({row.side_p:.2g})"
    rest = "–" if math.isnan(row.with_rest) else f"{row.with_rest:.2f}"
    seconds = "–" if math.isnan(row.median_seconds) else f"{row.median_seconds:.0f}"
    seen = "–" if row.controls == "0/0" else row.controls
    return [row.rater, str(row.items), seconds, share(row.too_fast), share(row.ties), side, seen, rest]


def quality_facts(gathered: Gathered) -> dict[str, Any]:
    """Return the quality sheet as plain JSON."""
    from dataclasses import asdict

    return {
        "study": gathered.key.study, "protocol": gathered.key.protocol.label, "remarks": list(gathered.remarks),
        "alpha": alphas(gathered), "raters": [asdict(row) for row in raters_of(gathered)],
    }  # fmt: skip
