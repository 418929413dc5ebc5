"""The quality sheet: speed, side preference and consistency of raters; nothing here removes an answer."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from openended.harness.rating.answers import AnsweredItem, StudyAnswers
from openended.harness.rating.design import StudyKey
from openended.metrics.correlation import rank_correlation
from openended.metrics.judgments import SIMULATED, agreement

_LEAST_ITEMS = 5  # with fewer, equal answers are no sign of carelessness


@dataclass(frozen=True, slots=True)
class RaterQuality:
    """Quality measures of one rater, or of all raters together; NaN where a measure is undefined."""

    rater: str
    items: int
    """Answered, controls among them."""
    median_seconds: float
    too_fast: float
    """Share of items that took less than the protocol's minimum."""
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
    mean = float(np.mean(agreements)) if agreements else math.nan
    return [*rows, _measure_quality(gathered.key, "all", everything, mean)]


def _measure_quality(key: StudyKey, rater: str, items: Sequence[AnsweredItem], rest: float) -> RaterQuality:
    from scipy.stats import binomtest

    choices = key.protocol.choices
    seconds = np.array([item.seconds for item in items if not math.isnan(item.seconds)])
    rated = [[choices[n - 1].outcome for n in i.choices.values()] for i in items if not key.by_id[i.task].is_control]
    answers = Counter(n for i in items if not key.by_id[i.task].is_control for n in i.choices.values())
    # The answers about one item are correlated, so an item counts once in the side preference.
    leans = [outcomes.count("a") - outcomes.count("b") for outcomes in rated]
    a, b = sum(lean > 0 for lean in leans), sum(lean < 0 for lean in leans)
    passed = []
    for item in items:
        task = key.by_id[item.task]
        control = key.control(task) if task.is_control else None
        if control and control.criterion in item.choices:
            passed.append(control.accepts(choices[item.choices[control.criterion] - 1]))
    total = answers.total()
    ties = sum(outcomes.count("tie") for outcomes in rated)
    return RaterQuality(
        rater=rater, items=len(items),
        median_seconds=float(np.median(seconds)) if len(seconds) else math.nan,
        too_fast=float((seconds < key.protocol.min_seconds).mean()) if len(seconds) else math.nan,
        ties=ties / total if key.protocol.kind == "pairs" and total else math.nan,
        top_answer=max(answers.values()) / total if total else math.nan,
        side_a=a / (a + b) if a + b else math.nan,
        side_p=float(binomtest(a, a + b).pvalue) if a + b else math.nan,
        controls=f"{sum(passed)}/{len(passed)}", with_rest=rest,
    )  # fmt: skip


def _tabulate_levels(gathered: StudyAnswers) -> pd.DataFrame:
    """Return a row per question and rated thing, a column per rater; pairs as the player that sorts first sees them."""
    key = gathered.key
    steps = np.linspace(1.0, -1.0, len(key.protocol.choices))
    cells = []
    for sheet in gathered.sheets:
        for item in sheet.items:
            task = key.by_id[item.task]
            sides = tuple(sorted(task.sides))
            turn = 1.0 if sides == task.sides else -1.0
            for question, number in {} if task.is_control else item.choices.items():
                rating = key.protocol.choices[number - 1].rating
                level = turn * float(steps[number - 1]) if rating is None else rating
                cells.append((question, "\0".join((task.example, *sides)), sheet.rater, level))
    table = pd.DataFrame(cells, columns=["question", "unit", "rater", "level"])
    return table.pivot_table(index=["question", "unit"], columns="rater", values="level", aggfunc="last")


def compute_alphas(gathered: StudyAnswers) -> dict[str, float]:
    """Return question → Krippendorff's α (ordinal); NaN where no item has two raters."""
    levels = _tabulate_levels(gathered).reindex(columns=[sheet.rater for sheet in gathered.sheets])
    rows = {
        question: levels[levels.index.get_level_values(0) == question] for question in gathered.key.protocol.questions
    }
    return {
        question: agreement(r.to_numpy() if len(r) else np.full((1, r.shape[1]), math.nan))
        for question, r in rows.items()
    }


def _measure_agreement_with_rest(gathered: StudyAnswers) -> dict[str, float]:
    """Return rater → agreement with the other raters on shared items; raters without shared items are left out."""
    levels = _tabulate_levels(gathered)
    agreements = {}
    for rater in levels:
        others = levels.drop(columns=rater)
        shared = levels[rater].notna() & others.notna().any(axis=1)
        x, y = levels[rater][shared], others[shared].mean(axis=1)
        if gathered.key.protocol.kind == "pairs":
            if shared.any():
                agreements[rater] = float((np.sign(x) == np.sign(y)).mean())
        elif shared.sum() >= 3:
            agreements[rater] = rank_correlation(x.to_numpy(), y.to_numpy())
    return {str(rater): agreement for rater, agreement in agreements.items()}


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
    for row in rows:
        cells = [row.rater, str(row.items), _show(row.median_seconds, ".0f"), _show(row.too_fast, ".0%")]
        cells += [_show(row.ties, ".0%"), _show(row.top_answer, ".0%")]
        cells.append("–" if math.isnan(row.side_a) else f"{row.side_a:.0%} ({row.side_p:.2g})")
        cells += ["–" if row.controls == "0/0" else row.controls, _show(row.with_rest, ".2f")]
        out.append(f"| {' | '.join(cells)} |")
    out += ["", "Controls: passed of seen. Top answer: share of the most frequent answer. Nothing was removed."]
    if p.kind == "pairs":
        out[-1] += (
            " Side A: share of pairs in which A won more questions than B, with a binomial p-value. "
            "`metric.bradley_terry.min_seconds` leaves out what was too fast."
        )
    return [*out, ""]


def _show(value: float, form: str) -> str:
    return "–" if math.isnan(value) else f"{value:{form}}"


def quality_to_json(gathered: StudyAnswers) -> dict[str, Any]:
    """Return the quality sheet as plain JSON."""
    return {
        "study": gathered.key.study, "protocol": gathered.key.protocol.label, "remarks": list(gathered.remarks),
        "alpha": compute_alphas(gathered), "raters": [asdict(row) for row in measure_rater_quality(gathered)],
    }  # fmt: skip
