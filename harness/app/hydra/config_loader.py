"""Hydra's loader of configurations, which reads each file once and limits what files of somebody else can do.

Files of an installed package are trusted. All others (`--config-dir`, `hydra.searchpath`) are limited in size, set none
of the options in `TYPED_ONLY`, and read no environment variables, where keys are. `--trust-config` lifts this.
"""

import contextlib
import copy
import functools
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, cast

import yaml
from hydra import version
from hydra._internal import defaults_list
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import CachingConfigRepository
from hydra._internal.utils import create_config_search_path
from hydra.core.config_search_path import SearchPathQuery
from hydra.core.default_element import GroupDefault, InputDefault, ResultDefault
from hydra.core.object_type import ObjectType
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Glob, Override, Sweep
from hydra.core.utils import setup_globals
from hydra.errors import HydraException
from hydra.plugins.config_source import ConfigResult
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.base import Container
from omegaconf.basecontainer import BaseContainer
from omegaconf.errors import OmegaConfBaseException
from yaml import MarkedYAMLError

from openended.harness.core import (
    GROUPS,
    HarnessError,
    SpecError,
    check_regular_file,
    find_repeated,
    is_shared,
    shorten_error,
)

MOST_BYTES = 256 << 10  # of one file
MOST_NODES = 50_000  # of one file, aliases expanded
MOST_RESOLVED = 5_000  # interpolations of one configuration; experiments have about a hundred
MOST_CHARACTERS = 1 << 20  # that they resolve to; a value in a list or mapping counts as ten

# Parts of options that only the command line sets, as values, axes and search spaces → why.
TYPED_ONLY = {
    "hydra": "changes how the command itself runs",
    "api_key_env": "would send a key from the environment",
    "base_url": "would receive the key that the command names",
    "endpoints": "would receive the key that the command names",
    "trust_remote_code": "runs the code of a model of the hub",
    "ray_address": "connects to a Ray cluster, whose data can run code",
    "tracker": "would send results to a server",
    "outputs_dir": "chooses where files are written",
}
_WITH_KEY = ("base_url", "endpoints")  # refused where the command names a key
_WHOLE_COMMAND = ("hydra", "tracker", "outputs_dir", "plan_only", "name")  # no axes, typed or not
_NODES = ("model", "scorer", "runtime")  # they have such options, so a file writes them out
_HARMLESS: tuple[object, ...] = (None, False, "auto", "none", {}, [])
# What a file sets of `hydra`: the axes of a grid, and the options of a search.
_AXES = "hydra.sweeper."
_OPTION_NAME = re.compile(r"[\w.+~@/:\[\]-]+")
_INLINE_KEY = re.compile(r"[{,]\s*([\w.]+)\s*:")
_ONLY_NAMES = ("compat", "experiment", "scoring", "using")  # groups whose choices set options of other groups
_LONGEST_NAME = 200
# The option or choice that a message is about.
_NAMED = re.compile(r"(?:^|: )no \w+ '([^']+)'|^([\w.]+): (?:expected|has)")
_NOT_AXES = ("hydra.sweeper._target_", "hydra.sweeper.storage")


_map_choices = defaults_list._create_interpolation_map


def _map_choices_if_read(overrides: Any, defaults: Sequence[Any], self_added: bool) -> object:  # noqa: ANN401
    """Return the choices that references in a list of defaults read; without any, Hydra need not build them."""
    has_reference = any("${" in str(getattr(d, "value", "")) + str(getattr(d, "path", "")) for d in defaults)
    return _map_choices(overrides, defaults, self_added) if has_reference else None


# Half of the time of composing went into maps that nothing read.
defaults_list._create_interpolation_map = _map_choices_if_read


