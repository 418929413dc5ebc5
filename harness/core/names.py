"""Look up options that ship as YAML, and expand sets of metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from openended.harness.core.catalogue import list_bundled_choices, read_full_yaml
from openended.harness.core.errors import SpecError, suggest
from openended.harness.core.registry import find_broken_plugin, load_members


def list_names(group: str) -> list[str]:
    """Return the names of a group's bundled options."""
    return list(list_bundled_choices(group))


@lru_cache
def read_node(group: str, name: str) -> Mapping[str, Any]:
    """Return the YAML node of an option, without interpolation.

    Raises:
        SpecError: If the name is unknown.
    """
    import yaml

    names = list_names(group)
    if name not in names:
        raise SpecError(f"no {group} {name!r}{suggest(name, names)}")
    node = yaml.safe_load(read_full_yaml(group, name))
    return node if isinstance(node, Mapping) else {}


def resolve_metric_names(requested: Iterable[str]) -> list[str]:
    """Expand names of metrics (plug-ins included) and of sets into a sorted list of metrics.

    Raises:
        SpecError: If a name is neither a metric nor a set.
    """
    metrics, sets = load_members("metric"), set(list_names("metric"))
    names: set[str] = set()
    for name in requested:
        if name in metrics:
            names.add(name)
        elif name in sets:
            names.update(resolve_metric_names(read_node("metric", name)["defaults"]))
        else:
            broken = find_broken_plugin("metric", name)
            if broken:
                raise SpecError(f"metric {name!r} is a plug-in that cannot be imported: {broken}")
            raise SpecError(f"no metric {name!r}{suggest(name, sets.union(metrics))}")
    return sorted(names)
