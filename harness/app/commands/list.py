"""`openended list [metrics|decoders|tasks|models|experiments|papers|…]`: all options and what they are."""

import argparse
from importlib import resources
from typing import Any

from openended.harness import core

_WORDS = (*core.GROUPS, "papers")
_ARGUMENTS = {"group": core.argument(f"one of {', '.join(_WORDS)}; default: all", nargs="?")}
STATES = {
    "whole": "as published",
    "files": "as published with your files",
    "part": "in part",
    "none": "nothing to measure",
}


def _list(args: argparse.Namespace) -> None:
    if args.group in ("paper", "papers"):
        _list_papers()
        return
    groups = [name for name in core.GROUPS if args.group in (None, name, f"{name}s")]
    if not groups:
        is_choice = any(args.group in core.list_names(name) for name in core.GROUPS)
        hint = f"; type openended describe {args.group}" if is_choice else core.suggest(args.group, _WORDS)
        raise core.SpecError(f"no group {args.group!r}{hint}")
    for name in groups:
        if args.group is None:
            core.print_line(name)
        choices = core.list_choices(name)
        wide = max(map(len, choices), default=0)
        indent = "" if args.group else "  "
        for choice, line in choices.items():
            core.print_line(f"{indent}{choice:{wide}}  {line}".rstrip())


def read_papers() -> dict[str, Any]:
    """Return paper → title and items: what each table and figure shows, its experiment, its state and what it needs."""
    text = (resources.files("openended.harness") / "reference" / "papers.yaml").read_text(encoding="utf-8")
    papers: dict[str, Any] = core.parse_yaml(text)
    return papers


def describe_state(item: dict[str, str]) -> str:
    """Say how far an item can be reproduced, and what it needs."""
    return ": ".join(filter(None, (STATES[item["state"]], item.get("needs", ""))))


def _list_papers() -> None:
    papers = read_papers()
    every = [item for paper in papers.values() for item in paper["items"]]
    names = {id(item): item.get("experiment", item.get("command", "–")) for item in every}
    wide = [
        max(map(len, column)) for column in ([i["item"] for i in every], names.values(), [i["shows"] for i in every])
    ]
    for name, paper in papers.items():
        core.print_line(f"{name}  {paper['title']}")
        for item in paper["items"]:
            words = (item["item"], names[id(item)], item["shows"])
            columns = "  ".join(f"{word:{width}}" for word, width in zip(words, wide, strict=True))
            core.print_line(f"  {columns}  {describe_state(item)}")
    core.print_line("openended experiment=NAME runs one as published, experiment=NAME using=docs on bundled data")


main = core.make_main("list", __doc__, _ARGUMENTS, _list)
