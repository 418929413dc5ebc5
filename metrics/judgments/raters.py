"""Who rated: people, a judge, or nobody; numbers that are not of people say so in their column.

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


def calibration_of(rows: Sequence[FileRow]) -> str:
    """Return what the rows of a file say of their judge's agreement with people; empty where they say nothing.

    Raises:
        DataError: If two rows of one judge say different things.
    """
    told: dict[str, str] = {}
    for row in rows:
        said, rater = (str(row.cells.get(name) or "").strip() for name in ("calibration", "rater"))
        if said and told.setdefault(rater, said) != said:
            raise DataError(f"{row.where}: calibration of {rater}: {said!r}, before {told[rater]!r}")
    return "; ".join(dict.fromkeys(told.values()))


def raters_fact(raters: Iterable[str], calibration: str) -> str:
    """Say who rated where they are not all people; empty where they are.

    >>> raters_fact(["ann", "ben"], "")
    ''
    >>> raters_fact(["judge:m", "ann"], "")
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


def with_raters(features: Features, raters: Iterable[str], calibration: str) -> tuple[Features, list[str]]:
    """Add who rated to the facts that identify a number; nothing is added where all are people.

    Returns:
        The features; what a reader of the table must know.
    """
    fact = raters_fact(raters, calibration)
    if not fact:
        return features, []
    note = f"rated by {fact}" + (": nobody rated anything" if fact.endswith("simulated raters") else "")
    return dataclasses.replace(features, facts={**features.facts, "raters": fact}), [note]
