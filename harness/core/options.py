"""Read options from YAML, check them against a dataclass and coerce their values to its annotations."""

from __future__ import annotations

import dataclasses
import types as pytypes
import typing
from collections.abc import Callable, Mapping
from typing import Any, Literal

from openended.harness.core.errors import SpecError, suggest

_WORD = 1 << 63


def read_options(text: str, where: str, describe_fault: Callable[[BaseException], str]) -> Mapping[str, Any]:
    """Parse a YAML text of options.

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
    """Coerce a YAML value to an annotation: a whole number becomes a float, a list a tuple.

    Args:
        value: The value from the YAML.
        hint: The annotation.
        where: Name of the option in error messages.

    Raises:
        SpecError: If the value has another type or is not in a `Literal`.
    """
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return value
    if origin in (typing.Union, pytypes.UnionType):
        return _coerce_union(value, args, where)
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
    raise SpecError(f"{where}: expected {kind.__name__}, got {value!r:.80}")


def _coerce_union(value: Any, options: tuple[Any, ...], where: str) -> Any:  # noqa: ANN401
    for option in options:
        try:
            return coerce(value, option, where)
        except SpecError:
            continue
    accepted = " or ".join(_describe_type(option) for option in options)
    raise SpecError(f"{where}: expected {accepted}, got {value!r:.80}")


def _describe_type(hint: Any) -> str:  # noqa: ANN401
    if typing.get_origin(hint) is Literal:
        accepted = ", ".join(map(str, typing.get_args(hint)))
        return f"one of {accepted}" if len(typing.get_args(hint)) > 1 else accepted
    return str(getattr(hint, "__name__", hint)).replace("NoneType", "null")
