"""Results of the pure functions: frozen dataclasses that can also be read like a mapping."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any


class Values:
    """Mixin for a frozen dataclass: `r["huse"]`, `dict(r)`, `"huse" in r` beside `r.huse`."""

    __slots__ = ()

    def keys(self) -> tuple[str, ...]:
        """Field names, in order."""
        return tuple(f.name for f in dataclasses.fields(self))  # type: ignore[arg-type]

    def __getitem__(self, key: str) -> Any:  # noqa: ANN401
        if key not in self.keys():
            raise KeyError(key)
        return getattr(self, key)

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self.keys())
