"""Read the answer files of a study and turn them into judgments; every skipped file is named with the reason."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openended.harness.core import DataError, escape_csv_cell, open_for_replacement
from openended.harness.rating.collect.answers import AnsweredItem, AnsweredSheet, keep_one_sheet_per_rater, read_answers
from openended.harness.rating.collect.answers_database import is_database, read_database
from openended.harness.rating.key import StudyKey
from openended.metrics.judgments import SIMULATED

PAIRS = ("item", "system_a", "system_b", "outcome", "criterion", "rater", "seconds", "strength")
RATINGS = ("example_id", "system", "rating", "criterion", "rater", "seconds")


@dataclass(frozen=True, slots=True)
class StudyAnswers:
    """All valid answers of a study."""

    key: StudyKey
    sheets: tuple[AnsweredSheet, ...]
    remarks: tuple[str, ...]
    """Notes for the researcher: copies, missing answers, files left out."""


def find_answer_files(files: Sequence[Path]) -> list[Path]:
    """Return the named files, and the answer files inside named folders."""
    paths: dict[Path, None] = {}
    for path in files:
        if not path.exists():
            raise DataError(f"no such file: {path}")
        inside = [*sorted(path.rglob("answers*.json")), *sorted(path.rglob("answers.db"))] if path.is_dir() else [path]
        paths |= dict.fromkeys(p.resolve() if path.is_dir() else p for p in inside)
    if not paths:
        raise DataError(f"no files of answers (answers….json, answers.db) in {', '.join(map(str, files))}")
    return list(paths)


def gather_answers(files: Sequence[Path], key: StudyKey, *, leave_out: bool) -> StudyAnswers:
    """Read and check files of answers."""
    read: list[AnsweredSheet] = []
    faults: list[str] = []
    for path in find_answer_files(files):
        try:
            read += read_database(path, key) if is_database(path) else [read_answers(path, key)]
        except DataError as err:
            faults.append(str(err))
    selected, remarks, clashes = keep_one_sheet_per_rater(read)
    faults += clashes
    if faults and not leave_out:
        more = f" (and {len(faults) - 1} more files)" if len(faults) > 1 else ""
        raise DataError(f"{faults[0]}{more}; --leave-out skips files that cannot be used")
    if not any(sheet.items for sheet in selected):
        raise DataError("no answers are left" + (f": {faults[0]}" if faults else ""))
    notes = [f"left out: {fault}" for fault in faults] + remarks + find_missing_answers(selected, key)
    return StudyAnswers(key, tuple(sorted(selected, key=lambda s: s.rater)), tuple(notes))


def find_missing_answers(sheets: Iterable[AnsweredSheet], key: StudyKey) -> list[str]:
    """Return a line per incomplete sheet, and one for sheets that were not returned."""
    notes = []
    questions = len(key.protocol.questions)
    dealt = False
    for sheet in sheets:
        dealt |= sheet.expected == 0
        answers = sum(len(item.choices) for item in sheet.items)
        if answers < sheet.expected * questions:
            notes.append(
                f"{sheet.rater}: {sheet.expected * questions - answers} of {sheet.expected * questions} "
                "answers are missing"
            )
    here = {sheet.rater.removeprefix(SIMULATED) for sheet in sheets}
    out = [] if dealt else sorted(set(key.sheets) - here)
    if out:
        some = ", ".join(out[:5]) + (", …" if len(out) > 5 else "")
        notes.append(f"{len(out)} of {len(key.sheets)} sheets did not come back: {some}")
    return notes


def build_judgment_rows(gathered: StudyAnswers) -> list[dict[str, Any]]:
    """Return the rows of the judgments file, one per answered question; controls are left to the quality sheet."""
    key = gathered.key
    rows = []
    for sheet in gathered.sheets:
        for item in sheet.items:
            if not key.by_id[item.task].is_control:
                rows += _build_rows(key, sheet.rater, item)
    return sorted(rows, key=lambda row: [str(row[name]) for name in ("example_id", "criterion", "rater", "order")])


def _build_rows(key: StudyKey, rater: str, item: AnsweredItem) -> list[dict[str, Any]]:
    task = key.by_id[item.task]
    rows = []
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
        rows.append(row)
    return rows


def list_judgment_columns(keys: Iterable[StudyKey]) -> list[str]:
    """Return the columns of the file of judgments of these studies."""
    names: dict[str, None] = {}
    for key in keys:
        columns = PAIRS if key.protocol.kind == "pairs" else RATINGS
        # Ratings on a single criterion need no criterion column, as in published files.
        names |= dict.fromkeys(
            n for n in columns if n != "criterion" or columns is PAIRS or len(key.protocol.questions) > 1
        )
    return list(names)


def write_judgments(path: Path, rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """Write a file of judgments."""
    with open_for_replacement(path) as handle:
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([escape_csv_cell(str(row.get(name, ""))) for name in columns] for row in rows)
