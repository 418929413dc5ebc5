"""Statistics of Q on a chunk of positions: the probability of the true token, sum of squares, support and arg max."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from openended.harness.core import F64, I64
from openended.harness.decoders.base import QDecoder

if TYPE_CHECKING:
    from torch import Tensor

    from openended.harness.decoders.q import Weighed
    from openended.harness.decoders.sorted_logits import View


@dataclass(slots=True)
class QTable:
    """The statistics of one decoder, filled chunk by chunk."""

    gold_prob: F64
    sum_sq: F64
    support: I64
    argmax: I64
    state: tuple[float, ...] = ()

    @classmethod
    def empty(cls, size: int) -> QTable:
        """Return a table of zeros for `size` positions."""
        whole = (np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64))
        return cls(np.zeros(size), np.zeros(size), *whole)


@dataclass(slots=True)
class TextPosition:
    """Where a row of a chunk stands."""

    row: int
    step: int


@dataclass(slots=True)
class LogitChunk:
    """Logits of some positions, with what several decoders share."""

    logits: Tensor
    gold: Tensor
    places: Sequence[TextPosition]
    banned: bool = False
    """True where a logit may be minus infinity."""
    ordered: Tensor | None = None
    best: Tensor | None = None
    views: dict[tuple[float, int], View] = field(default_factory=dict)

    def argmax(self) -> Tensor:
        """The most probable token of each position, made once."""
        from openended.harness.decoders.sorted_logits import argmax

        if self.best is None:
            self.best = argmax(self.logits)
        return self.best

    def view(self, temperature: float, head: int) -> View:
        """The rows at a temperature in descending order."""
        from openended.harness.decoders.sorted_logits import descending, look

        if (temperature, head) not in self.views:
            if self.ordered is None or self.ordered.shape[1] < head:
                self.ordered = descending(self.logits, head)
            hot = self.logits if temperature == 1 else self.logits / temperature
            ordered = self.ordered[:, :head]
            self.views[temperature, head] = look(hot, head, ordered=ordered / temperature)
        return self.views[temperature, head]


def read_q(decoder: QDecoder, table: QTable, chunk: LogitChunk, head: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Probability of the gold token, sum of squares, support and arg max of Q; shape (m,) each."""
    import torch

    if decoder.one_hot:
        best = chunk.argmax()
        one = torch.ones(len(best), dtype=torch.float64)
        return (best == chunk.gold).double(), one, one.long(), best
    if decoder.untruncated:
        return _untruncated(decoder.heat()[0], chunk)
    temperature, first = decoder.heat()
    view = chunk.view(temperature if first else 1.0, head)
    if decoder.first_state():
        view.state = _states(decoder, table, view, chunk)
    return _truncated(decoder, view, chunk)


