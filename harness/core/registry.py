"""The registry of metrics, tasks, decoders and models (plug-ins included), and the options of groups of `conf/`."""

import ast
import contextlib
import dataclasses
import difflib
import importlib
import logging
import re
import sys
import textwrap
import typing
from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib import resources
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar, dataclass_transform

from openended.harness.core.errors import SpecError, format_last_frame, shorten_error, suggest
from openended.harness.core.io import parse_yaml
from openended.harness.core.spec import Spec, check_options, coerce

log = logging.getLogger(__name__)
C = TypeVar("C")
S = TypeVar("S", bound=Spec)

_HOME = Path(__file__).parents[2]  # where the folders of the package are
# Group → folders whose modules define the bundled members.
_FOLDERS = {
    "metric": ("metrics",),
    "task": ("tasks",),
    "decoder": ("harness/decoders", "harness/generation", "harness/backends"),
    "model": ("harness/models", "harness/backends"),
}
_members: dict[str, dict[str, type]] = {group: {} for group in _FOLDERS}
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
def list_bundled_members(group: str) -> Mapping[str, str]:
    """Return name → path of the bundled classes of a group, read from their source, so that none is imported."""
    declared = re.compile(rf'^@(?:core\.)?{group}\nclass (\w+).*?^    name = "(\w+)"', re.MULTILINE | re.DOTALL)
    index: dict[str, str] = {}
    for path in sorted(path for folder in _FOLDERS[group] for path in (_HOME / folder).rglob("*.py")):
        module = ".".join(("openended", *path.relative_to(_HOME).with_suffix("").parts))
        index |= {name: f"{module}.{cls}" for cls, name in declared.findall(path.read_text(encoding="utf-8"))}
    return index


@lru_cache
def _read_entry_points() -> EntryPoints:
    """Return the entry points of all installed packages, whose files are read once."""
    return entry_points()


@lru_cache
def list_plugins(group: str) -> Mapping[str, EntryPoint]:
    """Return name → entry point of the plug-ins of a group; none is imported."""
    points = {point.name: point for point in _read_entry_points().select(group=f"openended.{group}s")}
    for name in points.keys() & list_bundled_members(group).keys() if group in _FOLDERS else ():
        log.warning("%s %s of %s was left out: the name is taken", group, name, points.pop(name).value)
    return points


def list_members(group: str) -> list[str]:
    """Return the names of the classes of a group, plug-ins included, sorted; none is imported."""
    return sorted({*list_bundled_members(group), *list_plugins(group), *_members[group]})


def find_member(group: str, name: str) -> type | None:
    """Return a class of a group by its name, importing its module alone; None if there is none that can be used."""
    if name not in _members[group]:
        if path := list_bundled_members(group).get(name):
            importlib.import_module(path.rpartition(".")[0])
        else:
            load_plugin(group, name)
    return _members[group].get(name)


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
def load_plugin(group: str, name: str) -> tuple[str, type] | None:
    """Return package and class of a plug-in; None, with a warning, if it cannot be used."""
    point = list_plugins(group).get(name)
    if point is None:
        return None
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
        return None
    return package, cls


def is_bundled(cls: type) -> bool:
    """Return whether a class is the project's own, not a plug-in's."""
    return cls.__module__.startswith("openended.")


def find_broken_plugin(group: str, name: str) -> str | None:
    """Return why a plug-in cannot be used; None if it can, or does not exist."""
    if group in _FOLDERS:
        load_plugin(group, name)
    return _broken.get((group, name))


def defaults(cls: type) -> dict[str, Any]:
    """Return the YAML node of a class: `_target_` and all options with their defaults, `???` if required."""
    node: dict[str, Any] = {"_target_": _get_class_path(cls)}
    for f in (f for f in dataclasses.fields(cls) if f.init):
        value = f.default_factory() if f.default_factory is not dataclasses.MISSING else f.default
        node[f.name] = "???" if value is dataclasses.MISSING else list(value) if isinstance(value, tuple) else value
    return node


