"""Compute Q(· | context) from logits, penalties first: the distribution used for sampling and for scoring.

A row is looked at in *descending order*: the most probable token first, equal logits by lower token id. In that order
every rule keeps one contiguous part `[lo, hi)`, so Q is (order, lo, hi, weights) and one function serves the sampler,
which looks at the few hundred best tokens (the *head*) and sorts a whole row only where that does not decide, and the
teacher-forced statistics of `q_statistics`, which share one sorted row among many decoders.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from openended.harness.core import I64, copy_to_device
from openended.harness.decoders import descending_logits
from openended.harness.decoders.descending_logits import DescendingLogits, find_argmax, sort_logits

if TYPE_CHECKING:
    from torch import Tensor

    from openended.harness.decoders.base import QDecoder

BLOCK_NUMBERS = 2**19
"""Logits that a draw looks at together on a CPU: what it makes of them stays in the processor's cache."""


LONG_HEAD = 4096
"""Tokens that are ordered on a CPU where a decoder's head is too short; then whole rows are."""


class PenalizingDecoder(Protocol):
    """A decoder with options that change the logits of tokens seen before; see `Decoder` and `QDecoder`."""

    @property
    def penalizes(self) -> bool: ...
    @property
    def repetition_penalty(self) -> float: ...
    @property
    def no_repeat_ngram_size(self) -> int: ...
    def apply_extra_penalty(self, logits: Tensor, history: Tensor, lengths: Tensor | None) -> Tensor: ...


def apply_penalties(
    decoder: PenalizingDecoder, logits: Tensor, history: Tensor, lengths: Tensor | None = None
) -> Tensor:
    """Apply repetition penalty, the decoder's extra penalty, then the n-gram ban, as transformers and llama.cpp do.

    Args:
        decoder: Its `repetition_penalty`, `apply_extra_penalty` and `no_repeat_ngram_size` apply.
        logits: Shape (n, V); not changed.
        history: Token ids so far, prompt included, shape (n, t).
        lengths: How many of them count in each row, shape (n,), at least 1; None: all.

    Returns:
        Shape (n, V), float32; `logits` itself where nothing applies.
    """
    if decoder.repetition_penalty != 1:
        logits = apply_repetition_penalty(logits, history, decoder.repetition_penalty, lengths)
    logits = decoder.apply_extra_penalty(logits, history, lengths)
    if decoder.no_repeat_ngram_size > 0:
        logits = ban_ngrams(logits, history, decoder.no_repeat_ngram_size, lengths)
    return logits


def forbid_end(logits: Tensor, eos_ids: Sequence[int], steps: Sequence[int] | I64, least: int) -> Tensor:
    """Forbid the end of text, where a text is still shorter than `min_new_tokens`.

    Args:
        logits: Shape (n, V); written to.
        eos_ids: The end tokens; empty where the model has none.
        steps: Tokens of each row's text so far, shape (n,).
        least: Tokens that a text has at least.
    """
    if least and len(early := np.flatnonzero(np.asarray(steps) < least)):
        rows = copy_to_device(early, logits.device)
        for eos_id in eos_ids:
            logits[rows, eos_id] = float("-inf")
    return logits


def apply_repetition_penalty(logits: Tensor, history: Tensor, penalty: float, lengths: Tensor | None = None) -> Tensor:
    """Divide positive logits of seen tokens by the penalty, multiply negative ones (Keskar et al. 2019)."""
    import torch

    if lengths is not None:  # padding repeats the row's first token, which is seen anyway
        inside = torch.arange(history.shape[1], device=history.device) < lengths[:, None]
        history = torch.where(inside, history, history[:, :1])
    seen = logits.gather(1, history)
    return logits.scatter(1, history, torch.where(seen < 0, seen * penalty, seen / penalty))


def ban_ngrams(logits: Tensor, history: Tensor, order: int, lengths: Tensor | None = None) -> Tensor:
    """Forbid every token that would complete an n-gram already in the history (Paulus et al. 2018)."""
    import torch

    longest = history.shape[1]
    if longest < order:
        return logits
    if lengths is None:
        lengths = torch.full((len(history),), longest, device=history.device)
    follows = history[:, order - 1 :]
    match = torch.arange(order - 1, longest, device=history.device) < lengths[:, None]  # windows inside their row
    for back in range(1, order):  # compare the tokens `back` positions before both ends
        recent = history.gather(1, (lengths[:, None] - back).clamp_min(0))
        match &= history[:, order - 1 - back : longest - back] == recent
    limits = torch.full(match.shape, float("inf"), dtype=logits.dtype, device=logits.device)
    return logits.scatter_reduce(1, follows, limits.masked_fill_(match, float("-inf")), "amin")


