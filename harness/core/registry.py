"""Names of the pieces: metrics, tasks, decoders, models; ours and those of other packages."""

from __future__ import annotations

import dataclasses
import importlib
import logging
import pkgutil
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib.metadata import entry_points
from typing import Any, TypeVar

from openended.harness.core.errors import SpecError, suggest
from openended.harness.core.options import check_options
from openended.harness.core.spec import Spec

log = logging.getLogger(__name__)
T = TypeVar("T", bound=type)
S = TypeVar("S", bound=Spec)

# Group → packages whose modules hold our own members.
_HOMES = {
    "metric": ("openended.metrics",),
    "task": ("openended.tasks",),
    "decoder": ("openended.harness.decoders", "openended.harness.generation"),
    "model": ("openended.harness.models", "openended.harness.backends.openai"),
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
        for home in _HOMES[group]:
            for module in pkgutil.iter_modules(importlib.import_module(home).__path__):
                if not module.name.startswith("_"):
                    importlib.import_module(f"{home}.{module.name}")
        _loaded.add(group)
        for name, (package, cls) in plugins(group).items():
            _check_plugin(group, name, package, cls)
            register(group)(cls)
    return dict(sorted(_members[group].items()))


@lru_cache
def plugins(group: str) -> Mapping[str, tuple[str, type]]:
    """Return name → (package, class) of what other packages bring: the entry points `openended.<group>s`.

    One that cannot be imported is left out, with a warning: it must not take the others with it.
    """
    found: dict[str, tuple[str, type]] = {}
    for point in sorted(entry_points(group=f"openended.{group}s"), key=lambda point: point.name):
        package = point.dist.name if point.dist is not None else point.value
        try:
            found[point.name] = package, point.load()
        except Exception as err:
            log.warning("%s %s of %s is left out: %s: %s", group, point.name, package, type(err).__name__, err)
    return found


def _check_plugin(group: str, name: str, package: str, cls: type) -> None:
    """Refuse a plug-in that could not be used, where it is named rather than deep inside a run."""
    where = f"{group} {name!r} of the package {package}"
    if getattr(cls, "name", None) != name:
        raise SpecError(f"{where}: its class variable `name` is {getattr(cls, 'name', None)!r}; expected {name!r}")
    if not (isinstance(cls, type) and issubclass(cls, Spec) and dataclasses.is_dataclass(cls)):
        raise SpecError(f"{where}: expected a frozen dataclass of openended.harness.core.spec, got {cls!r}")


def defaults(cls: type) -> dict[str, Any]:
    """Return the node of a class as a YAML would have it: `_target_` and every option, `???` where it must be given."""
    node: dict[str, Any] = {"_target_": _path(cls)}
    for f in (f for f in dataclasses.fields(cls) if f.init):
        value = f.default_factory() if f.default_factory is not dataclasses.MISSING else f.default
        node[f.name] = "???" if value is dataclasses.MISSING else list(value) if isinstance(value, tuple) else value
    return node


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
    check_options(cls, options, label)
    return cls(**options)


def _find(group: str, target: str, label: str) -> type:
    """Import only the target's module when it is one of ours: planning must stay fast."""
    module = target.rpartition(".")[0]
    if module.startswith(tuple(f"{home}." for home in _HOMES[group])):
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