def build(group: str, node: object, where: str | None = None) -> Spec:
    """Build a registered spec from its YAML node (`_target_` and options); raise `SpecError` if it is not accepted."""
    label = where or group
    if not isinstance(node, Mapping):
        raise SpecError(f"{label}: expected an option with its settings, got {node!r:.40}")
    target = node.get("_target_")
    if not isinstance(target, str) and group == "metric":
        raise SpecError(f"{label}: has options, but is not chosen; add it to metric=[…], or leave them out")
    if not isinstance(target, str):
        raise SpecError(f"{label}: expected a `_target_`, got {sorted(node)}")
    return construct(_find(group, target, label), node, label)


def construct(cls: type[S], node: object, label: str) -> S:
    """Build a spec of class `cls` from a YAML node, `_target_` ignored; raise `SpecError` if it is not accepted."""
    if not isinstance(node, Mapping):
        raise SpecError(f"{label}: expected options, got {node!r:.40}")
    options = {str(k): v for k, v in node.items() if k != "_target_"}
    check_options(cls, options, label)
    try:
        return cls(**options)
    except SpecError as err:  # a scorer is a model by its own name
        name = getattr(cls, "error_name", "")
        raise SpecError(re.sub(rf"^{name}\b", label, str(err)) if name else str(err)) from err


