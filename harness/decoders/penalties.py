"""Changes to logits before Q: repetition penalty, n-gram ban and minimum length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from torch import Tensor


class PenalizingDecoder(Protocol):
    """A decoder with options that change the logits of tokens seen before; see `Decoder` and `QDecoder`."""

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


def forbid_end(logits: Tensor, eos_ids: Sequence[int], rows: Sequence[int] | slice = slice(None)) -> Tensor:
    """Forbid the end of text, where a text is still shorter than `min_new_tokens`.

    Args:
        logits: Shape (n, V); written to.
        eos_ids: The end tokens; empty where the model has none.
        rows: Which rows; all of them by default.
    """
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
    rows, at = match.nonzero(as_tuple=True)
    out = logits.clone()
    out[rows, follows[rows, at]] = float("-inf")
    return out
