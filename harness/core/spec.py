"""Base class of specs: frozen dataclasses of options, checked on construction."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar, TypeVar

from openended.harness.core.errors import SpecError
from openended.harness.core.options import coerce

V = TypeVar("V")
Accepts = Callable[[Any], object]
"""Returns something true for an accepted value."""

REQUIRED: Any = dataclasses.MISSING
"""As the default of `ranged` or `option`: the option must be given."""


def ranged(default: V, interval: str, accepted: str) -> V:
    """Declare an option whose number lies in an interval; null and words that the annotation accepts need not.

    Args:
        default: Its default, or `REQUIRED`.
        interval: For example `[1, inf)` or `(0, 1]`. The items of a list must all lie in it.
        accepted: The interval in words, for the error message after "expected".
    """
    low, high = (float(end) for end in interval[1:-1].split(","))
    with_low, with_high = interval[0] == "[", interval[-1] == "]"

    def accepts(value: Any) -> bool:  # noqa: ANN401
        if value is None or isinstance(value, str):
            return True
        if isinstance(value, tuple):
            return all(accepts(item) for item in value)
        above = low <= value if with_low else low < value
        return bool(above and (value <= high if with_high else value < high))

    return option(default, accepts, accepted)


def option(default: V, accepts: Accepts, accepted: str) -> V:
    """Declare an option with a rule for its values: `accepts(value)` is true, in words `accepted`.

    Args:
        default: Its default, or `REQUIRED`.
        accepts: The rule.
        accepted: What is accepted, for the error message after "expected".
    """
    declared: V = dataclasses.field(default=default, metadata={"rule": (accepts, accepted)})
    return declared


class Spec:
    """Base of every frozen options class; checks types by the annotations and declared rules on construction.

    Subclasses are `@dataclass(frozen=True, kw_only=True)`, or have one of the decorators `metric`, `decoder`, `task`
    and `model`, which register them too. A rule for one option is declared with it (`ranged`, `option`); a subclass
    that only changes a default keeps it. Override `check` for rules about several options. Group, name, version and
    options identify a spec, in keys as in signatures.
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
        options = _list_options(type(self))  # type: ignore[arg-type] # a class is hashable
        for name, (hint, _) in options.items():
            object.__setattr__(self, name, coerce(getattr(self, name), hint, self.label_option(name)))
        for name, (_, rule) in options.items():
            if rule is not None:
                self.require(bool(rule[0](getattr(self, name))), name, rule[1])
        self.check()

    def check(self) -> None:
        """Raise `SpecError` if the options do not fit together."""

    def require(self, claim: bool, option: str, accepted: str) -> None:
        """Raise a `SpecError` that names the option, its value and what is accepted."""
        if not claim:
            value = getattr(self, option)
            raise SpecError(f"{self.label_option(option)}: expected {accepted}, got {value!r:.80}")

    def label_option(self, option: str) -> str:
        """Return the name of an option in error messages."""
        return f"{self.error_name or self.name}.{option}"


@cache
def _list_options(cls: type) -> dict[str, tuple[Any, tuple[Accepts, str] | None]]:
    """Return option → (annotation, declared rule); a grid constructs each class hundreds of times."""
    rules: dict[str, tuple[Accepts, str]] = {}
    for base in reversed(cls.__mro__):
        fields = vars(base).get("__dataclass_fields__", {}).values()
        rules.update({f.name: f.metadata["rule"] for f in fields if "rule" in f.metadata})
    hints = typing.get_type_hints(cls)
    return {f.name: (hints[f.name], rules.get(f.name)) for f in dataclasses.fields(cls)}
