"""Random streams keyed by names, and prompts resampled to estimate standard errors, intervals and p-values.

Prompts are the units of resampling: all samples of a prompt and its human text stay together. Membership and weights
depend only on the prompt's id and the replicate's number, so systems on the same prompts are resampled alike, and
replicates of their difference are the differences of their replicates. `docs/statistics.md` explains the methods:

- `bootstrap`: each prompt gets a Poisson(1) weight; for means and ratios of sums, where a text may count twice.
- `subsample`: random subsets of the prompts without replacement, scaled by the factor that is exact for a mean; for
  statistics that depend on n itself, as Self-BLEU does on the number of references, for which halves are too small.
- `halves`: the prompts are split into two halves; for statistics that are biased when a text is drawn twice. Let V be
  the value averaged over all halves. The halves are independent: 0 = Cov = E[Cov given the texts] + Var(V), so minus
  the covariance of the halves of a split is the variance of V, for any statistic.
- `near_halves`: a half's weights are moved towards those of all texts, and the differences of the values are enlarged
  again, to the second order: for statistics of histograms, of which a half leaves more cells uneven, where MAUVE has
  another slope.

A share of 0 or 1 has replicates that are all equal; Wilson's interval covers it too. Its number of independent texts is
the one that gives the variance of the replicates; without variation it is the number of prompts. For other values no
size of the error is known if the replicates do not vary, or if a handful of texts make all of the variation.

Source: Efron and Tibshirani 1993, "An introduction to the bootstrap"; Politis, Romano and Wolf 1999, "Subsampling";
Shao and Wu 1989 (deleting many); Hoeffding 1948 (complete U-statistics); Wilson 1927; Brown, Cai and DasGupta 2001;
Korn and Graubard 1998 (the effective number of clustered observations); Agresti 2013, "Categorical data analysis",
section 3.1 (transformed scales); Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3" (Philox: a key names
the stream, the counter the draw).
"""

import hashlib
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from openended.harness.core.types import F64, I64

N = TypeVar("N", np.uint8, np.bool_)
T = TypeVar("T")
Ids = Sequence[str] | NDArray[np.str_]
"""The prompt of each row of a side."""
Weights = NDArray[Any]
"""How often each row counts in each set of texts, shape (draws, rows): true or false, counts, or fractions."""
Score = Callable[[Weights, Weights], Mapping[str, F64 | Callable[[], F64]]]
"""From the weights of the human and of the model rows to values of shape (draws,), or functions that return them."""

RESAMPLING_VERSION = 9  # increased when replicates are drawn differently; enters the keys of results that have any
COUNT = 200  # replicates: 200 bootstrap weights, or 100 splits into halves
LEVEL = 0.95
MIN_PROMPTS = 10  # minimum number of prompts for an interval
LEAST_DIFFERENT = 5  # minimum number of prompts whose texts differ from the most common value
MOST = 200_000  # maximum number of texts: the (replicates × texts) tables must fit into memory
METHODS = {1: "bootstrap", 2: "halves"}  # number of rows of `draws` → method
WILSON = "wilson"
SHARE = 0.9  # share of the prompts in a subset
REPEATS = "repeats/"  # before the names of values of a metric's own seeds, among the draws of a result
HALF_SCALE = 1 / 3  # of the halves that are scored for the errors of histograms and spectra
_BLOCK = 1 << 24  # fractional weights that are in memory at once
_FEW_EVENTS = 3.5  # of one kind, below which Wilson's limit is too near
_FLOOR = 0.25  # lower bound of the variance, as a share of the variance of the halves' difference
_POISSON = np.cumsum(np.exp(-1.0) / np.array([math.factorial(k) for k in range(12)]))


