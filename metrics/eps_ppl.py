"""Epsilon-perplexity: perplexity of Q on human text, with a floor that keeps zeros finite.

    eps-PPL = exp( - mean over positions of  log((Q(y) + eps) / (1 + eps V)) )

From about 1 up, in tokens, lower is better. V is the size of the model's logits. The value depends much on eps: it is
part of the number.

Source: Martins et al. 2020, "Sparse text generation", section 4; Pillutla et al. 2021, Table 3. Variants: a grid of eps
from 1e-1 to 1e-7 (released code of Pillutla et al., V fixed at 50,257): `grid`; eps only where a block of text starts
with a zero, then the mean of block means (released code of Martins et al.); eps chosen to be best.
"""

import numpy as np
from numpy.typing import ArrayLike

from openended.harness.core import F64, Features, UndefinedMetric, metric, ranged
from openended.metrics.families import PositionValues, TeacherForced, probabilities, read_next_token


def eps_ppl(gold_prob: ArrayLike, *, vocab_size: int, eps: float) -> float:
    """Compute the perplexity of Q with a floor under its zeros (Martins et al. 2020).

    Args:
        gold_prob: Q of the true tokens, shape (n,), in [0, 1].
        vocab_size: V, the size of the logits, at least 1.
        eps: The floor, finite and at least 0.

    Returns:
        The perplexity in tokens, from about 1 up; lower is better.

    Raises:
        UndefinedMetric: If there is no token, or `eps` is 0 and Q is zero on a true token.
        ValueError: If an argument is outside its range.
    """
    with np.errstate(over="ignore"):
        return float(np.exp(_compute_nll(gold_prob, vocab_size, eps).mean()))


def _compute_nll(gold_prob: ArrayLike, vocab_size: int, eps: float) -> F64:
    q = probabilities(gold_prob, "gold_prob")
    if vocab_size < 1 or not 0 <= eps < np.inf:
        raise ValueError(f"expected vocab_size >= 1 and eps >= 0, got {vocab_size} and {eps}")
    zeros = int(np.count_nonzero(q == 0))
    if eps == 0 and zeros:
        raise UndefinedMetric(f"Q is zero on {zeros} of {len(q)} human tokens and eps is 0")
    nll: F64 = np.log1p(eps * vocab_size) - np.log(q + eps)
    return nll


@metric
class EpsPPL(TeacherForced):
    """Perplexity of Q on human text with a floor under its zeros (Martins et al. 2020); teacher-forced."""

    name = "eps_ppl"
    direction = "lower"
    bounds = (1.0, np.inf)
    exponential = True
    titles = {"eps_ppl": "ε-PPL"}

    eps: float = ranged(1e-5, "(0, inf)", "a number above 0")
    """Floor under the probabilities of Q; ours, because the papers state no single value."""
    grid: tuple[float, ...] = ranged((), "(0, inf)", "numbers above 0", unordered=True)
    """Further values of eps from the same pass, for example [1.0e-1, 1.0e-3, 1.0e-7]; Pillutla et al. 2021."""

    def prepare(self, features: Features) -> PositionValues:
        stats = read_next_token(features)
        floors = {self.name: self.eps, **{f"{self.name}_{eps:g}": eps for eps in self.grid}}
        nll = {name: _compute_nll(stats.gold_prob, stats.vocab_size, eps) for name, eps in floors.items()}
        return stats.offsets, nll
