"""Self-BLEU of the texts of one prompt: how much of each is in the others.

For each prompt the mean over its texts of BLEU against its other texts, as of `self_bleu`; then the mean over prompts.
From 0 to 1; lower is more diverse.

Source: Zhu et al. 2018, "Texygen" (Self-BLEU of a corpus); within a prompt it is ours.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np

from openended.harness.core import F64, Features, Ragged, metric, ranged
from openended.metrics.families import PromptGroups, PromptValues, SamplesTextMetric, prompts_of
from openended.metrics.families.ngrams import NgramIndex, Texts, pack_rows
from openended.metrics.self_bleu import bleu_by_text


def prompt_self_bleu(sequences: Texts, ids: Sequence[str], *, order: int = 4) -> float:
    """Compute the mean BLEU of each text against the others of its prompt (Zhu et al. 2018).

    Args:
        sequences: Texts as lists of token ids, or as strings that are split at white space.
        ids: The prompt of each text, shape (n,).
        order: The greatest length of an n-gram, at least 1.

    Returns:
        The mean over prompts with at least two texts, in [0, 1]; lower is more diverse.

    Raises:
        UndefinedMetric: If no prompt has two texts.
    """
    return float(_compute_by_prompt(pack_rows(sequences), prompts_of(ids), order).mean())


def _compute_by_prompt(rows: Ragged, prompts: PromptGroups, order: int) -> F64:
    texts = np.split(prompts.corpus_rows, prompts.starts[1:-1]) if len(prompts) else []
    groups = (Ragged.from_rows((rows[int(r)] for r in each), rows.values.dtype) for each in texts)
    scores = (bleu_by_text(NgramIndex(group), order)[order - 1] for group in groups)
    return np.array([each.mean() for each in scores], dtype=np.float64)


@metric
class PromptSelfBleu(SamplesTextMetric):
    """Mean BLEU of each text against the others of its prompt (Zhu et al. 2018); with samples=2 or more."""

    name = "prompt_self_bleu"
    direction = "lower"
    bounds = (0.0, 1.0)
    averages = "texts"
    worst = 1.0
    titles = {"prompt_self_bleu": "Self-BLEU per prompt"}

    order: int = ranged(4, "[1, inf)", "a positive integer")
    """The greatest length of an n-gram; Zhu et al. 2018 report 2 to 5."""

    def prepare(self, features: Features) -> PromptValues:
        return self.average(features, partial(_compute_by_prompt, order=self.order))
