"""Perplexity of Q on human text.

    PPL = exp( - mean over positions of log Q(y) )

Measures how well the decoder's own distribution predicts human text; from 1 up, in tokens, lower is better. For
`ancestral` it is the model's perplexity. A truncated Q is zero on some human tokens as a rule, and then has none: see
eps_ppl.

Source: Jelinek et al. 1977; Holtzman et al. 2020, section 5.1. Variants: the same over prompt and continuation
(released code of Pillutla et al. 2021); ours scores the continuation given the prompt.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from openended.harness.core import Direction, Features, MetricResult, UndefinedMetric, register
from openended.metrics.families import TeacherForced, mean_by_row, probabilities


def ppl(gold_prob: ArrayLike) -> float:
    """Perplexity from the probabilities of the true tokens.

    Args:
        gold_prob: Q of the true tokens, shape (n,).

    Returns:
        From 1 up; lower is better.

    Raises:
        UndefinedMetric: If there is no token, or Q is zero on one.
        ValueError: If a value is no probability.

    Source: Holtzman et al. 2020, section 5.1.

    >>> round(ppl([0.5, 0.125]), 6)
    4.0
    """
    q = probabilities(gold_prob, "gold_prob")
    zeros = int(np.count_nonzero(q == 0))
    if zeros:
        raise UndefinedMetric(f"Q is zero on {zeros} of {len(q)} human tokens; see eps_ppl")
    with np.errstate(over="ignore"):
        return float(np.exp(-np.log(q).mean()))


@register("metric")
@dataclass(frozen=True, kw_only=True)
class PPL(TeacherForced):
    """Perplexity of Q on human text, where Q has no zeros there."""

    name: ClassVar[str] = "ppl"
    version: ClassVar[int] = 1
    direction: ClassVar[Direction] = "lower"
    bounds: ClassVar[tuple[float, float]] = (1.0, float("inf"))
    exponential: ClassVar[bool] = True
    titles: ClassVar[dict[str, str]] = {"ppl": "PPL"}

    def compute(self, features: Features) -> MetricResult:
        """Compute the perplexity."""
        stats = self.statistics(features)
        value = ppl(stats.gold_prob)
        with np.errstate(over="ignore"):
            by_row = np.exp(mean_by_row(-np.log(stats.gold_prob), stats.offsets))
        return self.result(features, self.name, {self.name: value}, per_example={self.name: by_row})
