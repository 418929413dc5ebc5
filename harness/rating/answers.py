"""Read what raters sent back, check it against the study's key, and turn it into judgments."""

import csv
import json
import math
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
import pandas as pd

from openended.harness import core
from openended.harness.core import SIMULATED, DataError
from openended.harness.rating.design import KEY, RatingTask, StudyKey, read_key
from openended.harness.rating.protocol import AnswerChoice
from openended.harness.rating.study import FORM_VERSION

MAX_SECONDS = 7 * 24 * 3600  # of visible time per item


@dataclass(frozen=True, slots=True)
class AnsweredItem:
    """One rater's answers about one item."""

    task: str  # id of the item
    choices: Mapping[str, int]  # question → number of the answer, from 1
    seconds: float  # visible time; NaN if it was not measured


@dataclass(frozen=True, slots=True)
class AnsweredSheet:
    """All answers of one rater."""

    path: Path
    rater: str  # name of the sheet, prefixed with `simulated:` for simulated raters
    items: tuple[AnsweredItem, ...]
    expected: int  # items on the sheet; 0 if a server assigned them one by one

    @property
    def seconds(self) -> float:
        return sum(item.seconds for item in self.items if not math.isnan(item.seconds))

    def is_contained_in(self, whole: "AnsweredSheet") -> bool:
        """Return whether every answer is also in another file of the same rater."""
        choices = {item.task: item.choices for item in whole.items}
        return self.rater == whole.rater and all(
            i.choices.items() <= choices.get(i.task, {}).items() for i in self.items
        )


def read_answers(path: Path, key: StudyKey) -> AnsweredSheet:
    """Read one file of answers and check it."""
    content = core.read_json(path)
    if not isinstance(content, dict) or not str(content.get("form", "")).startswith("openended-rate/"):
        raise DataError(f"{path}: not an answer file; the last page of a sheet downloads answers-….json")
    if content["form"] != FORM_VERSION:
        raise DataError(f"{path}: saved by a form of another version ({content['form']!r:.40}, here {FORM_VERSION})")
    if content.get("study") != key.study:
        raise DataError(f"{path}: of another study ({content.get('study')!s:.40}, this key is of {key.study})")
    sheet, rows = str(content.get("sheet")), content.get("answers")
    if sheet not in key.sheets:
        raise DataError(f"{path}: this study has no sheet {sheet!r:.40}")
    questions = tuple(key.protocol.questions)
    item_ids = set(key.sheets[sheet])
    if not isinstance(rows, list) or not all(
        isinstance(row, dict)
        and isinstance(row.get("id"), str)
        and row["id"] in item_ids
        and is_time(row.get("ms"))
        and are_valid_choices(row.get("answers"), questions, len(key.protocol.choices))
        for row in rows
    ):
        raise DataError(f"{path}: changed after it was saved: an item or an answer that sheet {sheet} does not have")
    if len({row["id"] for row in rows}) < len(rows):
        raise DataError(f"{path}: changed after it was saved: an item appears twice")
    items = tuple(AnsweredItem(row["id"], row["answers"], row["ms"] / 1000) for row in rows)
    rater = f"{SIMULATED}{sheet}" if content.get("simulated") is True else sheet
    return AnsweredSheet(path, rater, items, len(item_ids))


def is_time(ms: object) -> bool:
    """Return whether a value is a possible number of milliseconds on an item."""
    return type(ms) is int and 0 <= ms <= 1000 * MAX_SECONDS


def are_valid_choices(answers: object, questions: Sequence[str], most: int) -> TypeGuard[Mapping[str, int]]:
    """Return whether all answers are of these questions, each a number from 1 to `most`."""
    return (
        isinstance(answers, Mapping)
        and set(answers) <= set(questions)
        and all(type(value) is int and 1 <= value <= most for value in answers.values())
    )


def read_database(path: Path, key: StudyKey) -> list[AnsweredSheet]:
    """Read the answers that a server has acknowledged; it may still be running."""
    if (study := _read_study_id(path)) != key.study:
        raise DataError(f"{path}: of another study ({study or 'it names none'}, this key is of {key.study})")
    items: dict[str, list[AnsweredItem]] = {}
    questions = tuple(key.protocol.questions)
    with _open_database(path) as base:
        for rater, task, choices, ms in base.execute("SELECT rater, task, choices, ms FROM answers ORDER BY task"):
            answers, item = json.loads(choices), key.by_id[task]
            is_valid = isinstance(rater, str) and are_valid_choices(answers, questions, len(key.protocol.choices))
            if not (is_valid and is_time(ms)):
                answer = f"impossible answer {choices:.40} after {ms!r:.20} ms"
                raise DataError(f"{path}: item {task} of {rater!s:.40}: {answer}")
            items.setdefault(rater, []).append(AnsweredItem(item.id, answers, ms / 1000))
    return [AnsweredSheet(path, rater, tuple(answered), 0) for rater, answered in sorted(items.items())]


