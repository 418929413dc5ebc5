"""Clipped density and clipped coverage: k-NN fidelity and diversity that fall linearly with the share of bad texts.

    a_j = min(1, #{i : |x_i - y_j| <= r_i} / k),  r_i = min(R_i, median of R)
    clipped density  = min(1, mean of a_j over model texts y / the same mean over human texts, own balls left out)
    clipped coverage = f^-1(mean over human texts of min(1, #{j : |x_i - y_j| < R_i} / k))

R_i is the distance of human text x_i to its k-th human neighbor. f(m) is the expected mean if m of the M model texts
have the human distribution and the others are nowhere near: f(m) = (1/k) sum_j min(j, k) C(m, j) B(k + j, N + m - k -
j) / B(k, N - k). Coverage is the number of values f(0), f(1), … f(M) below the observed mean, over M + 1. So both
values are about 1 - b if a share b of the model texts is bad. Both are in [0, 1], higher is better.

Source: Salvy, Talbot and Thirion 2026, "Enhanced generative model evaluation with clipped density and coverage" (arXiv
2507.01761), k = 5. Rows are taken as they are.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from openended.harness import core
from openended.harness.core import F64, I64, Features, Floats, MetricResult, Plan, UndefinedMetric, check_arguments
from openended.metrics._embeddings import neighbors
from openended.metrics._embeddings.blocks import check_sides
from openended.metrics._embeddings.neighbors import DistancePoints, NearestPoints, Points, center_points
from openended.metrics.families import Mask, ReplicatesByName, TwoSample, Values, align_values


@check_arguments
def clipped_density_coverage(*, human: Floats, model: Floats, k: int = 5) -> Values:
    """Compute clipped density and clipped coverage (Salvy, Talbot and Thirion 2026).

    Args:
        human: Embeddings of human texts, shape (n_human, d), n_human > k + 1, finite.
        model: Embeddings of model texts, shape (n_model, d), n_model > k.
        k: The neighbor whose distance is the radius of a ball, at least 1.

    Returns:
        `clipped_density`, the share of model texts that are where human texts are, and `clipped_coverage`, the share of
        good model texts that would cover as much of the human texts; both in [0, 1].

    Raises:
        UndefinedMetric: If a side has too few texts, or no human text is near another one.
        ValueError: If the sides differ in dimension, or a number is not finite.
    """
    human, model = check_sides(human=human, model=model, least=k + 1)
    return _compute(*center_points(human, model), k)[0]


def _compute(human: DistancePoints, model: DistancePoints, k: int) -> tuple[Values, F64]:
    """Return the values, and how often each model text counts in the density, whose mean is the uncut one."""
    n, m = len(human.fast), len(model.fast)
    if n < k + 2:
        raise UndefinedMetric(f"needs at least {k + 2} human texts; there are {n}")
    full, unused = neighbors.radii(human, k), np.zeros(m)
    clipped = np.minimum(full, neighbors.median_radius(full))
    balls = neighbors.count_balls(human, model, clipped, unused, closed=True).human_balls
    human_share = _clip(neighbors.count_balls(human, human, clipped, clipped, closed=True).human_balls - 1, k)
    if human_share == 0:
        raise UndefinedMetric("no human text is in the ball of another one")
    members = neighbors.count_balls(human, model, full, unused, closed=False).members
    return Values(
        clipped_density=min(1.0, _clip(balls, k) / human_share),
        clipped_coverage=_calibrate(_clip(members, k), compute_expected_shares(n, m, k)),
    ), np.minimum(balls, k) / k / human_share


def _clip(counts: I64, k: int) -> float:
    return float(np.minimum(counts, k).mean() / k)


def compute_expected_shares(num_human: int, num_model: int, k: int) -> F64:
    """Return f(0), …, f(M), shape (M + 1,): the expected share of neighbors inside human balls if m texts are good.

    A ball holds a share of the distribution that is Beta(k, N - k), so the number of m good texts in it is
    beta-binomial. sum_j min(j, k) P(j) = k - sum_{j < k} (k - j) P(j) needs only the first k terms.
    """
    from scipy.special import betaln, gammaln

    m = np.arange(num_model + 1, dtype=np.float64)
    missing = np.zeros(num_model + 1)
    for j in range(k):
        possible = np.maximum(m, j)  # j of fewer than j texts: not possible, set to 0 below
        choose = gammaln(possible + 1) - gammaln(j + 1) - gammaln(possible - j + 1)
        probability = np.exp(choose + betaln(k + j, num_human + possible - k - j) - betaln(k, num_human - k))
        missing += (k - j) * np.where(m >= j, probability, 0.0)
    return np.maximum(1.0 - missing / k, 0.0)


def _calibrate(share: float, expected: F64) -> float:
    """Return the number of expected shares below the observed one, over their number."""
    return float(np.searchsorted(expected, share - 1e-12) / len(expected))


@core.metric
class ClippedDensityCoverage(TwoSample):
    """k-NN fidelity and diversity that fall linearly with the share of bad texts, by an embedder."""

    name = "clipped_density_coverage"
    version = 2
    direction = "higher"
    bounds = (0.0, 1.0)
    titles = {"clipped_density": "Clipped density", "clipped_coverage": "Clipped coverage"}

    most = 50_000  # all pairs, as knn_precision_recall
    k: int = core.ranged(5, "[1, inf)", "at least 1")
    """Neighbor that sets the radius; Salvy et al. 2026."""

    def explain_too_few(self, num_human: int, num_model: int) -> str:
        return neighbors.explain_few_neighbors(self.k, type(self).k, min(num_human - 1, num_model))

    def prepare(self, features: Features) -> Points:
        human, model = self.pair(features)
        return center_points(*check_sides(human=human, model=model, least=self.k + 1))

    def evaluate(self, features: Features, prepared: Points) -> MetricResult:
        values, rows = _compute(*prepared, self.k)
        by_text = {"clipped_density": align_values(features.model, rows)}
        return self.result(features, "clipped_density", values, per_example=by_text)

    def score(self, prepared: Points, human: core.Weights, model: core.Weights, /) -> Mapping[str, F64]:
        """Return the values of subsets before they are cut at 1: an interval that ends there would be too narrow."""
        sizes = int(np.count_nonzero(human[0])), int(np.count_nonzero(model[0]))
        if sizes[0] < self.k + 2:
            return {}
        near, expected = NearestPoints(*prepared, self.k), compute_expected_shares(*sizes, self.k)
        out = {name: np.full(len(human), np.nan) for name in ("clipped_density", "clipped_coverage")}
        for number, (in_human, in_model) in enumerate(zip(human > 0, model > 0, strict=True)):
            if min(np.count_nonzero(in_human), np.count_nonzero(in_model)) <= self.k:
                continue
            radius = near.find_radii(in_human)
            median = np.float32(neighbors.median_radius(radius[in_human]))
            clipped = np.where(in_human, np.minimum(radius, median), np.float32(-1.0))
            inside = in_model[near.other] & (near.apart <= clipped[near.ball])
            model_share = self._clip_counts(near.other[inside], in_model)
            in_ball = in_human[near.index] & (near.squared <= clipped[:, None])
            human_share = self._clip_counts(near.index[in_ball], in_human)
            out["clipped_density"][number] = model_share / human_share if human_share else np.nan
            inside = in_model[near.other] & (near.apart < radius[near.ball])
            covered = self._clip_counts(near.ball[inside], in_human)
            # In a straight line where more is covered than all good texts would.
            beyond = max(covered - float(expected[-1]), 0.0) / float(expected[-1] - expected[-2])
            out["clipped_coverage"][number] = _calibrate(covered, expected) + beyond / len(expected)
        return out

    def _clip_counts(self, points: I64, in_side: Mask) -> float:
        """Return the mean over the points of a side of min(1, how often each is listed / k)."""
        return _clip(np.bincount(points, minlength=len(in_side))[in_side], self.k)

    def resample(self, features: Features, result: MetricResult, plan: Plan, prepared: Points) -> ReplicatesByName:
        """Move the replicates to the value before the cut, and cut them."""
        uncut = self.score(prepared, *(np.ones((1, len(side.fast))) for side in prepared))
        out = super().resample(features, result, plan, prepared)
        return {k: replace(r, draws=np.minimum(r.draws - r.draws.mean() + uncut[k], 1.0)) for k, r in out.items()}
