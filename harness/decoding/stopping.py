"""When a text ends: the one place that knows the model's end tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from openended.harness.models.transformers import LanguageModel


def end_ids(lm: LanguageModel) -> tuple[int, ...]:
    """The tokens that end a text; empty where the model has none."""
    return lm.eos_ids


def ends(lm: LanguageModel, tokens: Tensor) -> Tensor:
    """True where a token ends its text, any shape."""
    import torch

    made = torch.zeros_like(tokens, dtype=torch.bool)
    for one in end_ids(lm):
        made |= tokens == one
    return made
