"""`openended describe NAME`: what a metric, decoder, task, model or experiment is: formula, sources, options."""

import argparse
import difflib
import inspect
import json
import sys

from openended.harness import core
from openended.harness.app.stress_reference import describe_stress_results
from openended.harness.core import SpecError, argument, make_main

_KINDS = ("metric", "decoder", "task", "embedder", "hydra/launcher")  # groups whose docstrings are printed as well
_GROUPS = (*core.GROUPS, "hydra/launcher")


_GROUP_FLAGS = tuple(f"--{group}" for group in (*core.GROUPS, "name"))
_ARGUMENTS: core.Arguments = {
    "name": argument("as in `openended list`; where two groups have it, as decoder/nucleus", synonyms=_GROUP_FLAGS),
    "--yaml": argument("print the options alone, to copy into a YAML file", action="store_true"),
}


def find_choice(word: str) -> tuple[str, str]:
    """Return the group and the name of a choice, given by `name` or `group/name`."""
    group, _, name = word.rpartition("/")
    with_synonyms = [g for g in ("decoder", "metric") if group in ("", g)]
    name = next((meant for g in with_synonyms if (meant := core.resolve_synonym(g, name)) != name), name)
    groups = [g for g in _GROUPS if name in core.list_names(g) and group in ("", g)]
    if not groups:
        names = {name for group in _GROUPS for name in core.list_names(group)}
        close = [name for name in difflib.get_close_matches(name, names, n=4, cutoff=0.55) if name]
        hint = f"; did you mean {' or '.join(close)}?" if close else ""
        if word in _GROUPS:
            raise SpecError(
                f"{word} is a group: openended list {word} has its names, openended describe NAME one of them"
            )
        raise SpecError(f"nothing is called {word!r}{hint}; openended list names everything")
    if len(groups) > 1 and {"task", "metric", "decoder", "model"} & set(groups):
        groups = [g for g in groups if g in ("metric", "decoder", "task", "model")]
    if len(groups) > 1:
        raise SpecError(f"{word!r} is in {' and '.join(groups)}: type {' or '.join(f'{g}/{name}' for g in groups)}")
    return groups[0], name


def describe_option(word: str) -> str | None:
    """Describe an option, as `num_examples`, `mauve.num_buckets` or `metric.mauve.num_buckets`; None if it is none."""
    if word in (lines := core.list_options()):
        return f"{lines[word]}\n"
    owner, _, option = word.rpartition(".")
    if not owner:
        return None
    only = core.find_only_member(owner)
    of_owner = [owner] if owner in core.CLASS_GROUPS else core.CLASS_GROUPS
    if owner in core.GROUPS and only is None and (typed := core.explain_class_option(option, "…", of_owner)):
        raise SpecError(f"{word}: {typed}; openended describe NAME.{option} describes it")
    group, name = (owner, only) if only is not None else find_choice(owner.replace(".", "/"))
    if (cls := core.load_choice_class(group, name)) is None:
        raise SpecError(f"{word}: {name} has no options of its own; openended describe {name}")
    option = core.find_option(cls, option) or option
    docs = core.read_option_docs(cls)
    node = core.read_node(group, name)
    if option not in docs:
        raise SpecError(f"no option {option!r} of {owner}{core.suggest(option, docs)}")
    prefix, default = group.replace("/", "."), node.get(group, node).get(option)
    if group == "metric":
        prefix, default = f"metric.{name}", node[name][option]
    value = default if isinstance(default, str) else json.dumps(default)
    return f"{prefix}.{option}={value}: {docs[option]}\n"


def describe_choice(word: str) -> str:
    """Describe a choice, given by `name` or `group/name`."""
    group, name = find_choice(word)
    docstrings = []
    if group in _KINDS and (cls := core.load_choice_class(group, name)) is not None:
        home = sys.modules[cls.__module__]
        described = [*([home] if group in ("metric", "task") else []), cls]
        docstrings = [docstring for part in described if (docstring := inspect.getdoc(part))]
    chosen = f"{group}=[{name}]" if group == "metric" else f"{group}={name}"
    parts = [f"{chosen}: {core.list_choices(group)[name]}", *docstrings]
    if group == "metric" and (stress := describe_stress_results(name)):
        parts.append(stress)
    lines = _format_yaml(group, name).splitlines()
    parts.append("\n".join(["Options and their defaults:", "", *(f"  {line}" for line in lines)]))
    return "\n\n".join(parts) + "\n"


def _format_yaml(group: str, name: str) -> str:
    """Return what a choice is composed of as YAML, to copy into a file of one's own."""
    if group in ("experiment", "using", "scoring", "compat"):
        lines = core.read_option_yaml(group, name).splitlines()
        return "\n".join(line for line in lines if not line.startswith("#")) + "\n"
    return core.format_options(group, name)


def _describe(args: argparse.Namespace) -> None:
    text = _format_yaml(*find_choice(args.name)) if args.yaml else describe_option(args.name)
    sys.stdout.write(text or describe_choice(args.name))


main = make_main("describe", __doc__, _ARGUMENTS, _describe, example="openended describe mauve")
