"""Answer files: read, sealed, and checked against the key; what is wrong with one is said, never passed over."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openended.harness.core import DataError, read_json
from openended.harness.rating.key import StudyKey
from openended.harness.rating.sheet import FORM, seal_of
from openended.metrics.judgments import SIMULATED

_LONGEST = 7 * 24 * 3600  # seconds of visible time an item; more is no time


@dataclass(frozen=True, slots=True)
class AnsweredItem:
    """What one rater said about one item."""

    task: str
    """Id of the item."""
    choices: Mapping[str, int]
    """Question → number of the answer, from 1."""
    seconds: float
    """Visible time; NaN where nobody took it."""


@dataclass(frozen=True, slots=True)
class AnsweredSheet:
    """What one rater filled in."""

    path: Path
    rater: str
    """Name of the sheet; `simulated:` before it where nobody filled it in."""
    items: tuple[AnsweredItem, ...]
    expected: int
    """Items that the sheet has; 0 where a server dealt them one by one."""


def read_answers(path: Path, key: StudyKey) -> AnsweredSheet:
    """Read one file of answers and check it.

    Raises:
        DataError: If it is no such file, of another study, or was changed after it was saved; names what is wrong.
    """
    told = read_json(path)
    if not isinstance(told, dict) or not str(told.get("form", "")).startswith("openended-rate/"):
        raise DataError(f"{path}: no file of answers; the sheet's last page downloads answers-….json")
    if told["form"] != FORM:
        raise DataError(f"{path}: saved by a form of another version ({told['form']!r:.40}, here {FORM})")
    if told.get("study") != key.study:
        raise DataError(f"{path}: of another study ({told.get('study')!s:.40}, this key is of {key.study})")
    sheet, rows = str(told.get("sheet")), told.get("answers")
    if sheet not in key.sheets:
        raise DataError(f"{path}: this study has no sheet {sheet!r:.40}")
    questions = tuple(key.protocol.questions)
    own = set(key.sheets[sheet])
    if not isinstance(rows, list) or not all(_is_row(row, own, questions, key) for row in rows):
        raise DataError(f"{path}: changed after it was saved: an item or an answer that sheet {sheet} does not have")
    if len({row["id"] for row in rows}) < len(rows):
        raise DataError(f"{path}: changed after it was saved: an item stands in it twice")
    if told.get("seal") != seal_of(key.study, sheet, key.nonce(sheet), questions, rows):
        raise DataError(f"{path}: changed after it was saved: its seal does not fit its answers")
    items = tuple(AnsweredItem(row["id"], dict(row["answers"]), row["ms"] / 1000) for row in rows)
    rater = f"{SIMULATED}{sheet}" if told.get("simulated") is True else sheet
    return AnsweredSheet(path, rater, items, len(own))


def _is_row(row: object, own: set[str], questions: Sequence[str], key: StudyKey) -> bool:
    """Say whether a row is one that the form can have saved."""
    if not isinstance(row, dict) or row.get("id") not in own or not isinstance(row.get("answers"), dict):
        return False
    ms = row.get("ms")
    timed = isinstance(ms, int) and not isinstance(ms, bool) and 0 <= ms <= 1000 * _LONGEST
    return timed and valid_choices(row["answers"], questions, len(key.protocol.choices))


def valid_choices(answers: Mapping[str, Any], questions: Sequence[str], most: int) -> bool:
    """Say whether answers are of these questions, each a number from 1 to `most`."""
    return set(answers) <= set(questions) and all(
        isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most for value in answers.values()
    )


def one_a_rater(sheets: Sequence[AnsweredSheet]) -> tuple[list[AnsweredSheet], list[str], list[str]]:
    """Keep one file of each rater: of a saved copy and the file at the end, the fuller.

    Returns:
        The files kept; remarks on copies; faults, where two files of one rater disagree (neither is kept).
    """
    kept, remarks, faults = [], [], []
    by_rater: dict[str, list[AnsweredSheet]] = {}
    for sheet in sheets:
        by_rater.setdefault(sheet.rater.removeprefix(SIMULATED), []).append(sheet)
    for rater, own in by_rater.items():
        fullest = max(own, key=_fullness)
        rest = [sheet for sheet in own if sheet is not fullest]
        clash = next((sheet for sheet in rest if not _agrees(sheet, fullest)), None)
        if clash is not None:
            faults.append(f"{clash.path} and {fullest.path}: both are of {rater}, with different answers")
            continue
        kept.append(fullest)
        remarks += [f"{sheet.path}: an earlier or equal copy of {fullest.path}" for sheet in rest]
    return kept, remarks, faults


def _fullness(sheet: AnsweredSheet) -> tuple[int, float]:
    return sum(len(item.choices) for item in sheet.items), sum(
        i.seconds for i in sheet.items if not math.isnan(i.seconds)
    )


def _agrees(part: AnsweredSheet, whole: AnsweredSheet) -> bool:
    """Say whether every answer of one file stands in the other."""
    known = {item.task: item.choices for item in whole.items}
    same_kind = part.rater == whole.rater
    return same_kind and all(item.choices.items() <= known.get(item.task, {}).items() for item in part.items)