def derive_seed(seed: int, *names: str | int) -> int:
    """Derive a 64-bit seed from `seed` and names."""
    text = "\x1f".join([str(seed), *map(str, names)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


def sort_by_hash(items: Iterable[T], key: Callable[[T], str]) -> list[T]:
    """Sort by the SHA-256 of each item's key: the first N are a fair sample, and no item's place depends on others."""
    return sorted(items, key=lambda item: hashlib.sha256(key(item).encode()).digest())


def make_random_stream(seed: int, *names: str | int) -> np.random.Generator:
    """Return the random generator for (seed, names)."""
    text = "\x1f".join([str(seed), *map(str, names)])
    key = np.frombuffer(hashlib.sha256(text.encode()).digest()[:16], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key))


def row_uniforms(seed: int, example_id: str, sample: int, length: int, lane: str = "token") -> F64:
    """Return the uniforms in [0, 1) of one generation; step t uses the t-th.

    A longer `length` extends the same sequence, so draws do not depend on the length limit.
    """
    return make_random_stream(seed, lane, example_id, sample).random(length)


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval of a value, for new texts of the same kind and number."""

    low: float
    high: float
    std_error: float
    level: float
    """Confidence level."""
    method: str
    replicates: int
    """Number of replicates."""


@dataclass(frozen=True, slots=True, eq=False)
class Replicates:
    """Replicates of one value of one system, or of a combination of systems."""

    draws: F64
    """Shape (1, R): bootstrap; shape (2, R): the two halves of each split."""
    repeats: F64 = field(default_factory=lambda: np.zeros(0))
    """The value for each seed of the metric (clusterings, subsets), shape (S,); their mean is the reported value."""
    share: float = 1.0
    """Share of the prompts in a subsample; 1 for the other methods."""
    prompts: int = 0
    """Number of prompts, for tests; 0: unknown, as if there were many."""

    @classmethod
    def from_subsamples(cls, draws: F64, share: float) -> "Replicates":
        """Scale the values of random subsets of the prompts, shape (R,), to the variance of the full set.

        A mean of m of n numbers drawn without replacement has (n - m) / m times the variance of the mean of all n.
        """
        return cls((draws.mean() + (draws - draws.mean()) * math.sqrt(share / (1 - share)))[None, :], share=share)

    @property
    def method(self) -> str:
        """`bootstrap`, `subsample` or `halves`."""
        return "subsample" if self.share < 1 else METHODS[len(self.draws)]

    @property
    def varies(self) -> bool:
        """Whether the replicates differ by more than rounding; if not, they say nothing of the size of the error."""
        return not self.std_error() <= 1e-12 * float(np.abs(self.draws).max())

    @property
    def noise(self) -> float:
        """Variance from the metric's own seeds; values with the same seeds share part of it."""
        return float(np.var(self.repeats, ddof=1)) / len(self.repeats) if len(self.repeats) > 1 else 0.0

    @property
    def dof(self) -> float:
        """Degrees of freedom of the estimated variance, from the numbers of replicates, seeds and prompts.

        Satterthwaite 1946, for a sum of variances. For halves, both parts of the covariance count, also when the lower
        bound of the variance applies. The prompts are a sample too: the relative errors of the variance add.
        """
        parts, variance = [(self.noise, len(self.repeats) - 1)], self.std_error() ** 2
        if len(self.draws) == 1:
            parts.append((self._compute_variance(), self.draws.shape[1] - 1))
        else:
            parts += [(part, self.draws.shape[1] - 1) for part in self._compute_half_variances()]
        scale = 1.0 if 1e-100 < variance < 1e100 else variance or 1.0  # squares stay in the range of float64
        total = math.fsum((part / scale) ** 2 / degrees for part, degrees in parts if part > 0)
        degrees = (variance / scale) ** 2 / total if total > 0 else float(self.draws.shape[1]) - 1
        return max(1 / (1 / degrees + 1 / (self.prompts - 1)) if self.prompts > 1 else degrees, 1.0)

    def _compute_variance(self) -> float:
        """Return the variance of the draws; the bootstrap's is (n - 1) / n of the right one for n prompts."""
        scale = self.prompts / (self.prompts - 1) if self.share == 1 and self.prompts > 1 else 1.0
        return float(np.var(self.draws[0], ddof=1)) * scale

    def _compute_half_variances(self) -> tuple[float, float]:
        half, other = self.draws
        return float(np.mean(((half - other) / 2) ** 2)), float(np.var((half + other) / 2, ddof=1))

    def map(self, of: Callable[[F64], F64]) -> "Replicates":
        return Replicates(of(self.draws), of(self.repeats), self.share, self.prompts)

    def deviations(self) -> F64:
        """Return replicates of the value's error, shape (R,), scaled to the standard error."""
        if len(self.draws) == 1:
            away = self.draws[0] - self.draws[0].mean()
        else:
            away = (self.draws[0] - self.draws[1]) / 2
        std = float(np.sqrt(np.mean(away**2)))
        scaled: F64 = away * (self.std_error() / std if std > 0 else 0.0)
        return scaled

    def std_error(self) -> float:
        """Standard error of the value; NaN if a replicate is NaN."""
        if len(self.draws) == 1:
            return math.sqrt(self._compute_variance() + self.noise)
        apart, together = self._compute_half_variances()
        return math.sqrt(max(apart - together, _FLOOR * apart) + self.noise)

    def interval(self, value: float, bounds: Sequence[float] = (-math.inf, math.inf)) -> Interval:
        """Return value ± t · standard error, on the scale of its bounds: its range, which no interval leaves.

        The scale is the log odds of the place between two bounds, or the log of the distance to one: errors near a
        bound are skewed. A value less than one standard error from a bound is cut off there.
        """
        from scipy.special import stdtrit

        error, (least, most) = self.std_error(), bounds
        away = float(stdtrit(self.dof, 0.5 + LEVEL / 2)) * error
        low, high = max(value - away, min(least, value)), min(value + away, max(most, value))
        if 0 < error <= min(value - least, most - value) < math.inf:
            step = away * (1 / (value - least) + 1 / (most - value))  # the slope of the scale; 1 / inf is 0
            low, high = (_shift_on_scale(value, least, most, by) for by in (-step, step))
        return Interval(low, high, error, LEVEL, self.method, self.draws.size)

    def p_value(self, value: float) -> float:
        """Two-sided p-value of the value being 0; NaN if the replicates do not vary."""
        from scipy.special import stdtr

        error = self.std_error()
        if not (math.isfinite(error) and math.isfinite(value) and self.varies):
            return math.nan
        return float(2 * stdtr(self.dof, -abs(value) / error))


def combine_replicates(weights: Sequence[float], parts: Sequence[Replicates]) -> Replicates | None:
    """Return replicates of a weighted sum of values; None if the methods differ.

    Replicates are combined index by index: the same index means the same prompts and the same seeds of the metric.
    """
    repeats = [w * p.repeats for w, p in zip(weights, parts, strict=True) if len(p.repeats)]
    if not parts or len({(p.draws.shape, p.method) for p in parts}) > 1 or len({len(r) for r in repeats}) > 1:
        return None
    draws = reduce(np.add, [w * p.draws for w, p in zip(weights, parts, strict=True)])
    return Replicates(draws, reduce(np.add, repeats) if repeats else np.zeros(0), parts[0].share, parts[0].prompts)


@dataclass(frozen=True, slots=True)
class Plan:
    """Assigns prompts to replicates."""

    count: int = COUNT
    """Number of replicates; even."""
    _tables: dict[tuple[str, bytes], NDArray[Any]] = field(default_factory=dict)

    def has_enough_prompts(self, *sides: Ids) -> bool:
        """Return whether every side has enough prompts for an interval."""
        return self.count >= 4 and all(len(set(ids)) >= MIN_PROMPTS for ids in sides)

    def weights(self, ids: Ids) -> NDArray[np.uint8]:
        """Return the weight of each row in each replicate, shape (count, rows)."""
        return self._get_table("weights", ids, self.count, np.uint8, lambda n: np.searchsorted(_POISSON, n / 2.0**64))

    def mask_halves(self, ids: Ids) -> NDArray[np.bool_]:
        """Return whether each row is in the first half of each split, shape (count / 2, rows)."""
        return self._get_table("halves", ids, self.count // 2, np.bool_, lambda n: _mask_smallest(n, len(n) // 2))

    def subsets(self, ids: Ids, share: float) -> NDArray[np.bool_]:
        """Return whether each row is in each random subset of a share of the prompts, shape (count, rows)."""
        return self._get_table(
            f"subsets {share}", ids, self.count, np.bool_, lambda n: _mask_smallest(n, round(share * len(n)))
        )

    def _get_table(
        self, name: str, ids: Ids, draws: int, kind: type[N], make: Callable[[NDArray[np.uint64]], NDArray[Any]]
    ) -> NDArray[N]:
        """Return a cached table, one row per replicate, derived from the random numbers of the prompts."""
        names, row = np.unique(np.asarray(ids, dtype=np.str_), return_inverse=True)
        key = (name, hashlib.blake2b("\0".join(names.tolist()).encode(), digest_size=16).digest())
        if key not in self._tables:
            hashes = b"".join(
                hashlib.blake2b(str(n).encode(), digest_size=8, person=b"resampling").digest() for n in names
            )
            numbers = np.frombuffer(hashes, dtype="<u8").astype(np.uint64)
            table = np.empty((draws, len(names)), dtype=kind)
            for draw in range(draws):
                table[draw] = make(_derive_numbers(numbers, draw))
            self._tables[key] = table
        return self._tables[key][:, row]

    def build_subset_replicates(self, ids: Ids, share: float, draws: F64) -> Replicates:
        """Return replicates from the values on `subsets`, shape (count,); the share is that of whole prompts."""
        prompts = len(set(ids))
        return Replicates.from_subsamples(draws, round(share * prompts) / prompts)

    def replicate(
        self, scheme: str, rows: tuple[Ids, Ids], score: Score, names: Collection[str], share: float
    ) -> dict[str, Replicates]:
        """Return replicates of the values of a score.

        Args:
            scheme: `bootstrap`, `halves`, `near_halves` (whose weights are near those of all texts) or `subsample`.
            rows: The prompt of each human and of each model row.
            score: Returns the values of weighted rows.
            names: The values that are wanted.
            share: Of the prompts in each subset.
        """
        ids = rows if rows[0] is not rows[1] else rows[:1]

        def draw(human: Weights, model: Weights) -> dict[str, F64]:
            values = score(human, model)
            return {k: v() if callable(v) else v for k, v in values.items() if k in names}

        if scheme == "bootstrap":
            return {k: Replicates(v[None, :]) for k, v in draw(*_pair([self.weights(side) for side in ids])).items()}
        if scheme == "subsample":
            values = draw(*_pair([self.subsets(side, share) for side in ids]))
            return {k: self.build_subset_replicates(rows[1], share, v) for k, v in values.items()}
        tables = [np.concatenate([first, ~first]) for first in (self.mask_halves(side) for side in ids)]
        if scheme == "halves":
            return {k: Replicates(v.reshape(2, -1)) for k, v in draw(*_pair(tables)).items()}
        blocks = max(1, -(-sum(table.size for table in tables) // _BLOCK))
        parts = zip(*(np.array_split(table, min(blocks, len(table))) for table in tables), strict=True)
        values_of = [draw(*_pair([_shrink(part, HALF_SCALE) for part in both])) for both in parts]
        together = {k: np.concatenate([of[k] for of in values_of]).reshape(2, -1) for k in values_of[0]}
        return {k: Replicates(rescale_halves(v, HALF_SCALE)) for k, v in together.items()}

    def mean(self, ids: Ids, values: F64, sizes: F64 | I64 | None = None) -> Replicates:
        """Return replicates of the mean over rows, weighted by size; NaN is ignored."""
        return Replicates(average(values, self.weights(ids), sizes)[None, :])

    def linear(self, value: float, *parts: tuple[Ids, F64]) -> Replicates:
        """Return replicates of a value, linearized by the influence of each row.

        Args:
            value: The value on all texts.
            parts: Ids and influence of the rows of a side: the derivative of the value by the row's share of its side.
        """
        draws = np.full(self.count, value)
        for ids, influence in parts:
            centered = influence - influence.mean()
            sums = weigh(self.weights(ids), np.stack([centered, np.ones(len(centered))], axis=1))
            draws = draws + sums[:, 0] / np.maximum(sums[:, 1], 1.0)
        return Replicates(draws[None, :])


def _pair(tables: Sequence[Weights]) -> tuple[Weights, Weights]:
    return tables[0], tables[-1]


def _shrink(weights: Weights, scale: float) -> F64:
    """Move sets of rows towards the set of all rows, shape (draws, rows); the weights have the mean 1."""
    sizes = np.maximum(np.count_nonzero(weights, axis=1, keepdims=True), 1)
    return np.asarray(1.0 + scale * (weights * (weights.shape[1] / sizes) - 1.0), dtype=np.float64)


def rescale_halves(draws: F64, scale: float) -> F64:
    """Return the values of halves, shape (2, splits), from those of halves at a scale."""
    apart, middle = (draws[0] - draws[1]) / 2 / scale, draws.mean(axis=0)
    middle = middle.mean() + (middle - middle.mean()) / scale**2
    return np.stack([middle + apart, middle - apart])


def weigh(weights: Weights, rows: NDArray[Any]) -> F64:
    """Return the weighted sums of rows, shape (draws,), or of their columns, shape (draws, columns)."""
    columns = np.asarray(rows, dtype=np.float64)
    if len(weights) == 1:  # as NumPy sums, so that the value of all texts does not depend on the number of threads
        return np.asarray((weights[0] * columns.T).sum(axis=-1)[None], dtype=np.float64)
    parts = np.array_split(weights, -(-len(weights) // 20))  # in blocks, because weights become float64
    return np.concatenate([part.astype(np.float64) @ columns for part in parts])


def average(values: F64, weights: Weights, sizes: F64 | I64 | None = None) -> F64:
    """Return the mean over rows of each weighted set, shape (draws,); rows may have sizes, and NaN is ignored."""
    finite = np.isfinite(values)
    size = np.where(finite, 1.0 if sizes is None else sizes, 0.0)
    sums = weigh(weights, np.stack([np.where(finite, values, 0.0) * size, size], axis=1))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(sums[:, 0] / sums[:, 1], dtype=np.float64)


def pack_replicates(replicates: Mapping[str, Replicates]) -> dict[str, F64]:
    """Return replicates as the arrays of a result."""
    draws = {k: r.draws for k, r in replicates.items()}
    draws |= {f"{REPEATS}{k}": r.repeats for k, r in replicates.items() if len(r.repeats) > 1}
    return draws | {f"share/{k}": np.array([r.share]) for k, r in replicates.items() if r.share < 1}


def _is_mean(rows: F64, value: float) -> bool:
    finite = rows[np.isfinite(rows)]
    return len(finite) > 0 and math.isclose(float(finite.mean()), value, rel_tol=1e-6, abs_tol=1e-12)


def _shift_on_scale(value: float, least: float, most: float, step: float) -> float:
    """Move a value on the scale of its bounds, one of which is finite."""
    if math.isinf(most):
        return least + (value - least) * math.exp(step)
    if math.isinf(least):
        return most - (most - value) * math.exp(-step)
    return least + (most - least) / (1 + (most - value) / (value - least) * math.exp(-step))


def _mask_smallest(numbers: NDArray[np.uint64], size: int) -> NDArray[np.bool_]:
    inside = np.zeros(len(numbers), dtype=np.bool_)
    inside[np.argsort(numbers, kind="stable")[:size]] = True
    return inside


def _derive_numbers(hashes: NDArray[np.uint64], draw: int) -> NDArray[np.uint64]:
    """Return a pseudo-random number for each hash and draw: splitmix64 (Steele, Lea and Flood 2014)."""
    state = hashes + np.uint64((draw + 1) * 0x9E3779B97F4A7C15 % (1 << 64))
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


def estimate_interval(
    replicates: Replicates, value: float, bounds: Sequence[float] = (-math.inf, math.inf), rows: F64 | None = None,
    prompts: I64 | None = None, *, is_share: bool = False,
) -> Interval | None:  # fmt: skip
    """Return the interval of a value; None if its replicates do not vary, or almost no text does, and it is no share.

    Args:
        replicates: Of the value.
        value: The value.
        bounds: Least and greatest number that the value can be.
        rows: The rows whose mean the value is, if it is one, or what else tells which texts make it vary.
        prompts: The prompt of each row; None if each has its own.
        is_share: Whether the value is the share of texts that are of a kind, times its greatest number (of HUSE 2):
            rows that are that number or 0 are counts, which have Wilson's interval.
    """
    most = bounds[1]
    if is_share and rows is not None and np.isin(rows[np.isfinite(rows)], (0.0, most)).all() and _is_mean(rows, value):
        count: float = len(np.unique(prompts)) if prompts is not None else int(np.isfinite(rows).sum())
        if replicates.varies and 0 < value < most:
            count = value * (most - value) / replicates.std_error() ** 2
        return wilson_interval(value / most, count, replicates, most)
    few = rows is not None and _count_different(rows, prompts) < LEAST_DIFFERENT
    return replicates.interval(value, bounds) if replicates.varies and not few else None


def _count_different(rows: F64, prompts: I64 | None) -> int:
    """Return how many prompts have a row that differs from the most common value."""
    finite = np.isfinite(rows)
    if not finite.any():
        return 0
    _, kind, counts = np.unique(rows[finite].round(12), return_inverse=True, return_counts=True)
    differs = kind != np.argmax(counts, keepdims=True)
    return int(np.count_nonzero(differs)) if prompts is None else len(np.unique(prompts[finite][differs]))


def wilson_interval(share: float, count: float, replicates: Replicates, most: float = 1.0) -> Interval:
    """Return Wilson's interval of a share of `count` independent texts, times `most`.

    Where at most three texts are of one kind, the limit next to it is that of a Poisson count, which is farther away
    (Brown, Cai and DasGupta 2001, "modified Wilson interval").

    >>> made = wilson_interval(0.0, 100, Replicates(np.zeros((1, 8))))
    >>> made.low, round(made.high, 4)
    (0.0, 0.037)
    """
    from scipy.special import gammaincinv, ndtri

    z = float(ndtri(0.5 + LEVEL / 2))
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    away = z * math.sqrt(share * (1 - share) / count + (z / (2 * count)) ** 2) / (1 + z * z / count)
    low, high = (0.0 if share == 0 else max(middle - away, 0.0)), (1.0 if share == 1 else min(middle + away, 1.0))
    if 0 < share * count < _FEW_EVENTS:
        low = min(low, float(gammaincinv(share * count, 1 - LEVEL)) / count)
    if 0 < (1 - share) * count < _FEW_EVENTS:
        high = max(high, 1.0 - float(gammaincinv((1 - share) * count, 1 - LEVEL)) / count)
    return Interval(low * most, high * most, replicates.std_error(), LEVEL, WILSON, replicates.draws.size)


# Permutation tests: random relabelings of which side a text stands on (Good 2005; Phipson and Smyth 2010).


def relabel_rows(human: Ids, model: Ids, count: int) -> NDArray[np.bool_] | None:
    """Return whether each row stands on the human side in each relabeling.

    Args:
        human: The prompt of each human row, sorted.
        model: The prompt of each model row, sorted.
        count: Number of relabelings.

    Returns:
        Shape (count, n_human + n_model); None where texts are not exchangeable one by one.
    """
    first, second = (np.asarray(ids, dtype=np.str_) for ids in (human, model))
    stream = make_random_stream(0, "permutation")
    if len(np.unique(first)) == len(first) and np.array_equal(first, second):
        stays = stream.random((count, len(first))) < 0.5
        return np.concatenate([stays, ~stays], axis=1)
    both = np.concatenate([first, second])
    if len(np.unique(both)) < len(both):
        return None
    order = stream.random((count, len(both))).argsort(axis=1).argsort(axis=1)
    return np.asarray(order < len(first), dtype=np.bool_)


def permutation_p_value(value: float, permuted: F64, tails: int = 1) -> float:
    """Return the share of relabelings with a value at least as large, the observed one included.

    With two tails it is twice the share of the smaller one.

    >>> permutation_p_value(2.0, np.array([0.0, 1.0, 3.0]))
    0.5
    """
    slack = 1e-12 * abs(value)
    larger = np.count_nonzero(permuted >= value - slack)
    extreme = larger if tails == 1 else min(larger, np.count_nonzero(permuted <= value + slack))
    return float(min(1.0, tails * (1 + extreme) / (1 + len(permuted))))