@dataclass(slots=True)
class RenormalizedQ:
    """Q of rows, ready to be drawn from or read: positions are those of the descending order."""

    view: DescendingLogits
    lo: Tensor
    hi: Tensor
    weights: Tensor  # unnormalized Q, shape (n, k), right inside [lo, hi) only
    weight_before: Tensor  # sum of weights strictly before each position, shape (n, w + 1)
    total: Tensor  # sum of weights over [lo, hi), shape (n,)
    needs_whole_row: Tensor  # true where the head is too short for this row's Q, shape (n,)
    keeps_all: bool
    """True where the rule leaves out no token: Q goes on beyond the head, and its weights sum to 1 over the row."""
    peak: Tensor  # first position of the largest weight, shape (n,)

    def draw(self, u: Tensor) -> tuple[Tensor, Tensor]:
        """Return positions (n,) of the inverse CDF at u (n,) in [0, 1), and the rows that leave the head."""
        import torch

        start = self.weight_before.gather(1, self.lo[:, None]).squeeze(1)
        target = start + u * self.total
        position = torch.searchsorted(self.weight_before, target[:, None].contiguous(), right=True).squeeze(1) - 1
        outside_head = self.needs_whole_row
        if self.keeps_all:
            outside_head = (target >= self.weight_before[:, -1]) & (not self.view.complete)
        last = self.hi.clamp(max=self.weights.shape[1]) - 1
        return torch.minimum(torch.maximum(position, self.lo), last), outside_head

    def log_prob(self, position: Tensor) -> Tensor:
        """Natural log of Q at positions (n,) inside [lo, hi)."""
        return (self.weights.gather(1, position[:, None]).squeeze(1) / self.total).log()


def truncate_and_renormalize(decoder: QDecoder, ranked: DescendingLogits) -> RenormalizedQ:
    """Apply a decoder's truncation to ordered rows and renormalize."""
    import torch

    cut = decoder.truncate(ranked)
    rows, k = ranked.z.shape
    lo = torch.zeros(rows, dtype=torch.int64, device=ranked.z.device) if cut.lo is None else cut.lo
    keeps_all = cut.hi is None and cut.lo is None
    hi = torch.full_like(lo, ranked.vocab_size) if cut.hi is None else cut.hi
    needs_whole_row = (hi >= k) & (not ranked.complete)
    weights, before = ranked.p, ranked.mass_before
    temperature, is_before = decoder.temperature_and_order()
    if cut.weights is not None:
        weights, before = cut.weights, descending_logits.sum_before(cut.weights)
    elif not is_before and temperature != 1 and not keeps_all:
        weights = ((ranked.z - ranked.z[:, :1]) / temperature).exp_()
        before = descending_logits.sum_before(weights)
    end = hi.clamp(max=weights.shape[1])
    total = (before.gather(1, end[:, None]) - before.gather(1, lo.clamp(max=k - 1)[:, None])).squeeze(1)
    if keeps_all and not ranked.complete:
        total = torch.ones_like(total)
    lo = lo.clamp(max=k - 1)
    peak = lo if cut.peak is None else cut.peak
    return RenormalizedQ(ranked, lo, hi, weights, before, total, needs_whole_row, keeps_all, peak)


def apply_temperature(decoder: QDecoder, logits: Tensor) -> Tensor:
    """Apply the temperature where it comes before truncation (or where there is none to come before)."""
    temperature, is_before = decoder.temperature_and_order()
    return logits / temperature if temperature != 1 and (is_before or decoder.untruncated) else logits


