"""MAUVE and its kin from the cell of each text or an estimate of log p / q at it; see `openended.metrics.mauve`.

With the density ratio r = p / q and a mixture R = λ P + (1 - λ) Q, both divergences are means of bounded terms:

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

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from openended.harness.core import F64, I64
from openended.metrics._common import Values
from openended.metrics._mauve.histograms import (
    Curve,
    Smoothing,
    best_f,
    curve_area,
    curve_through,
    divergence_curve,
    frontier_integral,
    histogram,
    js_divergence,
    kl_divergence,
    mixture_weights,
    precision_recall,
    row_best_fs,
    row_curve_areas,
    row_frontier_integrals,
    row_kl_divergences,
    smooth,
)

_ANGLES = 1001  # of the precision-recall curve behind F8 and F1/8, as in openended.metrics.precision_recall_curve
_NEAR = 1e-3  # where |ln r| is below, g is taken from its series: the closed form cancels


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MauveResult(Values):
    """One clustering's (or estimate's) scores; a field can also be read as `result["mauve"]`."""

    mauve: float
    """Area under the divergence curve, in [0, 1]."""
    mauve_star: float
    """The same with `kt` smoothing; NaN where nothing was counted."""
    frontier_integral: float
    """In [0, 1], lower is better."""
    frontier_integral_star: float
    """The same with `kt` smoothing; NaN where nothing was counted."""
    divergence_curve: F64
    """Shape (curve_points + 2, 2)."""
    human_hist: F64
    """Share of human texts in each cell, not smoothed, shape (num_buckets,)."""
    model_hist: F64
    """Share of model texts in each cell, not smoothed, shape (num_buckets,)."""
    num_buckets: int
    """Number of cells; 0 where an estimator needs none."""
    js: float
    """Jensen-Shannon divergence, the mid-point of the frontier, nats, in [0, ln 2]."""
    mid_point: float
    """Rectangle under the mid-point of the curve, exp(-2 c js), in [0, 1]."""
    clipped: float
    """Share of an estimator's means that fell outside their range; 0 for cells."""


def mauve_of_cells(
    *,
    human: I64,
    model: I64,
    num_buckets: int,
    scaling_factor: float = 5.0,
    curve: Curve = "uniform",
    curve_points: int = 25,
    smoothing: Smoothing = "none",
    seen_only: bool = False,
) -> MauveResult:
    """Compute MAUVE from the cell of each text, shape (n_human,) and (n_model,).

    `seen_only` leaves out the cells that hold no text of either side, for codes of which most are never used.
    """
    p, q = histogram(human, num_buckets), histogram(model, num_buckets)
    if seen_only:
        seen = (p > 0) | (q > 0)
        p, q = p[seen], q[seen]
    starred = smooth(p, len(human)), smooth(q, len(model))
    smoothed = smooth(p, len(human), smoothing), smooth(q, len(model), smoothing)
    points, star = (
        divergence_curve(*pair, scaling_factor=scaling_factor, curve_points=curve_points, curve=curve)
        for pair in (smoothed, starred)
    )
    js = js_divergence(*smoothed)
    return MauveResult(
        mauve=curve_area(points),
        mauve_star=curve_area(star),
        frontier_integral=frontier_integral(*smoothed),
        frontier_integral_star=frontier_integral(*starred),
        divergence_curve=points,
        human_hist=p,
        model_hist=q,
        num_buckets=len(p),
        js=js,
        mid_point=float(np.exp(-2 * scaling_factor * js)),
        clipped=0,
    )


def histogram_values(
    scores: MauveResult, n_human: int, n_model: int, lambdas: Sequence[float], smoothing: Smoothing = "none"
) -> dict[str, float]:
    """Return every other summary of the same histograms.

    The KL divergences need smoothed histograms to be finite: `kt` where `smoothing` is `none`. The errors at λ are KL
    to λ p + (1 - λ) q: type I from the model (text that humans would not write), type II from the human side (text the
    model misses).
    """
    rule: Smoothing = "kt" if smoothing == "none" else smoothing
    p_star, q_star = smooth(scores.human_hist, n_human, rule), smooth(scores.model_hist, n_model, rule)
    p, q = smooth(scores.human_hist, n_human, smoothing), smooth(scores.model_hist, n_model, smoothing)
    precision, recall = precision_recall(p, q, _ANGLES)
    values = {
        "kl_human_model": kl_divergence(p_star, q_star),
        "kl_model_human": kl_divergence(q_star, p_star),
        "js": scores.js,
        "f8": best_f(precision, recall, 8),
        "f1_8": best_f(precision, recall, 1 / 8),
    }
    for weight in lambdas:
        mixture = weight * p + (1 - weight) * q
        values[f"type_1@{weight:g}"] = kl_divergence(q, mixture)
        values[f"type_2@{weight:g}"] = kl_divergence(p, mixture)
    return values


