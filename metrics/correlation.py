"""How metrics agree with people: rank correlation over systems, its p-value and interval.

Not a registered metric: it takes the values of many systems. The unit is the system, as in MAUVE Tables 5, 10 and 14 (8
systems, the human left out): Spearman's rho between a metric and Bradley-Terry scores.

Source: Spearman 1904; Kendall 1945 (tau-b, for ties). The p-value is of the permutation test (all orders where there
are few systems), two-sided; the interval is a percentile bootstrap over systems, which at 8 systems is wide and rough.
"""

import itertools
import math
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from openended.harness.core import F64, check_arguments, make_random_stream
from openended.metrics.families import Values

Method = Literal["spearman", "kendall"]

MIN_PAIRS = 3  # of values: two are always in the same or in the opposite order
_MOST_EXACT = 9  # 9! = 362,880 orders
_TOLERANCE = 1e-12  # correlations this close are equal: sums of a few dozen float64 terms
_BLOCK = 1_000_000  # numbers in one block of orders


@check_arguments
def rank_correlation(x: ArrayLike, y: ArrayLike, *, method: Method = "spearman") -> float:
    """Compute Spearman's rho or Kendall's tau-b over the systems that have both values.

    Args:
        x: One value per system, shape (n,); NaN where a metric is undefined.
        y: The same systems' other values, shape (n,).
        method: `spearman` (Pearson's correlation of mid-ranks) or `kendall` (tau-b).

    Returns:
        The correlation, in [−1, 1]; NaN where one side is constant or fewer than 3 systems have both values.

    Raises:
        ValueError: If the sides differ in shape, or a value is infinite.
    """
    left, right = _select_common(x, y)
    return float(correlate_rows(left[None], right[None], method=method)[0]) if len(left) >= MIN_PAIRS else math.nan


@check_arguments
def correlate(
    x: ArrayLike, y: ArrayLike, *, method: Method = "spearman", permutations: int = 100_000, draws: int = 2000
) -> Values:
    """Compute a rank correlation as `rank_correlation` does, its permutation p-value and a bootstrap interval.

    Args:
        x: One value per system, shape (n,); NaN where a metric is undefined.
        y: The same systems' other values, shape (n,).
        method: `spearman` or `kendall`.
        permutations: Number of random orders where there are more than 9 systems; up to 9, all orders are used.
        draws: Number of bootstrap resamples of systems; those in which a side is constant have no correlation and are
            passed over. 0 gives no interval.

    Returns:
        `value` of the correlation, its two-sided `p_value` and whether that is `exact`, over all orders; the 95 %
        interval from `low` to `high`; `n`, systems with both values. NaN without a correlation.

    Raises:
        ValueError: If the sides differ in shape, or a value is infinite.
    """
    left, right = _select_common(x, y)
    n = len(left)
    value = rank_correlation(left, right, method=method)
    if math.isnan(value):
        return Values(value=math.nan, p_value=math.nan, low=math.nan, high=math.nan, n=n, exact=n <= _MOST_EXACT)
    scored = [_to_scores(side[None], method)[0] for side in (left, right)]
    p_value = _compute_permutation_p(scored[0], scored[1], n, permutations)
    picks = make_random_stream(0, "bootstrap", n).integers(n, size=(draws, n))
    values = correlate_rows(left[picks], right[picks], method=method)
    good = values[~np.isnan(values)]
    low = high = math.nan  # if most resamples have no correlation
    if len(good) and 2 * len(good) >= draws:
        low, high = np.quantile(good, [0.025, 0.975]).tolist()
    return Values(value=value, p_value=p_value, low=low, high=high, n=n, exact=n <= _MOST_EXACT)


@check_arguments
def correlate_rows(x: F64, y: F64, *, method: Method = "spearman") -> F64:
    """Return the rank correlation of each row of x with the same row of y, shapes (m, n) → (m,).

    NaN where a row is constant or has NaN.
    """
    a, b = _to_scores(x, method), _to_scores(y, method)
    axes = tuple(range(1, a.ndim))
    norms = np.sqrt(np.sum(a * a, axis=axes) * np.sum(b * b, axis=axes))
    out = np.full(len(a), np.nan)
    np.divide(np.sum(a * b, axis=axes), norms, out=out, where=norms > 0)
    return out


def _select_common(x: ArrayLike, y: ArrayLike) -> tuple[F64, F64]:
    """Return both values of the systems that have both."""
    left, right = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if left.shape != right.shape or left.ndim != 1:
        raise ValueError(f"expected two columns of one length, got shapes {left.shape} and {right.shape}")
    if np.isinf(left).any() or np.isinf(right).any():
        raise ValueError(f"expected finite numbers or NaN, got {x!r:.80} and {y!r:.80}")
    both = ~(np.isnan(left) | np.isnan(right))
    return left[both], right[both]


def _to_scores(rows: F64, method: Method) -> F64:
    """Turn rows of values (m, n) into scores whose cosine is the correlation."""
    if method == "kendall":
        return np.sign(rows[:, :, None] - rows[:, None, :])
    from scipy.stats import rankdata

    # Mid-ranks always sum to n (n + 1) / 2, so a constant row becomes exactly zero.
    centered: F64 = np.asarray(rankdata(rows, axis=1), dtype=np.float64) - (rows.shape[1] + 1) / 2
    return centered


def _compute_permutation_p(a: F64, b: F64, n: int, permutations: int) -> float:
    """Share of orders of one side that correlate at least as strongly, in either direction."""
    norm = math.sqrt(float(np.sum(a * a)) * float(np.sum(b * b)))
    observed = abs(float(np.sum(a * b))) / norm
    exact = n <= _MOST_EXACT
    orders: Any = itertools.permutations(range(n))
    rng = make_random_stream(0, "permutation", n)
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
