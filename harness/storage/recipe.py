"""What identifies an artifact: its recipe, whose digest is the store key, and the version of every stage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from openended.harness.core import Json, canonical, digest

KEY_SCHEME = 2  # 1 named a spec by the path of its class

STAGES: Mapping[str, int] = {
    "examples": 1,
    "human": 2,
    "chat": 1,
    "generate": 1,
    "import": 2,
    "tokens": 1,
    "embed": 1,
    "score": 1,
    "next_token": 1,
    "measure": 1,
}
"""Stage → version; raised when the stage's code changes what it makes. Enters the stage's keys."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """What identifies an artefact."""

    stage: str
    version: int
    """Raised when the stage's code changes what it makes."""
    spec: Mapping[str, Any]
    """All options that can change the bytes, defaults included."""
    inputs: Mapping[str, str]
    """Name → content digest."""

    def canonical(self) -> Json:
        """Plain JSON of the recipe; the store key is its digest."""
        return canonical({"scheme": KEY_SCHEME, "stage": self.stage, "version": self.version, "spec": self.spec,
                          "inputs": self.inputs})  # fmt: skip

    @property
    def key(self) -> str:
        """SHA-256 (hex) of the recipe."""
        return digest(self.canonical())
