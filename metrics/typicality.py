"""Tail typicality: how far out model texts lie in the distribution of human texts (FMTyp).

    p(x) = share of human texts whose squared Mahalanobis distance is at least that of x;  typicality = mean of p(x)

The distance is from the human mean, with the Ledoit-Wolf covariance of the human vectors: 34 surface features
(standardized by both sides together) or embeddings. From 0 to 1; nearest to the value of other human texts is best,
which is below 1/2, because mean and covariance are estimated from the human texts themselves. Each relabeling of the
two-sided permutation test estimates the covariance again.

Source: FMTyp-p of dLMbench; Ledoit and Wolf 2004, "A well-conditioned estimator for large-dimensional covariance
matrices".
"""

import numpy as np

from openended.harness.core import F64, Features, Floats, MetricResult, Plan, Weights, metric
from openended.metrics._embeddings.blocks import check_sides
from openended.metrics.families import FeatureSpaceMetric, PermutationMetric, ReplicatesByName


def typicality(*, human: Floats, model: Floats) -> float:
    """Compute the mean tail probability of model vectors among human ones (FMTyp-p of dLMbench).

    Args:
        human: Vectors of human texts, shape (n_human, d), n_human >= 2, finite.
        model: Vectors of model texts, shape (n_model, d), n_model >= 2.

    Returns:
        The mean, in [0, 1]; for exchangeable sides about 1/2 if n_human is far larger than d, less otherwise.

    Raises:
        UndefinedMetric: If a side has fewer than two texts.
        ValueError: If the sides differ in dimension, or a number is not finite or too large to be multiplied.
    """
    human, model = check_sides(human=human, model=model, multiplied=True)
    return float(_compute_p(np.asarray(human, np.float64), np.asarray(model, np.float64)).mean())


def _compute_distances(human: F64, model: F64) -> tuple[F64, F64]:
    """Return the squared Mahalanobis distances of human and of model rows from the human mean."""
    from sklearn.covariance import ledoit_wolf

    center = human.mean(axis=0)
    values, axes = np.linalg.eigh(ledoit_wolf(human)[0])
    scale = np.where(values > 1e-12 * max(float(values[-1]), 1e-300), values, np.inf)  # no variance: no distance
    first, second = (((side - center) @ axes) ** 2 @ (1 / scale) for side in (human, model))
    return first, second


def _compute_p(human: F64, model: F64) -> F64:
    """Return the tail probability of each model row."""
    return _compute_tail_probabilities(*_compute_distances(human, model))


def _compute_tail_probabilities(human: F64, model: F64) -> F64:
    """Return the share of human distances that are at least as large as each model distance."""
    return 1.0 - np.searchsorted(np.sort(human), model, side="left") / len(human)


@metric
class Typicality(PermutationMetric, FeatureSpaceMetric):
    """Mean tail probability of the texts in the distribution of human texts (FMTyp-p of dLMbench)."""

    name = "typicality"
    version = 2
    direction = "match_human"
    bounds = (0.0, 1.0)
    resampling = "bootstrap"
    titles = {"typicality": "Typicality", "p_value": "Typ. p"}
    tails = 2

    permutations: int = 200
    """Relabelings for the p-value; 0: no p-value; each estimates a covariance."""

    def prepare(self, features: Features) -> F64:
        return np.concatenate(self.pair(features, multiplied=True)).astype(np.float64)

    def score(self, prepared: F64, first: Weights, second: Weights, /) -> dict[str, F64]:
        sets = zip(first > 0, second > 0, strict=True)
        return {self.name: np.array([_compute_p(prepared[human], prepared[model]).mean() for human, model in sets])}

    def evaluate(self, features: Features, prepared: F64) -> MetricResult:
        rows = _compute_p(*np.split(prepared, [len(features.human)]))
        return self.test(features, prepared, rows)

    def resample(self, features: Features, result: MetricResult, plan: Plan, prepared: F64) -> ReplicatesByName:
        """Resample the texts of both sides, for the covariance as it is."""
        human, model = _compute_distances(*np.split(prepared, [len(features.human)]))
        above = np.searchsorted(np.sort(model), human, side="right") / len(model)
        influences = above, _compute_tail_probabilities(human, model)
        parts = zip(self.list_rows(features, prepared), influences, strict=True)
        return {self.name: plan.linear(result.values[self.name], *parts)}
