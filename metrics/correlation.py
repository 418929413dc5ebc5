"""How metrics agree with people: rank correlation over systems, its p-value and interval.

Not a registered metric: it takes the values of many systems. The unit is the system, as in MAUVE Tables 5, 10 and 14 (8
systems, the human left out): Spearman's rho between a metric and Bradley-Terry scores.

Source: Spearman 1904; Kendall 1945 (tau-b, for ties). The p-value is of the permutation test (all orders where there
are few systems), two-sided; the interval is a percentile bootstrap over systems, which at 8 systems is wide and rough.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from openended.harness.core import F64, check_arguments, make_random_stream
from openended.metrics.families import Values

Method = Literal["spearman", "kendall"]

_MOST_EXACT = 9  # 9! = 362,880 orders
_TOLERANCE = 1e-12  # correlations this close are equal: sums of a few dozen float64 terms
_BLOCK = 1_000_000  # numbers in one block of orders


@check_arguments
def rank_correlation(x: ArrayLike, y: ArrayLike, *, method: Method = "spearman") -> float:
    """Compute Spearman's rho or Kendall's tau-b over systems.

    Args:
        x: One value per system, shape (n,), n >= 2, finite.
        y: The same systems' other values, shape (n,).
        method: `spearman` (Pearson's correlation of mid-ranks) or `kendall` (tau-b).

    Returns:
        The correlation, in [−1, 1]; NaN where one side is constant.

    Raises:
        ValueError: If a side has fewer than two values or one that is not finite, or the sides differ in length.
    """
    scores = []
    for name, values in (("x", x), ("y", y)):
        rows = np.asarray(values, dtype=np.float64)
        if rows.ndim != 1 or len(rows) < 2 or not np.isfinite(rows).all():
            raise ValueError(f"{name}: expected at least 2 finite numbers, got {values!r}")
        scores.append(_to_scores(rows[None], method))
    if scores[0].shape != scores[1].shape:
        raise ValueError(f"expected as many values on both sides, got {len(scores[0][0])} and {len(scores[1][0])}")
    return float(_compute_cosines(*scores)[0])


@check_arguments
def correlate(
    x: ArrayLike, y: ArrayLike, *, method: Method = "spearman", permutations: int = 100_000, draws: int = 2000,
    level: float = 0.95, seed: int = 0,
) -> Values:  # fmt: skip
    """Compute the rank correlation of two values of each system, its permutation p-value and a bootstrap interval.

    Systems where either value is NaN (a metric that is undefined there) are left out.

    Args:
        x: One value per system, shape (n,).
        y: The same systems' other values, shape (n,).
        method: `spearman` or `kendall`.
        permutations: Number of random orders where there are more than 9 systems; up to 9, all orders are used.
        draws: Number of bootstrap resamples of systems; those in which a side is constant have no correlation and are
            passed over. 0 gives no interval.
        level: Coverage of the interval, in (0, 1).
        seed: Seed of the random orders and resamples.

    Returns:
        `value` in [−1, 1], NaN where one side is constant or fewer than 3 systems have both values; the two-sided
        `p_value` and whether it is `exact`, over all orders; the interval from `low` to `high`; `n`, systems with both.

    Raises:
        ValueError: If the sides differ in shape.
    """
    left, right = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if left.shape != right.shape or left.ndim != 1:
        raise ValueError(f"expected two columns of one length, got shapes {left.shape} and {right.shape}")
    both = ~(np.isnan(left) | np.isnan(right))
    left, right = left[both], right[both]
    n = len(left)
    value = rank_correlation(left, right, method=method) if n >= 3 else math.nan
    if math.isnan(value):
        return Values(value=math.nan, p_value=math.nan, low=math.nan, high=math.nan, n=n, exact=n <= _MOST_EXACT)
    scored = [_to_scores(side[None], method)[0] for side in (left, right)]
    p_value = _compute_permutation_p(scored[0], scored[1], n, permutations, seed)

    picks = make_random_stream(seed, "bootstrap", n).integers(n, size=(draws, n))
    values = _compute_cosines(_to_scores(left[picks], method), _to_scores(right[picks], method))
    good = values[~np.isnan(values)]
    low = high = math.nan  # if most resamples have no correlation
    if len(good) and 2 * len(good) >= draws:
        low, high = np.quantile(good, [(1 - level) / 2, (1 + level) / 2]).tolist()
    return Values(value=value, p_value=p_value, low=low, high=high, n=n, exact=n <= _MOST_EXACT)


def _to_scores(rows: F64, method: Method) -> F64:
    """Turn rows of values (m, n) into scores whose cosine is the correlation."""
    if method == "kendall":
        return np.sign(rows[:, :, None] - rows[:, None, :])
    from scipy.stats import rankdata

    # Mid-ranks always sum to n (n + 1) / 2, so a constant row becomes exactly zero.
    centered: F64 = np.asarray(rankdata(rows, axis=1), dtype=np.float64) - (rows.shape[1] + 1) / 2
    return centered


def _compute_cosines(a: F64, b: F64) -> F64:
    """Cosine of each row of two arrays of one shape, shape (m,); NaN where a row is zero."""
    axes = tuple(range(1, a.ndim))
    norms = np.sqrt(np.sum(a * a, axis=axes) * np.sum(b * b, axis=axes))
    out = np.full(len(a), np.nan)
    np.divide(np.sum(a * b, axis=axes), norms, out=out, where=norms > 0)
    return out


def _compute_permutation_p(a: F64, b: F64, n: int, permutations: int, seed: int) -> float:
    """Share of orders of one side that correlate at least as strongly, in either direction."""
    norm = math.sqrt(float(np.sum(a * a)) * float(np.sum(b * b)))
    observed = abs(float(np.sum(a * b))) / norm
    exact = n <= _MOST_EXACT
    orders: Any = itertools.permutations(range(n))
    rng = make_random_stream(seed, "permutation", n)
    hits, total = 0, math.factorial(n) if exact else permutations
    left = total
    while left:
        size = min(left, max(1, _BLOCK // a.size))
        if exact:
            block = np.array(list(itertools.islice(orders, size)), dtype=np.int64)
        else:
            block = np.argsort(rng.random((size, n)), axis=1)
        if a.ndim == 1:
            products = b[block] @ a
        else:
            products = np.einsum("mij,ij->m", b[block[:, :, None], block[:, None, :]], a)
        hits += int(np.sum(np.abs(products / norm) >= observed - _TOLERANCE))
        left -= size
    # A random test counts the observed order among the orders, so that p is never 0 (Phipson & Smyth 2010).
    return hits / total if exact else (hits + 1) / (total + 1)


@check_arguments
def correlation_matrix(metrics: Mapping[str, Sequence[float]], *, method: Method = "spearman") -> F64:
    """Correlate every metric with every other over their common systems (Le Bronnec et al. 2024, Fig. 7).

    Args:
        metrics: Name of a metric to its value of each system, in one order of systems; NaN where it has none.
        method: `spearman` or `kendall`.

    Returns:
        Correlations in [−1, 1], shape (metrics, metrics); NaN with fewer than 3 common systems or a constant side.
    """
    columns = [np.asarray(values, dtype=np.float64) for values in metrics.values()]
    out = np.full((len(columns), len(columns)), np.nan)
    for i, j in itertools.product(range(len(columns)), repeat=2):
        both = ~(np.isnan(columns[i]) | np.isnan(columns[j]))
        if both.sum() >= 3:
            out[i, j] = rank_correlation(columns[i][both], columns[j][both], method=method)
    return out
