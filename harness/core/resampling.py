"""How sure a number is: draws of a value from the texts at hand, its standard error, its interval, and its p-values.

A *prompt* is what is drawn: all samples of an example go together, and so does its human text. Three kinds of draws:

- `bootstrap`: each prompt gets a Poisson(1) weight; for means and ratios of sums, where a text may count twice.
- `subsample`: random subsets of nine tenths of the prompts (Zipf: three quarters), spread by the exact factor for a
  mean; for statistics that depend on n itself, as Self-BLEU does on the number of references, of which halves would
  know too little. k-NN precision and recall take subsets of three fifths: few removed texts would spread them too far,
  and the covariance of halves misses what only two near texts of one half make together.
- `halves`: the prompts are split into two halves, each once; for statistics in which a text that is drawn twice would
  cheat (clusters, numbers of different n-grams). A half has n / 2 texts, so its value has another mean and
  another spread; but two halves share no text. Where V is the value averaged over all halves, the covariance of the
  two halves of a split is, given the texts, *exactly* minus the variance of V in expectation, for any statistic: the
  halves are independent, so 0 = Cov = E[Cov given the texts] + Var(V). No power of n has to be assumed.

Who is in which half, and which weight a prompt has, depends on the prompt's id and the number of the draw alone: two
systems on the same prompts are drawn alike, so the draws of their difference are the differences of their draws.

Source: Efron and Tibshirani 1993, "An introduction to the bootstrap"; Politis, Romano and Wolf 1999, "Subsampling";
Shao and Wu 1989 (deleting many); the covariance of halves is the unbiased variance of a complete U-statistic whose
kernel is the half's value (Hoeffding 1948).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from openended.harness.core.types import F64, I64

N = TypeVar("N", np.uint8, np.bool_)
Ids = Sequence[str] | NDArray[np.str_]
"""The prompt of each row of a side."""

COUNT = 200  # values of a draw: 200 weights, or 100 splits into two
LEVEL = 0.95
LEAST = 10  # prompts below which nothing is said
MOST = 200_000  # texts above which nothing is drawn: tables of (draws × texts) would fill the memory
METHODS = {1: "bootstrap", 2: "halves"}  # rows of the draws → what they are
SHARE = 0.9  # of the prompts in a subset
_FLOOR = 0.25  # of the variance of the halves' difference: of what noise may leave of the covariance
_POISSON = np.cumsum(np.exp(-1.0) / np.array([math.factorial(k) for k in range(12)]))


@dataclass(frozen=True, slots=True, eq=False)
class Replicates:
    """Draws of one value of one system, or of what is computed of several."""

    draws: F64
    """Shape (1, R): bootstrap; shape (2, R): the two halves of each split."""
    repeats: F64 = field(default_factory=lambda: np.zeros(0))
    """The value with each seed of the metric (clusterings, subsets), of which it is the mean, shape (S,)."""
    share: float = 1.0
    """Share of the prompts in a draw of a subsample; 1: another kind of draw."""

    @classmethod
    def of_subsamples(cls, draws: F64, share: float) -> Replicates:
        """Return the values of random subsets of the prompts, shape (R,), spread as values of all of them are.

        A mean of m of n numbers drawn without replacement has (n - m) / m times the variance of the mean of all n.
        """
        return cls((draws.mean() + (draws - draws.mean()) * math.sqrt(share / (1 - share)))[None, :], share=share)

    @property
    def method(self) -> str:
        """`bootstrap`, `subsample` or `halves`."""
        return "subsample" if self.share < 1 else METHODS[len(self.draws)]

    @property
    def noise(self) -> float:
        """Variance that the value has beside its texts; two values of the same seeds share some of it."""
        return float(np.var(self.repeats, ddof=1)) / len(self.repeats) if len(self.repeats) > 1 else 0.0

    @property
    def freedom(self) -> float:
        """Degrees of freedom of what is random in the draws and seeds themselves (the texts have more).

        After Satterthwaite 1946: those of a sum of variances. Those of halves are of both parts of their covariance,
        also where the floor is taken.
        """
        parts, whole = [(self.noise, len(self.repeats) - 1)], self.std_error() ** 2
        if len(self.draws) == 1:
            parts.append((float(np.var(self.draws[0], ddof=1)), self.draws.shape[1] - 1))
        else:
            parts += [(part, self.draws.shape[1] - 1) for part in self._halves()]
        spread = math.fsum(part**2 / degrees for part, degrees in parts if part > 0)
        return max(whole**2 / spread, 1.0) if spread > 0 else max(float(self.draws.shape[1]) - 1, 1.0)

    def _halves(self) -> tuple[float, float]:
        """Variance of half the difference of two halves, and of the mean of the two."""
        half, other = self.draws
        return float(np.mean(((half - other) / 2) ** 2)), float(np.var((half + other) / 2, ddof=1))

    def map(self, of: Callable[[F64], F64]) -> Replicates:
        """Return the draws of a function of the value."""
        return Replicates(of(self.draws), of(self.repeats), self.share)

    def deviations(self) -> F64:
        """Return draws of the value's error, shape (R,), whose standard deviation is the standard error."""
        if len(self.draws) == 1:
            away = self.draws[0] - self.draws[0].mean()
        else:
            away = (self.draws[0] - self.draws[1]) / 2
        spread = float(np.sqrt(np.mean(away**2)))
        made: F64 = away * (self.std_error() / spread if spread > 0 else 0.0)
        return made

    def std_error(self) -> float:
        """Standard error of the value; NaN if a draw has no value."""
        if len(self.draws) == 1:
            return math.sqrt(float(np.var(self.draws[0], ddof=1)) + self.noise)
        apart, together = self._halves()
        return math.sqrt(max(apart - together, _FLOOR * apart) + self.noise)

    def interval(self, value: float, bounds: Sequence[float] = (-math.inf, math.inf), level: float = LEVEL) -> Interval:
        """Return value ± t · standard error, cut at the bounds of the metric."""
        from scipy.special import stdtrit

        error = self.std_error()
        away = float(stdtrit(self.freedom, 0.5 + level / 2)) * error
        low, high = max(value - away, min(bounds[0], value)), min(value + away, max(bounds[1], value))
        return Interval(low, high, error, level, self.method, self.draws.size)

    def p_value(self, value: float) -> float:
        """Two-sided p-value of the value being 0; 1 where neither it nor its draws differ from 0."""
        from scipy.special import stdtr

        error = self.std_error()
        if not (math.isfinite(error) and math.isfinite(value)):
            return math.nan
        if error <= 1e-12 * abs(value) or error == 0:
            return 1.0 if value == 0 else math.nan
        return float(2 * stdtr(self.freedom, -abs(value) / error))


