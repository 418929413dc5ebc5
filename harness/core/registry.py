"""Classes by their names: those of `ENTRIES`, those of installed packages, and those registered in this process."""

import ast
import contextlib
import dataclasses
import inspect
import json
import logging
import re
import sys
import textwrap
import typing
from collections.abc import Mapping
from functools import lru_cache
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar, cast, dataclass_transform

from openended.harness.core.errors import SpecError, format_last_frame, shorten_error, suggest
from openended.harness.core.members import ENTRIES
from openended.harness.core.spec import JsonOptions, Spec, check_options, coerce

log = logging.getLogger(__name__)
C = TypeVar("C")
S = TypeVar("S", bound=Spec)

NAMED = ("task", "model", "decoder", "metric", "hydra/launcher")
"""Groups of several classes: a node of options has the `name` of one. The others have one class each."""
_HOME = Path(__file__).parents[2]  # where the folders of the package are
CLASS_GROUPS = (*NAMED, "prompting", "embedder", "report", "runtime", "tracker")
"""Groups of Hydra whose options are those of classes."""
_members: dict[str, dict[str, type]] = {group: {} for group in ENTRIES}
_plain: dict[tuple[type, str, str], Spec] = {}
"""Specs by class, options and label: the jobs of a grid share most of them, and they are frozen."""
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
    variables = [
        (base, key, hint)
        for base in cls.__mro__
        for key, hint in vars(base).get("__annotations__", {}).items()
        if "ClassVar[" in str(hint)
    ]
    if missing := [key for _, key, _ in variables if not hasattr(cls, key)]:
        raise SpecError(f"{group} {name!r}: its class lacks the class variable {' and '.join(missing)}")
    for base, key, hint in () if is_bundled(cls) else variables:
        kind = hint.removeprefix("ClassVar[")[:-1] if isinstance(hint, str) else typing.get_args(hint)[0]
        with contextlib.suppress(NameError):  # a name that only type checkers import
            names = vars(sys.modules[base.__module__])
            kind = typing.get_type_hints(SimpleNamespace(__annotations__={key: kind}), names)[key]
            coerce(getattr(cls, key), kind, f"its class variable `{key}`")
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


@lru_cache
def list_bundled_members(group: str) -> Mapping[str, EntryPoint]:
    """Return name → entry of what is bundled of a group; what was taken away with its file is left out."""
    points = [EntryPoint(name, f"openended.{path}", group) for name, path in ENTRIES.get(group, {}).items()]
    files = [_HOME.joinpath(*point.module.split(".")[1:]).with_suffix(".py") for point in points]
    return {point.name: point for point, file in zip(points, files, strict=True) if file.is_file()}


@lru_cache
def _read_entry_points() -> EntryPoints:
    return entry_points()


def list_entry_points(group: str) -> EntryPoints:
    """Return the entry points of a group of all installed packages."""
    return _read_entry_points().select(group=group)


@lru_cache
def list_plugins(group: str) -> Mapping[str, EntryPoint]:
    """Return name → entry point of the plug-ins of a group; none is imported."""
    plural = "analyses" if group == "analysis" else f"{group.rpartition('/')[2]}s"
    points = {point.name: point for point in list_entry_points(f"openended.{plural}")}
    for name in points.keys() & list_bundled_members(group).keys():
        log.warning("%s %s of %s was left out: the name is taken", group, name, points.pop(name).value)
    return points


def list_entries(group: str) -> dict[str, EntryPoint]:
    """Return name → entry of all that a group has, plug-ins included, sorted by name."""
    return dict(sorted({**list_plugins(group), **list_bundled_members(group)}.items()))


def list_members(group: str) -> list[str]:
    """Return the names of the classes of a group, plug-ins included, sorted; none is imported."""
    return sorted({*list_bundled_members(group), *list_plugins(group), *_members[group]})


def find_only_member(group: str) -> str | None:
    """Return the name of the only class of a group; None for a group of several, or of none."""
    return next(iter(list_bundled_members(group)), None) if group in CLASS_GROUPS and group not in NAMED else None


def find_member(group: str, name: str) -> type | None:
    """Return a class of a group by its name, importing its module alone; None if there is none that can be used."""
    if name not in _members[group]:
        if point := list_bundled_members(group).get(name):
            _members[group][name] = point.load()
        else:
            load_plugin(group, name)
    return _members[group].get(name)


def load_entry(group: str, name: str) -> Any:  # noqa: ANN401 - whatever is listed there
    """Import what an entry of a group without options names; raise `SpecError` if there is none."""
    if (point := list_entries(group).get(name)) is None:
        raise SpecError(f"no {group} {name!r}{suggest(name, list_members(group))}")
    return point.load()


def load_member(group: str, name: str) -> type:
    """Return a class of a group by its name; raise `SpecError` if there is none that can be used."""
    cls = find_member(group, name)
    if cls is None and (broken := find_broken_plugin(group, name)):
        raise SpecError(f"{group} {name!r} is a plug-in that cannot be used: {broken}")
    if cls is None:
        raise SpecError(f"no {group} {name!r}{suggest(name, list_members(group))}")
    return cls


