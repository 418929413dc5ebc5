"""What is done to logits before Q: repetition penalty and n-gram ban by the tokens before, no end of text too early."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from openended.harness.decoding.base import QDecoder
    from openended.harness.decoding.search import Beam


def penalise(decoder: QDecoder | Beam, logits: Tensor, history: Tensor) -> Tensor:
    """Apply repetition penalty, then the n-gram ban, as transformers orders them.

    Args:
        decoder: Its `repetition_penalty` and `no_repeat_ngram_size` count.
        logits: Shape (n, V); not changed.
        history: Token ids so far, prompt included, shape (n, t), every row as long.

    Returns:
        Shape (n, V), float32; `logits` itself where nothing applies.
    """
    if decoder.repetition_penalty != 1:
        logits = repetition_penalty(logits, history, decoder.repetition_penalty)
    if decoder.no_repeat_ngram_size > 0:
        logits = ban_ngrams(logits, history, decoder.no_repeat_ngram_size)
    return logits


def ends(tokens: Tensor, eos_ids: Sequence[int]) -> Tensor:
    """Say which tokens end their text, in the shape of `tokens`."""
    import torch

    if len(eos_ids) == 1:
        return tokens == eos_ids[0]
    return torch.isin(tokens, tokens.new_tensor(list(eos_ids)))


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


def repetition_penalty(logits: Tensor, history: Tensor, penalty: float) -> Tensor:
    """Divide positive logits of seen tokens by the penalty, multiply negative ones (Keskar et al. 2019)."""
    import torch

    seen = logits.gather(1, history)
    return logits.scatter(1, history, torch.where(seen < 0, seen * penalty, seen / penalty))


def ban_ngrams(logits: Tensor, history: Tensor, order: int) -> Tensor:
    """Forbid every token that would complete an n-gram already in the history (Paulus et al. 2018)."""
    import torch

    length = history.shape[1]
    if length < order:
        return logits
    follows = history[:, order - 1 :]
    match = follows.new_ones(follows.shape, dtype=torch.bool)
    for back in range(1, order):  # the token `back` places before a window's end equals the one that far from our end
        match &= history[:, order - 1 - back : length - back] == history[:, length - back, None]
    rows, at = match.nonzero(as_tuple=True)
    out = logits.clone()
    out[rows, follows[rows, at]] = float("-inf")
    return out
