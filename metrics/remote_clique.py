"""Remote-clique distance: how far the texts of one prompt are from each other on average.

For each prompt the mean over its texts of the mean cosine distance, 1 - cosine, to its *other* texts; then the mean
over prompts. From 0 (all alike) to 2, dimensionless; higher is more diverse. The text itself is left out, so the value
is 1 - `prompt_similarity`; the package `diversity` keeps the zeros of the diagonal, which makes its value (m - 1) / m
of ours with m texts. Undefined with one sample per prompt.

Source: Cevallos et al. 2018 (remote clique); Shaib et al. 2024, the package `diversity` (for texts).
"""

from collections.abc import Sequence

from openended.harness.core import F64, Floats, Scope, metric
from openended.metrics.families import PromptGroups, SamplesMetric, average_pairs, prompts_of


def remote_clique(embeddings: Floats, ids: Sequence[str]) -> float:
    """Compute the mean cosine distance of the texts of one prompt (Shaib et al. 2024, without the diagonal).

    Args:
        embeddings: Shape (n, d), no row all zero.
        ids: The prompt of each row, shape (n,).

    Returns:
        The mean over prompts with at least two texts, in [0, 2]; without such a prompt it raises `UndefinedMetric`.
    """
    return float(_compute_by_prompt(embeddings, prompts_of(ids)).mean())


def _compute_by_prompt(embeddings: Floats, prompts: PromptGroups) -> F64:
    return 1 - average_pairs(embeddings, prompts, lambda cosine: cosine)[0]


@metric
class RemoteClique(SamplesMetric):
    """Mean distance of the texts of one prompt."""

    name = "remote_clique"
    bounds = (0.0, 2.0)
    titles = {"remote_clique": "Remote clique"}

    scope: Scope = "continuation"  # all texts of a prompt share the prompt

    by_prompt = staticmethod(_compute_by_prompt)
