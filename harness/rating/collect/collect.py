"""From files of answers to judgments that the metrics read; every file that is left out is named, and why."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openended.harness.core import DataError, csv_cell, replacing
from openended.harness.rating.collect.answers import AnsweredItem, AnsweredSheet, one_a_rater, read_answers
from openended.harness.rating.collect.stored import is_database, read_database
from openended.harness.rating.key import StudyKey
from openended.metrics.judgments import SIMULATED

PAIRS = ("item", "system_a", "system_b", "outcome", "criterion", "rater", "seconds", "strength")
RATINGS = ("example_id", "system", "rating", "criterion", "rater", "seconds")


@dataclass(frozen=True, slots=True)
class Gathered:
    """All answers of a study that can be believed."""

    key: StudyKey
    sheets: tuple[AnsweredSheet, ...]
    remarks: tuple[str, ...]
    """What the maker must know: copies, missing answers, files left out."""


def expand(files: Sequence[Path]) -> list[Path]:
    """Return the files that are named, and the answers in the folders that are.

    Raises:
        DataError: If a file is missing, or there is none.
    """
    found: dict[Path, None] = {}
    for path in files:
        if not path.exists():
            raise DataError(f"no such file: {path}")
        inside = [*sorted(path.rglob("answers*.json")), *sorted(path.rglob("answers.db"))] if path.is_dir() else [path]
        found |= dict.fromkeys(p.resolve() if path.is_dir() else p for p in inside)
    if not found:
        raise DataError(f"no files of answers (answers….json, answers.db) in {', '.join(map(str, files))}")
    return list(found)


def gather(files: Sequence[Path], key: StudyKey, *, leave_out: bool) -> Gathered:
    """Read and check files of answers.

    Args:
        files: What raters sent back, and what a server stored.
        key: The study.
        leave_out: Go on without the files that cannot be used; they are named in the remarks.

    Raises:
        DataError: If a file cannot be used and `leave_out` is false, or nothing is left.
    """
    read: list[AnsweredSheet] = []
    faults: list[str] = []
    for path in expand(files):
        try:
            read += read_database(path, key) if is_database(path) else [read_answers(path, key)]
        except DataError as err:
            faults.append(str(err))
    kept, remarks, clashes = one_a_rater(read)
    faults += clashes
    if faults and not leave_out:
        more = f" (and {len(faults) - 1} more files)" if len(faults) > 1 else ""
        raise DataError(f"{faults[0]}{more}; --leave-out goes on without what cannot be used, and says so")
    if not any(sheet.items for sheet in kept):
        raise DataError("no answers are left" + (f": {faults[0]}" if faults else ""))
    told = [f"left out: {fault}" for fault in faults] + remarks + missing(kept, key)
    return Gathered(key, tuple(sorted(kept, key=lambda s: s.rater)), tuple(told))


def missing(sheets: Iterable[AnsweredSheet], key: StudyKey) -> list[str]:
    """Say which raters left answers open, and which sheets did not come back."""
    told = []
    asked = len(key.protocol.questions)
    dealt = False
    for sheet in sheets:
        dealt |= sheet.expected == 0
        answers = sum(len(item.choices) for item in sheet.items)
        if answers < sheet.expected * asked:
            told.append(
                f"{sheet.rater}: {sheet.expected * asked - answers} of {sheet.expected * asked} answers are missing"
            )
    here = {sheet.rater.removeprefix(SIMULATED) for sheet in sheets}
    out = [] if dealt else sorted(set(key.sheets) - here)
    if out:
        some = ", ".join(out[:5]) + (", …" if len(out) > 5 else "")
        told.append(f"{len(out)} of {len(key.sheets)} sheets did not come back: {some}")
    return told


def judgments(gathered: Gathered) -> list[dict[str, Any]]:
    """Return the rows of the file of judgments: an answer to a question each; controls stay on the quality sheet."""
    key = gathered.key
    rows = []
    for sheet in gathered.sheets:
        for item in sheet.items:
            if not key.by_id[item.task].is_control:
                rows += _rows(key, sheet.rater, item)
    return sorted(rows, key=lambda row: [str(row[name]) for name in ("example_id", "criterion", "rater", "order")])


def _rows(key: StudyKey, rater: str, item: AnsweredItem) -> list[dict[str, Any]]:
    task = key.by_id[item.task]
    made = []
    for criterion, number in item.choices.items():
        answer = key.protocol.choices[number - 1]
        row: dict[str, Any] = {
            "example_id": task.example, "item": task.example, "criterion": criterion, "rater": rater,
            "seconds": f"{item.seconds:.1f}", "order": "/".join(task.sides),
        }  # fmt: skip
        if key.protocol.kind == "pairs":
            first, second = task.sides
            row |= {"system_a": first, "system_b": second, "outcome": answer.outcome, "strength": answer.strength}
        else:
            row |= {"system": task.sides[0], "rating": f"{answer.rating:g}"}
        made.append(row)
    return made


def columns_of(keys: Iterable[StudyKey]) -> list[str]:
    """Return the columns of the file of judgments of these studies."""
    names: dict[str, None] = {}
    for key in keys:
        own = PAIRS if key.protocol.kind == "pairs" else RATINGS
        # One criterion of ratings needs no column: the file is then as the published ones are.
        names |= dict.fromkeys(n for n in own if n != "criterion" or own is PAIRS or len(key.protocol.questions) > 1)
    return list(names)


def write_judgments(path: Path, rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """Write a file of judgments."""
    with replacing(path) as handle:
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([csv_cell(str(row.get(name, ""))) for name in columns] for row in rows)
