"""`openended describe NAME`: what a metric, decoder, task, model or experiment is: formula, sources, options."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Sequence

from openended.harness.core import GROUPS, CommandParser, SpecError, choices, code_of, full_source, suggest

_TARGET = re.compile(r"_target_:\s*([\w.]+)")
_KINDS = ("metric", "decoder", "task", "embedder")  # whose classes say more than their YAML


def main(words: Sequence[str]) -> int:
    """Run the command; returns one of `exit_codes`."""
    parser = CommandParser(prog="openended describe", description=__doc__)
    parser.add_argument("name", help="as in `openended list`; where two groups have it, as decoder/nucleus")
    args = parser.parse_args(words)
    return code_of("openended describe", lambda: sys.stdout.write(described(args.name)), kept="nothing was changed")


def described(word: str) -> str:
    """Return what is known of an option, found by `name` or `group/name`.

    Raises:
        SpecError: If there is none of this name, or several.
    """
    group, _, name = word.rpartition("/")
    found = [g for g in GROUPS if name in choices(g) and group in ("", g)]
    if not found:
        raise SpecError(f"nothing is called {word!r}{suggest(name, {n for g in GROUPS for n in choices(g)})}")
    if len(found) > 1 and {"task", "metric", "decoder", "model"} & set(found):
        found = [g for g in found if g in ("metric", "decoder", "task", "model")]
    if len(found) > 1:
        raise SpecError(f"{word!r} is in {' and '.join(found)}: type {' or '.join(f'{g}/{name}' for g in found)}")
    group = found[0]
    text = full_source(group, name)
    chosen = f"{group}=[{name}]" if group == "metric" else f"{group}={name}"
    parts = [f"{chosen}: {choices(group)[name]}", *_documented(group, text)]
    parts.append("Options and their defaults:\n\n" + _indented(text))
    return "\n\n".join(parts) + "\n"


def _documented(group: str, text: str) -> list[str]:
    """Return what the code says: of the module, where formula and sources stand, and of the class."""
    target = _TARGET.search(text)
    if group not in _KINDS or target is None:
        return []
    module, _, name = target[1].rpartition(".")
    home = importlib.import_module(module)
    said = [inspect.getdoc(home) or ""] if group in ("metric", "task") else []
    said.append(inspect.getdoc(getattr(home, name)) or "")
    return [one for one in said if one]


def _indented(text: str) -> str:
    lines = [line for line in text.splitlines() if not line.startswith("#") and "_target_" not in line]
    return "\n".join(f"  {line}" for line in lines)
