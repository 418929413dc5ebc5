"""`openended list [metrics|decoders|tasks|models|experiments|…]`: all options and what they are."""

from __future__ import annotations

from collections.abc import Sequence

from openended.harness.app.commands import run
from openended.harness.core import GROUPS, SpecError, list_choices, print_line, suggest

_ARGUMENTS = {"group": {"nargs": "?", "help": f"one of {', '.join(GROUPS)}; default: all"}}


def main(words: Sequence[str]) -> int:
    """Run the command; returns one of `exit_codes`."""
    return run(words, "list", __doc__, _ARGUMENTS, lambda args: _list(args.group))


def _list(group: str | None) -> None:
    for name in [parse_group(group)] if group else GROUPS:
        if not group:
            print_line(f"{name}")
        wide = max(map(len, list_choices(name)), default=0)
        indent = "" if group else "  "
        for choice, line in list_choices(name).items():
            print_line(f"{indent}{choice:{wide}}  {line}".rstrip())


def parse_group(word: str) -> str:
    """Return the group with a name in the singular or the plural."""
    for group in GROUPS:
        if word in (group, f"{group}s"):
            return group
    raise SpecError(f"no group {word!r}{suggest(word, GROUPS)}")
