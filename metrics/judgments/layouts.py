"""How files of comparisons are laid out: whose columns are which, and what a winner's cell says.

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


def places(columns: Sequence[str]) -> dict[str, str]:
    """Return our name → the file's column, for the columns that are there."""
    found = {name: next((c for c in known if c in columns), None) for name, known in ALIASES.items()}
    return {name: column for name, column in found.items() if column is not None}


def kind_of(known: Mapping[str, str]) -> Literal["comparisons", "marks", "counts", "victories"] | None:
    """Return a file's layout by the columns that it has; None for one of no comparisons."""
    if known.get("outcome") == "winner" and "loser" in known:
        return "victories"
    if not {"system_a", "system_b"} <= set(known):
        return None
    if {"wins_a", "wins_b"} <= set(known):
        return "counts"
    if {"mark_a", "mark_b"} <= set(known):
        return "marks"
    return "comparisons" if "outcome" in known else None


def outcome_of(row: FileRow, column: str, a: str, b: str) -> Outcome | None:
    """Return who won a row; None where the cell is empty.

    `winner` names a system before it names a side (two systems may be called `a` and `b`); other columns the other way.

    Raises:
        DataError: If the cell says neither.
    """
    cell = row.cells.get(column)
    text = "" if cell is None else str(cell).strip()
    if not text:
        return None
    names: dict[str, Outcome] = {a: "a", b: "b"}
    side = _SIDES.get(text.lower())
    found = names.get(text, side) if column == "winner" else side or names.get(text)
    if found is None:
        raise DataError(f"{row.where}: {column}: expected a, b or tie, 1 or 2, {a!r} or {b!r}, got {text!r}")
    return found


def marked(row: FileRow, known: Mapping[str, str]) -> Outcome | None:
    """Return which of three marks a row has; None where it has none.

    Raises:
        DataError: If it has several, or a cell is no 1 or 0.
    """
    marks: dict[Outcome, str] = {"a": "mark_a", "b": "mark_b", "tie": "mark_tie"}
    set_ = [side for side, name in marks.items() if name in known and row.cells.get(known[name]) not in (None, "")
            and row.flag(known[name])]  # fmt: skip
    if len(set_) > 1:
        raise DataError(f"{row.where}: {' and '.join(known[marks[side]] for side in set_)} are both set")
    return set_[0] if set_ else None
