"""rep/l and wrep/l: how often Q's best next token was already among the last l tokens of human text.

    rep/l  = share of positions whose arg max of Q is among the l tokens before
    wrep/l = the same, counted only where it is not the true token

Measures a model's pull towards repetition, teacher-forced; in [0, 1]. rep/l is compared with the share of *human*
tokens that repeat (`human_rep_l`, shown beside it); wrep/l is an error, lower is better. The values are means over
several l.

Source: Welleck et al. 2020, "Neural text generation with unlikelihood training", section 6.1: l = 16, 32, 128, 512, the
tokens before are the true ones. Variants: a token drawn from Q in place of its arg max (released code of Martins et al.
2020). Tokens of the prompt count among those before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from openended.harness.core import I64, Direction, Features, MetricResult, NextToken, Ragged, register
from openended.metrics.families import TeacherForced, mean_by_row


def distance_back(candidates: I64, gold: I64, offsets: I64, context: Ragged) -> I64:
    """Return how many tokens before each position its candidate last occurred.

    Args:
        candidates: A token a position, shape (n,).
        gold: The true tokens, shape (n,).
        offsets: Row i holds positions `offsets[i]` to `offsets[i + 1]`.
        context: Tokens before each row's first position.

    Returns:
        Shape (n,); 1 is the token just before; a very large number where it did not come.

    Source: Welleck et al. 2020, section 6.1.

    >>> before = Ragged.from_rows([[7, 8]], np.int64)
    >>> distance_back(np.array([7, 5]), np.array([5, 6]), np.array([0, 2]), before).tolist()
    [2, 1]
    """
    never = np.iinfo(np.int64).max
    out = np.full(len(candidates), never, dtype=np.int64)
    for row in range(len(offsets) - 1):
        start, end = int(offsets[row]), int(offsets[row + 1])
        last: dict[int, int] = {int(token): at for at, token in enumerate(context[row])}
        position = len(context[row])
        for at in range(start, end):
            seen = last.get(int(candidates[at]))
            if seen is not None:
                out[at] = position - seen
            last[int(gold[at])] = position
            position += 1
    return out


def rep_l(stats: NextToken, *, lengths: tuple[int, ...] = (16, 32, 128, 512)) -> dict[str, float]:
    """rep/l, wrep/l and the human rep/l, each the mean over `lengths`.

    Args:
        stats: Statistics of Q on human text.
        lengths: Values of l.

    Returns:
        `rep_l`, `wrep_l`, `human_rep_l`, in [0, 1].

    Source: Welleck et al. 2020, section 6.1.
    """
    shares = _compute_shares(stats, lengths)
    return {name: float(values.mean()) for name, values in shares.items()}


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


@register("metric")
@dataclass(frozen=True, kw_only=True)
class RepL(TeacherForced):
    """rep/l and wrep/l of Q's best tokens on human text."""

    name: ClassVar[str] = "rep_l"
    version: ClassVar[int] = 1
    direction: ClassVar[Direction] = "match_human"
    bounds: ClassVar[tuple[float, float]] = (0.0, 1.0)
    titles: ClassVar[dict[str, str]] = {"rep_l": "rep/l", "wrep_l": "wrep/l", "human_rep_l": "human rep/l"}
    directions: ClassVar[dict[str, Direction | Literal["none"]]] = {"wrep_l": "lower", "human_rep_l": "none"}

    lengths: tuple[int, ...] = (16, 32, 128, 512)  # Welleck et al. 2020

    def check(self) -> None:
        """Refuse lengths below 1."""
        self.require(bool(self.lengths) and min(self.lengths) >= 1, "lengths", "integers of at least 1")

    def compute(self, features: Features) -> MetricResult:
        """Compute the shares."""
        stats = self.statistics(features)
        shares = _compute_shares(stats, self.lengths)
        values = {name: float(v.mean()) for name, v in shares.items()}
        by_row = {name: mean_by_row(v, stats.offsets) for name, v in shares.items()}
        return self.result(features, self.name, values, per_example=by_row)