def draw_tokens(
    decoder: QDecoder, logits: Tensor, u: Tensor, state: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Draw one token a row by inverse CDF along the descending order.

    Two decoders with the same u choose the same token wherever their Q agree, and mostly where they are close.

    Args:
        decoder: Any decoder with a Q.
        logits: Shape (n, V), float32, penalties applied.
        u: Shape (n,), float64 in [0, 1).
        state: Shape (n, s), float64, of decoders that have one.

    Returns:
        Token ids (n,) int64, natural log of Q (n,) float64, the next state.
    """
    import torch

    if decoder.one_hot:
        token = find_argmax(logits)
        return token, torch.zeros(len(token), dtype=torch.float64, device=logits.device), None
    size = max(1, BLOCK_NUMBERS // logits.shape[1]) if logits.device.type == "cpu" else len(logits)
    if len(logits) <= size:
        return _draw(decoder, logits, u, state)
    states = [None] * -(-len(u) // size) if state is None else torch.split(state, size)
    parts = zip(torch.split(logits, size), torch.split(u, size), states, strict=True)
    tokens, log_q, after = zip(*(_draw(decoder, *part) for part in parts), strict=True)
    return torch.cat(tokens), torch.cat(log_q), None if after[0] is None else torch.cat(after)


@dataclass(slots=True)
class Draw:
    """Draws of rows from their heads. Those in `outside_head` are not final until `redraw`."""

    decoder: QDecoder
    scaled: Tensor
    """Logits after penalties and temperature, shape (n, V)."""
    u: Tensor
    state: Tensor | None
    log_z: Tensor
    value: Tensor
    """The drawn logits, shape (n,)."""
    rank: Tensor
    """How many equal logits come before each, shape (n,)."""
    log_q: Tensor
    """Natural log of Q, shape (n,), float64."""
    outside_head: Tensor
    """Whether the head does not determine a row's draw, shape (n,)."""

    def redraw(self, rows: Tensor, head: int | None = None) -> None:
        """Draw rows (m,) again, from a longer head, or from the whole row."""
        part = self.scaled if len(rows) == len(self.scaled) else self.scaled[rows]
        state = None if self.state is None else self.state[rows]
        q = truncate_and_renormalize(self.decoder, sort_logits(part, head, state, log_z=self.log_z[rows]))
        at, outside_head = q.draw(self.u[rows])
        self.value[rows], self.rank[rows] = read_value_and_rank(q.view.z, at)
        self.log_q[rows] = q.log_prob(at)
        self.outside_head[rows] = outside_head & (not q.view.complete)

    def find_tokens(self) -> Tensor:
        """Return the drawn token ids (n,)."""
        return find_nth_equal(self.scaled, self.value, self.rank)

    def find_next_state(self) -> Tensor | None:
        """Return the state after these draws."""
        surprise = None if self.state is None else (self.log_z.squeeze(1) - self.value)
        return self.decoder.next_state(self.state, surprise)


def start_draw(decoder: QDecoder, logits: Tensor, u: Tensor, state: Tensor | None = None) -> Draw:
    """Draw one token of each row from its head; the host does not wait. The parameters are those of `draw_tokens`."""
    scaled = apply_temperature(decoder, logits)
    q = truncate_and_renormalize(decoder, sort_logits(scaled, decoder.head, state))
    position, outside_head = q.draw(u)
    value, rank = read_value_and_rank(q.view.z, position)
    outside_head = outside_head & (not q.view.complete)
    return Draw(decoder, scaled, u, state, q.view.log_z, value, rank, q.log_prob(position), outside_head)


def _draw(decoder: QDecoder, logits: Tensor, u: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
    """Draw a few rows: from the head, from a longer one where that does not decide, and from the whole row."""
    draw = start_draw(decoder, logits, u, state)
    for head in (LONG_HEAD, None):
        if bool(draw.outside_head.any()):
            draw.redraw(draw.outside_head.nonzero().squeeze(1), head)
    return draw.find_tokens(), draw.log_q, draw.find_next_state()


def read_value_and_rank(z: Tensor, position: Tensor) -> tuple[Tensor, Tensor]:
    """The logit at a position (n,) of the descending order, and how many equal ones stand before it; shape (n,)."""
    import torch

    value = z.gather(1, position[:, None])
    before = z.gather(1, (position[:, None] - 1).clamp_min(0))
    # An accelerator computes the ranks at once: asking whether there are equal logits would make the host wait.
    if z.device.type == "cpu" and not bool(((before == value) & (position[:, None] > 0)).any()):
        return value.squeeze(1), torch.zeros_like(position)
    return value.squeeze(1), position - torch.searchsorted(-z, -value).squeeze(1)


def find_nth_equal(logits: Tensor, value: Tensor, rank: Tensor) -> Tensor:
    """Token id of the rank-th (from 0) logit equal to `value`, by ascending id; shape (n,)."""
    import torch

    equal = logits == value.to(logits.dtype)[:, None]
    if logits.device.type != "cpu" or bool(rank.any()):
        equal &= equal.cumsum(-1, dtype=torch.int32) == (rank + 1)[:, None]
    if logits.device.type == "cpu":  # NumPy stops at the first
        return torch.from_numpy(equal.numpy().argmax(-1))
    return equal.to(torch.uint8).argmax(-1)


def compute_dense_q(decoder: QDecoder, logits: Tensor, state: Tensor | None = None) -> Tensor:
    """Q over the whole vocabulary in token order, shape (n, V), float64: the definition, for tests and small uses.

    Args:
        decoder: Any decoder with a Q.
        logits: Shape (n, V), float32, penalties applied.
        state: Shape (n, s) of decoders that have one.
    """
    import torch

    out = torch.zeros(logits.shape, dtype=torch.float64, device=logits.device)
    if decoder.one_hot:
        return out.scatter_(1, logits.argmax(-1, keepdim=True), 1.0)
    scaled = apply_temperature(decoder, logits)
    if decoder.untruncated:
        return scaled.double().softmax(-1)
    q = truncate_and_renormalize(decoder, sort_logits(scaled, None, state))
    ids = torch.sort(scaled, dim=-1, descending=True, stable=True).indices
    at = torch.arange(q.weights.shape[1], device=logits.device)
    inside = (at >= q.lo[:, None]) & (at < q.hi[:, None])
    probabilities = torch.where(inside, q.weights, 0.0) / q.total[:, None]
    return out.scatter_(1, ids[:, : probabilities.shape[1]], probabilities)
