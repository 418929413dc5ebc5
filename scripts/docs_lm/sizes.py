"""Architecture and training budget of the two bundled models."""

from __future__ import annotations

from dataclasses import dataclass

END = "<|endoftext|>"
VOCAB_SIZE = 4096
POSITIONS = 512


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


SIZES = {
    "docs-s": Size(256, 4, 4, 2_800_000, 4096, 4e-3, "generator of the quick start"),
    "docs-m": Size(320, 5, 5, 3_800_000, 3072, 3e-3, "external scorer and embedder"),
}
