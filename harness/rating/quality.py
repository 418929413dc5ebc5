"""The quality sheet: speed, side preference and consistency of raters; nothing here removes an answer."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from openended.harness.rating.answers import AnsweredItem, StudyAnswers
from openended.harness.rating.key import StudyKey
from openended.metrics.correlation import rank_correlation
from openended.metrics.judgments import SIMULATED, agreement

_LEAST_ITEMS = 5  # with fewer, equal answers are no sign of carelessness


@dataclass(frozen=True, slots=True)
class RaterQuality:
    """Quality measures of one rater, or of all raters together."""

    rater: str
    items: int
    """Answered, controls among them."""
    median_seconds: float
    too_fast: float
    """Share of items that took less than the protocol's minimum; NaN if times were not measured."""
    ties: float
    """Share of answers that are ties; NaN for ratings."""
    top_answer: float
    """Share of the most frequent answer among all answers; 1 for a rater who always chose the same."""
    side_a: float
    """Share of side A among the answers that are no ties."""
    side_p: float
    """Two-sided binomial p-value of that share against one half."""
    controls: str
    """`passed/seen`."""
    with_rest: float
    """Agreement with the others on shared items: share of equal outcomes (pairs), rank correlation with their mean."""


def measure_rater_quality(gathered: StudyAnswers) -> list[RaterQuality]:
    """Return the quality of every rater, and of all under the name `all`."""
    rest = _measure_agreement_with_rest(gathered)
    rows = [_measure_quality(gathered.key, s.rater, s.items, rest.get(s.rater, math.nan)) for s in gathered.sheets]
    everything = [item for sheet in gathered.sheets for item in sheet.items]
    agreements = [row.with_rest for row in rows if not math.isnan(row.with_rest)]
    return [
        *rows,
        _measure_quality(gathered.key, "all", everything, float(np.mean(agreements)) if agreements else math.nan),
    ]


def _measure_quality(key: StudyKey, rater: str, items: Sequence[AnsweredItem], rest: float) -> RaterQuality:
    from scipy.stats import binomtest

    seconds = np.array([item.seconds for item in items if not math.isnan(item.seconds)])
    rated = [item for item in items if not key.by_id[item.task].is_control]
    answers = Counter(number for item in rated for number in item.choices.values())
    outcomes = [key.protocol.choices[n - 1].outcome for item in rated for n in item.choices.values()]
    # The answers about one item are correlated, so an item counts once in the side preference.
    leans = [_count_lean(key, item) for item in rated]
    a, b = sum(x > 0 for x in leans), sum(x < 0 for x in leans)
    pairs = key.protocol.kind == "pairs"
    passed = [ok for item in items for ok in _check_controls(key, item)]
    return RaterQuality(
        rater=rater, items=len(items),
        median_seconds=float(np.median(seconds)) if len(seconds) else math.nan,
        too_fast=float((seconds < key.protocol.min_seconds).mean()) if len(seconds) else math.nan,
        ties=outcomes.count("tie") / len(outcomes) if pairs and outcomes else math.nan,
        top_answer=max(answers.values()) / answers.total() if answers else math.nan,
        side_a=a / (a + b) if a + b else math.nan,
        side_p=float(binomtest(a, a + b).pvalue) if a + b else math.nan,
        controls=f"{sum(passed)}/{len(passed)}", with_rest=rest,
    )  # fmt: skip


def _count_lean(key: StudyKey, item: AnsweredItem) -> int:
    """Return a positive number if more questions went to A than to B, negative if fewer."""
    sides = [key.protocol.choices[n - 1].outcome for n in item.choices.values()]
    return sides.count("a") - sides.count("b")


def _check_controls(key: StudyKey, item: AnsweredItem) -> list[bool]:
    task = key.by_id[item.task]
    if not task.is_control:
        return []
    control = key.control(task)
    number = item.choices.get(control.criterion)
    return [] if number is None else [control.accepts(key.protocol.choices[number - 1])]


Unit = tuple[str, ...]
Tables = Mapping[str, Mapping[Unit, Mapping[str, float]]]


def _tabulate_levels(gathered: StudyAnswers) -> Tables:
    """Return question → rated thing → rater → level; for pairs, seen from the player whose name sorts first."""
    key = gathered.key
    tables: dict[str, dict[Unit, dict[str, float]]] = {q: defaultdict(dict) for q in key.protocol.questions}
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
                tables[question][task.example, *sides][sheet.rater] = level
    return tables


