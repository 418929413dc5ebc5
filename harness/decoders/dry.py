"""DRY ("Don't Repeat Yourself"): a penalty that grows with the length of the repetition a token would extend."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from openended.harness.core import decoder, ranged
from openended.harness.decoders import truncation_rules
from openended.harness.decoders.base import SamplingDecoder

if TYPE_CHECKING:
    from torch import Tensor

LARGEST = 1e30
"""Penalties stop growing here: such a logit has no probability in float64, and its square stays in float32."""


@decoder
class Dry(SamplingDecoder):
    """A token that extends a repetition of n >= allowed_length tokens loses multiplier · base^(n - allowed_length).

    p-e-w 2024: text-generation-webui's pull request 5677, llama.cpp's 9702. n is the length of the longest match
    between the end of the text so far, prompt included, and the tokens before an earlier occurrence of the token.
    A stretch holds no breaker, and breakers themselves lose nothing. Then nucleus sampling, if p < 1.
    """

    name = "dry"
    title_fields = ("multiplier",)
    rule = staticmethod(truncation_rules.nucleus)
    keeps_all_at = {"p": 1.0}

    multiplier: float = ranged(0.8, "[0, inf)", "a number of at least 0 (off)")  # p-e-w 2024; llama.cpp
    base: float = ranged(1.75, "[1, inf)", "a number of at least 1")  # p-e-w 2024; llama.cpp
    allowed_length: int = ranged(2, "[1, inf)", "an integer of at least 1")  # p-e-w 2024; llama.cpp
    # Tokens looked back at; 0: all, as p-e-w 2024
    window: int = ranged(0, "[0, inf)", "0 (all) or a positive integer")
    # Token ids; llama.cpp's are strings: line break, colon, quote and asterisk
    breakers: tuple[int, ...] = ranged((), "[0, inf)", "token ids")
    p: float = ranged(1.0, "(0, 1]", "a number in (0, 1]")  # mass of the nucleus after the penalty; 1: no cut

    @property
    def penalizes(self) -> bool:
        """True where logits are penalized."""
        return self.multiplier > 0 or super().penalizes

    def apply_extra_penalty(self, logits: Tensor, history: Tensor, lengths: Tensor | None) -> Tensor:
        """Subtract the penalty from the logits of tokens that would extend a repetition."""
        if self.multiplier <= 0:
            return logits
        room = math.log(max(LARGEST / self.multiplier, 1.0))
        longest = self.allowed_length + (math.ceil(room / math.log(self.base)) if self.base > 1 else 0)
        repeat = count_repeats(history, lengths, window=self.window, breakers=self.breakers, longest=longest)
        power = (repeat - self.allowed_length).clamp_min(0).double()
        penalty = (self.multiplier * self.base**power).clamp(max=LARGEST).masked_fill(repeat < self.allowed_length, 0.0)
        return logits - logits.new_zeros(logits.shape).scatter_reduce(1, history, penalty.to(logits.dtype), "amax")


def count_repeats(
    history: Tensor, lengths: Tensor | None, *, window: int = 0, breakers: Sequence[int] = (), longest: int
) -> Tensor:
    """Count, for each position, how many tokens before it match the end of the text."""
    import torch

    rows, size = history.shape
    positions = torch.arange(size, device=history.device)
    if lengths is None:
        lengths = torch.full((rows,), size, device=history.device)
    end = lengths[:, None]
    start = (end - window).clamp_min(0) if window else torch.zeros_like(end)
    stops = torch.isin(history, torch.tensor(list(breakers), dtype=history.dtype, device=history.device))
    out = torch.zeros_like(history)
    match = (positions < end) & ~stops
    for back in range(1, min(longest, size - 1) + 1):
        at = (end - back).clamp_min(0)
        same = (history[:, : size - back] == history.gather(1, at)) & ~stops.gather(1, at)
        match[:, :back] = False
        match[:, back:] &= same & (positions[: size - back] >= start)
        if not bool(match.any()):
            break
        out += match
    return out
