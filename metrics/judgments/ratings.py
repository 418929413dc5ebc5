"""Ratings of texts by people: one file, long (a rating a row) or wide (a text a row), checked and put in order.

Columns: `example_id`; `is_model` (1/0) or `system` (`human` or a model's name); then `rating` (and `rater`) in a long
file, or `rating_1`, `rating_2`, … in a wide one (JSON lines: also a list `ratings`); `log_prob` and `length` where the
file brings them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from openended.harness.core import F64, HUMAN, DataError
from openended.metrics._common.choices import check_choice
from openended.metrics.judgments.raters import read_calibration
from openended.metrics.judgments.rows import FileRow, as_number, format_source, pick, read_rows, select_kind

Empty = Literal["refuse", "skip"]

# Accepted column names: the standard name first, then names in released files.
_ID, LOG_PROB = ("example_id", "id"), ("log_prob", "logp", "logp_model")
_LENGTH = ("length", "n_tokens", "n_words")
_WIDE = re.compile(r"(rating|hj|rater|score)[_-]?\d+")


@dataclass(frozen=True, slots=True, eq=False)
class Judgments:
    """Rated texts, sorted by (example id, human before model, system); nothing depends on the file's order."""

    source: str
    """`name@digest` of the file."""
    example_ids: tuple[str, ...]
    systems: tuple[str, ...]
    """`human` or a model's name, shape (n,)."""
    ratings: F64
    """Shape (n, most ratings a text), NaN where there is none; every row has at least one."""
    raters: tuple[str, ...]
    """Names of the columns of `ratings`; empty if the file does not identify raters."""
    log_probs: F64 | None
    """Total natural-log probability a text, shape (n,); −inf is possible, NaN where the cell is empty."""
    lengths: F64 | None
    empty: int = 0
    """Rows without a rating, which were left out."""
    calibration: str = ""
    """Agreement of the file's LLM judge with people, if the file has it."""

    def __len__(self) -> int:
        return len(self.example_ids)

    def rows_of(self, system: str) -> dict[str, int]:
        """Return example id → row of one system."""
        pairs = zip(self.example_ids, self.systems, strict=True)
        return {example: row for row, (example, name) in enumerate(pairs) if name == system}

    def check_scale(self, scale: tuple[float, float]) -> None:
        """Raise `DataError` if a rating is outside the scale (lowest, highest)."""
        low, high = scale
        for row, column in np.argwhere((self.ratings < low) | (self.ratings > high))[:1]:
            name, got = _format_name((self.example_ids[row], self.systems[row])), self.ratings[row, column]
            raise DataError(f"{self.source}: {name}: rating {got:g} is outside the scale {_scale(scale)}")

    def model_system(self, requested: str | None) -> str:
        """Return the name of the model side.

        Raises:
            DataError: If only one side was rated, or it is unclear which system is meant.
        """
        names = sorted(set(self.systems) - {HUMAN})
        if HUMAN not in self.systems or not names:
            raise DataError(f"{self.source}: expected ratings of human and of model texts, got only {names or [HUMAN]}")
        if requested is None and len(names) > 1:
            raise DataError(f"{self.source}: ratings of {', '.join(names)}; say which with system=")
        if requested is not None and requested not in names:
            raise DataError(f"{self.source}: no ratings of system {requested!r}; it has {', '.join(names)}")
        return requested or names[0]


def are_ratings(columns: Sequence[str]) -> bool:
    """Say whether columns are those of a file of ratings."""
    sides = {"is_model", "system"} & set(columns)
    return bool(sides) and any(_WIDE.fullmatch(name) or name in ("rating", "ratings") for name in columns)


def read_judgments(
    path: str | Path,
    *,
    scale: Sequence[float] | None = None,
    renamed: Mapping[str, str] | None = None,
    empty: Empty = "refuse",
) -> Judgments:
    """Read ratings from a CSV or JSON-lines file, long or wide.

    Args:
        path: The file.
        scale: Lowest and highest rating that is allowed; none: any number.
        renamed: Our name of a column → the file's, where it is none of the usual ones.
        empty: What to do about a row without a rating.

    Raises:
        DataError: Names file and line where a rating is outside the scale or no number, a text has no rating, a row is
            there twice, or a column is missing.
        ValueError: If `empty` is unknown.
    """
    check_choice("empty", empty, Empty)
    columns, rows = read_rows(path := Path(path), renamed)
    rows = select_kind(columns, rows, "system", "system_a")
    ids = pick(columns, _ID, path)
    side = pick(columns, ("is_model", "system"), path)
    wide = sorted((c for c in columns if _WIDE.fullmatch(c)), key=lambda c: (len(c), c))
    lists = "ratings" in columns
    if not wide and not lists:
        pick(columns, ("rating", "rating_1"), path)
    table = _Table(
        path, scale, empty, [c for c in (_find_first(columns, LOG_PROB), _find_first(columns, _LENGTH)) if c]
    )
    for row in rows:
        key = (row.text(str(ids)), _name_system(row, columns, str(side)))
        if lists:
            table.add_wide(row, key, _parse_rating_list(row))
        elif wide:
            table.add_wide(row, key, [(c, row.number(c)) for c in wide])
        else:
            table.add_long(row, key, "rater" in columns)
    named = bool(wide) or "rater" in columns
    judgments = table.finish(_find_first(columns, LOG_PROB), _find_first(columns, _LENGTH), named=named)
    return replace(judgments, calibration=read_calibration(rows))


def _find_first(columns: Sequence[str], names: Sequence[str]) -> str | None:
    return next((name for name in names if name in columns), None)


