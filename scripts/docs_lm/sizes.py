"""Architecture and training budget of the bundled models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

END = "<|endoftext|>"
MASK = "[MASK]"
VOCAB_SIZE = 4096
"""Tokens without `MASK`, which only a masked model has."""
POSITIONS = 512
EVALUATION_LEVELS = 2
"""Random masks of each piece in an evaluation of a masked model; their numbers of tokens are equally spaced."""


@dataclass(frozen=True, slots=True)
class Size:
    """Architecture and budget of one bundled model."""

    width: int
    layers: int
    heads: int
    tokens: int
    batch_tokens: int
    lr: float
    role: str
    kind: Literal["causal", "masked"] = "causal"


SIZES = {
    "docs-s": Size(256, 4, 4, 2_800_000, 4096, 4e-3, "generator of the quick start"),
    "docs-m": Size(320, 5, 5, 3_800_000, 3072, 3e-3, "external scorer and embedder"),
    "docs-mlm": Size(256, 4, 4, 2_300_000, 4096, 4e-3, "masked diffusion model and embedder", "masked"),
}
