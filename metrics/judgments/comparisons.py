"""Read human pairwise preferences (a file of comparisons or a matrix of wins) and count wins.

Columns of comparisons: `item` (which prompt), `system_a`, `system_b`, `outcome` (`a`, `b` or `tie`); `criterion`,
`rater` and `seconds` where the file has them; `judgments.layouts` knows what others call them, and counts. A matrix of
wins has the players' names in its first row and column; cell (i, j) counts how often i beat j.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, cast

import numpy as np

from openended.harness.core import F64, I64, DataError, make_random_stream
from openended.metrics._common.choices import check_choice
from openended.metrics.judgments.layouts import ALIASES, Outcome, detect_layout, map_columns, parse_mark, parse_outcome
from openended.metrics.judgments.raters import read_calibration
from openended.metrics.judgments.ratings import Empty
from openended.metrics.judgments.rows import FileRow, as_number, format_source, pick, read_rows, select_kind

TieRule = Literal["half", "random", "drop"]
LEAST_ITEMS = 10
"""Items from which standard errors can be clustered by item."""


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
class ComparisonFile:
    """The content of a file: single comparisons, or a matrix of wins."""

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
    """Agreement of the file's LLM judge with people, if the file has it."""

    @property
    def criteria(self) -> tuple[str, ...]:
        """Sorted names of the criteria; one empty name if the file has none."""
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
    item_of: I64 = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Item of each win, numbered from 0, shape (wins,); empty for a matrix of wins."""
    winners: I64 = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    losers: I64 = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    weights: F64 = field(default_factory=lambda: np.zeros(0))
    """What each win counts: one half for a side of a tie."""
    is_repeated: bool = False
    """Whether there are at least `LEAST_ITEMS` items and one of them was compared more than once."""

    @property
    def items(self) -> int:
        """Number of items that were compared."""
        return int(self.item_of.max(initial=-1)) + 1


def is_matrix(columns: Sequence[str], rows: Sequence[FileRow]) -> bool:
    """Return whether a file is a matrix of wins: its first column repeats the names of the other columns."""
    return len(columns) > 1 and [str(row.cells[columns[0]]).strip() for row in rows] == list(columns[1:])


def read_comparisons(
    path: str | Path, *, renamed: Mapping[str, str] | None = None, empty: Empty = "refuse"
) -> ComparisonFile:
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
    rows = select_kind(columns, rows, "system_a", "system")
    if is_matrix(columns, rows):
        return _read_matrix(path, columns, rows)
    column_of = map_columns(columns)
    kind = detect_layout(column_of)
    for name in ("system_a", "system_b", "outcome") if kind is None else ():
        pick(columns, ALIASES[name], path)
    comparisons: list[Comparison] = []
    seen: dict[tuple[str, ...], str] = {}
    missing = 0
    for number, row in enumerate(rows):
        parsed = (
            _parse_counts(row, column_of)
            if kind in ("counts", "victories")
            else _parse_comparison(row, column_of, number)
        )
        if not parsed and empty == "refuse":
            how = "metric=[bradley_terry] metric.bradley_terry.empty=skip"
            raise DataError(f"{row.where}: no outcome; {how} leaves such rows out")
        missing += not parsed
        for comparison in parsed if "rater" in column_of else ():
            _refuse_duplicate(comparison, row, seen)
        comparisons += parsed
    comparisons.sort(
        key=lambda c: (c.item, c.criterion, c.system_a, c.system_b, c.rater, c.outcome, str(c.seconds), c.count)
    )
    players = sorted({name for c in comparisons for name in (c.system_a, c.system_b)})
    timed = "seconds" in column_of
    calibration = read_calibration(rows)
    return ComparisonFile(
        format_source(path),
        tuple(comparisons),
        tuple(players),
        has_seconds=timed,
        empty=missing,
        calibration=calibration,
    )


def _refuse_duplicate(comparison: Comparison, row: FileRow, seen: dict[tuple[str, ...], str]) -> None:
    pair = sorted((comparison.system_a, comparison.system_b))
    key = (comparison.item, *pair, comparison.criterion, comparison.rater)
    if key in seen:
        raise DataError(f"{row.where}: item {key[0]}, rater {key[-1]}: the pair is there twice; {seen[key]}")
    seen[key] = row.where


def _read_players(row: FileRow, first: str, second: str) -> tuple[str, str]:
    a, b = row.text(first), row.text(second)
    if a == b:
        raise DataError(f"{row.where}: system {a!r} is compared with itself")
    return a, b


def _parse_comparison(row: FileRow, column_of: Mapping[str, str], number: int) -> list[Comparison]:
    """Parse a row with one outcome; empty if the outcome is missing."""
    a, b = _read_players(row, column_of["system_a"], column_of["system_b"])
    outcome = (
        parse_outcome(row, column_of["outcome"], a, b)
        if detect_layout(column_of) == "comparisons"
        else parse_mark(row, column_of)
    )
    if outcome is None:
        return []
    seconds = row.number(column_of["seconds"]) if "seconds" in column_of else float("nan")
    if seconds < 0:
        raise DataError(f"{row.where}: seconds: expected a number of at least 0, got {seconds:g}")
    item = row.text(column_of["item"]) if "item" in column_of else f"{number:06d}"
    return [
        Comparison(
            item, a, b, outcome, _read_value(row, column_of, "criterion"), _read_value(row, column_of, "rater"), seconds
        )
    ]


def _parse_counts(row: FileRow, column_of: Mapping[str, str]) -> list[Comparison]:
    """Parse a row with counts of outcomes; empty if all counts are zero or missing."""
    sides: tuple[tuple[Outcome, str], ...] = (("a", "wins_a"), ("b", "wins_b"), ("tie", "ties"))
    if detect_layout(column_of) == "victories":
        a, b = _read_players(row, column_of["outcome"], column_of["loser"])
        counts = [("a", row.number(column_of["wins"]) if "wins" in column_of else 1.0)]
    else:
        a, b = _read_players(row, column_of["system_a"], column_of["system_b"])
        counts = [(side, row.number(column_of[name])) for side, name in sides if name in column_of]
    item, criterion = _read_value(row, column_of, "item"), _read_value(row, column_of, "criterion")
    for _, count in counts:
        if count < 0:
            raise DataError(f"{row.where}: expected a count of at least 0, got {count:g}")
    return [Comparison(item, a, b, cast("Outcome", side), criterion, count=n) for side, n in counts if n > 0]


def _read_value(row: FileRow, column_of: Mapping[str, str], name: str) -> str:
    return row.text(column_of[name]) if name in column_of else ""


def _read_matrix(path: Path, columns: Sequence[str], rows: Sequence[FileRow]) -> ComparisonFile:
    wins = np.zeros((len(rows), len(rows)))
    for i, row in enumerate(rows):
        for j, name in enumerate(columns[1:]):
            wins[i, j] = as_number(row.cells[name], f"{row.where}: column {name!r}")
            if i != j and not wins[i, j] >= 0:
                raise DataError(f"{row.where}: column {name!r}: expected a count of wins, got {row.cells[name]!r}")
    np.fill_diagonal(wins, 0.0)  # a player does not meet itself: the cell is empty or zero
    return ComparisonFile(format_source(path), (), tuple(columns[1:]), matrix=wins)


def count_wins(
    comparisons: ComparisonFile,
    *,
    criterion: str | None = None,
    ties: TieRule = "half",
    min_seconds: float = 0.0,
    seed: int = 0,
) -> Wins:
    """Count the wins of every player against every other.

    Args:
        comparisons: What `read_comparisons` returned.
        criterion: Count only this criterion; None: all rows.
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
        criteria_listed = ", ".join(filter(None, comparisons.criteria)) or "none"
        raise DataError(f"{comparisons.source}: no criterion {criterion!r}; it has {criteria_listed}")
    if min_seconds and not comparisons.has_seconds:
        raise DataError(f"{comparisons.source}: no column 'seconds', so min_seconds={min_seconds:g} cannot be applied")
    rows = [row for row in comparisons.rows if criterion is None or row.criterion == criterion]
    # An unknown time is not below the minimum.
    selected = [row for row in rows if not row.seconds < min_seconds]
    games = list(_list_wins(selected, players, ties, seed))
    winners, losers = (np.array([game[i] for game in games], dtype=np.int64) for i in (1, 2))
    weights = np.array([game[3] for game in games], dtype=np.float64)
    wins = np.zeros((len(players), len(players)))
    np.add.at(wins, (winners, losers), weights)
    names, item_of = np.unique(np.array([game[0] for game in games], dtype=np.str_), return_inverse=True)
    has_item = all(row.item and row.count == 1 for row in selected)
    is_repeated = has_item and LEAST_ITEMS <= len(names) < len(selected)
    compared, tied = sum(row.count for row in selected), sum(row.count for row in selected if row.outcome == "tie")
    left = int(compared - (tied if ties == "drop" else 0))
    return Wins(
        players, wins, left, int(tied), len(rows) - len(selected), comparisons.empty,
        item_of.astype(np.int64), winners, losers, weights, is_repeated,
    )  # fmt: skip


def _list_wins(
    rows: Sequence[Comparison], players: Sequence[str], ties: TieRule, seed: int
) -> Iterator[tuple[str, int, int, float]]:
    """Yield (item, winner, loser, weight) for every comparison; a tie gives two entries, one or none (`ties`)."""
    number_of = {name: i for i, name in enumerate(players)}
    orders: Counter[tuple[str, ...]] = Counter()
    for row in rows:
        a, b = number_of[row.system_a], number_of[row.system_b]
        if row.outcome != "tie":
            yield (row.item, *((a, b) if row.outcome == "a" else (b, a)), row.count)
        elif ties == "half":
            yield row.item, a, b, 0.5 * row.count
            yield row.item, b, a, 0.5 * row.count
        elif ties == "random":
            key = (row.item, row.criterion, row.system_a, row.system_b, row.rater)
            for _ in range(int(row.count)):
                first = make_random_stream(seed, "tie", *key, orders[key]).random() < 0.5
                orders[key] += 1
                yield (row.item, *((a, b) if first else (b, a)), 1.0)