def is_database(path: Path) -> bool:
    """Return whether a file is one that `openended rate serve` writes."""
    return path.suffix == ".db"


@contextmanager
def _open_database(path: Path) -> Iterator[sqlite3.Connection]:
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=30)) as base:
            yield base
    except (sqlite3.Error, ValueError, TypeError, KeyError) as err:
        raise DataError(f"{path}: not a database of answers ({core.format_error(err)})") from err


def group_files_by_study(
    files: Sequence[Path], search_paths: Sequence[Path], named: Sequence[Path] | None
) -> list[tuple[StudyKey, list[Path]]]:
    """Return each study's key with its files; a file of no known study goes to the first key, which refuses it."""
    above = (folder for file in files for folder in file.resolve().parents[:4])
    folders = named or [path for path in search_paths if (path / KEY).is_file()] or [*dict.fromkeys(above)]
    keys = {key.study: key for key in map(read_key, folders if named else (f for f in folders if (f / KEY).is_file()))}
    if not keys:
        raise DataError(f"no {KEY} next to these files: name the folder of the study with --key STUDY")
    files_by_study: dict[str, list[Path]] = {study: [] for study in keys}
    for file in files:
        study = ""
        with suppress(DataError):  # reading its answers says what is wrong
            study = _read_study_id(file)
        files_by_study[study if study in keys else next(iter(keys))].append(file)
    return [(key, files_by_study[study]) for study, key in keys.items() if files_by_study[study]]


def _read_study_id(path: Path) -> str:
    if is_database(path):
        with _open_database(path) as base:
            row = base.execute("SELECT value FROM facts WHERE name = 'study'").fetchone()
        return str(row[0]) if row else ""
    content = core.read_json(path)
    return str(content.get("study", "")) if isinstance(content, dict) else ""


PAIRS = tuple("item system_a system_b outcome criterion rater seconds strength texts_id_a texts_id_b".split())
RATINGS = tuple("example_id system rating criterion rater seconds texts_id".split())


@dataclass(frozen=True, slots=True)
class StudyAnswers:
    """All valid answers of a study."""

    key: StudyKey
    sheets: tuple[AnsweredSheet, ...]
    remarks: tuple[str, ...]  # notes for the researcher: copies, missing answers, files left out

    def iterate_answers(self) -> Iterator[tuple[AnsweredSheet, AnsweredItem, RatingTask, str, AnswerChoice]]:
        """Yield every answered question: sheet, item, what was rated, question and answer."""
        for sheet in self.sheets:
            for item in sheet.items:
                for question, number in item.choices.items():
                    yield sheet, item, self.key.by_id[item.task], question, self.key.protocol.choices[number - 1]


def find_answer_files(files: Sequence[Path]) -> list[Path]:
    """Return the named files, and the answer files inside named folders."""
    paths: dict[str, Path] = {}
    for path in files:
        if not path.exists():
            raise DataError(f"no such file: {path}")
        inside = [*sorted(path.rglob("answers*.json")), *sorted(path.rglob("answers.db"))] if path.is_dir() else [path]
        for inner in inside:
            # A file is known by its content, wherever it lies.
            content = core.digest_file(inner) if inner.is_file() else str(inner)
            paths.setdefault(content, inner.resolve() if path.is_dir() else inner)
    if not paths:
        raise DataError(f"no files of answers (answers….json, answers.db) in {', '.join(map(str, files))}")
    return list(paths.values())


def gather_answers(files: Sequence[Path], key: StudyKey, *, leave_out: bool) -> StudyAnswers:
    """Read and check files of answers."""
    sheets_by_rater: dict[str, list[AnsweredSheet]] = {}
    faults: list[str] = []
    for path in find_answer_files(files):
        try:
            for sheet in read_database(path, key) if is_database(path) else [read_answers(path, key)]:
                sheets_by_rater.setdefault(sheet.rater.removeprefix(SIMULATED), []).append(sheet)
        except DataError as err:
            faults.append(str(err))
    selected, remarks = [], []
    kinds = {sheet.rater.startswith(SIMULATED) for copies in sheets_by_rater.values() for sheet in copies}
    if len(kinds) == 2:
        remarks.append("answers of simulated raters are left out: people answered")
        people = {rater: [s for s in copies if s.rater == rater] for rater, copies in sheets_by_rater.items()}
        sheets_by_rater = {rater: copies for rater, copies in people.items() if copies}
    for rater, copies in sheets_by_rater.items():
        # The fullest file of a rater counts, for example the final file rather than a copy saved on the way.
        fullest = max(copies, key=lambda sheet: (sum(len(i.choices) for i in sheet.items), sheet.seconds))
        rest = [sheet for sheet in copies if sheet is not fullest]
        clash = next((sheet for sheet in rest if not sheet.is_contained_in(fullest)), None)
        if clash is not None:
            faults.append(f"{clash.path} and {fullest.path}: both are from {rater}, with different answers")
            continue
        selected.append(fullest)
        remarks += [f"{sheet.path}: an earlier or equal copy of {fullest.path}" for sheet in rest]
    if faults and not leave_out:
        more = f" (and {len(faults) - 1} more files)" if len(faults) > 1 else ""
        raise DataError(f"{faults[0]}{more}; --leave-out skips files that cannot be used")
    if not any(sheet.items for sheet in selected):
        raise DataError("no answers are left" + (f": {faults[0]}" if faults else ""))
    for sheet in selected:
        total = sheet.expected * len(key.protocol.questions)
        answers = sum(len(item.choices) for item in sheet.items)
        if answers < total:
            remarks.append(f"{sheet.rater}: {total - answers} of {total} answers are missing")
    missing = sorted(set(key.sheets) - {sheet.rater.removeprefix(SIMULATED) for sheet in selected})
    if missing and all(sheet.expected for sheet in selected):
        some = ", ".join(missing[:5]) + (", …" if len(missing) > 5 else "")
        remarks.append(f"{len(missing)} of {len(key.sheets)} sheets did not come back: {some}")
    notes = [f"left out: {fault}" for fault in faults] + remarks
    return StudyAnswers(key, tuple(sorted(selected, key=lambda s: s.rater)), tuple(notes))


