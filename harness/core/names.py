"""What can be named: the options of each group that come as YAML, and sets of metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from openended.harness.core.catalogue import full_source, own_choices
from openended.harness.core.errors import SpecError, suggest
from openended.harness.core.registry import members


def names_of(group: str) -> list[str]:
    """Return the names of a group's YAMLs."""
    return list(own_choices(group))


@lru_cache
def node_of(group: str, name: str) -> Mapping[str, Any]:
    """Return what a YAML of a group says; nothing interpolated.

    Raises:
        SpecError: If there is none of the name.
    """
    import yaml

    known = names_of(group)
    if name not in known:
        raise SpecError(f"no {group} {name!r}{suggest(name, known)}")
    node = yaml.safe_load(full_source(group, name))
    return node if isinstance(node, Mapping) else {}


def metric_names(asked: Iterable[str]) -> list[str]:
    """Return the metrics that some names stand for: of metrics, a plug-in's too, and of sets; each once, sorted.

    Raises:
        SpecError: If a name is of neither.
    """
    known, sets = members("metric"), set(names_of("metric"))
    found: set[str] = set()
    for name in asked:
        if name in known:
            found.add(name)
        elif name in sets:
            found.update(metric_names(node_of("metric", name)["defaults"]))
        else:
            raise SpecError(f"no metric {name!r}{suggest(name, sets.union(known))}")
    return sorted(found)
