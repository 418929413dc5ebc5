"""Uncertainty of HUSE: subsets of the examples, curves over raters and examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openended.harness.core import F64, I64, UndefinedMetric, make_random_stream
from openended.metrics._huse.discriminator import HusePoints, Rule, compute_huse
from openended.metrics._huse.join import PairRatings

_MOST_TEXTS = 600_000  # texts scored over all subsets: some ten seconds


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """HUSE against a number of raters or of examples."""

    sizes: I64
    huse: F64
    """Mean over draws, shape (sizes,)."""
    huse_q: F64
    low: F64
    """Percentile interval of HUSE."""
    high: F64


def percentiles(values: F64, level: float) -> tuple[float, float]:
    """Return the central interval that holds a share `level` of the values."""
    good = values[~np.isnan(values)]
    if 2 * len(good) < len(values) or not len(good):
        return float("nan"), float("nan")
    low, high = np.quantile(good, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def subsample_huse(rated: PairRatings, rule: Rule, subsets: NDArray[np.bool_]) -> Mapping[str, F64]:
    """Compute HUSE, HUSE-Q and HUSE-D of subsets of the examples, shape (subsets, n) → (subsets,); NaN without a value.

    Of many examples only the first subsets are used, at least 25.
    """
    columns = rated.columns()
    most = max(25, _MOST_TEXTS // (2 * max(int(subsets[0].sum()), 1)))
    pairs = np.array([_score(columns, np.flatnonzero(subset), rule) for subset in subsets[:most]])
    return {"huse": pairs[:, 0], "huse_q": pairs[:, 1], "huse_d": 1.0 + pairs[:, 0] - pairs[:, 1]}


def _score(columns: Mapping[str, Any], picked: NDArray[np.int64], rule: Rule) -> F64:
    """HUSE and HUSE-Q of examples drawn with or without replacement; NaN where they have no value."""
    n = len(columns["judgments"]) // 2
    rows = np.concatenate([picked, picked + n])
    copies = np.bincount(picked, minlength=n)[np.concatenate([picked, picked])]
    resampled = {name: column[rows] for name, column in columns.items()}
    try:
        errors = HusePoints.build(**resampled, rule=rule).errors(rule, copies)
    except UndefinedMetric:
        return np.full(2, np.nan)
    return np.array([compute_huse(error) for error in errors], dtype=np.float64)


def rater_curve(
    rated: PairRatings, rule: Rule, *, counts: Sequence[int], draws: int = 20, level: float = 0.9, seed: int = 0
) -> Curve:
    """HUSE against the number of ratings per text, drawn without replacement (HUSE Fig. 5, left).

    The interval comes from draws in which the examples are drawn anew as well, with replacement.
    """
    plain, spread = np.full((len(counts), draws, 2), np.nan), np.full((len(counts), draws), np.nan)
    columns = rated.columns()
    for i, count in enumerate(counts):
        for j in range(draws):
            rng = make_random_stream(seed, "huse-raters", int(count), j)
            columns["judgments"] = subsample_means(rated.ratings, int(count), rng)
            plain[i, j] = _score(columns, np.arange(rated.n), rule)
            spread[i, j] = _score(columns, rng.integers(rated.n, size=rated.n), rule)[0]
    return _build_curve(counts, plain, spread, level)


def example_curve(
    rated: PairRatings, rule: Rule, *, sizes: Sequence[int], draws: int = 20, level: float = 0.9, seed: int = 0
) -> Curve:
    """HUSE against the number of examples, drawn without replacement (HUSE Fig. 5, right)."""
    values = np.full((len(sizes), draws, 2), np.nan)
    columns = rated.columns()
    for i, size in enumerate(sizes):
        for j in range(draws):
            picked = make_random_stream(seed, "huse-examples", int(size), j).choice(
                rated.n, size=int(size), replace=False
            )
            values[i, j] = _score(columns, picked, rule)
    return _build_curve(sizes, values, values[..., 0], level)


def _build_curve(sizes: Sequence[int], values: F64, spread: F64, level: float) -> Curve:
    bands = np.array([percentiles(row, level) for row in spread])
    means = np.full((len(values), 2), np.nan)
    for mean, row in zip(means, values, strict=True):
        has_value = ~np.isnan(row).any(axis=1)
        if has_value.any():
            mean[:] = row[has_value].mean(axis=0)
    return Curve(np.asarray(sizes, dtype=np.int64), means[:, 0], means[:, 1], bands[:, 0], bands[:, 1])


def subsample_means(ratings: F64, count: int, rng: np.random.Generator) -> F64:
    """Mean of `count` ratings per text, drawn without replacement; all of them where there are fewer."""
    order = np.argsort(np.where(np.isnan(ratings), np.inf, rng.random(ratings.shape)), axis=1)[:, :count]
    means: F64 = np.nanmean(np.take_along_axis(ratings, order, axis=1), axis=1)
    return means
