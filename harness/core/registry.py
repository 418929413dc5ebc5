"""The registry of metrics, tasks, decoders and models, including plug-ins of other packages."""

from __future__ import annotations

import dataclasses
import difflib
import importlib
import logging
import pkgutil
from collections.abc import Mapping
from functools import lru_cache
from importlib.metadata import entry_points
from typing import Any, TypeVar, dataclass_transform

from openended.harness.core.errors import SpecError, format_last_frame, shorten_error
from openended.harness.core.spec import Spec, check_options

log = logging.getLogger(__name__)
C = TypeVar("C")
S = TypeVar("S", bound=Spec)

# Group → packages whose modules define the bundled members.
_PACKAGES = {
    "metric": ("openended.metrics",),
    "task": ("openended.tasks",),
    "decoder": (
        "openended.harness.decoders", "openended.harness.generation",
    ),
    "model": (
        "openended.harness.models", "openended.harness.backends", "openended.harness.backends.openai",
        "openended.harness.backends.vllm",
    ),
}  # fmt: skip
_members: dict[str, dict[str, type]] = {group: {} for group in _PACKAGES}
_loaded: set[str] = set()
_broken: dict[tuple[str, str], str] = {}  # (group, name) of plug-ins that could not be imported → why


def _register(group: str, cls: type[C]) -> type[C]:
    """Make a class a frozen dataclass with keyword options and register it in a group under its `name`."""
    cls = dataclasses.dataclass(frozen=True, kw_only=True)(cls)
    _add(group, cls)
    return cls


def _add(group: str, cls: type) -> None:
    name = str(vars(cls).get("name", ""))
    current = _members[group].get(name)
    if not name or (current is not None and _get_class_path(current) != _get_class_path(cls)):
        raise SpecError(
            f"{group} {name!r} of {_get_class_path(cls)}: the name is empty or taken by "
            f"{current and _get_class_path(current)}"
        )
    cls.group = group  # type: ignore[attr-defined] # a class variable of every spec
    _members[group][name] = cls


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(dataclasses.field,))
def metric(cls: type[C]) -> type[C]:
    """Register a metric under its `name`; the class becomes a frozen dataclass with keyword options."""
    return _register("metric", cls)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(dataclasses.field,))
def decoder(cls: type[C]) -> type[C]:
    """Register a decoder under its `name`; the class becomes a frozen dataclass with keyword options."""
    return _register("decoder", cls)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(dataclasses.field,))
def task(cls: type[C]) -> type[C]:
    """Register a task under its `name`; the class becomes a frozen dataclass with keyword options."""
    return _register("task", cls)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(dataclasses.field,))
def model(cls: type[C]) -> type[C]:
    """Register the spec of a backend's models; the class becomes a frozen dataclass with keyword options."""
    return _register("model", cls)


def load_members(group: str) -> Mapping[str, type]:
    """Return name → class of a group, sorted; imports bundled modules and the plug-ins."""
    if group not in _loaded:
        for package in _PACKAGES[group]:
            for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
                if not module.name.startswith("_"):
                    importlib.import_module(f"{package}.{module.name}")
        _loaded.add(group)
        for name, (package, cls) in load_plugins(group).items():
            where = f"{group} {name!r} of the package {package}"
            if getattr(cls, "name", None) != name:
                actual = getattr(cls, "name", None)
                raise SpecError(f"{where}: its class variable `name` is {actual!r}; expected {name!r}")
            if not (isinstance(cls, type) and issubclass(cls, Spec) and dataclasses.is_dataclass(cls)):
                raise SpecError(f"{where}: expected a frozen dataclass of openended.harness.core.spec, got {cls!r}")
            _add(group, cls)
    return dict(sorted(_members[group].items()))


@lru_cache
def load_plugins(group: str) -> Mapping[str, tuple[str, type]]:
    """Return name → (package, class) of the plug-ins: the entry points `openended.<group>s`.

    A plug-in that cannot be imported is left out with a warning.
    """
    loaded: dict[str, tuple[str, type]] = {}
    for point in sorted(entry_points(group=f"openended.{group}s"), key=lambda point: point.name):
        package = point.dist.name if point.dist is not None else point.value
        try:
            loaded[point.name] = package, point.load()
        except (Exception, SystemExit) as err:
            reason = f"{type(err).__name__}: {shorten_error(err)}{format_last_frame(err)}"
            _broken[group, point.name] = f"{reason} (package {package})"
            log.warning("%s %s of %s was left out: %s", group, point.name, package, reason)
    return loaded


def find_broken_plugin(group: str, name: str) -> str | None:
    """Return why a plug-in could not be imported; None if it was imported or does not exist."""
    if group in _PACKAGES:
        load_plugins(group)
    return _broken.get((group, name))


def defaults(cls: type) -> dict[str, Any]:
    """Return the YAML node of a class: `_target_` and all options with their defaults, `???` if required."""
    node: dict[str, Any] = {"_target_": _get_class_path(cls)}
    for f in (f for f in dataclasses.fields(cls) if f.init):
        value = f.default_factory() if f.default_factory is not dataclasses.MISSING else f.default
        node[f.name] = "???" if value is dataclasses.MISSING else list(value) if isinstance(value, tuple) else value
    return node


def build(group: str, node: object, where: str | None = None) -> Spec:
    """Build a registered spec from its YAML node (`_target_` and options).

    Raises:
        SpecError: If the target is not registered in this group, an option is unknown or its value is not accepted.
    """
    label = where or group
    if not isinstance(node, Mapping):
        raise SpecError(f"{label}: expected an option with its settings, got {node!r:.40}")
    target = node.get("_target_")
    if not isinstance(target, str):
        raise SpecError(f"{label}: expected a `_target_`, got {sorted(node)}")
    return construct(_find(group, target, label), node, label)


def construct(cls: type[S], node: object, label: str) -> S:
    """Build a spec of class `cls` from a YAML node; `_target_` is ignored.

    Raises:
        SpecError: If an option is unknown, missing, or its value is not accepted.
    """
    if not isinstance(node, Mapping):
        raise SpecError(f"{label}: expected options, got {node!r:.40}")
    options = {str(k): v for k, v in node.items() if k != "_target_"}
    check_options(cls, options, label)
    return cls(**options)


def _find(group: str, target: str, label: str) -> type:
    """Find a class by its path; only the module of a bundled class is imported, to keep planning fast."""
    module = target.rpartition(".")[0]
    if module.startswith(tuple(f"{package}." for package in _PACKAGES[group])):
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as err:
            raise SpecError(f"{label}: no module {module!r} for _target_ {target!r} ({err})") from err
        classes = {_get_class_path(c): c for c in _members[group].values()}
    else:
        classes = {_get_class_path(c): c for c in load_members(group).values()}
    if target not in classes:
        close = difflib.get_close_matches(target, classes, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"choose one by its name, {group}=NAME"
        raise SpecError(f"{label}: _target_ {target!r} is not a registered {group}; {hint}")
    return classes[target]


def _get_class_path(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
