"""Summaries of a divergence frontier from an estimate of log p / q at the texts of both sides.

With the density ratio r = p / q and a mixture R = λ P + (1 - λ) Q, both divergences are means of what is bounded above:

    KL(P || R) = E_P ln(r / (λ r + 1 - λ))  in [0, -ln λ]
    KL(Q || R) = E_Q ln(1 / (λ r + 1 - λ))  in [0, -ln(1 - λ)]

so an estimate of r that is wrong at a few texts spoils none of them. A mean outside its range is set to the nearer end
and counted: below 0 the two sides look alike to the estimator, or it cannot see how they differ.

The frontier integral is 2 ∫ λ KL(P || R) + (1 - λ) KL(Q || R) dλ = E_P g(r) + E_Q g(1 / r) with
g(r) = 1/2 - 1 / (r - 1) + ln r / (r - 1)^2, each mean in [0, 1/2].

Source: Liu et al. 2021, "Divergence frontiers for generative models", Definitions 1 and 2; Pillutla et al. 2023, "MAUVE
scores for generative models" (estimation by density ratios). The closed form of g is ours.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from openended.harness.core import F64
from openended.metrics._mauve.histograms import Curve, curve_area, curve_through, mixture_weights

_NEAR = 1e-3  # where |ln r| is below, g is taken from its series: the closed form cancels


@dataclass(frozen=True, slots=True, eq=False)
class FrontierScores:
    """One frontier."""

    area: float
    """Area under the divergence curve, in [0, 1]."""
    js: float
    """Jensen-Shannon divergence, nats, in [0, ln 2]."""
    integral: float
    """Frontier integral, in [0, 1]."""
    curve: F64
    """Shape (curve_points + 2, 2)."""
    clipped: int
    """Means that fell outside their range."""
    means: int
    """Means that were taken."""


class RatioMeans:
    """Means over both sides of functions of log p / q, each kept in its range."""

    def __init__(self, human: F64, model: F64) -> None:
        self._human, self._model = human, model
        self.clipped = 0
        self.means = 0

    def kl_human(self, weight: float) -> float:
        """Return KL(P || λ P + (1 - λ) Q), nats."""
        # r / (λ r + 1 - λ) = 1 / (λ + (1 - λ) / r)
        terms = -np.logaddexp(np.log(weight), np.log1p(-weight) - self._human)
        return self._truncate(terms, -float(np.log(weight)))

    def kl_model(self, weight: float) -> float:
        """Return KL(Q || λ P + (1 - λ) Q), nats."""
        terms = -np.logaddexp(np.log1p(-weight), np.log(weight) + self._model)
        return self._truncate(terms, -float(np.log1p(-weight)))

    def integral(self) -> float:
        """Return the frontier integral."""
        return self._truncate(_compute_half_integral(self._human), 0.5) + self._truncate(
            _compute_half_integral(-self._model), 0.5
        )

    def _truncate(self, terms: F64, most: float) -> float:
        mean = float(np.mean(terms, dtype=np.float64))
        self.means += 1
        # Ignore rounding errors of equal sides.
        self.clipped += not -1e-12 <= mean <= most + 1e-12
        return min(max(mean, 0.0), most)


def _compute_half_integral(log_ratio: F64) -> F64:
    """Compute the function g of the module docstring at ln r; at most 1/2."""
    near = np.abs(log_ratio) < _NEAR
    safe = np.where(near, 1.0, np.clip(log_ratio, -700, 700))
    gap = np.expm1(safe)
    # From r = 1 + a: ln(1 + a) / a^2 = 1 / a - 1/2 + a / 3 - a^2 / 4 + …
    small = np.expm1(np.where(near, log_ratio, 0.0))
    return np.where(near, small / 3 - small**2 / 4, 0.5 - 1 / gap + safe / gap / gap)


def frontier_scores(human: F64, model: F64, *, scaling_factor: float, points: int, curve: Curve) -> FrontierScores:
    """Return curve and summaries from log p / q at the human and at the model texts."""
    means = RatioMeans(human, model)
    path = curve_through(
        [(means.kl_model(w), means.kl_human(w)) for w in mixture_weights(points, curve)], scaling_factor
    )
    js = (means.kl_human(0.5) + means.kl_model(0.5)) / 2
    integral = means.integral()
    return FrontierScores(curve_area(path), js, integral, path, means.clipped, means.means)
