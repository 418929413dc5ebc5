"""Vendi score of the texts of one prompt: how many different texts they are worth.

For each prompt exp of the Shannon entropy of the eigenvalues of K / m, where K holds the cosines of its m texts; then
the mean over prompts. From 1 (all alike) to m; higher is more diverse.

Source: Friedman and Dieng 2023, "The Vendi score", Definition 3.1, within a prompt; of a whole corpus: `vendi`.
"""

from collections.abc import Sequence

import numpy as np

from openended.harness.core import F64, Features, Floats, MetricResult, metric
from openended.metrics.families import PromptGroups, PromptValues, SamplesMetric, cosines, prompts_of


def prompt_vendi(embeddings: Floats, ids: Sequence[str]) -> float:
    """Compute the mean Vendi score of the texts of one prompt (Friedman and Dieng 2023).

    Args:
        embeddings: Embeddings of the texts, shape (n, d), finite, no row all zero.
        ids: The prompt of each row, shape (n,).

    Returns:
        The mean over prompts with at least two texts, from 1 to their number of texts; higher is more diverse.

    Raises:
        UndefinedMetric: If no prompt has two texts, or a row is all zero.
    """
    return float(_compute_by_prompt(embeddings, prompts_of(ids)).mean())


def _compute_by_prompt(embeddings: Floats, prompts: PromptGroups) -> F64:
    out = np.zeros(len(prompts))
    for at, cosine in cosines(embeddings, prompts):
        count = cosine.shape[1]
        shares = np.maximum(np.linalg.eigvalsh(cosine / count), 1e-300)
        out[at] = np.clip(np.exp(-(shares * np.log(shares)).sum(axis=1)), 1.0, count)
    return out


@metric
class PromptVendi(SamplesMetric):
    """Effective number of different texts of one prompt (Friedman and Dieng 2023); with samples=2 or more."""

    name = "prompt_vendi"
    bounds = (0.0, np.inf)  # 0 where no text is valid
    averages = "none"
    titles = {"prompt_vendi": "Vendi per prompt"}

    def bounds_of(self, key: str, result: MetricResult) -> tuple[float, float]:
        prompts = result.arrays.get("prompts")
        most = float(np.bincount(prompts).max()) if prompts is not None else np.inf
        return (1.0 if self.valid is None else 0.0), most

    def prepare(self, features: Features) -> PromptValues:
        return self.average(features, _compute_by_prompt)
