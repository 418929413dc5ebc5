"""rep/l and wrep/l: how often Q's best next token was already among the last l tokens of human text.

    rep/l  = share of positions whose arg max of Q is among the l tokens before
    wrep/l = the same, counted only where it is not the true token

In [0, 1]; the values are means over several l. rep/l is compared with the share of *human* tokens that repeat
(`human_rep_l`); wrep/l is an error, lower is better. Tokens of the prompt count among those before.

Source: Welleck et al. 2020, "Neural text generation with unlikelihood training", section 6.1: l = 16, 32, 128, 512, the
tokens before are the true ones. Variants: a token drawn from Q in place of its arg max (released code of Martins et al.
2020).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from openended.harness.core import I64, Features, NextToken, Ragged, metric, option
from openended.metrics.families import PositionValues, TeacherForced, read_next_token


def distance_back(candidates: I64, gold: I64, offsets: I64, context: Ragged) -> I64:
    """Return how many tokens before each position its candidate last occurred.

    Args:
        candidates: One token per position, shape (n,).
        gold: The true tokens, shape (n,).
        offsets: Row i holds positions `offsets[i]` to `offsets[i + 1]`.
        context: Tokens before each row's first position.

    Returns:
        Distances in tokens, shape (n,); 1 is the token just before, a very large number means that it did not occur.
    """
    out = np.full(len(candidates), np.iinfo(np.int64).max, dtype=np.int64)
    for row, before in enumerate(context):
        last: dict[int, int] = {int(token): at for at, token in enumerate(before)}
        for position, at in enumerate(range(int(offsets[row]), int(offsets[row + 1])), start=len(before)):
            seen = last.get(int(candidates[at]))
            if seen is not None:
                out[at] = position - seen
            last[int(gold[at])] = position
    return out


def rep_l(stats: NextToken, *, lengths: tuple[int, ...] = (16, 32, 128, 512)) -> dict[str, float]:
    """Compute rep/l and wrep/l of Q, and the share of human tokens that repeat (Welleck et al. 2020).

    Args:
        stats: Statistics of Q on human text.
        lengths: The values of l, in tokens, each at least 1.

    Returns:
        `rep_l`, `wrep_l` and `human_rep_l`, in [0, 1], each the mean over `lengths`.
    """
    return {name: float(values.mean()) for name, values in _compute_shares(stats, lengths).items()}


def _compute_shares(stats: NextToken, lengths: tuple[int, ...]) -> dict[str, NDArray[Any]]:
    """Return, for each position, the share of lengths at which it counts."""
    best = distance_back(stats.argmax, stats.gold, stats.offsets, stats.context)
    true = distance_back(stats.gold, stats.gold, stats.offsets, stats.context)
    limits = np.asarray(lengths)[:, None]
    rep = (best[None, :] <= limits).mean(0)
    return {
        "rep_l": rep,
        "wrep_l": np.where(stats.argmax != stats.gold, rep, 0.0),
        "human_rep_l": (true[None, :] <= limits).mean(0),
    }


@metric
class RepL(TeacherForced):
    """How often the best next token is one of the last l tokens (Welleck et al. 2020); teacher-forced."""

    name = "rep_l"
    direction = "match_human"
    bounds = (0.0, 1.0)
    titles = {"rep_l": "rep/l", "wrep_l": "wrep/l", "human_rep_l": "human rep/l"}
    directions = {"wrep_l": "lower", "human_rep_l": "none"}

    lengths: tuple[int, ...] = option(
        (16, 32, 128, 512), lambda values: values and min(values) >= 1, "integers of at least 1", unordered=True
    )
    """The mean over these l; Welleck et al. 2020."""

    def prepare(self, features: Features) -> PositionValues:
        stats = read_next_token(features)
        return stats.offsets, _compute_shares(stats, self.lengths)
