"""Sparsemax score: how near Q comes to the true next token, for distributions with zeros too.

    SP = mean over positions of  Q(y) + (1 - sum_v Q(v)^2) / 2

Measures fit and calibration at once (a Brier score turned round); in [0, 1], dimensionless, higher is better: 1 where
Q is the one-hot of the true token, 0 where it is a one-hot elsewhere, near 1/2 for a uniform Q over many tokens.
Teacher-forced: Q is the decoder's truncated and renormalized distribution on human text.

Source: Martins et al. 2020, "Sparse text generation", section 4; Pillutla et al. 2021, Table 3. Variants: one
minus half the squared distance, 1 - (|Q|^2 / 2 - Q(y) + 1 / 2), is the same number; averages over blocks of 512 tokens
(released code of Martins et al.) differ from our average over all tokens where the blocks differ in length.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from openended.harness.core import Direction, Features, MetricResult, UndefinedMetric, register
from openended.metrics.families import TeacherForced, mean_by_row, probabilities


def sparsemax_score(gold_prob: ArrayLike, sum_sq: ArrayLike) -> float:
    """Mean sparsemax score.

    Args:
        gold_prob: Q of the true tokens, shape (n,).
        sum_sq: Sums over the vocabulary of Q squared, shape (n,).

    Returns:
        In [0, 1]; higher is better.

    Raises:
        UndefinedMetric: If there is no token.
        ValueError: If the shapes differ or a value is no probability.

    Source: Martins et al. 2020.

    >>> sparsemax_score([0.5, 0.0], [0.5, 1.0])
    0.375
    """
    p, squares = probabilities(gold_prob, "gold_prob"), probabilities(sum_sq, "sum_sq")
    if p.shape != squares.shape:
        raise ValueError(f"expected one sum of squares a token, got {p.shape} and {squares.shape}")
    return float((p + 0.5 * (1.0 - squares)).mean())


@register("metric")
@dataclass(frozen=True, kw_only=True)
class SparsemaxScore(TeacherForced):
    """Mean sparsemax score of Q on human text."""

    name: ClassVar[str] = "sparsemax_score"
    version: ClassVar[int] = 1
    direction: ClassVar[Direction] = "higher"
    bounds: ClassVar[tuple[float, float]] = (0.0, 1.0)
    titles: ClassVar[dict[str, str]] = {"sparsemax_score": "SP"}

    def compute(self, features: Features) -> MetricResult:
        """Compute the score."""
        stats = self.statistics(features)
        if np.isnan(stats.sum_sq).any():
            raise UndefinedMetric("needs the squares of the whole Q; a server lists its best tokens alone")
        value = sparsemax_score(stats.gold_prob, stats.sum_sq)
        by_row = mean_by_row(stats.gold_prob + 0.5 * (1.0 - stats.sum_sq), stats.offsets)
        return self.result(features, self.name, {self.name: value}, per_example={self.name: by_row})
