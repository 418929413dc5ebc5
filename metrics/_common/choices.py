"""Arguments that are one of a few words."""

from __future__ import annotations

import difflib
import typing
from typing import Any


def check_choice(option: str, value: object, kind: Any) -> None:  # noqa: ANN401 - a `Literal`
    """Refuse a word that is none of a `Literal`'s.

    Args:
        option: What the caller's argument is named.
        value: What was given.
        kind: The `Literal`.

    Raises:
        ValueError: Names the argument, the known words and the nearest of them.
    """
    known = typing.get_args(kind)
    if value not in known:
        close = difflib.get_close_matches(str(value), known, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"{option}: expected one of {', '.join(known)}, got {value!r}{hint}")
