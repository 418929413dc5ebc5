"""Sparsemax score: how near Q comes to the true next token, for distributions with zeros too.

    SP = mean over positions of  Q(y) + (1 - sum_v Q(v)^2) / 2

A Brier score turned round, in [0, 1], higher is better: 1 where Q is the one-hot of the true token, 0 where it is a
one-hot elsewhere. Q is the decoder's truncated and renormalized distribution on human text.

Source: Martins et al. 2020, "Sparse text generation", section 4; Pillutla et al. 2021, Table 3. Variants: averages over
blocks of 512 tokens (released code of Martins et al.) differ from our average over all tokens where the blocks differ
in length.
"""

import numpy as np
from numpy.typing import ArrayLike

from openended.harness.core import F64, Features, UndefinedMetric, metric
from openended.metrics.families import PositionValues, TeacherForced, probabilities, read_next_token


def sparsemax_score(gold_prob: ArrayLike, sum_sq: ArrayLike) -> float:
    """Compute the mean sparsemax score of Q (Martins et al. 2020).

    Args:
        gold_prob: Q of the true tokens, shape (n,), in [0, 1].
        sum_sq: Sums over the vocabulary of Q squared, shape (n,), in [0, 1].

    Returns:
        The score, in [0, 1], dimensionless; higher is better.

    Raises:
        UndefinedMetric: If there is no token.
        ValueError: If a number is no probability, or the two differ in shape.
    """
    return float(_compute_by_token(gold_prob, sum_sq).mean())


def _compute_by_token(gold_prob: ArrayLike, sum_sq: ArrayLike) -> F64:
    p, squares = probabilities(gold_prob, "gold_prob"), probabilities(sum_sq, "sum_sq")
    if p.shape != squares.shape:
        raise ValueError(f"expected one sum of squares per token, got {p.shape} and {squares.shape}")
    return p + 0.5 * (1.0 - squares)


@metric
class SparsemaxScore(TeacherForced):
    """How near the decoder's own Q comes to the true next token (Martins et al. 2020); teacher-forced."""

    name = "sparsemax_score"
    direction = "higher"
    bounds = (0.0, 1.0)
    titles = {"sparsemax_score": "SP"}

    def prepare(self, features: Features) -> PositionValues:
        stats = read_next_token(features)
        if np.isnan(stats.sum_sq).any():
            raise UndefinedMetric("needs the squares of the whole Q; a server lists its best tokens alone")
        return stats.offsets, {self.name: _compute_by_token(stats.gold_prob, stats.sum_sq)}
