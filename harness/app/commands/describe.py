"""`openended describe NAME`: what a metric, decoder, task, model or experiment is: formula, sources, options."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Sequence

from openended.harness.core import GROUPS, CommandParser, SpecError, list_choices, read_full_yaml, run_command, suggest

_TARGET = re.compile(r"_target_:\s*([\w.]+)")
_KINDS = ("metric", "decoder", "task", "embedder")  # groups whose docstrings are printed as well


def main(words: Sequence[str]) -> int:
    """Run the command; returns one of `exit_codes`."""
    parser = CommandParser(prog="openended describe", description=__doc__)
    parser.add_argument("name", help="as in `openended list`; where two groups have it, as decoder/nucleus")
    args = parser.parse_args(words)
    return run_command(
        "openended describe",
        lambda: sys.stdout.write(describe_option(args.name)),
        after_interrupt="nothing was changed",
    )


def describe_option(word: str) -> str:
    """Describe an option, given by `name` or `group/name`.

    Raises:
        SpecError: If there is none of this name, or several.
    """
    group, _, name = word.rpartition("/")
    groups = [g for g in GROUPS if name in list_choices(g) and group in ("", g)]
    if not groups:
        raise SpecError(f"nothing is called {word!r}{suggest(name, {n for g in GROUPS for n in list_choices(g)})}")
    if len(groups) > 1 and {"task", "metric", "decoder", "model"} & set(groups):
        groups = [g for g in groups if g in ("metric", "decoder", "task", "model")]
    if len(groups) > 1:
        raise SpecError(f"{word!r} is in {' and '.join(groups)}: type {' or '.join(f'{g}/{name}' for g in groups)}")
    group = groups[0]
    text = read_full_yaml(group, name)
    chosen = f"{group}=[{name}]" if group == "metric" else f"{group}={name}"
    parts = [f"{chosen}: {list_choices(group)[name]}", *_read_docstrings(group, text)]
    parts.append("Options and their defaults:\n\n" + _indent(text))
    return "\n\n".join(parts) + "\n"


def _read_docstrings(group: str, text: str) -> list[str]:
    """Return the docstrings of an option's module (formula and sources) and class."""
    target = _TARGET.search(text)
    if group not in _KINDS or target is None:
        return []
    module, _, name = target[1].rpartition(".")
    home = importlib.import_module(module)
    docstrings = [inspect.getdoc(home) or ""] if group in ("metric", "task") else []
    docstrings.append(inspect.getdoc(getattr(home, name)) or "")
    return [text for text in docstrings if text]


def _indent(text: str) -> str:
    lines = [line for line in text.splitlines() if not line.startswith("#") and "_target_" not in line]
    return "\n".join(f"  {line}" for line in lines)