def resample_mauve(
    p: F64,
    q: F64,
    n_human: float,
    n_model: float,
    *,
    lambdas: Sequence[float],
    smoothing: Smoothing = "none",
    scaling_factor: float,
    curve_points: int,
    curve: Curve,
) -> dict[str, F64]:
    """Return every value of `mauve_of_cells` and `histogram_values` for each pair of rows of histograms, shape (rows,).

    A row of p, shape (rows, cells), is a half of the n_human texts: what `kt` and `laplace` add stays the same share of
    it; the other rules look at the counts of the half itself.
    """
    p_star, q_star = smooth(p, n_human), smooth(q, n_model)
    if smoothing == "kt":
        p, q = p_star, q_star
    elif smoothing != "none":
        part = 1 if smoothing == "laplace" else 2
        p = np.stack([smooth(row, round(n_human / part), smoothing) for row in p])
        q = np.stack([smooth(row, round(n_model / part), smoothing) for row in q])
    p_kl, q_kl = (p_star, q_star) if smoothing == "none" else (p, q)
    middle = (p + q) / 2
    js = (row_kl_divergences(p, middle) + row_kl_divergences(q, middle)) / 2
    f8, f1_8 = row_best_fs(p, q, (8.0, 1 / 8))
    mauve, mauve_star = (
        row_curve_areas(*pair, scaling_factor=scaling_factor, curve_points=curve_points, curve=curve)
        for pair in ((p, q), (p_star, q_star))
    )
    values = {
        "mauve": mauve,
        "mauve_star": mauve_star,
        "frontier_integral": row_frontier_integrals(p, q),
        "frontier_integral_star": row_frontier_integrals(p_star, q_star),
        "kl_human_model": row_kl_divergences(p_kl, q_kl),
        "kl_model_human": row_kl_divergences(q_kl, p_kl),
        "js": js,
        "mid_point": np.exp(-2 * scaling_factor * js),
        "f8": f8,
        "f1_8": f1_8,
    }
    for weight in lambdas:
        mixture = weight * p + (1 - weight) * q
        values[f"type_1@{weight:g}"] = row_kl_divergences(q, mixture)
        values[f"type_2@{weight:g}"] = row_kl_divergences(p, mixture)
    return values


@dataclass(slots=True, eq=False)
class Ratios:
    """An estimate of log p / q in nats, infinite where one side has no density; means of it are kept in their range."""

    human: F64
    """At the human texts, shape (n_human,)."""
    model: F64
    """At the model texts, shape (n_model,)."""
    clipped: int = 0
    """Means so far that fell outside their range."""
    means: int = 0
    """Means that were taken so far."""

    def kl_human(self, weight: float) -> float:
        """Return KL(P || λ P + (1 - λ) Q), nats."""
        # r / (λ r + 1 - λ) = 1 / (λ + (1 - λ) / r)
        terms = -np.logaddexp(np.log(weight), np.log1p(-weight) - self.human)
        return self._average(terms, -float(np.log(weight)))

    def kl_model(self, weight: float) -> float:
        """Return KL(Q || λ P + (1 - λ) Q), nats."""
        terms = -np.logaddexp(np.log1p(-weight), np.log(weight) + self.model)
        return self._average(terms, -float(np.log1p(-weight)))

    def integral(self) -> float:
        """Return the frontier integral."""
        human = self._average(_compute_half_integral(self.human), 0.5)
        return human + self._average(_compute_half_integral(-self.model), 0.5)

    def _average(self, terms: F64, most: float) -> float:
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


def mauve_of_ratios(
    *, human: F64, model: F64, scaling_factor: float = 5.0, curve: Curve = "uniform", curve_points: int = 25
) -> MauveResult:
    """Compute MAUVE from estimates of log p / q at each text, shape (n_human,) and (n_model,)."""
    ratios = Ratios(human, model)
    weights = mixture_weights(curve_points, curve)
    points = curve_through([(ratios.kl_model(w), ratios.kl_human(w)) for w in weights], scaling_factor)
    js = (ratios.kl_human(0.5) + ratios.kl_model(0.5)) / 2
    integral = ratios.integral()
    return MauveResult(
        mauve=curve_area(points),
        mauve_star=float("nan"),
        frontier_integral=integral,
        frontier_integral_star=float("nan"),
        divergence_curve=points,
        human_hist=np.zeros(0),
        model_hist=np.zeros(0),
        num_buckets=0,
        js=js,
        mid_point=float(np.exp(-2 * scaling_factor * js)),
        clipped=ratios.clipped / ratios.means,
    )


def ratio_values(scores: MauveResult, human: F64, model: F64, lambdas: Sequence[float]) -> dict[str, float]:
    """Return further values of the same estimates: the errors at each λ, as in `histogram_values`."""
    ratios = Ratios(human, model)
    values = {"js": scores.js}
    for weight in lambdas:
        values[f"type_1@{weight:g}"] = ratios.kl_model(weight)
        values[f"type_2@{weight:g}"] = ratios.kl_human(weight)
    return values