def _find(group: str, target: str, label: str) -> type:
    """Find a class by its path; no other module is imported."""
    names = {_get_class_path(cls): name for name, cls in _members[group].items()}
    names |= {point.value.replace(":", "."): name for name, point in list_plugins(group).items()}
    names |= {path: name for name, path in list_bundled_members(group).items()}
    if target not in names:
        close = difflib.get_close_matches(target, names, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"choose one by its name, {group}=NAME"
        raise SpecError(f"{label}: _target_ {target!r} is not a registered {group}; {hint}")
    return load_member(group, names[target])


def _get_class_path(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


# Options of `conf/`, each with the first sentence of its comment.

GROUPS = (
    "task", "model", "decoder", "prompting", "scorer", "embedder", "scoring", "metric", "report", "runtime", "tracker",
    "experiment", "using", "compat",
)  # fmt: skip
LONGEST = 180  # maximum length of a one-line description, in characters
_CONF = "openended.conf"
_INHERITED = re.compile(r"^defaults: \[(.*), _self_\]$", re.MULTILINE)  # the files that an option inherits from
_END = re.compile(r"(?<!al)(?<!Fig)\.(?= |$)")  # of a sentence, not of `et al.`


def list_choices(group: str) -> dict[str, str]:
    """Return option → one-line description, sorted by name; plug-ins are listed without being imported."""
    titles = {name: _describe_plugin(point) for name, point in list_plugins(group).items()}
    return dict(sorted({**titles, **list_bundled_choices(group)}.items()))


def _describe_plugin(point: EntryPoint) -> str:
    """Return the first line of a plug-in's docstring, read from its source, and the name of its package."""
    package = f"from the package {point.dist.name if point.dist else point.value}"
    try:
        spec = find_spec(point.module)
        tree = ast.parse(Path(str(spec.origin)).read_text(encoding="utf-8")) if spec is not None else ast.Module([], [])
    except (ImportError, OSError, SyntaxError, ValueError):  # an error of a plug-in is reported where it is chosen
        return package
    classes = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == point.attr)
    docstring = next((ast.get_docstring(node) for node in classes), None)
    return f"{docstring.splitlines()[0].rstrip('.')} ({package})" if docstring else package


@lru_cache
def list_bundled_choices(group: str) -> dict[str, str]:
    """Return the options of a group that ship with the harness, each with its one-line description."""
    folder = resources.files(_CONF) / group
    if not folder.is_dir():
        return {}
    names = sorted(p.name for p in folder.iterdir() if p.name.endswith(".yaml") and not is_shared(p.name))
    return {name.removesuffix(".yaml"): extract_summary((folder / name).read_text(encoding="utf-8")) for name in names}


def is_shared(name: str) -> bool:
    """Return whether a YAML only holds options that others inherit, such as `_base`."""
    return name.startswith("_")


def read_option_yaml(group: str, name: str) -> str:
    """Return the YAML text of an option."""
    return (resources.files(_CONF) / group / f"{name}.yaml").read_text(encoding="utf-8")


def list_config_packages() -> list[str]:
    """Return the packages with YAML files of plug-ins."""
    return [point.value for point in _read_entry_points().select(group="openended.conf")]


def read_plugin_yaml(group: str, name: str) -> str | None:
    """Return the YAML text that a plug-in package ships for an option; None if there is none."""
    for package in list_config_packages():
        path = resources.files(package) / group / f"{name}.yaml"
        if path.is_file():
            return path.read_text(encoding="utf-8")
    return None


def read_full_yaml(group: str, name: str) -> str:
    """Return the YAML text of an option with inherited options and their comments included."""
    text = read_option_yaml(group, name)
    inherited = _INHERITED.search(text)
    if inherited is None:
        return text
    header = [line for line in text[: inherited.start()].splitlines() if line.startswith("#")]
    options = _split_blocks(text[inherited.end() :])
    for item in reversed([item.strip() for item in inherited[1].split(",")]):  # the last one wins
        parent = item.removesuffix("@_here_").removeprefix("/")
        parent_group, _, parent_name = parent.rpartition("/")
        for key, lines in _split_blocks(read_full_yaml(parent_group or group, parent_name)).items():
            override = options.setdefault(key, lines)
            if override is not lines and " #" not in override[0] and " #" in lines[0]:
                options[key] = [f"{override[0]} #{lines[0].partition(' #')[2]}", *override[1:]]
    return "\n".join([*header, *(line for lines in options.values() for line in lines), ""])


def _split_blocks(text: str) -> dict[str, list[str]]:
    """Split a YAML text into top-level options: option → its lines."""
    blocks: dict[str, list[str]] = {}
    key = ""
    for line in text.splitlines():
        if line and line[0] not in "# ":
            key = line.partition(":")[0]
            blocks[key] = [line]
        elif key and line:
            blocks[key].append(line)
    return blocks


def extract_summary(text: str) -> str:
    """Return the first sentence of the comment at the top of a YAML text, or an empty string."""
    lines = takewhile(lambda line: line.startswith("#"), text.splitlines())
    comment = " ".join(line.removeprefix("#").strip() for line in lines if not line.startswith("# @package"))
    end = _END.search(comment)
    return textwrap.shorten(comment[: end.start()] if end else comment, LONGEST, placeholder=" …")


def list_options() -> list[str]:
    """Return the lines of the root configuration that are options of a run, comments included."""
    lines = (resources.files(_CONF) / "config.yaml").read_text(encoding="utf-8").splitlines()
    options = [line for line in lines if line and line[0].isalpha() and ": " in line]
    return [line for line in options if line.split(":", 1)[0] not in ("defaults", "hydra")]


@lru_cache
def read_node(group: str, name: str) -> Mapping[str, Any]:
    """Return the YAML node of an option, without interpolation; raise `SpecError` if the name is unknown."""
    names = list_bundled_choices(group)
    if name not in names:
        raise SpecError(f"no {group} {name!r}{suggest(name, names)}")
    node = parse_yaml(read_full_yaml(group, name))
    return node if isinstance(node, Mapping) else {}


def resolve_metric_names(requested: Iterable[str]) -> list[str]:
    """Expand names of metrics (plug-ins included) and of sets into a sorted list; raise `SpecError` for others."""
    metrics, sets = list_members("metric"), list_bundled_choices("metric")
    names: set[str] = set()
    for name in requested:
        if name in sets and name not in metrics:
            names.update(resolve_metric_names(read_node("metric", name)["defaults"]))
        elif name.endswith(".py"):
            raise SpecError(f"no metric {name!r}: a metric of your own is a plug-in; docs/examples/plugin has one")
        elif name not in metrics:
            raise SpecError(f"no metric {name!r}{suggest(name, {*sets, *metrics})}")
        else:
            load_member("metric", name)
            names.add(name)
    return sorted(names)
