"""Flags for the fields of a protocol or server, and the older `name=value` form."""

from __future__ import annotations

import argparse
import dataclasses
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from openended.harness.core import CommandParser, escape_controls, format_error


def add_fields(parser: CommandParser, cls: type[Any], title: str, help_lines: Mapping[str, str]) -> None:
    """Add a flag for every field of a dataclass; flags that were not typed stay out of the namespace."""
    group = parser.add_argument_group(title)
    for field in dataclasses.fields(cls):
        group.add_argument(
            _make_flag(field.name), dest=field.name, type=_parse_yaml, default=argparse.SUPPRESS, metavar="VALUE",
            help=help_lines.get(field.name),
        )  # fmt: skip


def collect_flag_values(args: argparse.Namespace, cls: type[Any]) -> dict[str, Any]:
    """Return field → value of the flags that were given."""
    return {field.name: getattr(args, field.name) for field in dataclasses.fields(cls) if hasattr(args, field.name)}


def parse_arguments(parser: CommandParser, words: Sequence[str]) -> argparse.Namespace:
    """Parse a command line that may write `items=20` for `--items 20`; prints the new form on standard error."""
    args = parser.parse_intermixed_args(words)
    flags = {word: _as_flag(parser, word) for word in getattr(args, "words", ()) if _is_option(word)}
    if not flags:
        return args
    old, new = " ".join(flags), shlex.join(flags.values())
    sys.stderr.write(f"{parser.prog}: {escape_controls(old)} is now typed as {escape_controls(new)}\n")
    return parser.parse_intermixed_args([flags.get(word, word) for word in words])


def _is_option(word: str) -> bool:
    name, sign, _ = word.partition("=")
    return bool(sign) and name.isidentifier() and not Path(word).exists()


def _as_flag(parser: CommandParser, word: str) -> str:
    """Return `--items=20` for `items=20`; ends the command if there is no such flag."""
    name, _, value = word.partition("=")
    parser.check_flag(_make_flag(name))
    return f"{_make_flag(name)}={value}"


def _make_flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _parse_yaml(text: str) -> Any:  # noqa: ANN401 - whatever YAML holds
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as err:
        raise argparse.ArgumentTypeError(f"{text!r} cannot be read as YAML ({format_error(err)})") from err
