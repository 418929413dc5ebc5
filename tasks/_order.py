"""Order of a task's examples in which the first N are a fair sample."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def sort_by_hash(items: Iterable[T], key: Callable[[T], str]) -> list[T]:
    """Sort by the SHA-256 of each item's key, so that the order of two items does not depend on the others."""
    return sorted(items, key=lambda item: hashlib.sha256(key(item).encode()).digest())
