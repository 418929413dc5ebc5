"""Chamfer distance: how far each text of a prompt is from the nearest other text of the prompt.

For each prompt the mean over its texts of the least cosine distance, 1 - cosine, to another of its texts; then the mean
over prompts. From 0 (every text has a twin) to 2, dimensionless; higher is more diverse. It falls as samples are added:
compare equal numbers. Undefined with one sample per prompt.

Source: Cox et al. 2021, "Directed diversity"; Shaib et al. 2024, the package `diversity`.
"""

from collections.abc import Sequence

import numpy as np

from openended.harness.core import F64, Floats, Scope, metric
from openended.metrics.families import PromptGroups, SamplesMetric, cosines, prompts_of


def chamfer(embeddings: Floats, ids: Sequence[str]) -> float:
    """Compute the mean distance of each text to the nearest other text of its prompt (Shaib et al. 2024).

    Args:
        embeddings: Shape (n, d), no row all zero.
        ids: The prompt of each row, shape (n,).

    Returns:
        The mean over prompts with at least two texts, in [0, 2]; without such a prompt it raises `UndefinedMetric`.
    """
    return float(_compute_by_prompt(embeddings, prompts_of(ids)).mean())


def _compute_by_prompt(embeddings: Floats, prompts: PromptGroups) -> F64:
    out = np.zeros(len(prompts))
    for at, cosine in cosines(embeddings, prompts):
        others = np.where(np.eye(cosine.shape[1], dtype=np.bool_), -np.inf, cosine)
        out[at] = (1 - others.max(axis=2)).mean(axis=1)
    return out


@metric
class Chamfer(SamplesMetric):
    """Mean distance of each text to the nearest other text of its prompt."""

    name = "chamfer"
    bounds = (0.0, 2.0)
    titles = {"chamfer": "Chamfer"}

    scope: Scope = "continuation"  # all texts of a prompt share the prompt

    by_prompt = staticmethod(_compute_by_prompt)
