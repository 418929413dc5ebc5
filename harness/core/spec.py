"""Specs: frozen options that are checked on construction and identify what they configure."""

from __future__ import annotations

import dataclasses
import typing
from typing import ClassVar

from openended.harness.core.errors import SpecError
from openended.harness.core.options import fitted


class Spec:
    """Base of every frozen options class: checks types on construction, by the annotations.

    Subclasses are `@dataclass(frozen=True, kw_only=True)`; `check` holds their own rules and raises `SpecError`. Group,
    name, version and options identify a spec, in keys as in signatures.
    """

    group: ClassVar[str] = ""
    """The registry's group; `register` sets it where the base of the group has not."""
    name: ClassVar[str]
    version: ClassVar[int] = 1
    error_name: ClassVar[str] = ""
    """What errors call it; empty: its name."""

    def __post_init__(self) -> None:
        hints = typing.get_type_hints(type(self))
        for f in dataclasses.fields(self):  # type: ignore[arg-type]
            value = fitted(getattr(self, f.name), hints[f.name], f"{self.error_name or self.name}.{f.name}")
            object.__setattr__(self, f.name, value)
        self.check()

    def check(self) -> None:
        """Raise `SpecError` if the options are out of range or do not go together."""

    def require(self, claim: bool, option: str, accepted: str) -> None:
        """Raise a `SpecError` that names the option, its value and what is accepted."""
        if not claim:
            value = getattr(self, option)
            raise SpecError(f"{self.error_name or self.name}.{option}: expected {accepted}, got {value!r:.80}")
