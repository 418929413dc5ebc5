"""Gradient moment: squared distance of the mean gradients of the scorer's loss on model and on human texts.

    GM = | E_model g(x) - E_human g(x) |^2,  g(x) = gradient of the mean token loss of text x by the scorer's parameters

Measures whether a training step on the model's texts would move the scorer as human texts would; 0 in expectation for
texts of one source, lower is better. The squared norm of a difference of means is too large by the variances of the
means; here the unbiased estimate is computed, so it can be below 0:

    GM = mean over i != j of g_i . g_j  +  the same of the human side  -  2 mean over i, j of g_i . h_j

Gradients are replaced by sketches of `size` numbers whose inner products have the same expectation.

Source: Hoogeboom et al. 2026 (arXiv 2603.20155), equation 13. Variants: the plug-in estimate, which grows as n falls
(dLMbench); exact gradients. `p_value` is that of the permutation test over texts.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from openended.harness.core import F64, Features, Floats, MetricResult, Need, Plan, Replicates, metric, ranged
from openended.metrics._embeddings.blocks import check_sides
from openended.metrics.families import ReplicatesByName, TwoSample


def gradient_moment(*, human: Floats, model: Floats) -> float:
    """Compute the unbiased squared distance of two mean gradients (Hoogeboom et al. 2026, eq. 13, without its bias).

    Args:
        human: Gradients (or sketches) of the losses of human texts, shape (n_human, d), n_human >= 2.
        model: The same of model texts, shape (n_model, d), n_model >= 2.

    Returns:
        The estimate; below 0 as often as above for texts of one source.

    Raises:
        ValueError: If shapes do not fit or a number is not finite.
        UndefinedMetric: If a side has fewer than two texts.

    >>> gradient_moment(human=np.array([[1.0], [3.0]]), model=np.array([[0.0], [0.0]]))
    3.0
    """
    human, model = check_sides(human=human, model=model)
    ones = np.ones((1, len(human))), np.ones((1, len(model)))
    return float(_estimate_moments(np.asarray(human, np.float64), np.asarray(model, np.float64), *ones)[0])


def _estimate_moments(human: F64, model: F64, human_marks: F64, model_marks: F64) -> F64:
    """Return the estimate for each row of indicators of human and of model texts, shapes (draws, n)."""
    sums, within, counts = [], [], []
    for rows, marks in ((human, human_marks), (model, model_marks)):
        total, count = marks @ rows, marks.sum(axis=1)
        squares = marks @ np.einsum("ij,ij->i", rows, rows)
        within.append((np.einsum("ij,ij->i", total, total) - squares) / (count * (count - 1)))
        sums.append(total)
        counts.append(count)
    cross: F64 = np.einsum("ij,ij->i", sums[0], sums[1]) / (counts[0] * counts[1])
    moments: F64 = within[0] + within[1] - 2 * cross
    return moments


@metric
class GradientMoment(TwoSample):
    """Squared distance of the mean gradients of the scorer's loss on both sides, and its permutation p-value."""

    name = "gradient_moment"
    direction = "lower"
    bounds = (-np.inf, np.inf)
    titles = {"gradient_moment": "Grad. moment", "p_value": "Grad. p"}
    directions = {"p_value": "none"}
    targets = {"gradient_moment": 0.0}  # unbiased

    size: int = ranged(4096, "[16, inf)", "16 numbers or more")  # per sketch: inner products within about 2 %
    permutations: int = ranged(1000, "[0, inf)", "0 (no p-value) or more")

    def needs(self) -> tuple[Need, ...]:
        return (Need("gradients", by="scorer", options=(("size", self.size),)),)

    def prepare(self, features: Features) -> tuple[F64, F64]:
        human, model = self.pair(features)
        return np.asarray(human, np.float64), np.asarray(model, np.float64)

    def compute(self, features: Features, prepared: tuple[F64, F64] | None = None) -> MetricResult:
        human, model = prepared or self.prepare(features)
        value = gradient_moment(human=human, model=model)
        rows = np.concatenate([human, model])

        def estimate(labels: NDArray[np.bool_]) -> F64:
            marks = labels.astype(np.float64)
            marks = marks[(marks.sum(axis=1) > 1) & (marks.sum(axis=1) < len(rows) - 1)]  # two texts on either side
            return _estimate_moments(rows, rows, marks, 1.0 - marks)

        p_value = self.test_permutations(features, self.permutations, value, estimate)
        return self.result(features, "gradient_moment", {"gradient_moment": value, **p_value})

    def replicates(
        self, features: Features, result: MetricResult, plan: Plan, prepared: tuple[F64, F64] | None = None
    ) -> ReplicatesByName:
        """Compute the estimate of halves."""
        human, model = prepared or self.prepare(features)
        first, second = (half.astype(np.float64) for half in self.halves(features, plan))
        draws = [_estimate_moments(human, model, *marks) for marks in ((first, second), (1.0 - first, 1.0 - second))]
        return {"gradient_moment": Replicates(np.stack(draws))}
