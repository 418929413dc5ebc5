"""Who rated: people, an LLM judge or simulated raters; results not from people are labeled.

A rater called `judge:<model>` is a model, one called `simulated:<n>` is a random generator. A judge's file says in its
column `calibration` how the judge agrees with people.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from openended.harness.core import DataError, Features
from openended.metrics.judgments.rows import FileRow

JUDGE, SIMULATED = "judge:", "simulated:"
UNCALIBRATED = "not calibrated"


def read_calibration(rows: Sequence[FileRow]) -> str:
    """Return the agreement with people that the file states for its LLM judge; empty if it states none.

    Raises:
        DataError: If two rows of one judge differ.
    """
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
    """Add the kind of raters to the facts of a signature; nothing is added if all are people.

    Returns:
        The features; what a reader of the table must know.
    """
    fact = format_raters_fact(raters, calibration)
    if not fact:
        return features, []
    note = f"rated by {fact}" + (": nobody rated anything" if fact.endswith("simulated raters") else "")
    return dataclasses.replace(features, facts={**features.facts, "raters": fact}), [note]
