"""Limit the size of configuration files, and of what their aliases and interpolations expand to.

A file of a few lines can stand for billions of nodes: an alias repeats a node, an interpolation repeats a value, and
both can be nested. The limits are far above what an experiment needs.
"""

from __future__ import annotations

import functools
import time
from pathlib import Path
from typing import Any

import yaml
from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra._internal.sources_registry import SourcesRegistry
from hydra.plugins.config_source import ConfigResult
from omegaconf.base import Container
from omegaconf.errors import InterpolationResolutionError

from openended.harness.core import SpecError, check_regular_file

MOST_BYTES = 256 << 10  # of one file
MOST_NODES = 50_000  # of one file, aliases expanded
MOST_STEPS = 500  # interpolations that one value resolves, nested ones included
MOST_CHARACTERS = 1 << 20  # of the texts that one value resolves, nested ones included
MOST_RESOLVED = 5_000  # interpolations of one configuration within `WINDOW`; experiments have about a hundred
WINDOW = 60.0  # seconds of processor time


class _Counter:
    """Counts and limits the interpolations that one configuration resolves."""

    def __init__(self) -> None:
        self.values = self.depth = self.steps = self.characters = 0
        self.start = time.process_time()

    def count(self, result: object) -> None:
        """Count a resolved interpolation."""
        if time.process_time() - self.start > WINDOW:  # a long grid reads its configuration again and again
            self.values, self.start = 0, time.process_time()
        self.steps += 1
        self.values += 1
        self.characters += len(result) if isinstance(result, str) else 0
        if self.steps > MOST_STEPS or self.values > MOST_RESOLVED or self.characters > MOST_CHARACTERS:
            raise InterpolationResolutionError("interpolations ${…} expand to too much; write the values out")


_counter = _Counter()


def limit_configuration() -> None:
    """Limit the files and interpolations of the next configuration that this process composes or resolves."""
    global _counter  # noqa: PLW0603 - OmegaConf's methods have no place for it
    _counter = _Counter()
    # Hydra's scan for plug-ins may import the module a second time: the class that reads files is the registered one.
    for source in {FileConfigSource, SourcesRegistry.instance().types.get("file", FileConfigSource)}:
        _wrap_once(source, "load_config", _load_limited)
    _wrap_once(Container, "resolve_parse_tree", _resolve_limited)


def _wrap_once(owner: type, name: str, wrapper: Any) -> None:  # noqa: ANN401 - a function around the method
    method = getattr(owner, name)
    if hasattr(method, "__wrapped__"):
        return

    @functools.wraps(method)
    def limited(self: Any, *args: Any, **options: Any) -> Any:  # noqa: ANN401
        return wrapper(self, method, *args, **options)

    setattr(owner, name, limited)


def _load_limited(self: FileConfigSource, original: Any, config_path: str) -> ConfigResult:  # noqa: ANN401
    path = Path(self.path) / self._normalize_file_name(config_path)
    if path.exists():
        check_config_file(path)
    result: ConfigResult = original(self, config_path)
    return result


def _resolve_limited(self: Container, original: Any, *args: Any, **options: Any) -> Any:  # noqa: ANN401
    if _counter.depth == 0:
        _counter.steps = _counter.characters = 0
    _counter.depth += 1
    try:
        result = original(self, *args, **options)
    finally:
        _counter.depth -= 1
    _counter.count(result)
    return result


def check_config_file(path: Path) -> None:
    """Check that a YAML file is a regular file, and small also after its aliases are expanded."""
    check_regular_file(path)
    if path.stat().st_size > MOST_BYTES:
        raise SpecError(f"{path}: a configuration file of more than {MOST_BYTES >> 10} KiB; move data into other files")
    text = path.read_bytes().decode("utf-8", "replace")
    if "&" not in text or "*" not in text:
        return
    try:
        count = _count_nodes(yaml.compose(text, Loader=yaml.SafeLoader), {})
    except RecursionError:
        raise SpecError(f"{path}: nested too deeply, or an alias that contains itself") from None
    except yaml.YAMLError:
        return  # Hydra's reader describes it
    if count > MOST_NODES:
        raise SpecError(f"{path}: its YAML aliases expand to more than {MOST_NODES} nodes; write the values out")


def _count_nodes(node: yaml.Node | None, counts: dict[int, int]) -> int:
    """Return the number of nodes, a node counted at each of its aliases."""
    if not isinstance(node, yaml.CollectionNode):
        return 1
    if id(node) not in counts:
        counts[id(node)] = -1
        parts = [part for item in node.value for part in (item if isinstance(item, tuple) else (item,))]
        counts[id(node)] = 1 + sum(_count_nodes(part, counts) for part in parts)
    if counts[id(node)] < 0:
        raise RecursionError
    return counts[id(node)]
