"""Specs: frozen dataclasses of options, checked on construction by their annotations and declared rules."""

from __future__ import annotations

import contextlib
import dataclasses
import types as pytypes
import typing
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, ClassVar, Literal, TypeVar

from openended.harness.core.errors import SpecError, suggest

V = TypeVar("V")
Accepts = Callable[[Any], object]
"""Returns something true for an accepted value."""

_WORD = 1 << 63
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
    """The registry's group; set by the decorator that registers a class."""
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


def read_options(text: str, where: str, describe_fault: Callable[[BaseException], str]) -> Mapping[str, Any]:
    """Parse a YAML text of options; `where` names it in error messages.

    Args:
        text: The YAML.
        where: Its name in error messages.
        describe_fault: Formats a YAML error for the message.

    Raises:
        SpecError: If the text is not YAML or not a mapping.
    """
    import yaml

    try:
        node = yaml.safe_load(text)
    except yaml.YAMLError as err:
        raise SpecError(f"{where}: not YAML ({describe_fault(err)})") from err
    if not isinstance(node, Mapping):
        raise SpecError(f"{where}: expected options, got {type(node).__name__}")
    return node


def check_options(cls: type[Any], options: Mapping[str, Any], where: str) -> None:
    """Check that a dataclass has these options and that no required one is missing.

    Raises:
        SpecError: If an option is unknown or missing.
    """
    fields = {f.name: f for f in dataclasses.fields(cls) if f.init}
    for key in options:
        if key not in fields:
            raise SpecError(f"{where}: no option {key!r}{suggest(str(key), fields)}")
    for name, f in fields.items():
        if f.default is f.default_factory is dataclasses.MISSING and name not in options:
            raise SpecError(f"{where}: missing option {name!r}")


def coerce(value: Any, hint: Any, where: str) -> Any:  # noqa: ANN401
    """Coerce a YAML value to the annotation `hint`: a whole number becomes a float, a list a tuple.

    Raises:
        SpecError: If the value has another type or is not in a `Literal`.
    """
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return value
    if origin in (typing.Union, pytypes.UnionType):
        for option_hint in args:
            with contextlib.suppress(SpecError):
                return coerce(value, option_hint, where)
        accepted = " or ".join(_describe_type(option_hint) for option_hint in args)
        raise SpecError(f"{where}: expected {accepted}, got {value!r:.80}")
    if origin is Literal:
        if value not in args or isinstance(value, bool) != isinstance(args[args.index(value)], bool):
            raise SpecError(f"{where}: expected one of {', '.join(map(str, args))}, got {value!r:.80}")
        return value
    if origin is tuple and isinstance(value, (list, tuple)):
        item = args[0] if args else Any
        return tuple(coerce(v, item, f"{where}[{i}]") for i, v in enumerate(value))
    if origin in (Mapping, dict) and isinstance(value, Mapping):
        return dict(value)
    kind = origin or hint
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind is int and isinstance(value, int) and not isinstance(value, bool) and not -_WORD <= value < _WORD:
        raise SpecError(f"{where}: expected a whole number of 64 bits, got one of {value.bit_length()} bits")
    wrong_bool = isinstance(value, bool) and kind is not bool
    if not isinstance(kind, type) or (isinstance(value, kind) and not wrong_bool):
        return value
    raise SpecError(f"{where}: expected {_describe_type(kind)}, got {value!r:.80}")


def _describe_type(hint: Any) -> str:  # noqa: ANN401
    if hint is bool:
        return "true or false"
    if typing.get_origin(hint) is Literal:
        accepted = ", ".join(map(str, typing.get_args(hint)))
        return f"one of {accepted}" if len(typing.get_args(hint)) > 1 else accepted
    return str(getattr(hint, "__name__", hint)).replace("NoneType", "null")