def compute_alphas(gathered: StudyAnswers) -> dict[str, float]:
    """Return question → Krippendorff's α (ordinal); NaN where no item has two raters."""
    raters = [sheet.rater for sheet in gathered.sheets]
    alphas = {}
    for question, units in _tabulate_levels(gathered).items():
        rows = [[units[unit].get(rater, math.nan) for rater in raters] for unit in sorted(units)]
        alphas[question] = agreement(np.array(rows or [[math.nan] * len(raters)]))
    return alphas


def _measure_agreement_with_rest(gathered: StudyAnswers) -> dict[str, float]:
    """Return rater → agreement with the other raters on shared items; raters without shared items are left out."""
    shared: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for units in _tabulate_levels(gathered).values():
        for levels in units.values():
            for rater, level in levels.items():
                others = [v for name, v in levels.items() if name != rater]
                if others:
                    shared[rater].append((level, float(np.mean(others))))
    if gathered.key.protocol.kind == "pairs":
        return {r: float(np.mean([np.sign(x) == np.sign(y) for x, y in pairs])) for r, pairs in shared.items()}
    return {
        rater: rank_correlation([x for x, _ in pairs], [y for _, y in pairs])
        for rater, pairs in shared.items()
        if len(pairs) >= 3
    }


def format_quality_sheet(gathered: StudyAnswers) -> list[str]:
    """Return the quality sheet as Markdown."""
    key, rows = gathered.key, measure_rater_quality(gathered)
    p = key.protocol
    simulated = sum(sheet.rater.startswith(SIMULATED) for sheet in gathered.sheets)
    out = [f"# Quality of study {key.study} ({p.label})", ""]
    if simulated:
        out += [f"**{simulated} of {len(gathered.sheets)} raters are simulated; no person rated anything.**", ""]
    constant = [row for row in rows if row.rater != "all" and row.top_answer == 1.0 and row.items >= _LEAST_ITEMS]
    out += [f"- {remark}" for remark in gathered.remarks]
    out += [f"- {row.rater}: the same answer to all {row.items} items" for row in constant]
    unknown = "undefined: no item has two raters who differ (use --raters 2 or more)"
    for question, alpha in compute_alphas(gathered).items():
        out.append(f"- Krippendorff's α, {question}: {unknown if math.isnan(alpha) else f'{alpha:.2f}'}")
    rest = "agrees with the rest" if p.kind == "pairs" else "ρ with the rest"
    heads = ["rater", "items", "median s", f"under {p.min_seconds:g} s", "ties", "top answer", "side A (p)"]
    heads += ["controls", rest]
    out += ["", f"| {' | '.join(heads)} |", f"| --- |{' ---: |' * (len(heads) - 1)}"]
    out += [f"| {' | '.join(_format_cells(row))} |" for row in rows]
    out += ["", "Controls: passed of seen. Top answer: share of the most frequent answer. Nothing was removed."]
    if p.kind == "pairs":
        out[-1] += (
            " Side A: share of pairs in which A won more questions than B, with a binomial p-value. "
            "`metric.bradley_terry.min_seconds` leaves out what was too fast."
        )
    return [*out, ""]


def _format_cells(row: RaterQuality) -> list[str]:
    def share(value: float) -> str:
        return "–" if math.isnan(value) else f"{value:.0%}"

    side = "–" if math.isnan(row.side_a) else f"{row.side_a:.0%} ({row.side_p:.2g})"
    rest = "–" if math.isnan(row.with_rest) else f"{row.with_rest:.2f}"
    seconds = "–" if math.isnan(row.median_seconds) else f"{row.median_seconds:.0f}"
    seen = "–" if row.controls == "0/0" else row.controls
    shares = [share(row.too_fast), share(row.ties), share(row.top_answer)]
    return [row.rater, str(row.items), seconds, *shares, side, seen, rest]


def quality_to_json(gathered: StudyAnswers) -> dict[str, Any]:
    """Return the quality sheet as plain JSON."""
    from dataclasses import asdict

    return {
        "study": gathered.key.study, "protocol": gathered.key.protocol.label, "remarks": list(gathered.remarks),
        "alpha": compute_alphas(gathered), "raters": [asdict(row) for row in measure_rater_quality(gathered)],
    }  # fmt: skip
