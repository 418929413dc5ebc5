"""Statistics of Q on human text: one forward pass, many decoders, never tokens × vocabulary.

Positions go through in chunks that fit the processor's cache. A chunk's rows are put into descending order once for all
truncations; an untruncated Q needs no order at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from openended.harness.decoding.base import QDecoder
from openended.harness.errors import DataError
from openended.harness.types import F64, I64, NextToken, Ragged

if TYPE_CHECKING:
    from torch import Tensor

    from openended.harness.decoding.distribution import Weighed
    from openended.harness.decoding.view import View
    from openended.harness.models.transformers import LanguageModel

CHUNK_CPU, CHUNK_GPU = 2**18, 2**26
"""Logits held at a time: 1 MiB of float32 stays in a core's cache."""
BATCH_TOKENS = 16384
"""Positions of one forward pass at most."""
HEAD = 4096
"""Best tokens looked at first where few decoders share the order."""
SHARED = 3
"""From this number of truncations on, whole rows are ordered at once for all."""


@dataclass(slots=True)
class _Table:
    """The statistics of one decoder, filled chunk by chunk."""

    gold_prob: F64
    sum_sq: F64
    support: I64
    argmax: I64
    state: tuple[float, ...] = ()

    @classmethod
    def empty(cls, size: int) -> _Table:
        whole = (np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64))
        return cls(np.zeros(size), np.zeros(size), *whole)


@dataclass(slots=True)
class _Position:
    """Where a row of a chunk stands."""

    row: int
    step: int


@dataclass(slots=True)
class _Chunk:
    """Logits of some positions, with what several decoders share."""

    logits: Tensor
    gold: Tensor
    places: Sequence[_Position]
    banned: bool = False
    """True where a logit may be minus infinity."""
    ordered: Tensor | None = None
    best: Tensor | None = None
    views: dict[tuple[float, int], View] = field(default_factory=dict)

    def argmax(self) -> Tensor:
        from openended.harness.decoding.view import argmax

        if self.best is None:
            self.best = argmax(self.logits)
        return self.best

    def view(self, temperature: float, head: int) -> View:
        """The rows at a temperature in descending order."""
        from openended.harness.decoding.view import descending, look

        if (temperature, head) not in self.views:
            if self.ordered is None or self.ordered.shape[1] < head:
                self.ordered = descending(self.logits, head)
            hot = self.logits if temperature == 1 else self.logits / temperature
            ordered = self.ordered[:, :head]
            self.views[temperature, head] = look(hot, head, ordered=ordered / temperature)
        return self.views[temperature, head]