class ConfigLoader(ConfigLoaderImpl):  # type: ignore[misc]
    """Loads the configurations of one command."""

    def __init__(self, folder: str | None = None, words: Sequence[str] = (), *, trusted: bool = False) -> None:
        version.setbase("1.3")
        setup_globals()
        search_path = create_config_search_path("pkg://openended.conf")
        if folder is not None:
            path = f"file://{os.path.abspath(folder)}"
            search_path.prepend("command-line", path, SearchPathQuery(provider="schema", path=None))
        super().__init__(search_path)
        self._trusted = trusted
        self._typed = set(_list_typed_options(words))
        self._words = re.findall(r"[\w-]+", " ".join(words))
        has_key = any("api_key_env" in word for word in words)
        self._typed_only = {part: why for part, why in TYPED_ONLY.items() if has_key or part not in _WITH_KEY}
        self._files = _Files(self.repository, trusted=trusted)
        self._plain: dict[tuple[str, str], dict[str, Any]] = {}
        parser = OverridesParser.create()
        # Compositions share most of their words.
        self._parse = functools.lru_cache(maxsize=None)(lambda word: parser.parse_overrides([word])[0])
        OmegaConf.register_new_resolver("oc.env", self._read_environment, replace=True)

    def compose(self, config: str, words: Sequence[str], mode: RunMode, *, sweeps: bool = True) -> DictConfig:
        """Compose a configuration with the node `hydra`; `sweeps=False` accepts several values even for a run."""
        with self.explain_composition():
            composed: DictConfig = self.load_configuration(config, list(words), mode, validate_sweep_overrides=sweeps)
            return composed

    def list_defaults(self, config: str, words: Sequence[str]) -> defaults_list.DefaultsList:
        """Return which files a configuration is composed of, and the overrides that are set afterwards."""
        with self.explain_composition():
            parsed, files = self._parse_overrides_and_create_caching_repo(config, list(words))
            self.validate_sweep_overrides_legal(parsed, RunMode.RUN, from_shell=True)
            return defaults_list.create_defaults_list(files, config, parsed, prepend_hydra=True, skip_missing=False)

    def merge_plain(self, defaults: Sequence[ResultDefault]) -> dict[str, Any]:
        """Merge files into plain containers, with interpolations; of the node `hydra` only what experiments set."""
        merged: dict[str, Any] = {}
        with self.explain_composition():
            for default in defaults:
                path = str(default.config_path)
                if path.startswith("hydra/"):
                    continue
                key = (path, str(default.package))
                if key not in self._plain:
                    loaded = self._load_checked(default, self._files).config
                    self._plain[key] = cast("dict[str, Any]", OmegaConf.to_container(loaded, resolve=False))
                _merge(merged, self._plain[key])
        return merged

    @contextlib.contextmanager
    def explain_composition(self) -> Iterator[None]:
        """Turn errors of other libraries than Hydra and OmegaConf into `SpecError`; limit what files expand to."""
        limit_interpolations()
        try:
            yield
        except (HarnessError, HydraException, OmegaConfBaseException):
            raise  # `errors.translate_config_errors` explains them
        except Exception as err:
            reason = f"{type(err).__name__}: {shorten_error(err)}"
            if isinstance(err, MarkedYAMLError) and err.problem_mark:
                reason = f"{err.problem_mark.name}, line {err.problem_mark.line + 1}: {err.problem}"
            raise SpecError(f"the configuration cannot be composed: {reason}") from err

    def _compose_config_from_defaults_list(
        self, defaults: list[ResultDefault], repo: CachingConfigRepository
    ) -> DictConfig:
        files = Counter((str(default.config_path), str(default.package)) for default in defaults)
        for (path, _), count in files.items():
            group, _, name = path.rpartition("/")
            if count > 1 and not is_shared(name):
                if group == "metric":
                    raise SpecError(f"metric: {name} is listed twice, by itself or in a set; name it once")
                raise SpecError(f"{path} is merged twice, and its values would undo others: leave {group}={name} out")
        config: DictConfig = super()._compose_config_from_defaults_list(defaults, repo)
        return config

    def get_group_options(self, *args: Any, **options: Any) -> list[str]:  # noqa: ANN401 - as in Hydra
        """Exclude files that other options inherit from (`_base`)."""
        return [name for name in super().get_group_options(*args, **options) if not is_shared(name)]

    def _parse_overrides_and_create_caching_repo(
        self, config_name: str | None, overrides: list[str]
    ) -> tuple[list[Override], CachingConfigRepository]:
        parsed = [self._parse(word) for word in overrides]
        if any(override.get_key_element() == "hydra.searchpath" for override in parsed):
            self._process_config_searchpath(config_name, parsed, self._files)
        for override in parsed:
            self._check_choice(override)
        return parsed, self._files

    def _check_choice(self, override: Override) -> None:
        """Refuse what is no name for a group: a number, null, a mapping for a group without options."""
        group, value = override.key_or_group, override.value()
        if override.is_delete() or not self._files.group_exists(group):
            return
        for name in value if isinstance(value, list) else [value]:
            has_options = isinstance(name, dict) and name and group not in _ONLY_NAMES
            if not (has_options or isinstance(name, str | Sweep | Glob)) or len(str(name)) > _LONGEST_NAME:
                text = "null" if name is None else f"{name!s:.40}"
                raise SpecError(f"{group}: expected the name of a choice, got {text}; openended --help lists them")

    def _load_single_config(self, default: ResultDefault, repo: CachingConfigRepository) -> ConfigResult:
        result = copy.copy(self._load_checked(default, repo))
        result.config = copy.deepcopy(result.config)  # Hydra sets overrides in the nodes of the files
        return result

    def _load_checked(self, default: ResultDefault, repo: CachingConfigRepository) -> ConfigResult:
        path = str(default.config_path)
        result: ConfigResult = super()._load_single_config(default, repo)
        if str(default.package).startswith("experiment") and result.config:
            raise SpecError(f"{path}.yaml: its options have no effect: its first line must be # @package _global_")
        # An untrusted experiment may also choose a tracker of ours.
        if path in self._files.untrusted or (self._files.untrusted and path.startswith("tracker/")):
            if path.startswith("hydra/"):
                _refuse(path, "hydra", TYPED_ONLY["hydra"])
            for option, value in _iterate_leaves(OmegaConf.to_container(result.config, resolve=False)):
                self._check_option(option, value)
        return result

    def _check_option(self, option: str, value: object) -> None:
        """Refuse an option of an untrusted file that only the command line may set."""
        if option.startswith(_AXES) and not _OPTION_NAME.fullmatch(option):
            # An axis becomes the word `key=value`, so a key with a `=` would be read as another option.
            _refuse(option, value, "is no name of an option", typed="")
        if option in ("hydra.mode", "tracker.project") or value in _HARMLESS:
            return
        if any(option == key or (key.endswith(".") and option.startswith(key)) for key in self._typed):
            return  # the command sets it, or a node that contains it
        is_axis = option.startswith(_AXES) and option not in _NOT_AXES
        parts = [part.lstrip("+~") for part in re.split(r"[./@\[]", option.removeprefix(_AXES) if is_axis else option)]
        for part in parts:
            if why := self._typed_only.get("hydra" if is_axis and part == "_target_" else part):
                _refuse(option, value, why)
        if isinstance(value, str) and ("regex:" in value or (parts[-1] == "valid" and "${" in value)):
            _refuse(option, value, "may be a regular expression that never ends")
        if parts[-1] in _NODES and isinstance(value, str) and "{" in value:
            _refuse(option, value, "may hold options that only the command line sets")

    def list_outside_files(self) -> list[str]:
        """List the configuration files that were read outside the working directory."""
        here = Path.cwd().resolve()
        return sorted(
            str(path) for path in map(Path.resolve, self._files.paths.values()) if not path.is_relative_to(here)
        )

    def locate(self, message: str) -> str:
        """Return a message with file and line of the option that it names, if a file of the user sets it."""
        match = _NAMED.search(message)
        name = next(filter(None, match.groups())).rpartition(".")[2] if match else ""
        for file in self._files.paths.values() if name not in self._words else ():
            lines = [line.partition("#")[0] for line in file.read_text("utf-8", "replace").splitlines()]
            if numbers := [number for number, line in enumerate(lines, 1) if name in re.findall(r"[\w-]+", line)]:
                return f"{file}, line {numbers[-1]}: {message}"
        return message

    def _read_environment(self, *words: str) -> str:
        if not self._trusted:
            _refuse("${oc.env:…}", ", ".join(map(str, words)), "reads the environment, where keys are", typed="")
        value = os.environ.get(words[0], *words[1:2])
        if value is None:
            raise SpecError(f"${{oc.env:{words[0]}}}: no such environment variable")
        return value


