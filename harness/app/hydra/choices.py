"""Refuse a list where a group takes one choice, and find the full name of an option that was typed without it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, cast

from omegaconf import Container, DictConfig, OmegaConf

from openended.harness.core import GROUPS, SpecError

_ONE_CHOICE = {*GROUPS, "hydra/launcher", "hydra/sweeper"} - {"metric"}
_SEARCHED = ("decoder", "model", "task", "metric", "scorer", "embedder", "runtime", "report")  # first of several first
_TYPED = re.compile(r"To append to your config use \+(\S+)")  # how Hydra ends its message of an unknown option
_MAX_MATCHES = 3


def refuse_lists(words: Sequence[str]) -> None:
    """Refuse `decoder=[greedy,nucleus]`, of which Hydra would silently take the last choice."""
    for word in words:
        group, _, value = (part.strip() for part in word.partition("="))
        if group.lstrip("+~") in _ONE_CHOICE and value.startswith("["):
            _refuse(group.lstrip("+~"), [item for item in re.split(r"[\[\],\s'\"]+", value) if item])


def refuse_composed_lists(config: DictConfig) -> None:
    """Refuse a list of choices that a configuration file gives to a group that takes one."""
    if OmegaConf.select(config, "hydra.job.config_name") != "config":
        return  # another root may hold a node without choosing it from a group
    choices = OmegaConf.select(config, "hydra.runtime.choices") or {}
    for group in _ONE_CHOICE & set(_SEARCHED):
        if config.get(group) is not None and group not in choices:  # Hydra records one choice, and of a list none
            raise SpecError(f"{group}: a run has one {group}, not a list; an axis is written {group}: 'NAME,NAME'")


def _refuse(group: str, names: Sequence[str]) -> None:
    first, grid = names[0] if names else "NAME", ",".join(names)
    several = f", or for a grid -m {group}={grid}" if len(names) > 1 else ""
    raise SpecError(f"{group}=[{grid}]: a run has one {group}, not a list; type {group}={first}{several}")


def find_matching_options(key: str, root: Container, message: str) -> str:
    """Return the full names of options whose last part matches an unknown option; empty if there are none."""
    typed = _TYPED.search(message)
    name, sign, value = (typed[1] if typed else key).partition("=")
    config = cast("dict[str, Any]", OmegaConf.to_container(root, resolve=False))
    is_misspelt = bool(get_close_matches(name, config, n=1, cutoff=0.85))
    if name.split(".")[0] in GROUPS or name.startswith("_") or is_misspelt:
        return ""
    options = [path for group in _SEARCHED for path in _iterate_options(group, config.get(group))]
    matches = [path for path in options if path.endswith(f".{name}")]
    return " or ".join(f"{path}{sign}{value}" for path in matches[:_MAX_MATCHES])


def _iterate_options(path: str, node: Any) -> Iterator[str]:  # noqa: ANN401 - a YAML node
    """Yield the dotted names of all options in a node."""
    yield path
    if isinstance(node, Mapping):
        for name, value in node.items():
            yield from _iterate_options(f"{path}.{name}", value)
