"""Read answer files and check them against the study's key and their seals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openended.harness.core import DataError, read_json
from openended.harness.rating.key import StudyKey
from openended.harness.rating.sheet import FORM, compute_seal
from openended.metrics.judgments import SIMULATED

MAX_SECONDS = 7 * 24 * 3600  # of visible time per item


@dataclass(frozen=True, slots=True)
class AnsweredItem:
    """One rater's answers about one item."""

    task: str
    """Id of the item."""
    choices: Mapping[str, int]
    """Question → number of the answer, from 1."""
    seconds: float
    """Visible time; NaN if it was not measured."""


@dataclass(frozen=True, slots=True)
class AnsweredSheet:
    """All answers of one rater."""

    path: Path
    rater: str
    """Name of the sheet, prefixed with `simulated:` for simulated raters."""
    items: tuple[AnsweredItem, ...]
    expected: int
    """Items on the sheet; 0 if a server assigned them one by one."""


def read_answers(path: Path, key: StudyKey) -> AnsweredSheet:
    """Read one file of answers and check it."""
    content = read_json(path)
    if not isinstance(content, dict) or not str(content.get("form", "")).startswith("openended-rate/"):
        raise DataError(f"{path}: not an answer file; the last page of a sheet downloads answers-….json")
    if content["form"] != FORM:
        raise DataError(f"{path}: saved by a form of another version ({content['form']!r:.40}, here {FORM})")
    if content.get("study") != key.study:
        raise DataError(f"{path}: of another study ({content.get('study')!s:.40}, this key is of {key.study})")
    sheet, rows = str(content.get("sheet")), content.get("answers")
    if sheet not in key.sheets:
        raise DataError(f"{path}: this study has no sheet {sheet!r:.40}")
    questions = tuple(key.protocol.questions)
    item_ids = set(key.sheets[sheet])
    if not isinstance(rows, list) or not all(_is_row(row, item_ids, questions, key) for row in rows):
        raise DataError(f"{path}: changed after it was saved: an item or an answer that sheet {sheet} does not have")
    if len({row["id"] for row in rows}) < len(rows):
        raise DataError(f"{path}: changed after it was saved: an item appears twice")
    if content.get("seal") != compute_seal(key.study, sheet, key.nonce(sheet), questions, rows):
        raise DataError(f"{path}: changed after it was saved: its seal does not match its answers")
    items = tuple(AnsweredItem(row["id"], dict(row["answers"]), row["ms"] / 1000) for row in rows)
    rater = f"{SIMULATED}{sheet}" if content.get("simulated") is True else sheet
    return AnsweredSheet(path, rater, items, len(item_ids))


def _is_row(row: object, item_ids: set[str], questions: Sequence[str], key: StudyKey) -> bool:
    """Return whether the form can have saved this row."""
    if not isinstance(row, dict) or row.get("id") not in item_ids or not isinstance(row.get("answers"), dict):
        return False
    ms = row.get("ms")
    timed = isinstance(ms, int) and not isinstance(ms, bool) and 0 <= ms <= 1000 * MAX_SECONDS
    return timed and are_valid_choices(row["answers"], questions, len(key.protocol.choices))


def are_valid_choices(answers: Mapping[str, Any], questions: Sequence[str], most: int) -> bool:
    """Return whether all answers are of these questions, each a number from 1 to `most`."""
    return set(answers) <= set(questions) and all(
        isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most for value in answers.values()
    )


def keep_one_sheet_per_rater(sheets: Sequence[AnsweredSheet]) -> tuple[list[AnsweredSheet], list[str], list[str]]:
    """Keep the fullest file of each rater, for example the final file rather than a saved copy."""
    selected, remarks, faults = [], [], []
    by_rater: dict[str, list[AnsweredSheet]] = {}
    for sheet in sheets:
        by_rater.setdefault(sheet.rater.removeprefix(SIMULATED), []).append(sheet)
    for rater, copies in by_rater.items():
        fullest = max(copies, key=_measure_fullness)
        rest = [sheet for sheet in copies if sheet is not fullest]
        clash = next((sheet for sheet in rest if not _is_contained_in(sheet, fullest)), None)
        if clash is not None:
            faults.append(f"{clash.path} and {fullest.path}: both are from {rater}, with different answers")
            continue
        selected.append(fullest)
        remarks += [f"{sheet.path}: an earlier or equal copy of {fullest.path}" for sheet in rest]
    return selected, remarks, faults


def _measure_fullness(sheet: AnsweredSheet) -> tuple[int, float]:
    return sum(len(item.choices) for item in sheet.items), sum(
        i.seconds for i in sheet.items if not math.isnan(i.seconds)
    )


def _is_contained_in(part: AnsweredSheet, whole: AnsweredSheet) -> bool:
    """Return whether every answer of one file is also in the other."""
    choices_by_item = {item.task: item.choices for item in whole.items}
    same_kind = part.rater == whole.rater
    return same_kind and all(item.choices.items() <= choices_by_item.get(item.task, {}).items() for item in part.items)
