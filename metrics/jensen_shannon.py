"""Token-level Jensen-Shannon divergence between Q and the one-hot of the true next token.

    JS = mean over positions of  (KL(e_y || m) + KL(Q || m)) / 2,  m = (e_y + Q) / 2
       = mean of  (log(2 / (1 + q)) + q log(2 q / (1 + q)) + (1 - q) log 2) / 2,  q = Q(y)

In [0, log 2] nats, lower is better; Q is the decoder's truncated and renormalized distribution on human text.

Source: Martins et al. 2020, "Sparse text generation", section 4; Pillutla et al. 2021, Table 3.
"""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from openended.harness.core import F64, Features, MetricResult, check_arguments, metric
from openended.metrics.families import PositionValues, TeacherForced, probabilities, read_next_token

Base = Literal["e", "2"]


@check_arguments
def jensen_shannon(gold_prob: ArrayLike, *, base: Base = "e") -> float:
    """Compute the mean divergence of Q from the one-hot of the true token (Martins et al. 2020).

    Args:
        gold_prob: Q of the true tokens, shape (n,), in [0, 1].
        base: Base of the logarithm: `e` gives nats, `2` bits.

    Returns:
        The divergence, in [0, log 2] nats or [0, 1] bits; lower is better.

    Raises:
        UndefinedMetric: If there is no token.
        ValueError: If a number is no probability.
    """
    return float(_compute_by_token(gold_prob, base).mean())


def _compute_by_token(gold_prob: ArrayLike, base: Base) -> F64:
    q, log_2 = probabilities(gold_prob, "gold_prob"), np.log(2.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        gold_term = np.where(q > 0, q * (log_2 + np.log(q) - np.log1p(q)), 0.0)
    nats = 0.5 * (log_2 - np.log1p(q) + gold_term + (1.0 - q) * log_2)
    divergence: F64 = np.clip(nats, 0.0, log_2)
    return divergence / log_2 if base == "2" else divergence


@metric
class JensenShannon(TeacherForced):
    """Token-level divergence between Q and the true next token (Martins et al. 2020); teacher-forced."""

    name = "jensen_shannon"
    synonyms = ("jsd",)
    direction = "lower"
    bounds = (0.0, 1.0)  # log 2 in nats, 1 in bits
    titles = {"jensen_shannon": "JS"}

    base: Base = "e"
    """Base of the logarithm: e: nats, at most log 2; "2": bits; Martins et al. 2020, Pillutla et al. 2021."""

    def bounds_of(self, key: str, result: MetricResult) -> tuple[float, float]:
        return 0.0, 1.0 if self.base == "2" else float(np.log(2.0))

    def prepare(self, features: Features) -> PositionValues:
        stats = read_next_token(features)
        return stats.offsets, {self.name: _compute_by_token(stats.gold_prob, self.base)}