def build_judgment_rows(gathered: StudyAnswers) -> list[dict[str, Any]]:
    """Return the rows of the judgments file, one per answered question; controls are left to the quality sheet."""
    rows = [
        build_judgment_row(gathered.key, task.example, task.sides, criterion, answer, sheet.rater)
        | {"seconds": f"{item.seconds:.1f}", "order": "/".join(task.sides)}
        for sheet, item, task, criterion, answer in gathered.iterate_answers()
        if not task.is_control
    ]
    return sorted(rows, key=lambda row: [str(row[name]) for name in ("example_id", "criterion", "rater", "order")])


def build_judgment_row(
    key: StudyKey, example: str, sides: Sequence[str], criterion: str, answer: AnswerChoice, rater: str
) -> dict[str, Any]:
    """Return the row of the judgments file of one answer about a text, or a pair of texts, of these players."""
    texts_ids = [key.material.texts_ids.get(player, "") for player in sides]
    row: dict[str, Any] = {"example_id": example, "item": example, "criterion": criterion, "rater": rater}
    if key.protocol.kind == "ratings":
        return row | {"system": sides[0], "rating": f"{answer.rating:g}", "texts_id": texts_ids[0]}
    row |= dict(zip(("system_a", "system_b", "texts_id_a", "texts_id_b"), (*sides, *texts_ids), strict=True))
    return row | {"outcome": answer.outcome, "strength": answer.strength}


def list_judgment_columns(keys: Iterable[StudyKey]) -> list[str]:
    """Return the columns of a file of judgments of these studies."""
    names: dict[str, None] = {}
    for key in keys:
        columns = PAIRS if key.protocol.kind == "pairs" else RATINGS
        # Ratings on a single criterion need no criterion column, as in published files.
        names |= dict.fromkeys(
            n for n in columns if n != "criterion" or columns is PAIRS or len(key.protocol.questions) > 1
        )
    return list(names)


def write_study_files(path: Path, studies: Sequence[StudyAnswers]) -> int:
    """Write the judgments of studies into one file; return their number."""
    rows = [row for answers in studies for row in build_judgment_rows(answers)]
    write_judgments(path, rows, list_judgment_columns(answers.key for answers in studies))
    return len(rows)


def write_judgments(path: Path, rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """Write a file of judgments."""
    with core.open_for_replacement(path) as handle:
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([core.escape_csv_cell(str(row.get(name, ""))) for name in columns] for row in rows)


def tabulate_answers(gathered: StudyAnswers) -> pd.DataFrame:
    """Return a row per answered question, controls among them, for tables of how raters answered.

    A pair's level is as the player that sorts first sees it, so that it does not depend on the sides.
    """
    key = gathered.key
    steps = np.linspace(1.0, -1.0, len(key.protocol.choices))
    rows = []
    for sheet, item, task, question, answer in gathered.iterate_answers():
        sides, number = tuple(sorted(task.sides)), item.choices[question]
        turn = 1.0 if sides == task.sides else -1.0
        control = key.control(task) if task.is_control else None
        row = {"rater": sheet.rater, "task": f"{sheet.rater}/{item.task}", "question": question, "choice": number}
        row |= {"outcome": answer.outcome, "unit": "\0".join((task.example, *sides)), "seconds": item.seconds}
        row["level"] = turn * float(steps[number - 1]) if answer.rating is None else answer.rating
        row |= {"is_control": control is not None, "passed": math.nan}
        if control is not None and control.criterion == question:
            row["passed"] = float(control.accepts(answer))
        rows.append(row)
    return pd.DataFrame(rows)