def load_members(group: str) -> Mapping[str, type]:
    """Return name → class of a whole group, sorted, where facts of all are needed; imports all their modules."""
    members = {name: find_member(group, name) for name in list_members(group)}
    return {name: cls for name, cls in members.items() if cls is not None}


@lru_cache
def load_plugin(group: str, name: str) -> None:
    """Register the class of a plug-in; one that cannot be used is left out with a warning."""
    if (point := list_plugins(group).get(name)) is None:
        return
    package = point.dist.name if point.dist is not None else point.value
    try:
        cls = point.load()
        if not (isinstance(cls, type) and issubclass(cls, Spec) and dataclasses.is_dataclass(cls)):
            raise SpecError(f"expected a class decorated with @{group}, got {cls!r:.80}")
        if cls.name != name:
            raise SpecError(f"its class variable `name` is {cls.name!r}; expected {name!r}, as in its entry point")
        _add(group, cls)
    except (Exception, SystemExit) as err:
        reason = f"{type(err).__name__}: {shorten_error(err)}{format_last_frame(err)}"
        _broken[group, name] = f"{reason} (package {package})"
        log.warning("%s %s of %s was left out: %s", group, name, package, reason)


def is_bundled(cls: type) -> bool:
    """Return whether a class is the project's own, not a plug-in's."""
    return cls.__module__.startswith("openended.")


def find_broken_plugin(group: str, name: str) -> str | None:
    """Return why a plug-in cannot be used; None if it can, or does not exist."""
    if group in ENTRIES:
        load_plugin(group, name)
    return _broken.get((group, name))


def build_class_node(group: str, name: str) -> dict[str, Any]:
    """Return the options of a class with their defaults as a node, `???` where one is required.

    In a group of `NAMED` the node has the `name` of the class too.
    """
    node: dict[str, Any] = {"name": name} if group in NAMED else {}
    for f in (f for f in dataclasses.fields(load_member(group, name)) if f.init):
        value = f.default_factory() if f.default_factory is not dataclasses.MISSING else f.default
        plain: Any = list if isinstance(value, tuple) else dict if isinstance(value, JsonOptions) else None
        node[f.name] = "???" if value is dataclasses.MISSING else value if plain is None else plain(value)
    return node


def build(group: str, node: object, where: str | None = None) -> Spec:
    """Build a registered spec from a node with its `name` and options; raise `SpecError` if it is not accepted."""
    label = where or group
    if not isinstance(node, Mapping):
        expected = f"options, as {label}.OPTION=VALUE" if "." in label else f"a choice, as {label}=NAME"
        raise SpecError(f"{label}: expected {expected}, got {node!r:.40}")
    name = node.get("name")
    if not isinstance(name, str) and group == "metric":
        raise SpecError(f"{label}: has options, but is not chosen; add it to metric=[…], or leave them out")
    if not isinstance(name, str):
        raise SpecError(f"{label}: expected the name of a {group}, got {sorted(node)}")
    return construct(load_member(group, name), node, label)


def construct(cls: type[S], node: object, label: str) -> S:
    """Build a spec of class `cls` from a node, its `name` ignored; raise `SpecError` if it is not accepted."""
    if not isinstance(node, Mapping):
        raise SpecError(f"{label}: expected options, got {node!r:.40}")
    options = {str(k): v for k, v in node.items() if k != "name"}
    try:
        text = json.dumps(options)
    except (TypeError, ValueError):  # specs, paths and the like
        return _construct(cls, options, label)
    if (cls, text, label) not in _plain:
        _plain[cls, text, label] = _construct(cls, options, label)
    return cast("S", _plain[cls, text, label])


def _construct(cls: type[S], options: Mapping[str, Any], label: str) -> S:
    check_options(cls, options, label)
    try:
        return cls(**options)
    except SpecError as err:  # a scorer is a model by its own name
        name = getattr(cls, "error_name", "")
        raise SpecError(re.sub(rf"^{name}\b", label, str(err)) if name else str(err)) from err


def _get_class_path(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


# What a class says of itself in its source.


@lru_cache
def read_option_docs(cls: type) -> Mapping[str, str]:
    """Return option → the docstring below it in the source of the class, or of the one that it inherits it from."""
    docs: dict[str, str] = {}
    for base in (base for base in reversed(cls.__mro__) if dataclasses.is_dataclass(base)):
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        for statement, below in pairwise(tree.body if isinstance(tree, ast.ClassDef) else []):
            value = below.value if isinstance(below, ast.Expr) else None
            target = statement.target if isinstance(statement, ast.AnnAssign) else None
            if isinstance(target, ast.Name) and isinstance(value, ast.Constant) and isinstance(value.value, str):
                docs[target.id] = " ".join(value.value.split())
    return docs


def read_summary(group: str, name: str) -> str:
    """Return the first line of a class's docstring, and the package of a plug-in."""
    cls, point = find_member(group, name), list_plugins(group).get(name)
    line = (cls.__doc__ or "").partition("\n")[0].rstrip(".") if cls is not None else ""
    if point is None:
        return line
    package = f"from the package {point.dist.name if point.dist else point.value}"
    return f"{line} ({package})" if line else package
