"""Expected score of the best of N settings of a decoder, selected on some seeds and scored on others.

A decoder with a wider sweep has a better best setting, and the best of many noisy values is biased upward. Therefore
every decoder gets the same number N of settings, drawn without replacement from its m, and the setting that is best on
one part of the seeds is scored on the other part:

    E = Σ_i s_(i) · C(i - 1, N - 1) / C(m, N),    i = 1 … m the ranks by the selection seeds, worst first.

N = 1 is the mean of a sweep, N = m its best. Recommended by the critique of min-p by Schaeffer et al. 2025.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from openended.harness.core import F64

MOST_SPLITS = 20  # of the seeds into halves; with more than six seeds, only the first and second half
LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class BestOfN:
    """A decoder's expected best score for every N from 1 to the number of its settings."""

    name: str
    settings: int
    seen: tuple[float, ...]
    """Selected and scored on the same seeds (all); biased upward."""
    fresh: tuple[float, ...]
    """Selected on one part of the seeds and scored on the other, mean over splits; NaN with one seed."""
    half: tuple[float, ...]
    """Half-width of the 95 % interval of `fresh` over seeds; NaN with one seed."""


def compute_weights(settings: int, count: int) -> F64:
    """Return the probability that the i-th worst setting is the best of `count` drawn without replacement.

    >>> weights(4, 2).tolist()  # best in 0, 1, 2 and 3 of 6 pairs
    [0.0, 0.16666666666666666, 0.3333333333333333, 0.5]
    """
    every = math.comb(settings, count)
    return np.array([math.comb(i, count - 1) / every for i in range(settings)], dtype=np.float64)


def compute_expected_best(scores: Sequence[float], count: int, chosen_by: Sequence[float] | None = None) -> float:
    """Return the expected score of the best of `count` settings."""
    return float(compute_weights(len(scores), count) @ _sort_scores(np.asarray(scores, dtype=np.float64), chosen_by))


def _sort_scores(scores: F64, chosen_by: Sequence[float] | None) -> F64:
    """Sort scores by the selection scores, worst first; ties get their mean."""
    by = scores if chosen_by is None else np.asarray(chosen_by, dtype=np.float64)
    _, group = np.unique(by, return_inverse=True)
    means = np.bincount(group, weights=scores) / np.bincount(group)
    ordered: F64 = means[np.sort(group)]
    return ordered


def compute_curve(name: str, values: Sequence[Mapping[str, float]], *, cost: Mapping[str, float]) -> BestOfN:
    """Compute the best-of-N curve of one decoder."""
    seeds = [s for s in values[0] if all(s in v and math.isfinite(v[s]) for v in values)]
    table = np.array([[v[s] for s in seeds] for v in values], dtype=np.float64)
    m = len(values)
    sign, target = cost["sign"], cost["target"]

    def score(columns: Sequence[int]) -> F64:
        means = table[:, list(columns)].mean(axis=1)
        scores: F64 = -sign * (means if math.isnan(target) else np.abs(means - target))
        return scores

    every = range(len(seeds))
    seen = [compute_expected_best(score(every).tolist(), n) for n in range(1, m + 1)]
    fresh = np.full(m, math.nan)
    half = np.full(m, math.nan)
    splits = list(halves(len(seeds)))
    if splits:
        noise, degrees = pool_std(table)
        best_scores, errors = [], []
        for choosing, scoring in splits:
            by, scores = score(choosing).tolist(), score(scoring).tolist()
            best_scores.append([compute_expected_best(scores, n, by) for n in range(1, m + 1)])
            errors.append(
                [math.sqrt(float((compute_weights(m, n) ** 2).sum()) / len(scoring)) for n in range(1, m + 1)]
            )
        fresh = np.mean(best_scores, axis=0)
        # The mean of estimates is at most as uncertain as each of them, so the interval is conservative.
        half = quantile(degrees) * noise * np.mean(errors, axis=0)
    printed = [tuple(-sign * float(v) for v in row) for row in (seen, fresh)]
    return BestOfN(name, m, printed[0], printed[1], tuple(map(float, half)))


def halves(count: int) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return (indices for selection, indices for scoring) for every split of seeds into halves; empty for one seed.

    >>> halves(2)
    [((0,), (1,)), ((1,), (0,))]
    """
    if count < 2:
        return []
    every = tuple(range(count))
    sides = [s for size in {count // 2, count - count // 2} for s in itertools.combinations(every, size)]
    if len(sides) > MOST_SPLITS:
        sides = [every[: count // 2], every[count // 2 :]]
    return [(side, tuple(i for i in every if i not in side)) for side in sides]


def pool_std(table: F64) -> tuple[float, int]:
    """Return the standard deviation over seeds, pooled over the settings of a decoder, and its degrees of freedom."""
    degrees = table.shape[0] * (table.shape[1] - 1)
    squares = float(((table - table.mean(axis=1, keepdims=True)) ** 2).sum())
    return math.sqrt(squares / degrees), degrees


def quantile(degrees: int) -> float:
    """Return Student's two-sided 95 % quantile."""
    from scipy.stats import t

    return float(t.ppf((1 + LEVEL) / 2, degrees))
