"""Pairwise preferences of people: a file of comparisons, or a matrix of wins, checked and counted.

Columns of comparisons: `item` (which prompt), `system_a`, `system_b`, `outcome` (`a`, `b` or `tie`); `criterion`,
`rater` and `seconds` where the file has them; `judgments.layouts` knows what others call them, and counts. A matrix of
wins has the players' names in its first row and column; cell (i, j) counts how often i beat j.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

import numpy as np

from openended.harness.core import F64, DataError, stream
from openended.metrics._common.choices import check_choice
from openended.metrics.judgments.layouts import ALIASES, Outcome, kind_of, marked, outcome_of, places
from openended.metrics.judgments.raters import calibration_of
from openended.metrics.judgments.ratings import Empty
from openended.metrics.judgments.rows import FileRow, as_number, of_kind, pick, read_rows, source_of

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
    count: float = 1.0
    """How often it came out so, where the file counts."""


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
    empty: int = 0
    """Rows without an outcome, which were left out."""
    calibration: str = ""
    """How the judge of the file agrees with people, where the file says it."""

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
    empty: int = 0
    """Rows without an outcome, left out."""


def is_matrix(columns: Sequence[str], rows: Sequence[FileRow]) -> bool:
    """Say whether the first column holds the names of the others."""
    return len(columns) > 1 and [str(row.cells[columns[0]]).strip() for row in rows] == list(columns[1:])


def read_comparisons(
    path: str | Path, *, renamed: Mapping[str, str] | None = None, empty: Empty = "refuse"
) -> Comparisons:
    """Read comparisons, counts or a matrix of wins from a CSV or JSON-lines file.

    Args:
        path: The file.
        renamed: Our name of a column → the file's, where it is none of the usual ones.
        empty: What to do about a row without an outcome.

    Raises:
        DataError: Names file and line where a system meets itself, an outcome is unknown or missing, a row is there
            twice (same item, pair, criterion and rater), a cell is no number, or a column is missing.
    """
    check_choice("empty", empty, Empty)
    path = Path(path)
    columns, rows = read_rows(path, renamed)
    rows = of_kind(columns, rows, "system_a", "system")
    if is_matrix(columns, rows):
        return _matrix(path, columns, rows)
    known = places(columns)
    kind = kind_of(known)
    for name in ("system_a", "system_b", "outcome") if kind is None else ():
        pick(columns, ALIASES[name], path)
    made: list[Comparison] = []
    seen: dict[tuple[str, ...], str] = {}
    missing = 0
    for number, row in enumerate(rows):
        found = _counted(row, known) if kind in ("counts", "victories") else _compared(row, known, number)
        if not found and empty == "refuse":
            how = "metric=[bradley_terry] metric.bradley_terry.empty=skip"
            raise DataError(f"{row.where}: no outcome; {how} leaves such rows out")
        missing += not found
        for one in found if "rater" in known else ():
            _once(one, row, seen)
        made += found
    made.sort(key=lambda c: (c.item, c.criterion, c.system_a, c.system_b, c.rater, c.outcome, str(c.seconds), c.count))
    players = sorted({name for c in made for name in (c.system_a, c.system_b)})
    timed = "seconds" in known
    told = calibration_of(rows)
    return Comparisons(source_of(path), tuple(made), tuple(players), has_seconds=timed, empty=missing, calibration=told)


def _once(comparison: Comparison, row: FileRow, seen: dict[tuple[str, ...], str]) -> None:
    pair = sorted((comparison.system_a, comparison.system_b))
    key = (comparison.item, *pair, comparison.criterion, comparison.rater)
    if key in seen:
        raise DataError(f"{row.where}: item {key[0]}, rater {key[-1]}: the pair is there twice; {seen[key]}")
    seen[key] = row.where


def _pair(row: FileRow, first: str, second: str) -> tuple[str, str]:
    a, b = row.text(first), row.text(second)
    if a == b:
        raise DataError(f"{row.where}: system {a!r} is compared with itself")
    return a, b


def _compared(row: FileRow, known: Mapping[str, str], number: int) -> list[Comparison]:
    """Return the comparison of a row; none where it has no outcome."""
    a, b = _pair(row, known["system_a"], known["system_b"])
    outcome = outcome_of(row, known["outcome"], a, b) if kind_of(known) == "comparisons" else marked(row, known)
    if outcome is None:
        return []
    seconds = row.number(known["seconds"]) if "seconds" in known else float("nan")
    if seconds < 0:
        raise DataError(f"{row.where}: seconds: expected a number of at least 0, got {seconds:g}")
    item = row.text(known["item"]) if "item" in known else f"{number:06d}"
    return [Comparison(item, a, b, outcome, _said(row, known, "criterion"), _said(row, known, "rater"), seconds)]


def _counted(row: FileRow, known: Mapping[str, str]) -> list[Comparison]:
    """Return the outcomes that a row counts; none where it counts nothing."""
    sides: tuple[tuple[Outcome, str], ...] = (("a", "wins_a"), ("b", "wins_b"), ("tie", "ties"))
    if kind_of(known) == "victories":
        a, b = _pair(row, known["outcome"], known["loser"])
        counts = [("a", row.number(known["wins"]) if "wins" in known else 1.0)]
    else:
        a, b = _pair(row, known["system_a"], known["system_b"])
        counts = [(side, row.number(known[name])) for side, name in sides if name in known]
    item, criterion = _said(row, known, "item"), _said(row, known, "criterion")
    for _, count in counts:
        if count < 0:
            raise DataError(f"{row.where}: expected a count of at least 0, got {count:g}")
    return [Comparison(item, a, b, cast("Outcome", side), criterion, count=n) for side, n in counts if n > 0]


def _said(row: FileRow, known: Mapping[str, str], name: str) -> str:
    return row.text(known[name]) if name in known else ""


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
    compared, tied = sum(row.count for row in kept), sum(row.count for row in kept if row.outcome == "tie")
    left = int(compared - (tied if ties == "drop" else 0))
    return Wins(players, wins, left, int(tied), len(rows) - len(kept), comparisons.empty)


def _tally(rows: Sequence[Comparison], players: Sequence[str], ties: TieRule, seed: int) -> F64:
    place = {name: i for i, name in enumerate(players)}
    wins = np.zeros((len(players), len(players)))
    drawn: Counter[tuple[str, ...]] = Counter()
    for row in rows:
        a, b = place[row.system_a], place[row.system_b]
        if row.outcome != "tie":
            winner, loser = (a, b) if row.outcome == "a" else (b, a)
            wins[winner, loser] += row.count
        elif ties == "half":
            wins[a, b] += 0.5 * row.count
            wins[b, a] += 0.5 * row.count
        elif ties == "random":
            key = (row.item, row.criterion, row.system_a, row.system_b, row.rater)
            for _ in range(int(row.count)):
                first = stream(seed, "tie", *key, drawn[key]).random() < 0.5
                drawn[key] += 1
                wins[(a, b) if first else (b, a)] += 1.0
    return wins
