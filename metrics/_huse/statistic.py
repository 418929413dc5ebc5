"""The statistic of HUSE: texts as points (mean rating, log p a word) and the discriminator's errors on them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from openended.harness.core import F64, I64, UndefinedMetric
from openended.metrics._huse.nearest_neighbors import Ties, VoteTie, compute_scale, knn_margins, margins_to_errors


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """How the discriminator decides; defaults as in the released code (see `openended.metrics.huse`)."""

    k: int = 16
    """Neighbors before ties are added."""
    ties: Ties = "include"
    vote_tie: VoteTie = "human"
    log_prob_floor: float | None = -1000.0
    """Nats that replace −inf; none: −inf leaves HUSE undefined."""


@dataclass(frozen=True, slots=True, eq=False)
class HusePoints:
    """Texts in the plane of HUSE."""

    raw: F64
    """Mean rating and log-probability a word, finite, shape (n, 2)."""
    is_model: NDArray[np.bool_]
    """Shape (n,)."""
    mean: F64
    """Of both columns, shape (2,)."""
    spread: F64
    """Population standard deviations, positive, shape (2,)."""

    @classmethod
    def build(cls, judgments: F64, log_probs: F64, lengths: F64, is_model: NDArray[np.bool_], rule: Rule) -> HusePoints:
        """Build the points from ratings and log-probabilities."""
        zero = np.isneginf(log_probs)
        if zero.any():
            if rule.log_prob_floor is None:
                raise UndefinedMetric(
                    f"{int(zero.sum())} texts have probability zero under the model and no log_prob_floor is set"
                )
            log_probs = np.where(zero, rule.log_prob_floor, log_probs)
        raw = np.column_stack([judgments, log_probs / lengths])
        scales = [compute_scale(raw[:, i], name) for i, name in enumerate(("rating", "log-probability a word"))]
        return cls(raw, is_model, np.array([s[0] for s in scales]), np.array([s[1] for s in scales]))

    def standardize(self, raw: F64) -> F64:
        """Return points of the plane, shape (m, 2), in the discriminator's units."""
        return (raw - self.mean) / self.spread

    def errors(self, rule: Rule, copies: I64 | None = None) -> tuple[F64, F64]:
        """Return the leave-one-out error per text on both features and on ratings only, each of shape (n,)."""
        both = self.standardize(self.raw)
        on_both, on_ratings = (
            margins_to_errors(
                knn_margins(x, self.is_model, k=rule.k, ties=rule.ties, copies=copies), self.is_model, rule.vote_tie
            )
            for x in (both, both[:, :1])
        )
        return on_both, on_ratings

    def margins_at(self, raw: F64, rule: Rule) -> I64:
        """Return votes for `model` less votes for `human` at points of the plane, shape (m, 2) → (m,)."""
        k = min(rule.k, len(self.raw))
        return knn_margins(
            self.standardize(self.raw), self.is_model, k=k, ties=rule.ties, queries=self.standardize(raw)
        )


def compute_huse(errors: F64) -> float:
    """Return twice the mean error: HUSE of the errors on both features, HUSE-Q of those on ratings."""
    return 2.0 * float(errors.mean())
