"""Kernel distance: unbiased squared maximum mean discrepancy with a cubic kernel, and its standard error.

k(x, y) = (x·y / d + 1)^3. MMD^2 = mean of k within the human side + mean within the model side - 2 mean across, where
the means within leave out a point with itself; 0 is its expectation for equal distributions, unbounded above, lower is
better. The standard error is the asymptotic one of the two-sample U-statistic, with the first-order variance: with
h_i = mean_j k(x_i, x_j) - mean_j k(x_i, y_j) on each side, Var = 4 var(h) / n, summed over sides.

Source: Bińkowski et al. 2018, "Demystifying MMD GANs", section 4; Gretton et al. 2012, "A kernel two-sample test",
Lemma 6 and Corollary 16.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from openended.harness.core import F64, Features, Floats, MetricResult, Weights, check_arguments, metric, ranged
from openended.metrics._embeddings.blocks import check_sides
from openended.metrics.families import TwoSample, Values, align_values

Groups = ArrayLike | None  # the prompt of each row; None: all differ
_BLOCK = 1024


@check_arguments
def kid(
    *, human: Floats, model: Floats, degree: int = 3, human_groups: Groups = None, model_groups: Groups = None
) -> Values:
    """Compute the kernel distance (Bińkowski et al. 2018, section 4; error: Gretton et al. 2012, Lemma 6).

    Args:
        human: Embeddings of human texts, shape (n_human, d), n_human >= 2, finite.
        model: Embeddings of model texts, shape (n_model, d), n_model >= 2.
        degree: Degree of the polynomial kernel, at least 1.
        human_groups: The prompt of each human row, shape (n_human,); rows of one prompt count once in the error.
        model_groups: The prompt of each model row, shape (n_model,).

    Returns:
        `kid`, the unbiased squared MMD, which can be below 0, and `std_error`, its asymptotic standard error; both
        dimensionless.

    Raises:
        UndefinedMetric: If a side has fewer than two texts.
        ValueError: If the sides differ in dimension, or a number or the kernel is not finite.
    """
    return _estimate(*check_sides(human=human, model=model, multiplied=True), degree, (human_groups, model_groups))[0]


def _estimate(human: Floats, model: Floats, degree: int, groups: tuple[Groups, Groups]) -> tuple[Values, F64]:
    """Return the distance with its error, and what each model row adds: their mean is the distance."""
    n, m = len(human), len(model)
    with np.errstate(over="ignore", invalid="ignore"):  # values that are not finite are refused below
        hh, mm = _sum_kernel_rows(human, human, degree), _sum_kernel_rows(model, model, degree)
        hm, mh = _sum_kernel_rows(human, model, degree), _sum_kernel_rows(model, human, degree)
        # A point with itself is left out of the means within a side.
        hh = (hh - _compute_diagonal(human, degree)) / (n - 1)
        mm = (mm - _compute_diagonal(model, degree)) / (m - 1)
        value = hh.mean() + mm.mean() - hm.mean() / m - mh.mean() / n
        human_variance = _compute_variance_of_mean(hh - hm / m, groups[0])
        model_variance = _compute_variance_of_mean(mm - mh / n, groups[1])
    if not np.isfinite(value):
        raise ValueError(f"degree {degree}: the kernel of these features leaves the range of float64; scale them down")
    std_error = float(np.sqrt(4 * human_variance + 4 * model_variance))
    return Values(kid=float(value), std_error=std_error), mm - 2 * mh / n + hh.mean()


def _compute_variance_of_mean(values: F64, groups: Groups) -> float:
    """Return the variance of a mean, shape (n,) → a number; values of one group may depend on each other."""
    if groups is None:
        return float(np.var(values, ddof=1)) / len(values)
    _, group = np.unique(np.asarray(groups), return_inverse=True)
    if len(group) != len(values):
        raise ValueError(f"groups: expected one per row, {len(values)}, got {len(group)}")
    sums = np.bincount(group, weights=values - values.mean())
    count = len(sums)
    return float(np.sum(sums**2)) / len(values) ** 2 * count / (count - 1) if count > 1 else float("nan")


def _sum_kernel_rows(a: Floats, b: Floats, degree: int) -> F64:
    """Sum over b of k(a_i, b_j), shape (len(a),)."""
    out = np.zeros(len(a))
    for rows, _, table in _iterate_kernel(a, b, degree):
        out[rows] += table.sum(axis=1)
    return out


def _raise_to_power(base: F64, degree: int) -> F64:
    """Whole power by products: NumPy's power function is many times slower."""
    out = base
    for _ in range(degree - 1):
        out = out * base
    return out


