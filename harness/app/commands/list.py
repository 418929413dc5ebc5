"""`openended list [metrics|decoders|tasks|models|experiments|…]`: what can be chosen, a line of meaning each."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from openended.harness.core import GROUPS, CommandParser, SpecError, choices, code_of, suggest


def main(words: Sequence[str]) -> int:
    """Run the command; returns one of `exit_codes`."""
    parser = CommandParser(prog="openended list", description=__doc__)
    parser.add_argument("group", nargs="?", help=f"one of {', '.join(GROUPS)}; default: all")
    args = parser.parse_args(words)
    return code_of("openended list", lambda: _list(args.group), kept="nothing was changed")


def _list(group: str | None) -> None:
    for name in [group_of(group)] if group else GROUPS:
        if not group:
            sys.stdout.write(f"{name}\n")
        wide = max(map(len, choices(name)), default=0)
        indent = "" if group else "  "
        for choice, line in choices(name).items():
            sys.stdout.write(f"{indent}{choice:{wide}}  {line}".rstrip() + "\n")


def group_of(word: str) -> str:
    """Return a group by its name, in the singular or the plural.

    Raises:
        SpecError: If there is none of this name.
    """
    for group in GROUPS:
        if word in (group, f"{group}s"):
            return group
    raise SpecError(f"no group {word!r}{suggest(word, GROUPS)}")
