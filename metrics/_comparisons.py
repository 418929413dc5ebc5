"""Pairwise preferences of people: a file of comparisons, or a matrix of wins, checked and counted.

Columns of comparisons: `item` (which prompt), `system_a`, `system_b`, `outcome` (`a`, `b` or `tie`); `criterion`,
`rater` and `seconds` where the file has them. A matrix of wins has the players' names in its first row and column;
cell (i, j) counts how often i beat j.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

import numpy as np

from openended.harness.errors import DataError
from openended.harness.rng import stream
from openended.harness.types import F64
from openended.metrics._choices import check_choice
from openended.metrics._rows import FileRow, as_number, pick, read_rows, source_of

Outcome = Literal["a", "b", "tie"]
TieRule = Literal["half", "random", "drop"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """One judgment of one pair."""

    item: str
    system_a: str
    system_b: str
    outcome: Outcome
    criterion: str = ""
    rater: str = ""
    seconds: float = float("nan")


@dataclass(frozen=True, slots=True, eq=False)
class Comparisons:
    """Comparisons in a fixed order, or wins that were counted elsewhere."""

    source: str
    """`name@digest` of the file."""
    rows: tuple[Comparison, ...]
    players: tuple[str, ...]
    """Sorted names (a matrix: in its own order)."""
    matrix: F64 | None = None
    """Wins, shape (players, players), where the file was a matrix."""
    has_seconds: bool = False

    @property
    def criteria(self) -> tuple[str, ...]:
        """Names of the criteria, sorted; one empty name where the file has none."""
        return tuple(sorted({row.criterion for row in self.rows})) or ("",)


@dataclass(frozen=True, slots=True, eq=False)
class Wins:
    """Counted comparisons."""

    players: tuple[str, ...]
    matrix: F64
    """Shape (players, players): [i, j] counts how often i beat j."""
    compared: int
    """Comparisons that were counted."""
    ties: int
    too_fast: int
    """Comparisons left out because they took less than the minimum time."""


def read_comparisons(path: str | Path) -> Comparisons:
    """Read comparisons or a matrix of wins from a CSV or JSON-lines file.

    Raises:
        DataError: Names file and line where a system meets itself, an outcome is unknown, a row is there twice (same
            item, pair, criterion and rater), a cell is no number, or a column is missing.
    """
    path = Path(path)
    columns, rows = read_rows(path)
    if columns[1:] and [str(row.cells[columns[0]]).strip() for row in rows] == columns[1:]:
        return _matrix(path, columns, rows)
    item = pick(columns, ("item", "example_id"), path)
    for name in ("system_a", "system_b", "outcome"):
        pick(columns, (name,), path)
    rater = pick(columns, ("rater", "rater_slot"), path, needed=False)
    seen: dict[tuple[str, ...], str] = {}
    made = []
    for row in rows:
        comparison = _comparison(row, str(item), rater, columns)
        if rater:
            pair = sorted((comparison.system_a, comparison.system_b))
            key = (comparison.item, *pair, comparison.criterion, comparison.rater)
            if key in seen:
                raise DataError(f"{row.where}: item {key[0]}, rater {key[-1]}: the pair is there twice; {seen[key]}")
            seen[key] = row.where
        made.append(comparison)
    made.sort(key=lambda c: (c.item, c.criterion, c.system_a, c.system_b, c.rater, c.outcome, str(c.seconds)))
    players = sorted({name for c in made for name in (c.system_a, c.system_b)})
    return Comparisons(source_of(path), tuple(made), tuple(players), has_seconds="seconds" in columns)


def _comparison(row: FileRow, item: str, rater: str | None, columns: Sequence[str]) -> Comparison:
    a, b, outcome = row.text("system_a"), row.text("system_b"), row.text("outcome").lower()
    if a == b:
        raise DataError(f"{row.where}: system {a!r} is compared with itself")
    if outcome not in ("a", "b", "tie"):
        raise DataError(f"{row.where}: outcome: expected a, b or tie, got {outcome!r}")
    seconds = row.number("seconds") if "seconds" in columns else float("nan")
    if seconds < 0:
        raise DataError(f"{row.where}: seconds: expected a number of at least 0, got {seconds:g}")
    criterion = row.text("criterion") if "criterion" in columns else ""
    result = cast("Outcome", outcome)
    return Comparison(row.text(item), a, b, result, criterion, row.text(rater) if rater else "", seconds)


def _matrix(path: Path, columns: Sequence[str], rows: Sequence[FileRow]) -> Comparisons:
    wins = np.zeros((len(rows), len(rows)))
    for i, row in enumerate(rows):
        for j, name in enumerate(columns[1:]):
            wins[i, j] = as_number(row.cells[name], f"{row.where}: column {name!r}")
            if i != j and not wins[i, j] >= 0:
                raise DataError(f"{row.where}: column {name!r}: expected a count of wins, got {row.cells[name]!r}")
    np.fill_diagonal(wins, 0.0)  # a player does not meet itself: the cell is empty or zero
    return Comparisons(source_of(path), (), tuple(columns[1:]), matrix=wins)


def count_wins(
    comparisons: Comparisons,
    *,
    criterion: str | None = None,
    ties: TieRule = "half",
    min_seconds: float = 0.0,
    seed: int = 0,
) -> Wins:
    """Count wins.

    Args:
        comparisons: What `read_comparisons` returned.
        criterion: Count this one alone; none: all rows.
        ties: `half` a win for each; `random`: a win for either, drawn with `seed`; `drop`.
        min_seconds: Leave out comparisons that took less time; needs the column `seconds`.
        seed: The draw of a tie depends on its item, pair, criterion and rater alone.

    Raises:
        ValueError: If `ties` is unknown.
        DataError: If the file has no such criterion, or lacks `seconds` where a minimum is asked for.
    """
    check_choice("ties", ties, TieRule)
    players = comparisons.players
    if comparisons.matrix is not None:
        if criterion is not None or min_seconds:
            raise DataError(f"{comparisons.source}: a matrix of wins knows no criterion and no seconds")
        return Wins(players, comparisons.matrix.copy(), int(comparisons.matrix.sum()), 0, 0)
    if criterion is not None and criterion not in comparisons.criteria:
        known = ", ".join(filter(None, comparisons.criteria)) or "none"
        raise DataError(f"{comparisons.source}: no criterion {criterion!r}; it has {known}")
    if min_seconds and not comparisons.has_seconds:
        raise DataError(f"{comparisons.source}: no column 'seconds', so min_seconds={min_seconds:g} cannot be applied")
    rows = [row for row in comparisons.rows if criterion is None or row.criterion == criterion]
    # An unknown time is not below the minimum.
    kept = [row for row in rows if not row.seconds < min_seconds]
    wins = _tally(kept, players, ties, seed)
    tied = sum(row.outcome == "tie" for row in kept)
    return Wins(players, wins, len(kept) - (tied if ties == "drop" else 0), tied, len(rows) - len(kept))


def _tally(rows: Sequence[Comparison], players: Sequence[str], ties: TieRule, seed: int) -> F64:
    place = {name: i for i, name in enumerate(players)}
    wins = np.zeros((len(players), len(players)))
    drawn: Counter[tuple[str, ...]] = Counter()
    for row in rows:
        a, b = place[row.system_a], place[row.system_b]
        if row.outcome != "tie":
            winner, loser = (a, b) if row.outcome == "a" else (b, a)
            wins[winner, loser] += 1.0
        elif ties == "half":
            wins[a, b] += 0.5
            wins[b, a] += 0.5
        elif ties == "random":
            key = (row.item, row.criterion, row.system_a, row.system_b, row.rater)
            first = stream(seed, "tie", *key, drawn[key]).random() < 0.5
            drawn[key] += 1
            wins[(a, b) if first else (b, a)] += 1.0
    return wins
