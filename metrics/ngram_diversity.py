"""N-gram diversity of the texts of one prompt: the sum over n = 1 to 4 of different n-grams over all n-grams.

The texts of a prompt are joined, so that n-grams cross from one into the next, as the package `diversity` joins a
corpus; then the mean over prompts. The package splits at every single space, as `unit=spaces` does. From above 0 to the
number of orders; higher is more diverse. Of a whole corpus it is `distinct_n` with `variant=ngd`.

Source: Padmakumar and He 2024; Meister et al. 2023; Shaib et al. 2024, the package `diversity` (orders 1 to 4).
"""

from collections.abc import Sequence
from functools import partial

import numpy as np

from openended.harness.core import F64, Features, MetricResult, Ragged, UndefinedMetric, metric
from openended.metrics.families import PromptGroups, PromptValues, SamplesTextMetric, declare_orders, prompts_of
from openended.metrics.families.ngrams import Texts, pack_rows


def ngram_diversity(sequences: Texts, ids: Sequence[str], *, orders: Sequence[int] = (1, 2, 3, 4)) -> float:
    """Compute the n-gram diversity of the texts of one prompt (Shaib et al. 2024).

    Args:
        sequences: Texts as lists of token ids, or as strings that are split at white space.
        ids: The prompt of each text, shape (n,).
        orders: The n-gram lengths n, each at least 1.

    Returns:
        The mean over prompts with at least two texts, above 0 and at most the number of orders; higher is more diverse.

    Raises:
        UndefinedMetric: If no prompt has two texts, or the texts of a prompt are all empty.
    """
    return float(_compute_by_prompt(pack_rows(sequences), prompts_of(ids), orders).mean())


def _compute_by_prompt(rows: Ragged, prompts: PromptGroups, orders: Sequence[int]) -> F64:
    """Number n-grams of all prompts at once: those of order n are pairs of one of order n - 1 and a token."""
    if not len(prompts):
        return np.zeros(0)
    sizes = np.add.reduceat(rows.lengths[prompts.corpus_rows], prompts.starts[:-1])
    if not sizes.all():
        raise UndefinedMetric("the texts of a prompt are all empty")
    _, token = np.unique(np.concatenate([rows[int(r)] for r in prompts.corpus_rows]), return_inverse=True)
    width = int(token.max()) + 1
    prompt = np.repeat(np.arange(len(prompts)), sizes)
    number = prompt  # of the n-gram that begins at a position: of order 0, the prompt
    out = np.zeros(len(prompts))
    for order in range(1, max(orders) + 1):
        inside = max(len(token) - order + 1, 0)
        number = number[:inside] * width + token[order - 1 :]
        number = np.where(prompt[:inside] == prompt[order - 1 :], number, -1)
        different, first, number = np.unique(number, return_index=True, return_inverse=True)
        if order in orders:
            types = np.bincount(prompt[first[different >= 0]], minlength=len(prompts))
            out += types / np.maximum(sizes - order + 1, 1)
    return out


@metric
class NgramDiversity(SamplesTextMetric):
    """Different n-grams among the texts of one prompt, summed over n (Shaib et al. 2024); with samples=2 or more."""

    name = "ngram_diversity"
    direction = "higher"
    bounds = (0.0, np.inf)
    averages = "texts"
    titles = {"ngram_diversity": "n-gram div. per prompt"}

    orders: tuple[int, ...] = declare_orders(1, 2, 3, 4)
    """Shaib et al. 2024."""

    def bounds_of(self, key: str, result: MetricResult) -> tuple[float, float]:
        return 0.0, float(len(self.orders))

    def prepare(self, features: Features) -> PromptValues:
        return self.average(features, partial(_compute_by_prompt, orders=self.orders))
