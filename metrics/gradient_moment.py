"""Gradient moment: squared distance of the mean gradients of the scorer's loss on model and on human texts.

    GM = | E_model g(x) - E_human g(x) |^2,  g(x) = gradient of the mean token loss of text x by the scorer's parameters

The squared norm of a difference of means is too large by the variances of the means; here the unbiased estimate is
computed, 0 in expectation for texts of one source, so it can be below 0; lower is better:

    GM = mean over i != j of g_i . g_j  +  the same of the human side  -  2 mean over i, j of g_i . h_j

Source: Hoogeboom et al. 2026 (arXiv 2603.20155), equation 13. Variants: the plug-in estimate, which grows as n falls
(dLMbench); exact gradients in place of sketches, whose inner products have the same expectation.
"""

import numpy as np

from openended.harness.core import F64, Features, Floats, MetricResult, Need, Weights, metric, ranged
from openended.metrics._embeddings.blocks import check_sides
from openended.metrics.families import PermutationMetric, mark_sides


def gradient_moment(*, human: Floats, model: Floats) -> float:
    """Compute the unbiased squared distance of two mean gradients (Hoogeboom et al. 2026, eq. 13, without its bias).

    Args:
        human: Gradients of the losses of human texts, or their sketches, shape (n_human, d), n_human >= 2, finite.
        model: The same of model texts, shape (n_model, d), n_model >= 2.

    Returns:
        The estimate in squared units of the gradients; below 0 as often as above for texts of one source.

    Raises:
        UndefinedMetric: If a side has fewer than two texts.
        ValueError: If the sides differ in dimension, or a number is not finite or too large to be multiplied.
    """
    human, model = check_sides(human=human, model=model, multiplied=True)
    rows = np.concatenate([human, model]).astype(np.float64)
    return float(_estimate_moments(rows, *mark_sides(len(human), len(model)))[0])


def _estimate_moments(rows: F64, first: F64, second: F64) -> F64:
    """Return the estimate for each row of indicators of two sets of texts, shapes (draws, texts)."""
    sums, within, counts = [], [], []
    norms = np.einsum("ij,ij->i", rows, rows)
    for marks in (first, second):
        total, count = marks @ rows, marks.sum(axis=1)
        within.append((np.einsum("ij,ij->i", total, total) - marks @ norms) / (count * (count - 1)))
        sums.append(total)
        counts.append(count)
    cross: F64 = np.einsum("ij,ij->i", sums[0], sums[1]) / (counts[0] * counts[1])
    moments: F64 = within[0] + within[1] - 2 * cross
    return moments


@metric
class GradientMoment(PermutationMetric):
    """Squared distance of the mean gradients of the scorer's loss, without bias (Hoogeboom et al. 2026)."""

    name = "gradient_moment"
    family = "two_sample"
    bounds = (-np.inf, np.inf)
    titles = {"gradient_moment": "Grad. moment", "p_value": "Grad. p"}
    targets = {"gradient_moment": 0.0}  # unbiased

    size: int = ranged(4096, "[16, inf)", "16 numbers or more")
    """Numbers of a gradient's sketch: inner products within about 2 %."""

    def needs(self) -> tuple[Need, ...]:
        return (Need("gradients", by="scorer", options=(("size", self.size),)),)

    def prepare(self, features: Features) -> F64:
        return np.concatenate(self.pair(features, multiplied=True)).astype(np.float64)

    def score(self, prepared: F64, first: Weights, second: Weights, /) -> dict[str, F64]:
        return {self.name: _estimate_moments(prepared, first, second)}

    def evaluate(self, features: Features, prepared: F64) -> MetricResult:
        human, model = np.split(prepared, [len(features.human)])
        norms = [np.einsum("ij,ij->i", side, side) for side in (human, model)]
        sums = human.sum(axis=0), model.sum(axis=0)
        within = (sums[0] @ sums[0] - norms[0].sum()) / (len(human) * (len(human) - 1))
        to_model, to_human = (model @ sums[1] - norms[1]) / (len(model) - 1), model @ sums[0] / len(human)
        return self.test(features, prepared, to_model - 2 * to_human + within)
