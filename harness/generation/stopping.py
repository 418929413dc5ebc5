"""Check which tokens end a text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from openended.harness.core import CausalModel


def find_end_tokens(lm: CausalModel, tokens: Tensor) -> Tensor:
    """Return a mask, true where a token ends its text; any shape."""
    import torch

    is_end = torch.zeros_like(tokens, dtype=torch.bool)
    for eos_id in lm.eos_ids:
        is_end |= tokens == eos_id
    return is_end
