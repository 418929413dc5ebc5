"""Column names and layouts of comparison files.

| layout | columns |
| --- | --- |
| a comparison a row | `item`, `system_a`, `system_b`, `outcome` |
| Chatbot Arena | `question_id`, `model_a`, `model_b`, `winner` |
| three marks | `winner_model_a`, `winner_model_b`, `winner_tie`, one of them 1 |
| counts | `system_a`, `system_b`, `wins_a`, `wins_b`, `ties`; or `winner`, `loser`, `wins` |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from openended.harness.core import DataError
from openended.metrics.judgments.rows import FileRow

Outcome = Literal["a", "b", "tie"]

# Ours first; the others are those of released files.
ALIASES: Mapping[str, Sequence[str]] = {
    "item": ("item", "example_id", "question_id", "prompt_id", "conversation_id", "id"),
    "system_a": ("system_a", "model_a", "player_a"),
    "system_b": ("system_b", "model_b", "player_b"),
    "outcome": ("outcome", "winner", "preference", "verdict"),
    "criterion": ("criterion",),
    "rater": ("rater", "rater_slot", "judge", "annotator"),
    "seconds": ("seconds",),
    "wins_a": ("wins_a", "a_wins"),
    "wins_b": ("wins_b", "b_wins"),
    "ties": ("ties", "draws"),
    "loser": ("loser",),
    "wins": ("wins", "count"),
    "mark_a": ("winner_model_a",),
    "mark_b": ("winner_model_b",),
    "mark_tie": ("winner_tie",),
}
_SIDES: Mapping[str, Outcome] = {
    **dict.fromkeys(("a", "model_a", "system_a", "player_a", "left", "1", "1.0", "first"), "a"),
    **dict.fromkeys(("b", "model_b", "system_b", "player_b", "right", "2", "2.0", "second"), "b"),
    **dict.fromkeys(("tie", "draw", "both", "neither", "equal", "tie (bothbad)", "bothbad", "both_bad"), "tie"),
}


def map_columns(columns: Sequence[str]) -> dict[str, str]:
    """Map our column names to the file's columns; missing columns are left out."""
    columns_of = {name: next((c for c in aliases if c in columns), None) for name, aliases in ALIASES.items()}
    return {name: column for name, column in columns_of.items() if column is not None}


def detect_layout(column_of: Mapping[str, str]) -> Literal["comparisons", "marks", "counts", "victories"] | None:
    """Return a file's layout by the columns that it has; None for one of no comparisons."""
    if column_of.get("outcome") == "winner" and "loser" in column_of:
        return "victories"
    if not {"system_a", "system_b"} <= set(column_of):
        return None
    if {"wins_a", "wins_b"} <= set(column_of):
        return "counts"
    if {"mark_a", "mark_b"} <= set(column_of):
        return "marks"
    return "comparisons" if "outcome" in column_of else None


def parse_outcome(row: FileRow, column: str, a: str, b: str) -> Outcome | None:
    """Return who won a row; None where the cell is empty.

    `winner` names a system before it names a side (two systems may be called `a` and `b`); other columns the other way.

    Raises:
        DataError: If the cell has neither value.
    """
    cell = row.cells.get(column)
    text = "" if cell is None else str(cell).strip()
    if not text:
        return None
    names: dict[str, Outcome] = {a: "a", b: "b"}
    side = _SIDES.get(text.lower())
    outcome = names.get(text, side) if column == "winner" else side or names.get(text)
    if outcome is None:
        raise DataError(f"{row.where}: {column}: expected a, b or tie, 1 or 2, {a!r} or {b!r}, got {text!r}")
    return outcome


def parse_mark(row: FileRow, column_of: Mapping[str, str]) -> Outcome | None:
    """Return which of three marks a row has; None where it has none.

    Raises:
        DataError: If it has several, or a cell is no 1 or 0.
    """
    marks: dict[Outcome, str] = {"a": "mark_a", "b": "mark_b", "tie": "mark_tie"}
    columns = {side: column_of[name] for side, name in marks.items() if name in column_of}
    set_ = [side for side, column in columns.items() if row.cells.get(column) not in (None, "") and row.flag(column)]
    if len(set_) > 1:
        raise DataError(f"{row.where}: {' and '.join(column_of[marks[side]] for side in set_)} are both set")
    return set_[0] if set_ else None
