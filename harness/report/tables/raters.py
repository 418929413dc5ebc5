"""A table of how raters answered: speed, ties, side preference, controls, and agreement with each other."""

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy.stats import binomtest

from openended.harness.core import SIMULATED
from openended.harness.report.tables.frame import Filled, Frame, build_frame, make_cell, make_quantity
from openended.metrics.correlation import MIN_PAIRS, rank_correlation
from openended.metrics.judgments import agreement

_LEAST_ITEMS = 5  # with fewer, equal answers are no sign of carelessness
_READ = (
    "Controls: passed of seen. Top answer: share of the most frequent one. {}Nothing was left out.",
    "Side A: share of pairs in which A won more questions than B, with the binomial p-value of that. ",
)


def measure_raters(answers: pd.DataFrame, least_seconds: float) -> pd.DataFrame:
    """Return a row per rater and one for all, NaN where something is undefined.

    Args:
        answers: A row per answered question: `rater`, `task` (one item of one sheet), `question`, `choice`, `outcome`
            (of pairs), `unit` (what was rated), `level`, `seconds`, `is_control`, `passed` (of controls, 1 or 0).
        least_seconds: Faster items are counted.
    """
    rest = _measure_agreement_with_rest(answers)
    rows = {rater: _measure_rater(of, least_seconds) for rater, of in answers.groupby("rater")}
    rows["all"] = _measure_rater(answers, least_seconds)
    table = pd.DataFrame.from_dict(rows, orient="index")
    return table.assign(with_rest=pd.Series({**rest, "all": np.nanmean([*rest.values()]) if rest else math.nan}))


def _measure_rater(answers: pd.DataFrame, least_seconds: float) -> dict[str, float]:
    items, rated = answers.drop_duplicates("task"), answers[~answers["is_control"]]
    seconds, passed = items["seconds"].dropna(), answers["passed"].dropna()
    outcomes = rated["outcome"]
    # The answers about one item are correlated, so an item counts once in the side preference.
    leans = outcomes.map({"a": 1, "b": -1, "tie": 0}).groupby(rated["task"]).sum()
    a, b = int((leans > 0).sum()), int((leans < 0).sum())
    return {
        "items": len(items),
        "median_seconds": seconds.median(),
        "too_fast": (seconds < least_seconds).mean(),
        "ties": (outcomes == "tie").mean() if outcomes.notna().any() else math.nan,
        "top_answer": rated["choice"].value_counts(normalize=True).max(),
        "side_a": a / (a + b) if a + b else math.nan,
        "side_p": float(binomtest(a, a + b).pvalue) if a + b else math.nan,
        "passed": passed.sum(),
        "controls": len(passed),
    }


def _pivot_levels(answers: pd.DataFrame) -> pd.DataFrame:
    """Return a row per question and rated thing, a column per rater."""
    rated = answers[~answers["is_control"]]
    return rated.pivot_table(index=["question", "unit"], columns="rater", values="level", aggfunc="last")


def compute_alphas(answers: pd.DataFrame) -> dict[str, float]:
    """Return question → Krippendorff's α (ordinal); NaN where no item has two raters who differ."""
    by_question = _pivot_levels(answers).groupby(level="question")
    return {str(question): agreement(levels.to_numpy()) for question, levels in by_question}


def _measure_agreement_with_rest(answers: pd.DataFrame) -> dict[str, float]:
    """Return rater → agreement with the others on shared items: of pairs equal outcomes, else a rank correlation."""
    levels, pairs = _pivot_levels(answers), answers["outcome"].notna().any()
    agreements = {}
    for rater in levels:
        others = levels.drop(columns=rater).mean(axis="columns")
        x, y = (side[levels[rater].notna() & others.notna()].to_numpy() for side in (levels[rater], others))
        if pairs and len(x):
            agreements[str(rater)] = float((np.sign(x) == np.sign(y)).mean())
        elif not pairs and len(x) >= MIN_PAIRS:
            agreements[str(rater)] = rank_correlation(x, y)
    return agreements


def build_rater_frame(
    answers: pd.DataFrame, name: str, title: str, least_seconds: float, remarks: Sequence[str] = ()
) -> Frame:
    """Build the frame of raters × measures; `remarks` are what reading the answers says."""
    raters, pairs = measure_raters(answers, least_seconds), answers["outcome"].notna().any()
    simulated, count = sum(str(rater).startswith(SIMULATED) for rater in raters.index), len(raters) - 1
    warnings = [f"{simulated} of {count} raters are simulated; no person rated anything."] if simulated else []
    constant = raters[(raters["top_answer"] == 1.0) & (raters["items"] >= _LEAST_ITEMS)].drop("all", errors="ignore")
    warnings += [f"{rater}: the same answer to all {row['items']:.0f} items." for rater, row in constant.iterrows()]
    undefined = "undefined: no item has two raters who differ (use --raters 2 or more)"
    alphas = [
        f"Krippendorff's α, {question}: {undefined if math.isnan(alpha) else f'{alpha:.2f}'}."
        for question, alpha in compute_alphas(answers).items()
    ]

    def make_column(key: str, heading: str, decimals: int) -> Filled:
        return make_quantity("", key, heading, decimals=decimals), raters[key]

    seen = zip(raters["passed"], raters["controls"], strict=True)
    columns: list[Filled] = [make_column("items", "items", 0), make_column("median_seconds", "median s", 0)]
    columns += [make_column("too_fast", f"under {least_seconds:g} s", 2)] if least_seconds else []
    columns += [make_column("ties", "ties", 2)] if pairs else []
    columns.append(make_column("top_answer", "top answer", 2))
    columns += [make_column("side_a", "side A", 2), make_column("side_p", "p", 3)] if pairs else []
    columns.append(("controls", [f"{passed:.0f}/{n:.0f}" if n else make_cell() for passed, n in seen]))
    columns.append(make_column("with_rest", "agrees with the rest" if pairs else "ρ with the rest", 2))
    read = _READ[0].format(_READ[1] if pairs else "")
    labels, remarks = list(map(str, raters.index)), [*remarks, *alphas, read]
    return build_frame(name, title, labels, columns, remarks, head="Rater", warnings=(*warnings,))