class _Files(CachingConfigRepository):  # type: ignore[misc]
    """The files of all compositions of a command, each read and checked once."""

    def __init__(self, delegate: Any, *, trusted: bool) -> None:  # noqa: ANN401 - Hydra's repository
        super().__init__(delegate)
        self._trusted = trusted
        self.untrusted: set[str] = set()
        self.paths: dict[str, Path] = {}

    def load_config(self, config_path: str) -> ConfigResult | None:
        if f"config_path={config_path}" not in self.cache:
            source = self.delegate._find_object_source(config_path, ObjectType.CONFIG)
            if source is not None and source.scheme() == "file":
                self.paths[config_path] = Path(os.path.relpath(source.path)) / source._normalize_file_name(config_path)
                check_config_file(self.paths[config_path])
                if not self._trusted:
                    self.untrusted.add(config_path)
            if (loaded := super().load_config(config_path)) is not None:
                loaded.defaults_list = _Defaults(loaded.defaults_list or ())
                if config_path in self.paths and loaded.header.get("package") == "_global_":
                    _check_choices(self.paths[config_path], loaded)
        return super().load_config(config_path)


def _check_choices(file: Path, loaded: ConfigResult) -> None:
    """Refuse a choice that an experiment makes as a value (`decoder: greedy`), without `override /`, or twice."""
    chosen = [default for default in loaded.defaults_list if isinstance(default, GroupDefault)]
    values = cast("dict[str, Any]", OmegaConf.to_container(loaded.config, resolve=False))
    wrong = {d.group.strip("/"): d.value for d in chosen if not (d.override and d.group.startswith("/"))}
    wrong |= {group: value for group, value in values.items() if isinstance(value, str | list) and "$" not in value}
    for group in (group for group in wrong if group in GROUPS and group != "tracker"):
        names = wrong[group]
        choice = f"[{','.join(names) if isinstance(names, list) else names}]" if group == "metric" else names
        line = names if group == "experiment" else f"override /{group}: {choice}"
        raise SpecError(f"{file}: choose {group} in its defaults, as '- {line}'")
    if several := next((d.group[1:] for d in chosen if isinstance(d.value, list) and d.group != "/metric"), None):
        raise SpecError(f"{file}: a run has one {several}, not a list; an axis is written {several}: 'NAME,NAME'")
    if twice := find_repeated([default.group for default in chosen]):
        raise SpecError(f"{file}: its defaults choose {twice} twice, and only the first has an effect; leave one out")


