"""Statistics of Q at positions of given texts: probability of the true token, sum of squares, support and arg max.

Many decoders share the sorted logits of a chunk of positions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from openended.harness.core import F64, I64, copy_to_host
from openended.harness.decoders import descending_logits
from openended.harness.decoders.descending_logits import DescendingLogits, find_argmax, sort_logits
from openended.harness.decoders.q import (
    RenormalizedQ,
    compute_dense_q,
    find_nth_equal,
    read_value_and_rank,
    truncate_and_renormalize,
)

if TYPE_CHECKING:
    from torch import Tensor

    from openended.harness.decoders.base import QDecoder


class QStatistics(NamedTuple):
    """Statistics of Q at some positions, shape (m,) each."""

    gold_prob: Tensor  # probability of the true token
    sum_sq: Tensor  # sum of the squares of Q
    support: Tensor  # number of tokens with a probability above 0
    argmax: Tensor  # the most probable token


@dataclass(slots=True)
class QTable:
    """The statistics of one decoder, filled chunk by chunk."""

    gold_prob: F64
    sum_sq: F64
    support: I64
    argmax: I64
    states: dict[tuple[int, int], Tensor] = field(default_factory=dict)
    """State before a text's step, (text, step) → shape (1, s), of decoders that have one; kept for the last two."""

    @classmethod
    def empty(cls, size: int) -> QTable:
        """Return a table of zeros for `size` positions."""
        zeros = (np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64))
        return cls(np.zeros(size), np.zeros(size), *zeros)

    def extend(self, size: int) -> None:
        """Make room for `size` positions at least; at least doubles a table that is too small."""
        if size > len(self.argmax):
            missing = max(size, 2 * len(self.argmax)) - len(self.argmax)
            for name in ("gold_prob", "sum_sq", "support", "argmax"):
                setattr(self, name, np.pad(getattr(self, name), (0, missing)))

    def write(self, at: I64, statistics: QStatistics) -> None:
        self.gold_prob[at], self.sum_sq[at], self.support[at], self.argmax[at] = copy_to_host(*statistics)


@dataclass(slots=True)
class TextPosition:
    """The text and step of a row of a chunk."""

    row: int
    step: int


@dataclass(slots=True)
class LogitChunk:
    """Logits of some positions, with what several decoders share."""

    logits: Tensor
    gold: Tensor
    positions: Sequence[TextPosition]
    banned: bool = False  # true where a logit may be minus infinity
    read_history: Callable[[TextPosition], I64] = lambda _: np.zeros(0, dtype=np.int64)
    """Returns the tokens before a position, those of the prompt included."""
    ordered: Tensor | None = None
    best: Tensor | None = None
    sorted_at: dict[tuple[float, int], DescendingLogits] = field(default_factory=dict)

    def argmax(self) -> Tensor:
        """Return the most probable token of each position, computed once."""
        if self.best is None:
            self.best = find_argmax(self.logits)
        return self.best

    def sort_at(self, temperature: float, head: int) -> DescendingLogits:
        """Return the rows at a temperature in descending order."""
        if (temperature, head) not in self.sorted_at:
            if self.ordered is None or self.ordered.shape[1] < head:
                self.ordered = descending_logits.take_largest(self.logits, head)
            scaled = self.logits if temperature == 1 else self.logits / temperature
            self.sorted_at[temperature, head] = sort_logits(scaled, head, ordered=self.ordered[:, :head] / temperature)
        return self.sorted_at[temperature, head]


def read_q(decoder: QDecoder, table: QTable, chunk: LogitChunk, head: int) -> QStatistics:
    """Probability of the gold token, sum of squares, support and arg max of Q; shape (m,) each."""
    import torch

    if decoder.one_hot:
        best = chunk.argmax()
        ones = torch.ones(len(best), dtype=torch.float64, device=best.device)
        return QStatistics((best == chunk.gold).double(), ones, ones.long(), best)
    temperature, is_before = decoder.temperature_and_order()
    if decoder.untruncated:
        return _read_untruncated(temperature, chunk)
    ranked = chunk.sort_at(temperature if is_before else 1.0, head)
    if decoder.first_state():
        ranked.state = _replay_states(decoder, table, ranked, chunk)
    return _read_truncated(decoder, ranked, chunk)


def read_dense_q(decoder: QDecoder, table: QTable, chunk: LogitChunk) -> Tensor:
    """Q of a chunk after penalties over the whole vocabulary, shape (m, V), float64; `table` keeps decoders' states."""
    state = None
    if decoder.first_state():
        state = _replay_states(decoder, table, chunk.sort_at(decoder.temperature_and_order()[0], 1), chunk)
    return compute_dense_q(decoder, chunk.logits, state)


def _read_untruncated(temperature: float, chunk: LogitChunk) -> QStatistics:
    import torch

    scaled = chunk.logits if temperature == 1 else chunk.logits / temperature
    best = chunk.argmax()
    p = torch.softmax(scaled, dim=-1)
    top = p.gather(1, best[:, None]).double().log() - scaled.gather(1, best[:, None]).double()  # -log of the sum
    gold_prob = (scaled.gather(1, chunk.gold[:, None]).double() + top).exp().squeeze(1)
    sum_sq = torch.linalg.vector_norm(p, dim=-1).double().square_()
    support = (scaled > float("-inf")).sum(-1) if chunk.banned else torch.full_like(best, scaled.shape[1])
    return QStatistics(gold_prob, sum_sq, support, best)


