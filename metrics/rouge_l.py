"""ROUGE-L homogenization: how much of their token order the texts of one prompt share.

For two texts F = 2 L / (a + b), with L the length of their longest common subsequence of tokens and a, b their lengths.
For each prompt the mean over pairs of different samples; then the mean over prompts. From 0 to 1; lower is more
diverse. Two empty texts are alike: 1 (in the package `rouge_score` 0). `unit=rouge` drops case and punctuation as that
package does, without stems; tokens and words keep both.

Source: Lin 2004, "ROUGE" (ROUGE-L); Padmakumar and He 2024 (homogenization); Shaib et al. 2024, the package
`diversity`, which averages over all pairs of a corpus, of words or of stems; Hyyrö 2004 (L by bits of one integer).
"""

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from openended.harness.core import F64, Features, Ragged, metric
from openended.metrics.families import PromptGroups, PromptValues, SamplesTextMetric, prompts_of
from openended.metrics.families.ngrams import Texts, pack_rows


def rouge_l(sequences: Texts, ids: Sequence[str]) -> float:
    """Compute the mean ROUGE-L F of the pairs of texts of one prompt (Lin 2004; Shaib et al. 2024).

    Args:
        sequences: Texts as lists of token ids, or as strings that are split at white space.
        ids: The prompt of each text, shape (n,).

    Returns:
        The mean over prompts with at least two texts, in [0, 1]; lower is more diverse.

    Raises:
        UndefinedMetric: If no prompt has two texts.
    """
    return float(_compute_by_prompt(pack_rows(sequences), prompts_of(ids)).mean())


def _compute_by_prompt(rows: Ragged, prompts: PromptGroups) -> F64:
    out = np.zeros(len(prompts))
    for p in range(len(prompts)):
        texts = [rows[int(r)].tolist() for r in prompts.corpus_rows[prompts.starts[p] : prompts.starts[p + 1]]]
        positions = [_find_positions(text) for text in texts]
        scores = []
        for i, j in combinations(range(len(texts)), 2):
            total = len(texts[i]) + len(texts[j])
            common = _compute_common_length(positions[i], len(texts[i]), texts[j])
            scores.append(2 * common / total if total else 1.0)
        out[p] = sum(scores) / len(scores)
    return out


def _find_positions(text: Sequence[int]) -> dict[int, int]:
    """Map each token to its positions, as bits of an integer."""
    positions: dict[int, int] = {}
    for position, token in enumerate(text):
        positions[token] = positions.get(token, 0) | 1 << position
    return positions


def _compute_common_length(positions: Mapping[int, int], size: int, other: Sequence[int]) -> int:
    """Return the length of the longest common subsequence of a text of `size` tokens and another (Hyyrö 2004)."""
    all_bits = (1 << size) - 1
    row = all_bits  # bit i is 0 where a token more of the text makes the common subsequence longer
    for token in other:
        here = positions.get(token)
        if here is not None:
            hit = row & here
            row = (row + hit | row - hit) & all_bits
    return size - row.bit_count()


@metric
class RougeL(SamplesTextMetric):
    """ROUGE-L of the pairs of texts of one prompt: homogenization (Shaib et al. 2024); with samples=2 or more."""

    name = "rouge_l"
    direction = "lower"
    bounds = (0.0, 1.0)
    worst = 1.0
    titles = {"rouge_l": "ROUGE-L hom."}

    def prepare(self, features: Features) -> PromptValues:
        return self.average(features, _compute_by_prompt)