@dataclass(frozen=True, slots=True)
class Interval:
    """Where a value is expected were it measured on other texts of the same kind and number."""

    low: float
    high: float
    std_error: float
    level: float
    """Share of such intervals that hold the expected value."""
    method: str
    replicates: int
    """Values drawn."""


def combined(weights: Sequence[float], parts: Sequence[Replicates]) -> Replicates | None:
    """Return the draws of a weighted sum of values; None if their draws are not of one kind.

    Draws and repeats are taken side by side: they are of the same prompts and of the same seeds of the metric.
    """
    repeats = [w * p.repeats for w, p in zip(weights, parts, strict=True) if len(p.repeats)]
    if not parts or len({(p.draws.shape, p.method) for p in parts}) > 1 or len({len(r) for r in repeats}) > 1:
        return None
    draws = reduce(np.add, [w * p.draws for w, p in zip(weights, parts, strict=True)])
    return Replicates(draws, reduce(np.add, repeats) if repeats else np.zeros(0), parts[0].share)


@dataclass(frozen=True, slots=True)
class Plan:
    """Which prompts are in which draw."""

    count: int = COUNT
    """Values drawn; even."""
    _made: dict[tuple[str, bytes], NDArray[Any]] = field(default_factory=dict)

    def enough(self, *sides: Ids) -> bool:
        """Say whether every side has enough prompts."""
        return self.count >= 4 and all(len(set(ids)) >= LEAST for ids in sides)

    def weights(self, ids: Ids) -> NDArray[np.uint8]:
        """Return the weight of each row in each draw, shape (count, rows)."""

        def make(numbers: NDArray[np.uint64]) -> NDArray[np.uint8]:
            return np.searchsorted(_POISSON, numbers / 2.0**64).astype(np.uint8)

        return self._table("weights", ids, self.count, np.uint8, make)

    def halves(self, ids: Ids) -> NDArray[np.bool_]:
        """Return whether each row is in the first half of each split, shape (count / 2, rows)."""

        def make(numbers: NDArray[np.uint64]) -> NDArray[np.bool_]:
            return _smallest(numbers, len(numbers) // 2)

        return self._table("halves", ids, self.count // 2, np.bool_, make)

    def subsets(self, ids: Ids, share: float) -> NDArray[np.bool_]:
        """Return whether each row is in each random subset of a share of the prompts, shape (count, rows)."""

        def make(numbers: NDArray[np.uint64]) -> NDArray[np.bool_]:
            return _smallest(numbers, round(share * len(numbers)))

        return self._table(f"subsets {share}", ids, self.count, np.bool_, make)

    def _table(
        self, name: str, ids: Ids, draws: int, kind: type[N], make: Callable[[NDArray[np.uint64]], NDArray[N]]
    ) -> NDArray[N]:
        """Return what is made of the random numbers of the prompts, draw by draw, for each row; kept for the next."""
        names, row = np.unique(np.asarray(ids, dtype=np.str_), return_inverse=True)
        key = (name, hashlib.blake2b("\0".join(names.tolist()).encode(), digest_size=16).digest())
        if key not in self._made:
            hashes = _hashes(names)
            made = np.empty((draws, len(names)), dtype=kind)
            for draw in range(draws):
                made[draw] = make(_numbers(hashes, draw))
            self._made[key] = made
        found: NDArray[Any] = self._made[key][:, row]
        return found

    def of_subsets(self, ids: Ids, share: float, draws: F64) -> Replicates:
        """Return the values of `subsets`, shape (count,), as draws: a subset has a whole number of prompts."""
        prompts = len(set(ids))
        return Replicates.of_subsamples(draws, round(share * prompts) / prompts)

    def sums(self, ids: Ids, rows: ArrayLike) -> F64:
        """Return the weighted sums of the rows' columns, shape (count, columns); rows of shape (rows, columns)."""
        columns, weights = np.asarray(rows, dtype=np.float64), self.weights(ids)
        parts = np.array_split(weights, max(1, self.count // 20))  # few draws at a time: they become float64
        return np.concatenate([part.astype(np.float64) @ columns for part in parts])

    def mean(self, ids: Ids, values: F64, sizes: F64 | I64 | None = None) -> Replicates:
        """Return draws of the mean of values over rows, each weighed by its size; NaN is left out."""
        known = np.isfinite(values)
        size = np.where(known, 1.0 if sizes is None else sizes, 0.0)
        sums = self.sums(ids, np.stack([np.where(known, values, 0.0) * size, size], axis=1))
        with np.errstate(invalid="ignore", divide="ignore"):
            return Replicates((sums[:, 0] / sums[:, 1])[None, :])

    def means(self, ids: Ids, columns: Mapping[str, F64], values: Mapping[str, float]) -> dict[str, Replicates]:
        """Return draws of the values that are the means of their columns."""
        out = {}
        for name, column in columns.items():
            known = column[np.isfinite(column)]
            there = name in values and len(known) and len(column) == len(ids)
            if there and math.isclose(float(known.mean()), values[name], rel_tol=1e-6, abs_tol=1e-12):
                out[name] = self.mean(ids, column)
        return out

    def linear(self, value: float, *parts: tuple[Ids, F64]) -> Replicates:
        """Return draws of a value from the influence of every row on it, side by side.

        Args:
            value: Of all texts.
            parts: Ids and influence of the rows of a side: the derivative of the value by the row's share of its side.
        """
        draws = np.full(self.count, value)
        for ids, influence in parts:
            centred = influence - influence.mean()
            sums = self.sums(ids, np.stack([centred, np.ones(len(centred))], axis=1))
            draws = draws + sums[:, 0] / np.maximum(sums[:, 1], 1.0)
        return Replicates(draws[None, :])


def _smallest(numbers: NDArray[np.uint64], size: int) -> NDArray[np.bool_]:
    """Return where the smallest numbers are."""
    inside = np.zeros(len(numbers), dtype=np.bool_)
    inside[np.argsort(numbers, kind="stable")[:size]] = True
    return inside


def _hashes(names: NDArray[np.str_]) -> NDArray[np.uint64]:
    digests = b"".join(hashlib.blake2b(str(n).encode(), digest_size=8, person=b"resampling").digest() for n in names)
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64)


def _numbers(hashes: NDArray[np.uint64], draw: int) -> NDArray[np.uint64]:
    """Return a random number for each hash that depends on it and on the draw alone.

    Source: splitmix64 (Steele, Lea and Flood 2014).
    """
    state = hashes + np.uint64((draw + 1) * 0x9E3779B97F4A7C15 % (1 << 64))
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))
