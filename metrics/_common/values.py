"""Results of the pure functions: frozen dataclasses that can also be read like a mapping."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any


class Values:
    """Mixin for a frozen dataclass: `r["huse"]`, `dict(r)`, `"huse" in r` beside `r.huse`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={_format_value(self[name])}' for name in self)})"

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


def _format_value(value: Any) -> str:  # noqa: ANN401
    """Format numbers by value and arrays by shape."""
    shape = getattr(value, "shape", ())
    return (
        f"<array {'×'.join(map(str, shape))}>" if shape else f"{value:.6g}" if isinstance(value, float) else repr(value)
    )
