"""Entropy of Q along the text: how many ways a text could have gone on at each token.

    H_t = - sum over tokens y of Q(y | x_<t) log Q(y | x_<t),    branching factor = exp(mean of H)

Q is the distribution that the decoder draws from; the mean is over all tokens of the system's texts, and by position
over the texts that reach it. From 0 (greedy search) to the log of the vocabulary's size, nats. The token that ends a
text is not counted; as a choice before every other token it is. A mean of -log Q of the drawn tokens estimates the same
with more noise; here the model reads its texts once more.

Source: Yang and Holtzman 2025 (arXiv 2506.17871), branching factor; Shannon 1948.
"""

from collections.abc import Sequence

import numpy as np

from openended.harness import core
from openended.harness.core import F64, Features, MetricResult, Need, Ragged, UndefinedMetric, Weights
from openended.metrics.families import Losses, divide_known, pack_losses

_NEED = Need("q_entropy", by="decoder")


def q_entropy(entropies: Losses) -> float:
    """Compute the mean entropy of Q per token (Shannon 1948).

    Args:
        entropies: The entropy of the distribution that each token was drawn from, nats, one row per text.

    Returns:
        Nats per token, from 0 up.

    Raises:
        UndefinedMetric: If there is no token.
        ValueError: If an entropy is NaN.
    """
    rows = pack_losses(entropies, "entropies")
    if not len(rows.values):
        raise UndefinedMetric("the texts have no tokens")
    return float(rows.values.mean(dtype=np.float64))


def average_by_position(entropies: Ragged, ids: Sequence[str]) -> dict[str, F64]:
    """Compute the mean entropy at each position and its standard error, with texts of one prompt as one.

    Args:
        entropies: Entropies of Q, nats, one row per text.
        ids: The prompt of each text, shape (n,).

    Returns:
        `mean`, `std_error` (NaN at positions that a single prompt reaches) and `texts`, the number that reach the
        position; shape (longest text,).
    """
    lengths, prompt = entropies.lengths, np.unique(np.asarray(ids, dtype=np.str_), return_inverse=True)[1]
    at = np.arange(len(entropies.values)) - np.repeat(entropies.offsets[:-1], lengths)
    size, values = int(lengths.max(initial=0)), entropies.values.astype(np.float64)
    texts = np.bincount(at, minlength=size)
    mean = np.bincount(at, values, size) / texts
    cell, inverse = np.unique(np.repeat(prompt, lengths) * size + at, return_inverse=True)
    away = np.bincount(inverse, values - mean[at])  # sums over the texts of a prompt at a position
    prompts = np.bincount(cell % size, minlength=size)
    scale = np.divide(prompts, prompts - 1, out=np.full(size, np.nan), where=prompts > 1)
    std_error = np.sqrt(np.bincount(cell % size, away**2, size) * scale) / texts
    return {"mean": mean, "std_error": std_error, "texts": texts.astype(np.float64)}


@core.metric
class QEntropy(core.Metric):
    """Entropy of Q per drawn token, its branching factor, and their curve along the text."""

    name = "q_entropy"
    family = "scored"
    direction = "higher"
    directions = {"q_entropy": "none", "branching_factor": "none"}
    bounds = (0.0, np.inf)
    ranges = {"branching_factor": (1.0, np.inf)}
    resampling = "bootstrap"
    sides = "one"
    titles = {"q_entropy": "Entropy of Q", "branching_factor": "Branching factor"}

    def needs(self) -> tuple[Need, ...]:
        return (_NEED,)

    def prepare(self, features: Features) -> Ragged:
        return features.model[_NEED]  # type: ignore[no-any-return]

    def evaluate(self, features: Features, prepared: Ragged) -> MetricResult:
        value = q_entropy(prepared)
        curve = average_by_position(prepared, features.model.ids)
        values = {"q_entropy": value, "branching_factor": float(np.exp(value))}
        return self.result(
            features, "q_entropy", values, per_example={"q_entropy": _average_texts(prepared)}, arrays=curve
        )

    def score(self, prepared: Ragged, human: Weights, model: Weights, /) -> dict[str, F64]:
        mean = core.average(_average_texts(prepared), model, prepared.lengths)
        return {"q_entropy": mean, "branching_factor": np.exp(mean)}


def _average_texts(rows: Ragged) -> F64:
    return divide_known(np.array([row.sum() for row in rows]), rows.lengths)
