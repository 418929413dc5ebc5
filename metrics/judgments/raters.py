"""Who rated (people, an LLM judge or simulated raters), and how well raters agree.

A rater called `judge:<model>` is a model, one called `simulated:<n>` is a random generator; results that are not from
people are labeled. A judge's file says in its column `calibration` how the judge agrees with people.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

import numpy as np

from openended.harness.core import F64, DataError, Features
from openended.metrics.judgments.rows import FileRow

JUDGE, SIMULATED = "judge:", "simulated:"
UNCALIBRATED = "not calibrated"
_MOST_LEVELS = 100  # distinct ratings; the coincidence matrix grows with their square for every text


def read_calibration(rows: Sequence[FileRow]) -> str:
    """Return the agreement with people that the file states for its LLM judge; empty if it states none."""
    calibrations: dict[str, str] = {}
    for row in rows:
        calibration, rater = (str(row.cells.get(name) or "").strip() for name in ("calibration", "rater"))
        if calibration and calibrations.setdefault(rater, calibration) != calibration:
            raise DataError(f"{row.where}: calibration of {rater}: {calibration!r}, before {calibrations[rater]!r}")
    return "; ".join(dict.fromkeys(calibrations.values()))


def format_raters_fact(raters: Iterable[str], calibration: str) -> str:
    """Return who rated, or an empty string if all raters are people.

    >>> format_raters_fact(["ann", "ben"], "")
    ''
    >>> format_raters_fact(["judge:m", "ann"], "")
    '1 person and judge m, not calibrated'
    """
    names = sorted(set(raters))
    judges = [name.removeprefix(JUDGE) for name in names if name.startswith(JUDGE)]
    simulated = sum(name.startswith(SIMULATED) for name in names)
    people = len(names) - len(judges) - simulated
    parts = [f"{people} {'person' if people == 1 else 'people'}"] if people else []
    parts += [f"{simulated} simulated raters"] if simulated else []
    parts += [f"judge {', '.join(judges)}, {calibration or UNCALIBRATED}"] if judges else []
    return " and ".join(parts) if judges or simulated else ""


def add_raters_fact(features: Features, raters: Iterable[str], calibration: str) -> tuple[Features, list[str]]:
    """Add the kind of raters to the facts of a signature, unless all are people; also return a note about it."""
    fact = format_raters_fact(raters, calibration)
    if not fact:
        return features, []
    note = f"rated by {fact}" + (": nobody rated anything" if fact.endswith("simulated raters") else "")
    return dataclasses.replace(features, facts={**features.facts, "raters": fact}), [note]


def agreement(ratings: F64) -> float:
    """Krippendorff's alpha between raters, for ordinal ratings; 1 is full agreement, 0 is chance.

    Args:
        ratings: Shape (texts, raters), NaN where a rater did not rate; the columns may hold different people.

    Returns:
        Alpha, at most 1; NaN where it does not exist: no text was rated twice, all ratings are equal, or ratings take
        more than 100 values (they are then no levels).

    Source: Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability"; computed by the package `krippendorff`.
    """
    twice = ratings[(~np.isnan(ratings)).sum(axis=1) >= 2]
    levels = np.unique(twice[~np.isnan(twice)])
    if not 2 <= len(levels) <= _MOST_LEVELS:
        return float("nan")
    import krippendorff

    return float(krippendorff.alpha(reliability_data=twice.T, level_of_measurement="ordinal"))
