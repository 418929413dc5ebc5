"""Check which tokens end a text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def find_end_tokens(eos_ids: Iterable[int], tokens: Tensor) -> Tensor:
    """Return a mask, true where a token ends its text; any shape."""
    import torch

    is_end = torch.zeros_like(tokens, dtype=torch.bool)
    for eos_id in eos_ids:
        is_end |= tokens == eos_id
    return is_end
