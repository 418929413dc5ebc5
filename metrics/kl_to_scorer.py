"""KL divergence of the sampler from the scorer: what Gen-PPL and entropy measure together, without a stand-in.

    KL = E_x [ log Q(x) - log p(x) ],  per token: sum of (log Q(x) + NLL of x) / number of scored tokens

Q is the distribution that a text was drawn from (the decoder's, after truncation) and p the scorer. Both are summed
over the same texts, so the value is an unbiased estimate of the divergence of the laws of the texts as they were cut
off: 0 if the sampler is the scorer, lower is better. Log Gen-PPL less the unigram entropy of texts, which papers use
instead, is no divergence: unigram entropy is far above the entropy of the law of texts.

Source: Pynadath, Shi and Zhang 2026 (arXiv 2604.02718) split this divergence into log Gen-PPL and entropy; log Q is
summed while the text is drawn. Neither counts the end of text.
"""

import numpy as np
from numpy.typing import ArrayLike

from openended.harness import core
from openended.harness.core import F64, Features, MetricResult, Need, Ragged, UndefinedMetric, Weights
from openended.metrics.families import Losses, divide_known, pack_losses


def kl_per_token(token_nll: Losses, *, log_prob: ArrayLike) -> float:
    """Estimate the divergence of the law of texts from the scorer, per scored token (Pynadath, Shi and Zhang 2026).

    Args:
        token_nll: -log p of each token under the scorer, nats, one row per text.
        log_prob: Log-probability of each text under the distribution that it was drawn from, nats, shape (n,).

    Returns:
        Nats per token. It estimates a number that is not negative, so it can be a little below 0.

    Raises:
        UndefinedMetric: If a text has no finite log-probability, or no token is scored.
        ValueError: If a loss is NaN, or there is not one log-probability per text.
    """
    rows = pack_losses(token_nll, "token_nll")
    total = _compute_divergences(rows, np.asarray(log_prob, dtype=np.float64))
    return float(total.sum() / rows.lengths.sum())


def _compute_divergences(rows: Ragged, log_prob: F64) -> F64:
    """Return log Q + NLL of each text, shape (n,)."""
    if len(rows) != len(log_prob):
        raise ValueError(f"log_prob: expected one per text, {len(rows)}, got {len(log_prob)}")
    if not np.isfinite(log_prob).all():
        raise UndefinedMetric("texts without log Q: a decoder that samples, of a model that runs here, has it")
    if not rows.lengths.sum():
        raise UndefinedMetric("no token is scored")
    divergences: F64 = log_prob + np.array([float(np.sum(row)) for row in rows])
    return divergences


@core.metric
class KLToScorer(core.Metric):
    """KL divergence per token of the sampler's distribution of texts from the scorer, from log Q of the draws."""

    name = "kl_to_scorer"
    family = "scored"
    direction = "lower"
    bounds = (-np.inf, np.inf)
    resampling = "bootstrap"
    sides = "one"
    titles = {"kl_per_token": "KL/token"}

    bos: bool = False
    """true: for texts without a prompt, whose first token is scored after a begin token."""

    def needs(self) -> tuple[Need, ...]:
        nll = Need("token_nll", by="scorer", options=(("bos", self.bos),))
        return nll, Need("log_prob"), Need("tokens", by="scorer")

    def prepare(self, features: Features) -> tuple[F64, F64]:
        """Return the divergence and the number of scored tokens of each text."""
        nll, log_prob, tokens = (features.model[need] for need in self.needs())
        if nll.lengths.sum() < tokens.lengths.sum():
            raise UndefinedMetric("the scorer does not score first tokens without a prompt: set kl_to_scorer.bos=true")
        return _compute_divergences(nll, log_prob), nll.lengths.astype(np.float64)

    def evaluate(self, features: Features, prepared: tuple[F64, F64]) -> MetricResult:
        total, count = prepared
        values, rows = {"kl_per_token": float(total.sum() / count.sum())}, {"kl_per_token": divide_known(total, count)}
        return self.result(features, "kl_per_token", values, per_example=rows)

    def score(self, prepared: tuple[F64, F64], human: Weights, model: Weights, /) -> dict[str, F64]:
        total, count = prepared
        return {"kl_per_token": core.average(divide_known(total, count), model, count)}
