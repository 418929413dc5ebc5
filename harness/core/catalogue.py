"""List the options of every group in `conf/`, each with the first sentence of its comment."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib import resources
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from typing import Any

from openended.harness.core.errors import SpecError, suggest
from openended.harness.core.registry import find_broken_plugin, load_members

GROUPS = (
    "task",
    "model",
    "decoder",
    "scorer",
    "embedder",
    "scoring",
    "metric",
    "report",
    "runtime",
    "tracker",
    "experiment",
    "using",
    "compat",
)
LONGEST = 180  # maximum length of a one-line description, in characters
_CONF = "openended.conf"
_INHERITED = re.compile(r"^defaults: \[(.*), _self_\]$", re.MULTILINE)  # the files that an option inherits from
_END = re.compile(r"(?<!al)(?<!Fig)\.(?= |$)")  # of a sentence, not of `et al.`


def list_choices(group: str) -> dict[str, str]:
    """Return option → one-line description, sorted by name; plug-ins are listed without being imported."""
    others = {point.name: point for point in entry_points(group=f"openended.{group}s")}
    titles = {name: _describe_plugin(point) for name, point in others.items()}
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


def read_plugin_yaml(group: str, name: str) -> str | None:
    """Return the YAML text that a plug-in package ships for an option; None if there is none."""
    for point in entry_points(group="openended.conf"):
        path = resources.files(point.value) / group / f"{name}.yaml"
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
    """Return the YAML node of an option, without interpolation.

    Raises:
        SpecError: If the name is unknown.
    """
    import yaml

    names = list_bundled_choices(group)
    if name not in names:
        raise SpecError(f"no {group} {name!r}{suggest(name, names)}")
    node = yaml.safe_load(read_full_yaml(group, name))
    return node if isinstance(node, Mapping) else {}


def resolve_metric_names(requested: Iterable[str]) -> list[str]:
    """Expand names of metrics (plug-ins included) and of sets into a sorted list of metrics.

    Raises:
        SpecError: If a name is neither a metric nor a set.
    """
    metrics, sets = load_members("metric"), list_bundled_choices("metric")
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
            raise SpecError(f"no metric {name!r}{suggest(name, [*sets, *metrics])}")
    return sorted(names)
