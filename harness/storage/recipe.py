"""What identifies an artifact: its recipe, whose digest is the store key, and the version of every stage."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from openended.harness.core import DataError, Json, canonicalize, digest

ENTRY_NAME = re.compile(r"([a-z_]+)/([0-9a-f]{2})/(\2[0-9a-f]{62})")  # `stage/ab/key`
_INSIDE = re.compile(r"[\w-]+/[\w-]+/[\w-]+")  # three names without dots: a folder inside the store
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
    "rank": 1,
    "gradients": 1,
    "next_token": 1,
    "measure": 1,
}
"""Stage → version; raised when the stage's results change. Enters the stage's keys."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that identifies an artifact."""

    stage: str
    version: int
    """Raised when the stage's results change."""
    spec: Mapping[str, Any]
    """All options that can change the bytes, defaults included."""
    inputs: Mapping[str, str]
    """Name → content digest."""

    def canonical(self) -> Json:
        """Return plain JSON of the recipe; its digest is the store key."""
        return canonicalize({"scheme": KEY_SCHEME, "stage": self.stage, "version": self.version, "spec": self.spec,
                          "inputs": self.inputs})  # fmt: skip

    @property
    def key(self) -> str:
        """SHA-256 (hex) of the recipe."""
        return digest(self.canonical())


def check_entry_name(name: str, where: str) -> None:
    """Check that a name from a record is `stage/ab/key`, so that it cannot lead out of the store."""
    if not _INSIDE.fullmatch(name):
        raise DataError(f"{where}: expected a store entry `stage/ab/key`, got {name[:80]!r}")
