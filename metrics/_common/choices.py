"""Check arguments that take one of a few names."""

from __future__ import annotations

import difflib
import typing
from typing import Any


def check_choice(option: str, value: object, kind: Any) -> None:  # noqa: ANN401 - a `Literal`
    """Raise if a value is not one of a `Literal`'s."""
    names = typing.get_args(kind)
    if value not in names:
        close = difflib.get_close_matches(str(value), names, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"{option}: expected one of {', '.join(names)}, got {value!r}{hint}")
