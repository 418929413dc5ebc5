"""When a text ends: the one place that knows the model's end tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from openended.harness.core import CausalModel


def ends(lm: CausalModel, tokens: Tensor) -> Tensor:
    """True where a token ends its text, any shape."""
    import torch

    made = torch.zeros_like(tokens, dtype=torch.bool)
    for one in lm.eos_ids:
        made |= tokens == one
    return made
