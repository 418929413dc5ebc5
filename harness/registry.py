"""Names of the pieces: metrics, tasks, decoders, models; ours and those of other packages."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import TypeVar

from openended.harness.contract import Spec
from openended.harness.errors import SpecError, suggest

T = TypeVar("T", bound=type)
S = TypeVar("S", bound=Spec)

# Group → package whose modules hold our own members.
_HOMES = {
    "metric": "openended.metrics",
    "task": "openended.tasks",
    "decoder": "openended.harness.decoding",
    "model": "openended.harness.models",
}
_members: dict[str, dict[str, type]] = {group: {} for group in _HOMES}
_loaded: set[str] = set()


def register(group: str) -> Callable[[T], T]:
    """Class decorator: put a spec class into a group under its `name`.

    Raises:
        SpecError: If the group is unknown or another class holds the name.
    """
    if group not in _HOMES:
        raise SpecError(f"registry group {group!r}{suggest(group, _HOMES)}")

    def add(cls: T) -> T:
        name = str(vars(cls).get("name", ""))
        held = _members[group].get(name)
        if not name or (held is not None and _path(held) != _path(cls)):
            raise SpecError(f"{group} {name!r} of {_path(cls)}: the name is empty or held by {held and _path(held)}")
        cls.group = group  # type: ignore[attr-defined] # a class variable of every spec
        _members[group][name] = cls
        return cls

    return add


def members(group: str) -> Mapping[str, type]:
    """Return name → class of a group, sorted; imports our modules and the entry points `openended.<group>s`."""
    if group not in _HOMES:
        raise SpecError(f"registry group {group!r}{suggest(group, _HOMES)}")
    if group not in _loaded:
        home = importlib.import_module(_HOMES[group])
        for module in pkgutil.iter_modules(home.__path__):
            if not module.name.startswith("_"):
                importlib.import_module(f"{_HOMES[group]}.{module.name}")
        for point in entry_points(group=f"openended.{group}s"):
            register(group)(point.load())
        _loaded.add(group)
    return dict(sorted(_members[group].items()))


def build(group: str, node: object, where: str | None = None) -> Spec:
    """Make a registered spec from its YAML node (`_target_` and options).

    Raises:
        SpecError: If the target is not registered in this group, an option is unknown or its value is not accepted.
    """
    label = where or group
    if not isinstance(node, Mapping):
        raise SpecError(f"{label}: expected a choice with its options, got {node!r:.40}")
    target = node.get("_target_")
    if not isinstance(target, str):
        raise SpecError(f"{label}: expected a `_target_`, got {sorted(node)}")
    return construct(_find(group, target, label), node, label)


def construct(cls: type[S], node: object, label: str) -> S:
    """Make a spec of class `cls` from a YAML node; `_target_` is ignored.

    Raises:
        SpecError: If an option is unknown, missing, or its value is not accepted.
    """
    if not isinstance(node, Mapping):
        raise SpecError(f"{label}: expected options, got {node!r:.40}")
    options = {str(k): v for k, v in node.items() if k != "_target_"}
    fields = {f.name: f for f in dataclasses.fields(cls) if f.init}  # type: ignore[arg-type]
    for key in options:
        if key not in fields:
            raise SpecError(f"{label}: no option {key!r}{suggest(key, fields)}")
    for name, f in fields.items():
        if f.default is f.default_factory is dataclasses.MISSING and name not in options:
            raise SpecError(f"{label}: missing option {name!r}")
    return cls(**options)


def _find(group: str, target: str, label: str) -> type:
    """Import only the target's module when it is one of ours: planning must stay fast."""
    module = target.rpartition(".")[0]
    if module.startswith(_HOMES[group] + "."):
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as err:
            raise SpecError(f"{label}: no module {module!r} for _target_ {target!r} ({err})") from err
        held = {_path(c): c for c in _members[group].values()}
    else:
        held = {_path(c): c for c in members(group).values()}
    if target not in held:
        raise SpecError(f"{label}: _target_ {target!r} is no registered {group}{suggest(target, held)}")
    return held[target]


def _path(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