def _compute_diagonal(a: Floats, degree: int) -> F64:
    """k(a_i, a_i), shape (len(a),)."""
    parts = [np.asarray(a[i : i + _BLOCK], dtype=np.float64) for i in range(0, len(a), _BLOCK)]
    squares = np.concatenate([np.einsum("ij,ij->i", part, part) for part in parts])
    return _raise_to_power(squares / a.shape[1] + 1, degree)


def _score_kid(human: Floats, model: Floats, human_weights: Weights, model_weights: Weights, degree: int) -> F64:
    """Return the unbiased kernel distance of weighted rows, shape (draws,); a row stands for one text or none."""
    masks = [weights.T.astype(np.float64) for weights in (human_weights, model_weights)]
    sizes = [mask.sum(axis=0) for mask in masks]
    value = np.zeros(masks[0].shape[1])
    for side, mask, size in zip((human, model), masks, sizes, strict=True):
        within = np.zeros(len(value))
        for rows, columns, table in _iterate_kernel(side, side, degree):
            if rows == columns:
                np.fill_diagonal(table, 0.0)
            within += np.einsum("ij,ij->j", mask[rows], table @ mask[columns])
        value += within / (size * (size - 1))
    across = np.zeros(len(value))
    for rows, columns, table in _iterate_kernel(human, model, degree):
        across += np.einsum("ij,ij->j", masks[0][rows], table @ masks[1][columns])
    return np.asarray(value - 2 * (across / (sizes[0] * sizes[1])))


def _iterate_kernel(a: Floats, b: Floats, degree: int) -> Iterator[tuple[slice, slice, F64]]:
    """Yield (rows of a, rows of b, their kernels), block by block."""
    parts = [[slice(i, i + _BLOCK) for i in range(0, len(side), _BLOCK)] for side in (a, b)]
    for rows in parts[0]:
        left = np.asarray(a[rows], dtype=np.float64) / a.shape[1]
        for columns in parts[1]:
            table = left @ np.asarray(b[columns], dtype=np.float64).T
            table += 1
            yield rows, columns, _raise_to_power(table, degree)


@metric
class Kid(TwoSample):
    """Unbiased squared MMD with a cubic kernel (Bińkowski et al. 2018) and its standard error."""

    name = "kid"
    synonyms = ("mmd", "kernel_distance")
    version = 2
    direction = "lower"
    bounds = (-np.inf, np.inf)
    ranges = {"std_error": (0.0, np.inf)}
    titles = {"kid": "KID", "std_error": "KID s.e."}
    targets = {"kid": 0.0}  # unbiased: below 0 as often as above for texts of one source
    directions = {"std_error": "none"}

    resampling = "halves"
    shares_space = True
    most = 50_000  # all pairs, as in knn_precision_recall
    degree: int = ranged(3, "[1, inf)", "at least 1")
    """Degree of the polynomial kernel; Bińkowski et al. 2018."""

    def prepare(self, features: Features) -> tuple[Floats, Floats]:
        return self.pair(features, multiplied=True)

    def evaluate(self, features: Features, prepared: tuple[Floats, Floats]) -> MetricResult:
        estimate, adds = _estimate(*prepared, self.degree, self.list_rows(features, prepared))
        return self.result(features, "kid", estimate, per_example={"kid": align_values(features.model, adds)})

    def score(self, prepared: tuple[Floats, Floats], human: Weights, model: Weights, /) -> dict[str, F64]:
        return {"kid": _score_kid(*prepared, human, model, self.degree)}
