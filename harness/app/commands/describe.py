"""`openended describe NAME`: what a metric, decoder, task, model or experiment is: formula, sources, options."""

import difflib
import importlib
import inspect
import re
import sys

from openended.harness import core
from openended.harness.app.stress_reference import describe_stress_results
from openended.harness.core import SpecError, make_main

_TARGET = re.compile(r"_target_:\s*([\w.]+)")
_KINDS = ("metric", "decoder", "task", "embedder")  # groups whose docstrings are printed as well


_ARGUMENTS = {"name": {"help": "as in `openended list`; where two groups have it, as decoder/nucleus"}}


def describe_option(word: str) -> str:
    """Describe an option, given by `name` or `group/name`."""
    group, _, name = word.rpartition("/")
    groups = [g for g in core.GROUPS if name in core.list_choices(g) and group in ("", g)]
    if not groups:
        names = {name for group in core.GROUPS for name in core.list_choices(group)}
        close = [name for name in difflib.get_close_matches(name, names, n=4, cutoff=0.55) if name]
        hint = f"; did you mean {' or '.join(close)}?" if close else ""
        raise SpecError(f"nothing is called {word!r}{hint}; openended list names everything")
    if len(groups) > 1 and {"task", "metric", "decoder", "model"} & set(groups):
        groups = [g for g in groups if g in ("metric", "decoder", "task", "model")]
    if len(groups) > 1:
        raise SpecError(f"{word!r} is in {' and '.join(groups)}: type {' or '.join(f'{g}/{name}' for g in groups)}")
    group = groups[0]
    text = _read_yaml(group, name)
    docstrings = []
    if group in _KINDS and (target := _TARGET.search(text)) is not None:
        module, _, class_name = target[1].rpartition(".")
        home = importlib.import_module(module)
        described = [*([home] if group in ("metric", "task") else []), getattr(home, class_name)]
        docstrings = [docstring for part in described if (docstring := inspect.getdoc(part))]
    chosen = f"{group}=[{name}]" if group == "metric" else f"{group}={name}"
    parts = [f"{chosen}: {core.list_choices(group)[name]}", *docstrings]
    if group == "metric" and (stress := describe_stress_results(name)):
        parts.append(stress)
    lines = [line for line in text.splitlines() if not line.startswith("#") and "_target_" not in line]
    parts.append("\n".join(["Options and their defaults:", "", *(f"  {line}" for line in lines)]))
    return "\n\n".join(parts) + "\n"


def _read_yaml(group: str, name: str) -> str:
    """Return the YAML text of an option; for a plug-in its own file, else the defaults of its class."""
    if name in core.list_bundled_choices(group):
        return core.read_full_yaml(group, name)
    if text := core.read_plugin_yaml(group, name):
        return text
    import yaml

    return yaml.safe_dump(core.defaults(core.load_member(group, name)), sort_keys=False)


main = make_main(
    "describe", __doc__, _ARGUMENTS, lambda args: sys.stdout.write(describe_option(args.name)),
    example="openended describe mauve",
)  # fmt: skip
