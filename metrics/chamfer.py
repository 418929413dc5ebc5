"""Chamfer distance: how far each text of a prompt is from the nearest other text of the prompt.

For each prompt the mean over its texts of the least cosine distance, 1 - cosine, to another of its texts; then the mean
over prompts. From 0 (every text has a twin) to 2; higher is more diverse. It falls as samples are added. The human row
is the expectation over subsets of k of m texts: the j-th nearest other text is the nearest there with probability
C(m - 1 - j, k - 2) / C(m - 1, k - 1).

Source: Cox et al. 2021, "Directed diversity"; Shaib et al. 2024, the package `diversity`.
"""

import math
from collections.abc import Sequence

import numpy as np

from openended.harness.core import F64, Features, Floats, metric
from openended.metrics.families import PromptGroups, PromptValues, SamplesMetric, cosines, prompts_of


def chamfer(embeddings: Floats, ids: Sequence[str]) -> float:
    """Compute the mean cosine distance of each text to the nearest other text of its prompt (Shaib et al. 2024).

    Args:
        embeddings: Embeddings of the texts, shape (n, d), finite, no row all zero.
        ids: The prompt of each row, shape (n,).

    Returns:
        The mean over prompts with at least two texts, in [0, 2], dimensionless; higher is more diverse.

    Raises:
        UndefinedMetric: If no prompt has two texts, or a row is all zero.
    """
    return float(_compute_by_prompt(embeddings, prompts_of(ids)).mean())


def _compute_by_prompt(embeddings: Floats, prompts: PromptGroups, size: int = 0, scores: F64 | None = None) -> F64:
    """Return the value of each prompt, or its expectation for `size` texts; those whose score is NaN are not valid."""
    out = np.zeros(len(prompts))
    for at, cosine in cosines(embeddings, prompts):
        m = cosine.shape[1]
        k, rows = size or m, prompts.rows[prompts.starts[at][:, None] + np.arange(m)]
        is_valid = np.ones(rows.shape, dtype=np.bool_) if scores is None else ~np.isnan(scores[rows])
        ranked = np.where(np.eye(m, dtype=np.bool_) | ~is_valid[:, None, :], np.inf, 1 - cosine)
        ranked = np.sort(ranked, axis=2)[:, :, :-1]
        weights = np.array([math.comb(m - 1 - j, k - 2) / math.comb(m - 1, k - 1) for j in range(1, m)])
        nearest = np.where(np.isinf(ranked), 0.0, ranked) @ weights
        out[at] = (nearest * is_valid).mean(axis=1)
    return out


@metric
class Chamfer(SamplesMetric):
    """Mean cosine distance to the nearest other text of the prompt (Shaib et al. 2024); with samples=2 or more."""

    name = "chamfer"
    bounds = (0.0, 2.0)
    titles = {"chamfer": "Chamfer"}

    def prepare(self, features: Features) -> PromptValues:
        prompts, rows, size = prompts_of(features.model.ids), features.model[self.needs()[0]], features.texts_per_prompt
        prompts.require(size)
        scores = self.score_answers(features.model)
        return PromptValues(prompts, {self.name: _compute_by_prompt(rows, prompts, size, scores)}, size=size)