class _Defaults(list[InputDefault]):
    """The list of defaults of a file, which Hydra copies for every composition."""

    def __deepcopy__(self, memo: Mapping[int, Any]) -> list[InputDefault]:
        return [copy.copy(default) for default in self]  # their values are texts, or lists that are replaced as a whole


def _merge(target: dict[str, Any], source: Mapping[str, Any]) -> None:
    """Merge plain nodes as OmegaConf does: mappings by key; other values, lists too, are replaced."""
    for key, value in source.items():
        if isinstance(value, dict) and isinstance(target.get(key), dict):
            _merge(target[key], value)
        elif value != "???" or key not in target:  # a required option keeps the value that it has
            target[key] = copy_plain(value)


def copy_plain(value: Any) -> Any:  # noqa: ANN401
    """Copy plain containers, ten times as fast as `copy.deepcopy`."""
    if isinstance(value, dict):
        return {key: copy_plain(item) for key, item in value.items()}
    return [copy_plain(item) for item in value] if isinstance(value, list) else value


def _list_typed_options(words: Sequence[str]) -> Iterator[str]:
    """Yield the options that a command sets; `model={path: x}` sets `model.path`, and `model=openai` chooses a file."""
    for word in words:
        key, _, value = word.partition("=")
        yield key.lstrip("+~")
        if value.lstrip().startswith("{"):
            yield from (f"{key.lstrip('+~')}.{name}" for name in _INLINE_KEY.findall(value))
    if any(word.startswith("tracker=") for word in words):
        yield "tracker."


