"""Perplexity of Q on human text.

    PPL = exp( - mean over positions of log Q(y) )

From 1 up, in tokens, lower is better. For `ancestral` it is the model's perplexity. A truncated Q is zero on some human
tokens as a rule, and then has none: see eps_ppl. The continuation is scored given the prompt; the released code of
Pillutla et al. 2021 scores both.

Source: Jelinek et al. 1977; Holtzman et al. 2020, section 5.1.
"""

import numpy as np
from numpy.typing import ArrayLike

from openended.harness.core import F64, Features, UndefinedMetric, metric
from openended.metrics.families import PositionValues, TeacherForced, probabilities, read_next_token


def ppl(gold_prob: ArrayLike) -> float:
    """Compute the perplexity of Q (Holtzman et al. 2020, section 5.1).

    Args:
        gold_prob: Q of the true tokens, shape (n,), in [0, 1].

    Returns:
        The perplexity in tokens, from 1 up; lower is better.

    Raises:
        UndefinedMetric: If there is no token, or Q is zero on one.
        ValueError: If a number is no probability.
    """
    with np.errstate(over="ignore"):
        return float(np.exp(_compute_nll(gold_prob).mean()))


def _compute_nll(gold_prob: ArrayLike) -> F64:
    q = probabilities(gold_prob, "gold_prob")
    zeros = int(np.count_nonzero(q == 0))
    if zeros:
        raise UndefinedMetric(f"Q is zero on {zeros} of {len(q)} human tokens; see eps_ppl")
    return -np.log(q)


@metric
class PPL(TeacherForced):
    """Perplexity of Q on human text, where Q has no zeros there; for `ancestral` the perplexity of the model."""

    name = "ppl"
    direction = "lower"
    bounds = (1.0, np.inf)
    exponential = True
    titles = {"ppl": "PPL"}

    def prepare(self, features: Features) -> PositionValues:
        stats = read_next_token(features)
        return stats.offsets, {self.name: _compute_nll(stats.gold_prob)}
