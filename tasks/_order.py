"""The order of a task's examples that makes the first N of them a fair sample."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def by_hash(items: Iterable[T], key: Callable[[T], str]) -> list[T]:
    """Sort by the SHA-256 of each item's key: the place of one does not depend on which others are there."""
    return sorted(items, key=lambda item: hashlib.sha256(key(item).encode()).digest())