def check_axes(options: Iterable[str]) -> None:
    """Refuse axes and searched options that concern the whole command: it has one tracker, one folder, one name."""
    for option in options:
        if re.split(r"[./@]", option.lstrip("+~"))[0] in _WHOLE_COMMAND:
            raise SpecError(f"{option}: expected one value for the whole command, got an axis; run a command for each")


def _iterate_leaves(value: object, option: str = "") -> Iterator[tuple[str, object]]:
    """Yield (dotted option, value) of everything in a node that is no mapping."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _iterate_leaves(item, f"{option}.{key}" if option else str(key))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _iterate_leaves(item, f"{option}[{number}]")
    else:
        yield option, value


def _refuse(option: str, value: object, why: str, typed: str = ": name it in the command") -> NoReturn:
    raise SpecError(
        f"{option}: {str(value)[:100]!r} {why}{typed}: a configuration from somebody else could run code or take "
        "keys; if it is yours, add --trust-config"
    )


class _Limits:
    """What the interpolations of a configuration have expanded to."""

    resolved = characters = 0


def limit_interpolations() -> None:
    """Limit the interpolations of the next configuration that this process composes or resolves.

    A file of a few lines can stand for billions of nodes: an interpolation repeats a value, and they can be nested.
    """
    _Limits.resolved = _Limits.characters = 0
    original = Container.resolve_parse_tree
    if hasattr(original, "__wrapped__"):
        return

    @functools.wraps(original)
    def resolve(container: Container, *args: Any, **options: Any) -> Any:  # noqa: ANN401
        result = original(container, *args, **options)
        _Limits.resolved += 1
        _Limits.characters += len(result) if isinstance(result, str) else 10 * _count_items(result)
        if _Limits.resolved > MOST_RESOLVED or _Limits.characters > MOST_CHARACTERS:
            raise SpecError("interpolations ${…} expand to too much; write the values out")
        return result

    setattr(Container, "resolve_parse_tree", resolve)  # noqa: B010 - mypy refuses the assignment


def _count_items(node: Any) -> int:  # noqa: ANN401
    """Return how many values a list or mapping holds, nested ones included, none of them resolved."""
    content = node._content if isinstance(node, BaseContainer) else ()
    values = content.values() if isinstance(content, dict) else content if isinstance(content, list) else ()
    return len(values) + sum(map(_count_items, values))


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
    """Return the number of nodes, a node counted at each of its aliases; raise RecursionError if it contains itself."""
    if not isinstance(node, yaml.CollectionNode):
        return 1
    if id(node) not in counts:
        counts[id(node)] = -1
        parts = [part for item in node.value for part in (item if isinstance(item, tuple) else (item,))]
        counts[id(node)] = 1 + sum(_count_nodes(part, counts) for part in parts)
    if counts[id(node)] < 0:
        raise RecursionError
    return counts[id(node)]