def _untruncated(temperature: float, chunk: LogitChunk) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The whole softmax: no order needed."""
    import torch

    hot = chunk.logits if temperature == 1 else chunk.logits / temperature
    best = chunk.argmax()
    p = torch.softmax(hot, dim=-1)
    top = p.gather(1, best[:, None]).double().log() - hot.gather(1, best[:, None]).double()  # -log of the sum
    gold_prob = (hot.gather(1, chunk.gold[:, None]).double() + top).exp().squeeze(1)
    support = (hot > float("-inf")).sum(-1) if chunk.banned else None
    sum_sq = torch.linalg.vector_norm(p, dim=-1).double().square_()
    if support is None:
        support = torch.full_like(best, hot.shape[1])
    return gold_prob, sum_sq, support, best


def _truncated(decoder: QDecoder, view: View, chunk: LogitChunk) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """A contiguous part of the descending order; whole rows are ordered where the head does not decide."""
    from openended.harness.decoders.q import weigh
    from openended.harness.decoders.sorted_logits import look

    q = weigh(decoder, view)
    made = _read(q, view, chunk.gold, shared=view.complete)
    best = chunk.argmax()
    argmax = _argmax(q, view, best)
    if not view.complete:
        open_rows = (q.undecided | (q.whole & (q.hi > view.z.shape[1]))).nonzero().squeeze(1)
        if len(open_rows):
            state = None if view.state is None else view.state[open_rows]
            full = look(view.logits[open_rows], None, state)
            again = weigh(decoder, full)
            for target, value in zip(made, _read(again, full, chunk.gold[open_rows], shared=False), strict=True):
                target[open_rows] = value
            argmax[open_rows] = _argmax(again, full, best[open_rows])
    return (*made, argmax)


def _read(q: Weighed, view: View, gold: Tensor, *, shared: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Probability of the gold token, sum of squares and support; `shared`: other decoders read this view too."""
    import torch

    rank = _rank(view, gold)
    width = q.weights.shape[1]
    inside = (rank >= q.lo) & (rank < q.hi.clamp(max=width))
    weight = q.weights.gather(1, rank.clamp(max=width - 1)[:, None]).squeeze(1)
    gold_prob = torch.where(inside, weight / q.total, 0.0)
    end = q.hi.clamp(max=width)
    if shared and q.weights is view.p:
        squares = view.squares_above
        kept = (squares.gather(1, end[:, None]) - squares.gather(1, q.lo[:, None])).squeeze(1)
    else:
        parts = [row[a:b] for row, a, b in zip(q.weights, q.lo.tolist(), end.tolist(), strict=True)]
        kept = torch.stack([part.dot(part) for part in parts])
    support = end - q.lo
    first, last = q.lo[:, None], end[:, None]
    hollow = q.before.gather(1, last) == q.before.gather(1, last - 1)  # a token without a share, at either end
    if bool((hollow | (q.before.gather(1, first) == q.before.gather(1, first + 1))).any()):
        support = torch.minimum(support, (q.weights > 0).sum(-1))
    return gold_prob, kept / q.total**2, support


def _rank(view: View, gold: Tensor) -> Tensor:
    """Position of the gold token in the descending order; the head's length where it is beyond it."""
    import torch

    value = view.logits.gather(1, gold[:, None])
    surprisal = (view.log_z - value.double()).contiguous()
    first = torch.searchsorted(view.surprisal, surprisal).squeeze(1)
    last = torch.searchsorted(view.surprisal, surprisal, right=True).squeeze(1)
    tied = ((last - first) > 1).nonzero().squeeze(1)
    if len(tied):
        ids = torch.arange(view.vocab_size, device=gold.device)
        same = (view.logits[tied] == value[tied]) & (ids < gold[tied, None])
        first[tied] = first[tied] + same.sum(-1)
    return first


def _argmax(q: Weighed, view: View, best: Tensor) -> Tensor:
    """Arg max of Q: the best token, but for rules that may leave it out or lower it."""
    from openended.harness.decoders.q import nth_equal, value_and_rank

    argmax = best.clone()
    moved = (q.peak > 0).nonzero().squeeze(1)
    if len(moved):
        argmax[moved] = nth_equal(view.logits[moved], *value_and_rank(view.z[moved], q.peak[moved]))
    return argmax


def _states(decoder: QDecoder, table: QTable, view: View, chunk: LogitChunk) -> Tensor:
    """State before each position: the human text is what was drawn."""
    import torch

    value = view.logits.gather(1, chunk.gold[:, None]).double()
    surprise = (view.log_z - value).squeeze(1).cpu()
    out = torch.zeros(len(surprise), len(decoder.first_state()), dtype=torch.float64)
    state = torch.tensor([table.state or decoder.first_state()], dtype=torch.float64)
    for i, place in enumerate(chunk.places):
        if place.step == 0:
            state = torch.tensor([decoder.first_state()], dtype=torch.float64)
        out[i] = state[0]
        moved = decoder.next_state(state, surprise[i : i + 1])
        state = state if moved is None else moved
    table.state = tuple(state[0].tolist())
    return out.to(view.z.device)