def next_token_stats(
    lm: LanguageModel,
    decoders: Sequence[QDecoder],
    prompts: Ragged,
    continuations: Ragged,
    *,
    min_new_tokens: int = 0,
    batch_size: int,
    advance: Callable[[int], None] | None = None,
) -> list[NextToken]:
    """Score human continuations token by token under each decoder's Q, in one pass.

    Args:
        lm: The model.
        decoders: Decoders with a Q; a state (mirostat) runs along the human text.
        prompts: Token ids before each continuation; may be empty rows.
        continuations: Token ids to score.
        min_new_tokens: As in generation: Q gives the end of text nothing before.
        batch_size: Rows a forward pass at most.
        advance: Gets the number of positions just scored.

    Returns:
        One `NextToken` a decoder, rows as in `continuations`.

    Raises:
        DataError: If the rows do not match or one is longer than the model's context.
    """
    import torch

    _check(lm, prompts, continuations)
    tables = [_Table.empty(len(continuations.values)) for _ in decoders]
    limit = CHUNK_CPU if lm.device.type == "cpu" else CHUNK_GPU
    size = max(1, limit // lm.vocab_size)
    with torch.inference_mode():
        for rows in _batches(prompts.lengths, continuations.lengths, batch_size):
            _batch(lm, decoders, tables, prompts, continuations, rows, size, min_new_tokens)
            if advance is not None:
                advance(int(continuations.lengths[rows].sum()))
    gold = np.asarray(continuations.values, dtype=np.int64)
    return [
        NextToken(
            continuations.offsets, t.gold_prob, t.sum_sq, t.support, t.argmax, gold, prompts, vocab_size=lm.vocab_size
        )
        for t in tables
    ]


def _check(lm: LanguageModel, prompts: Ragged, continuations: Ragged) -> None:
    if len(prompts) != len(continuations):
        raise DataError(f"expected a prompt for each continuation, got {len(prompts)} for {len(continuations)}")
    longest = int(np.max(np.maximum(prompts.lengths, 1) + continuations.lengths - 1, initial=0))
    if lm.context_length is not None and longest > lm.context_length:
        raise DataError(
            f"a human text has {longest + 1} tokens with its prompt, the model {lm.context_length} positions; "
            "cut it with max_new_tokens"
        )


def _batches(before: I64, scored: I64, batch_size: int) -> Iterator[list[int]]:
    """Rows of like lengths, at most `BATCH_TOKENS` padded positions together; rows without tokens are left out."""
    lengths = before + scored
    order = np.argsort(-lengths, kind="stable")
    batch: list[int] = []
    for row in order[scored[order] > 0].tolist():
        if batch and (len(batch) >= batch_size or (len(batch) + 1) * int(lengths[batch[0]]) > BATCH_TOKENS):
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def _batch(
    lm: LanguageModel,
    decoders: Sequence[QDecoder],
    tables: Sequence[_Table],
    prompts: Ragged,
    continuations: Ragged,
    rows: Sequence[int],
    size: int,
    min_new_tokens: int,
) -> None:
    """One forward pass over the rows, without padding where the model allows it, then chunks."""
    import torch

    from openended.harness.decoding.cache.runner import runner
    from openended.harness.decoding.penalties import forbid_end

    heads = [prompts[r] if len(prompts[r]) else np.array([lm.start_id]) for r in rows]
    tails = [continuations[r] for r in rows]
    places = [_Position(row, t) for row, tail in zip(rows, tails, strict=True) for t in range(len(tail))]
    both = [np.concatenate([head, tail[:-1]]) for head, tail in zip(heads, tails, strict=True)]
    run = runner(lm, len(rows), max(map(len, both)), once=True)
    states = run.start(range(len(rows)), [ids.tolist() for ids in both])
    hidden = torch.cat([state[len(head) - 1 :] for state, head in zip(states, heads, strict=True)])
    gold = torch.from_numpy(np.concatenate(tails).astype(np.int64)).to(lm.device)
    out = np.concatenate([np.arange(continuations.offsets[r], continuations.offsets[r + 1]) for r in rows])
    for start in range(0, len(places), size):
        part = slice(start, start + size)
        early = [i for i, place in enumerate(places[part]) if place.step < min_new_tokens]
        logits = run.logits(hidden[part])
        if early:
            logits = forbid_end(logits, lm.eos_id, early)
        chunk = _Chunk(logits, gold[part], places[part], banned=bool(early))
        _score_all(decoders, tables, chunk, out[part], prompts, continuations)


def _score_all(
    decoders: Sequence[QDecoder],
    tables: Sequence[_Table],
    chunk: _Chunk,
    out: I64,
    prompts: Ragged,
    continuations: Ragged,
) -> None:
    """Score a chunk under every decoder."""
    truncating = sum(not (d.one_hot or d.untruncated or d.penalises) for d in decoders)
    vocab_size = chunk.logits.shape[1]
    head = vocab_size if truncating >= SHARED or vocab_size <= 2 * HEAD else HEAD
    for decoder, table in zip(decoders, tables, strict=True):
        seen = _penalised(decoder, chunk, prompts, continuations) if decoder.penalises else chunk
        gold_prob, sum_sq, support, argmax = _score(decoder, table, seen, head)
        table.gold_prob[out], table.sum_sq[out] = gold_prob.cpu(), sum_sq.cpu()
        table.support[out], table.argmax[out] = support.cpu(), argmax.cpu()


def _penalised(decoder: QDecoder, chunk: _Chunk, prompts: Ragged, continuations: Ragged) -> _Chunk:
    """Apply penalties: every position has a history of its own."""
    import torch

    from openended.harness.decoding.penalties import penalise

    made = []
    for i, place in enumerate(chunk.places):
        history = np.concatenate([prompts[place.row], continuations[place.row][: place.step]]).astype(np.int64)
        row = chunk.logits[i : i + 1]
        made.append(penalise(decoder, row, torch.from_numpy(history).to(row.device)[None]) if len(history) else row)
    return _Chunk(torch.cat(made), chunk.gold, chunk.places, banned=True)


def _score(decoder: QDecoder, table: _Table, chunk: _Chunk, head: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
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


def _untruncated(temperature: float, chunk: _Chunk) -> tuple[Tensor, Tensor, Tensor, Tensor]:
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


def _truncated(decoder: QDecoder, view: View, chunk: _Chunk) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """A contiguous part of the descending order; whole rows are ordered where the head does not decide."""
    from openended.harness.decoding.distribution import weigh
    from openended.harness.decoding.view import look

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
    if bool((q.before.gather(1, end[:, None]) == q.before.gather(1, (end - 1)[:, None])).any()):
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
    """Arg max of Q: the best token, but for rules that may leave it out."""
    argmax = best.clone()
    moved = (q.lo > 0).nonzero().squeeze(1)
    if len(moved):
        value = view.z[moved].gather(1, q.lo[moved, None]).to(view.logits.dtype)
        argmax[moved] = (view.logits[moved] == value).int().argmax(-1)
    return argmax


def _states(decoder: QDecoder, table: _Table, view: View, chunk: _Chunk) -> Tensor:
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