def _name_system(row: FileRow, columns: Sequence[str], side: str) -> str:
    """Name the system of a row; with both columns, `is_model` decides and `system` names."""
    if side == "system":
        return row.text("system")
    if not row.flag("is_model"):
        return HUMAN
    name = row.text("system") if "system" in columns else "model"
    if name == HUMAN:
        raise DataError(f"{row.where}: is_model is 1 but system is {HUMAN!r}")
    return name


def _parse_rating_list(row: FileRow) -> list[tuple[str, float]]:
    values = row.cells.get("ratings")
    if not isinstance(values, list):
        raise DataError(f"{row.where}: 'ratings': expected a list of numbers, got {values!r}")
    return [(f"{i:06d}", as_number(v, f"{row.where}: ratings[{i}]")) for i, v in enumerate(values)]


@dataclass(slots=True)
class _Table:
    """Collects ratings by text while a file is read."""

    path: Path
    scale: Sequence[float] | None
    empty: Empty
    extras: Sequence[str]
    ratings_of: dict[tuple[str, str], list[tuple[str, float]]] = field(default_factory=dict)
    lines: dict[tuple[str, ...], str] = field(default_factory=dict)
    numbers: dict[tuple[str, str], dict[str, float]] = field(default_factory=dict)
    skipped: int = 0

    def add_wide(self, row: FileRow, key: tuple[str, str], ratings: list[tuple[str, float]]) -> None:
        """Add a text with all its ratings."""
        self._refuse_duplicate(row, key)
        rated = [(rater, value) for rater, value in ratings if not np.isnan(value)]
        if not rated:
            self._record_missing(row, key)
            return
        self._check_scale(row, key, rated)
        self.ratings_of[key] = rated
        self.numbers[key] = self._read_extras(row)

    def add_long(self, row: FileRow, key: tuple[str, str], named: bool) -> None:
        """Add one rating."""
        value = row.number("rating")
        if np.isnan(value):
            self._record_missing(row, key)
            return
        rated = self.ratings_of.setdefault(key, [])
        rater = row.text("rater") if named else f"{len(rated):06d}"
        if named:
            self._refuse_duplicate(row, (*key, rater))
        self._check_scale(row, key, [(rater, value)])
        rated.append((rater, value))
        extras = self._read_extras(row)
        first = self.numbers.setdefault(key, extras)
        for name, number in extras.items():
            if not np.array_equal(first[name], number, equal_nan=True):
                raise DataError(f"{row.where}: {_format_name(key)}: {name} was {first[name]} before, now {number}")

    def _refuse_duplicate(self, row: FileRow, key: tuple[str, ...]) -> None:
        if key in self.lines:
            raise DataError(f"{row.where}: {_format_name(key)} is there twice; first at {self.lines[key]}")
        self.lines[key] = row.where

    def _record_missing(self, row: FileRow, key: tuple[str, str]) -> None:
        if self.empty == "refuse":
            raise DataError(
                f"{row.where}: {_format_name(key)} has no rating; "
                "metric=[huse] metric.huse.empty=skip leaves such rows out"
            )
        self.skipped += 1

    def _check_scale(self, row: FileRow, key: tuple[str, str], rated: Sequence[tuple[str, float]]) -> None:
        for _, value in rated:
            if self.scale and not self.scale[0] <= value <= self.scale[1]:
                raise DataError(
                    f"{row.where}: {_format_name(key)}: rating {value:g} is outside the scale {_scale(self.scale)}"
                )

    def _read_extras(self, row: FileRow) -> dict[str, float]:
        extras = {name: row.number(name, infinite=name in LOG_PROB) for name in self.extras}
        for name, number in extras.items():
            if name in LOG_PROB and number > 0:
                raise DataError(f"{row.where}: column {name!r}: expected a log-probability, 0 or less, got {number:g}")
        return extras

    def finish(self, log_prob: str | None, length: str | None, *, named: bool) -> Judgments:
        """Sort and pack."""
        keys = sorted(self.ratings_of, key=lambda key: (key[0], key[1] != HUMAN, key[1]))
        raters = sorted({rater for pairs in self.ratings_of.values() for rater, _ in pairs})
        number_of = {rater: i for i, rater in enumerate(raters)}
        ratings: NDArray[np.float64] = np.full((len(keys), len(raters)), np.nan)
        for i, key in enumerate(keys):
            # Anonymous ratings are sorted, so that the order of the rows in the file does not show.
            pairs = (
                self.ratings_of[key]
                if named
                else list(zip(raters, sorted(v for _, v in self.ratings_of[key]), strict=False))
            )
            for rater, value in pairs:
                ratings[i, number_of[rater]] = value
        extra = {c: np.array([self.numbers[key][c] for key in keys]) for c in (log_prob, length) if c}
        return Judgments(
            source=format_source(self.path),
            example_ids=tuple(key[0] for key in keys),
            systems=tuple(key[1] for key in keys),
            ratings=ratings,
            raters=tuple(raters) if named else (),
            log_probs=extra.get(log_prob or ""),
            lengths=extra.get(length or ""),
            empty=self.skipped,
        )


def _format_name(key: Sequence[str]) -> str:
    """`example 12 (human)` or `example 12 (human) by rater a`."""
    by = f" by rater {key[2]}" if len(key) > 2 else ""
    return f"example {key[0]} ({key[1]}){by}"


def _scale(scale: Sequence[float]) -> str:
    return f"{scale[0]:g} to {scale[1]:g}"
