"""Similarity of the texts of one prompt: mean pairwise cosine of their embeddings, and the share of pairs above 0.8.

For each prompt the mean over pairs of different samples; then the mean over prompts. From -1 to 1; lower is more
diverse. Embeddings of one model crowd into a cone: `other_prompts`, the mean cosine of texts of *different* prompts of
the same system, is what unrelated texts have there.

Source: Jiang et al. 2025, "Artificial Hivemind" (arXiv 2510.22954): 50 samples per prompt, pairs above 0.8.
`other_prompts` is ours.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from openended.harness.core import F64, Features, Floats, metric, ranged
from openended.metrics import families
from openended.metrics.families import PromptGroups, prompts_of


def prompt_similarity(embeddings: Floats, ids: Sequence[str], *, threshold: float = 0.8) -> dict[str, float]:
    """Compute the similarity of the texts of one prompt (Jiang et al. 2025).

    Args:
        embeddings: Embeddings of the texts, shape (n, d), finite, no row all zero.
        ids: The prompt of each row, shape (n,).
        threshold: A pair with a larger cosine counts as similar, in [-1, 1].

    Returns:
        `prompt_similarity`, in [-1, 1], and `similar_share`, in [0, 1], means over prompts with at least two texts;
        `other_prompts`, the mean cosine of texts of different prompts, NaN if there is only one prompt.

    Raises:
        UndefinedMetric: If no prompt has two texts, or a row is all zero.
    """
    prompts = prompts_of(ids)
    means = {name: float(v.mean()) for name, v in _compute_by_prompt(embeddings, prompts, threshold).items()}
    return {**means, "other_prompts": _compare_prompts(embeddings, prompts)}


def _compute_by_prompt(embeddings: Floats, prompts: PromptGroups, threshold: float) -> dict[str, F64]:
    out = {name: np.zeros(len(prompts)) for name in ("prompt_similarity", "similar_share")}
    for at, cosine in families.cosines(embeddings, prompts):
        pairs = cosine[:, ~np.eye(cosine.shape[1], dtype=np.bool_)]
        out["prompt_similarity"][at] = pairs.mean(axis=1)
        out["similar_share"][at] = (pairs > threshold).mean(axis=1)
    return out


def _compare_prompts(embeddings: Floats, prompts: PromptGroups) -> float:
    """Mean cosine over all pairs of texts of different prompts, computed from sums of unit rows."""
    units = families.unit_rows(np.asanyarray(embeddings)[prompts.rows])
    sums = np.add.reduceat(units, prompts.starts[:-1], axis=0)
    total = sums.sum(axis=0)
    pairs = float(prompts.sizes.sum()) ** 2 - float((prompts.sizes**2).sum())
    return float(total @ total - np.einsum("ij,ij->", sums, sums)) / pairs if pairs else float("nan")


@metric
class PromptSimilarity(families.SamplesMetric):
    """Mean cosine of the texts of one prompt (Jiang et al. 2025); with samples=2 or more."""

    name = "prompt_similarity"
    direction = "lower"
    directions = {"other_prompts": "none"}
    bounds = (-1.0, 1.0)
    worst = 1.0
    ranges = {"similar_share": (0.0, 1.0)}
    shares = ("similar_share",)
    titles = {"prompt_similarity": "Prompt sim.", "similar_share": "Similar pairs"}
    titles |= {"other_prompts": "Sim. of other prompts"}

    threshold: float = ranged(0.8, "[-1, 1]", "a cosine, -1 to 1")
    """Pairs above it are counted as similar; Jiang et al. 2025."""

    def prepare(self, features: Features) -> families.PromptValues:
        prepared = self.average(features, partial(_compute_by_prompt, threshold=self.threshold))
        others = _compare_prompts(features.model[self.needs()[0]], prepared.prompts)
        return replace(prepared, others={"other_prompts": others})
