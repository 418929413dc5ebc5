"""Base class of specs: frozen dataclasses of options, checked on construction."""

from __future__ import annotations

import dataclasses
import typing
from typing import Any, ClassVar

from openended.harness.core.errors import SpecError
from openended.harness.core.options import coerce

_HINTS: dict[type, dict[str, Any]] = {}
"""Class → types of its options; a grid constructs each class hundreds of times."""


class Spec:
    """Base of every frozen options class; checks types by the annotations on construction.

    Subclasses are `@dataclass(frozen=True, kw_only=True)`; override `check` for further rules. Group,
    name, version and options identify a spec, in keys as in signatures.
    """

    group: ClassVar[str] = ""
    """The registry's group; `register` sets it if the base class does not."""
    name: ClassVar[str]
    version: ClassVar[int] = 1
    later_options: ClassVar[frozenset[str]] = frozenset()
    """Options that were added after results had been stored: at their default they are in no key and no signature."""
    error_name: ClassVar[str] = ""
    """Its name in error messages; empty: `name`."""

    def __post_init__(self) -> None:
        hints = _HINTS.get(type(self))
        if hints is None:
            hints = _HINTS.setdefault(type(self), typing.get_type_hints(type(self)))
        for f in dataclasses.fields(self):  # type: ignore[arg-type]
            value = coerce(getattr(self, f.name), hints[f.name], self.label_option(f.name))
            object.__setattr__(self, f.name, value)
        self.check()

    def check(self) -> None:
        """Raise `SpecError` if the options are out of range or do not fit together."""

    def require(self, claim: bool, option: str, accepted: str) -> None:
        """Raise a `SpecError` that names the option, its value and what is accepted."""
        if not claim:
            value = getattr(self, option)
            raise SpecError(f"{self.label_option(option)}: expected {accepted}, got {value!r:.80}")

    def label_option(self, option: str) -> str:
        """Return the name of an option in error messages."""
        return f"{self.error_name or self.name}.{option}"