def _read_truncated(decoder: QDecoder, ranked: DescendingLogits, chunk: LogitChunk) -> QStatistics:
    """Compute the statistics of a truncated Q; sort whole rows where the head does not determine it."""
    q = truncate_and_renormalize(decoder, ranked)
    statistics = _read_statistics(q, ranked, chunk.gold, shared=ranked.complete)
    best = chunk.argmax()
    argmax = _find_q_argmax(q, ranked, best)
    if not ranked.complete:
        open_rows = (q.needs_whole_row | (q.keeps_all & (q.hi > ranked.z.shape[1]))).nonzero().squeeze(1)
        if len(open_rows):
            state = None if ranked.state is None else ranked.state[open_rows]
            full = sort_logits(ranked.logits[open_rows], None, state)
            again = truncate_and_renormalize(decoder, full)
            values = _read_statistics(again, full, chunk.gold[open_rows], shared=False)
            for target, value in zip(statistics, values, strict=True):
                target[open_rows] = value
            argmax[open_rows] = _find_q_argmax(again, full, best[open_rows])
    return QStatistics(*statistics, argmax)


def _read_statistics(
    q: RenormalizedQ, ranked: DescendingLogits, gold: Tensor, *, shared: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Return gold token's probability, sum of squares and support; `shared`: other decoders read these rows too."""
    import torch

    rank = _find_rank(ranked, gold)
    width = q.weights.shape[1]
    inside = (rank >= q.lo) & (rank < q.hi.clamp(max=width))
    weight = q.weights.gather(1, rank.clamp(max=width - 1)[:, None]).squeeze(1)
    gold_prob = torch.where(inside, weight / q.total, 0.0)
    end = q.hi.clamp(max=width)
    if shared and q.weights is ranked.p:
        squares = ranked.squares_before
        squares_sum = (squares.gather(1, end[:, None]) - squares.gather(1, q.lo[:, None])).squeeze(1)
    elif q.weights.device.type == "cpu":
        parts = [row[a:b] for row, a, b in zip(q.weights, q.lo.tolist(), end.tolist(), strict=True)]
        squares_sum = torch.stack([part.dot(part) for part in parts])
    else:
        at = torch.arange(width, device=end.device)
        squares_sum = q.weights.square().masked_fill_((at < q.lo[:, None]) | (at >= end[:, None]), 0.0).sum(-1)
    support = end - q.lo
    first, last = q.lo[:, None], end[:, None]
    sums = q.weight_before
    hollow = sums.gather(1, last) == sums.gather(1, last - 1)  # a token without a share, at either end
    if support.device.type != "cpu" or bool((hollow | (sums.gather(1, first) == sums.gather(1, first + 1))).any()):
        support = torch.minimum(support, (q.weights > 0).sum(-1))
    return gold_prob, squares_sum / q.total**2, support


def _find_rank(ranked: DescendingLogits, gold: Tensor) -> Tensor:
    """Return the gold token's rank in the descending order; the head's length if it is beyond the head."""
    import torch

    value = ranked.logits.gather(1, gold[:, None])
    surprisal = (ranked.log_z - value.double()).contiguous()
    first = torch.searchsorted(ranked.surprisal, surprisal).squeeze(1)
    last = torch.searchsorted(ranked.surprisal, surprisal, right=True).squeeze(1)
    ids = torch.arange(ranked.vocab_size, device=gold.device)
    if gold.device.type != "cpu":  # all rows, without asking which are tied
        same = (ranked.logits == value) & (ids < gold[:, None])
        return torch.where(last - first > 1, first + same.sum(-1), first)
    tied = ((last - first) > 1).nonzero().squeeze(1)
    if len(tied):
        same = (ranked.logits[tied] == value[tied]) & (ids < gold[tied, None])
        first[tied] = first[tied] + same.sum(-1)
    return first


def _find_q_argmax(q: RenormalizedQ, ranked: DescendingLogits, best: Tensor) -> Tensor:
    """Arg max of Q: the best token, but for rules that may leave it out or lower it."""
    if best.device.type != "cpu":
        return find_nth_equal(ranked.logits, *read_value_and_rank(ranked.z, q.peak))
    argmax = best.clone()
    moved = (q.peak > 0).nonzero().squeeze(1)
    if len(moved):
        argmax[moved] = find_nth_equal(ranked.logits[moved], *read_value_and_rank(ranked.z[moved], q.peak[moved]))
    return argmax


def _replay_states(decoder: QDecoder, table: QTable, ranked: DescendingLogits, chunk: LogitChunk) -> Tensor:
    """Return the decoder's state before each position, with the human text as the drawn tokens."""
    import torch

    value = ranked.logits.gather(1, chunk.gold[:, None]).double()
    surprise = (ranked.log_z - value).squeeze(1).cpu()
    first = torch.tensor([decoder.first_state()], dtype=torch.float64)
    out = torch.zeros(len(surprise), first.shape[1], dtype=torch.float64)
    for i, position in enumerate(chunk.positions):
        row, step = position.row, position.step
        state = first if step == 0 else table.states[row, step]
        out[i] = state[0]
        next_state = decoder.next_state(state, surprise[i : i + 1])
        table.states[row, step + 1] = state if next_state is None else next_state
        table.states.pop((row, step - 1), None)
    return out.to(ranked.z.device)
