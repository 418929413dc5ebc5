"""Epsilon-perplexity: perplexity of Q on human text, with a floor that keeps zeros finite.

    eps-PPL = exp( - mean over positions of  log((Q(y) + eps) / (1 + eps V)) )

Measures how well Q predicts human text when it may be zero on the true token; from about 1 up, in tokens, lower is
better. V is the size of the model's logits. With eps → 0 it is the perplexity, where Q has no zeros. The value depends
much on eps: it is part of the number.

Source: Martins et al. 2020, "Sparse text generation", section 4; Pillutla et al. 2021, Table 3. Variants: a grid of eps
from 1e-1 to 1e-7 (released code of Pillutla et al., V fixed at 50,257): `grid`; eps only where a block of text starts
with a zero, then the mean of block means (released code of Martins et al.); eps chosen to be best.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from openended.harness.core import F64, Direction, Features, MetricResult, UndefinedMetric, register
from openended.metrics.families import TeacherForced, mean_by_row, probabilities


def eps_ppl(gold_prob: ArrayLike, *, vocab_size: int, eps: float) -> float:
    """Perplexity with a floor.

    Args:
        gold_prob: Q of the true tokens, shape (n,).
        vocab_size: V, size of the logits.
        eps: The floor, >= 0.

    Returns:
        From about 1 up; lower is better.

    Raises:
        UndefinedMetric: If there is no token, or eps is 0 and Q is zero on a true token.
        ValueError: If a value is no probability, eps is negative or V below 1.

    Source: Martins et al. 2020.

    >>> round(eps_ppl([0.5, 0.125], vocab_size=10, eps=0.0), 6)
    4.0
    """
    with np.errstate(over="ignore"):
        return float(np.exp(_compute_nll(probabilities(gold_prob, "gold_prob"), vocab_size, eps).mean()))


def _compute_nll(q: F64, vocab_size: int, eps: float) -> F64:
    if vocab_size < 1 or not 0 <= eps < np.inf:
        raise ValueError(f"expected vocab_size >= 1 and eps >= 0, got {vocab_size} and {eps}")
    zeros = int(np.count_nonzero(q == 0))
    if eps == 0 and zeros:
        raise UndefinedMetric(f"Q is zero on {zeros} of {len(q)} human tokens and eps is 0")
    nll: F64 = np.log1p(eps * vocab_size) - np.log(q + eps)
    return nll


@register("metric")
@dataclass(frozen=True, kw_only=True)
class EpsPPL(TeacherForced):
    """Epsilon-perplexity of Q on human text, and the same at further values of eps."""

    name: ClassVar[str] = "eps_ppl"
    version: ClassVar[int] = 1
    direction: ClassVar[Direction] = "lower"
    bounds: ClassVar[tuple[float, float]] = (0.0, float("inf"))
    exponential: ClassVar[bool] = True
    titles: ClassVar[dict[str, str]] = {"eps_ppl": "ε-PPL"}

    eps: float = 1e-5  # our default; the papers do not state one value
    grid: tuple[float, ...] = ()  # Pillutla et al. 2021, released code: 1e-1 to 1e-7

    def check(self) -> None:
        """Refuse floors that are not positive."""
        self.require(0 < self.eps < float("inf"), "eps", "a number above 0")
        self.require(all(0 < e < float("inf") for e in self.grid), "grid", "numbers above 0")

    def compute(self, features: Features) -> MetricResult:
        """Compute the perplexity at each eps, from one pass."""
        stats = self.statistics(features)
        values = {self.name: eps_ppl(stats.gold_prob, vocab_size=stats.vocab_size, eps=self.eps)}
        for eps in self.grid:
            values[f"{self.name}_{eps:g}"] = eps_ppl(stats.gold_prob, vocab_size=stats.vocab_size, eps=eps)
        nll = _compute_nll(probabilities(stats.gold_prob, "gold_prob"), stats.vocab_size, self.eps)
        with np.errstate(over="ignore"):
            by_row = np.exp(mean_by_row(nll, stats.offsets))
        return self.result(features, self.name, values, per_example={self.name: by_row})

    def rows(self, features: Features, result: MetricResult) -> Mapping[str, F64]:
        """Return the perplexity of each text at each eps."""
        stats, out = self.statistics(features), dict(result.per_example)
        for eps in self.grid:
            nll = _compute_nll(probabilities(stats.gold_prob, "gold_prob"), stats.vocab_size, eps)
            out[f"{self.name}_{eps:g}"] = np.exp(mean_by_row(nll, stats.offsets))
        return out
