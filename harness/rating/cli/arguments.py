"""Words of a command line: options as `name=value` beside names of runs and files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from openended.harness.core.errors import SpecError, suggest


def split_words(words: Sequence[str], known: Sequence[str]) -> tuple[list[str], dict[str, Any]]:
    """Take options from among words; values are read as YAML.

    Args:
        words: As typed.
        known: Names of options.

    Returns:
        The other words; option → value.

    Raises:
        SpecError: If an option is unknown or stands there twice; says which there are.
    """
    import yaml

    rest: list[str] = []
    options: dict[str, Any] = {}
    for word in words:
        name, sign, value = word.partition("=")
        if not sign or "/" in name or name.startswith("."):
            rest.append(word)
            continue
        if name not in known:
            raise SpecError(f"no option {name!r}{suggest(name, known)}")
        if name in options:
            raise SpecError(f"{name}= stands there twice")
        try:
            options[name] = yaml.safe_load(value)
        except yaml.YAMLError as err:
            raise SpecError(f"{name}={value}: cannot be read ({' '.join(str(err).split())})") from err
    return rest, options


def taken(options: dict[str, Any], name: str, default: object = None) -> Any:  # noqa: ANN401
    """Take one option out; as text where its default is a text."""
    value = options.pop(name, default)
    return str(value) if isinstance(default, str) and value is not None else value


def counted(options: Mapping[str, Any], name: str) -> int | None:
    """Return a whole number of at least 1, or None where the option is not given.

    Raises:
        SpecError: If it is another value.
    """
    value = options.get(name)
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 1):
        return value
    raise SpecError(f"{name}: expected a whole number of 1 or more, got {value!r}")
