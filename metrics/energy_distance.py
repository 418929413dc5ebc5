"""Energy distance of model texts from human texts, on surface features or embeddings.

    D = 2 E|X - Y| - E|X - X'| - E|Y - Y'|,  means over all pairs, a text with itself included

Unbounded above, lower is better. It is 0 only for equal sets: for two sets of one distribution it is a little above 0,
and falls as 1 / n. Surface features (34, without a model) are standardized by both sides together: by the human side
alone, as in dLMbench, relabelings would not be exchangeable. Embeddings are taken as they are.

Source: Székely and Rizzo 2013, "Energy statistics: a class of statistics based on distances"; the surface features
and the use for language models: dLMbench. Variants: the square root of D; the unbiased estimate, which can be negative.
"""

import numpy as np

from openended.harness.core import F64, Features, Floats, MetricResult, Weights, metric
from openended.metrics._embeddings.blocks import check_sides
from openended.metrics.families import FeatureSpaceMetric, PermutationMetric, mark_sides


def energy_distance(*, human: Floats, model: Floats) -> float:
    """Compute the energy distance of two sets of vectors (Székely and Rizzo 2013).

    Args:
        human: Vectors of human texts, shape (n_human, d), n_human >= 1, finite.
        model: Vectors of model texts, shape (n_model, d), n_model >= 1.

    Returns:
        The distance, from 0 up, in the unit of the vectors; 0 only for equal sets.

    Raises:
        UndefinedMetric: If a side is empty.
        ValueError: If the sides differ in dimension, or a number is not finite or too large to be multiplied.
    """
    human, model = check_sides(human=human, model=model, least=1, multiplied=True)
    return float(_compute_energies(_compute_distances(human, model), *mark_sides(len(human), len(model)))[0])


def _compute_distances(human: Floats, model: Floats) -> F64:
    """Return Euclidean distances of all rows of both sides, human rows first."""
    from scipy.spatial.distance import cdist

    rows = np.concatenate([human, model]).astype(np.float64)
    return cdist(rows, rows)


def _compute_energies(distances: F64, first: F64, second: F64) -> F64:
    """Return the energy distance for each row of indicators of two sets of texts, shapes (draws, texts)."""
    n, m = first.sum(axis=1), second.sum(axis=1)
    to_first, to_second = first @ distances, second @ distances
    cross = (to_first * second).sum(axis=1) / (n * m)
    within = (to_first * first).sum(axis=1) / n**2 + (to_second * second).sum(axis=1) / m**2
    energies: F64 = np.maximum(2 * cross - within, 0.0)
    return energies


@metric
class EnergyDistance(PermutationMetric, FeatureSpaceMetric):
    """Energy distance of two sets of texts, on 34 surface features or on embeddings (Székely and Rizzo 2013)."""

    name = "energy_distance"
    synonyms = ("energy",)
    version = 2
    titles = {"energy_distance": "Energy", "p_value": "Energy p"}

    def prepare(self, features: Features) -> F64:
        return _compute_distances(*self.pair(features, multiplied=True))

    def score(self, prepared: F64, first: Weights, second: Weights, /) -> dict[str, F64]:
        return {self.name: _compute_energies(prepared, first, second)}

    def evaluate(self, features: Features, prepared: F64) -> MetricResult:
        n = len(features.human)
        to_human, to_model = prepared[n:, :n].mean(axis=1), prepared[n:, n:].mean(axis=1)
        return self.test(features, prepared, 2 * to_human - to_model - prepared[:n, :n].mean())
