"""Check the files of `--config-dir`, which somebody else may have written, before Hydra reads them.

They set none of the options in `TYPED_ONLY`, refer to options alone, not to environment variables, where keys are, and
are small, also after references are expanded. `--trust-config` leaves this check out.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import yaml

from openended.harness.core import GROUPS, SpecError, check_regular_file, find_repeated

MOST_BYTES = 256 << 10  # of one file
MOST_REFERENCES = 20  # of one file: each may repeat a value

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
_ADDRESSES = ("base_url", "endpoints")  # refused where the command names a key
_NODES = ("model", "scorer", "runtime")  # they have such options, so a file writes them out
_HARMLESS: tuple[object, ...] = (None, False, "auto", "none", {}, [])
# What a file sets of `hydra`: the axes of a grid, and the options of a search.
_AXES = "hydra.sweeper."
_NOT_AXES = ("hydra.sweeper._target_", "hydra.sweeper.storage")
_OPTION_NAME = re.compile(r"[\w.+~@/:\[\]-]+")
_REFERENCE = re.compile(r"\$\{[\w.]+\}")
_CODE = re.compile(r"\.py\b")
_STEM = re.compile(r"[\w.+-]+")  # of files that words name as they are written
_PACKAGE = re.compile(r"@package[ \t]+(?!_global_\b|_group_\b)(\S+)")
_INLINE_KEY = re.compile(r"[{,]\s*([\w.]+)\s*:")
# The option or choice that a message is about.
_NAMED = re.compile(r"(?:^|: )no \w+ '([^']+)'|^([\w.]+): (?:expected|has)")


def check_folder(folder: Path, words: Sequence[str]) -> None:
    """Check the files of a folder that a command can read; what its words set themselves takes precedence."""
    typed, has_key = set(_list_typed_options(words)), any("api_key_env" in word for word in words)
    for path, node in _read_files(folder, " ".join(words)):
        if "hydra" in path.relative_to(folder).parts:
            _refuse(str(path), "hydra", TYPED_ONLY["hydra"])
        if path.parent.name == "experiment":
            _check_choices(path, node, typed)
        for option, value in _iterate_leaves({**node, "defaults": None}):
            _check_option(option, value, typed, has_key=has_key)


def _read_files(folder: Path, text: str) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Yield the files that are named in a text or in another of these files, and all that change Hydra itself."""
    files = sorted(folder.rglob("*.yaml"))
    unnamed = [
        path
        for path in files
        if "glob" in text or "hydra" in path.relative_to(folder).parts or not _STEM.fullmatch(path.stem)
    ]
    while path := next((path for path in files if path in unnamed or path.stem in text), None):
        files.remove(path)
        node = _read_file(path)
        text += str(node)
        yield path, node


def _read_file(path: Path) -> Mapping[str, Any]:
    check_regular_file(path)
    if path.stat().st_size > MOST_BYTES:
        raise SpecError(f"{path}: a configuration file of more than {MOST_BYTES >> 10} KiB; move data into other files")
    text = path.read_bytes().decode("utf-8", "replace")
    try:
        if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(text)):
            raise SpecError(f"{path}: has aliases of YAML, which can expand to too much; write the values out")
        node = yaml.safe_load(text) or {}
    except (yaml.YAMLError, ValueError, RecursionError) as err:
        mark = getattr(err, "problem_mark", None)
        problem = getattr(err, "problem", None)
        reason = f"line {mark.line + 1}: {problem}" if mark else f"not YAML: {type(err).__name__}"
        raise SpecError(f"{path}, {reason}") from err
    if not isinstance(node, dict):
        raise SpecError(f"{path}: expected options, as name: value, got {node!r:.40}")
    if path.parent.name == "experiment" and not text.startswith("# @package _global_"):
        raise SpecError(f"{path}: its options have no effect: its first line must be # @package _global_")
    if package := _PACKAGE.search(text):
        _refuse(f"{path}: @package", package[1], "would set options of another group", typed="")
    defaults = str(node.get("defaults"))
    if "$" in defaults or "@" in defaults or _CODE.search(defaults):
        _refuse(f"{path}: defaults", node["defaults"], "name files by references, or files with code", typed="")
    if text.count("${") > MOST_REFERENCES:
        raise SpecError(f"{path}: more than {MOST_REFERENCES} references ${{…}} can expand to too much; write them out")
    return node


def _check_choices(path: Path, node: Mapping[str, Any], typed: set[str]) -> None:
    """Refuse a tracker, and a choice that an experiment makes as a value (`decoder: greedy`) or twice."""
    defaults = node.get("defaults")
    chosen = [
        pair
        for item in (defaults if isinstance(defaults, list) else [])
        if isinstance(item, dict)
        for pair in item.items()
    ]
    for key, names in ((str(key), names) for key, names in [*chosen, *node.items()]):
        group = key.removeprefix("override ").strip("/")
        is_override = key.startswith("override /")
        if group == "tracker" and isinstance(names, str) and group not in typed:
            _refuse(f"{path}: tracker", names, TYPED_ONLY[group])
        if group not in GROUPS or group == "tracker" or not isinstance(names, str | list):
            continue
        if not is_override:
            choice = (
                f"[{','.join(map(str, names)) if isinstance(names, list) else names}]" if group == "metric" else names
            )
            line = names if group == "experiment" else f"override /{group}: {choice}"
            raise SpecError(f"{path}: choose {group} in its defaults, as '- {line}'")
        if isinstance(names, list) and group != "metric":
            raise SpecError(f"{path}: a run has one {group}, not a list; an axis is written {group}: 'NAME,NAME'")
    if twice := find_repeated([str(key).removeprefix("override ") for key, _ in chosen]):
        raise SpecError(f"{path}: its defaults choose {twice} twice, and only the first has an effect; leave one out")


def _check_option(option: str, value: object, typed: set[str], *, has_key: bool) -> None:
    """Refuse an option of a file that only the command line may set."""
    if isinstance(value, str) and "${" in _REFERENCE.sub("", value):
        _refuse(option, value, "may read the environment, where keys are", typed="")
    if option.startswith(_AXES) and not _OPTION_NAME.fullmatch(option):
        # An axis becomes the word `key=value`, so a key with a `=` would be read as another option.
        _refuse(option, value, "is no name of an option", typed="")
    if isinstance(value, str) and _CODE.search(value):
        _refuse(option, value, "runs the code of a file")
    if option in ("hydra.mode", "tracker.project") or value in _HARMLESS:
        return
    if any(option == key or (key.endswith(".") and option.startswith(key)) for key in typed):
        return  # the command sets it, or a node that contains it
    is_axis = option.startswith(_AXES) and option not in _NOT_AXES
    parts = [part.lstrip("+~") for part in re.split(r"[./@\[]", option.removeprefix(_AXES) if is_axis else option)]
    for part in parts:
        if part in TYPED_ONLY and (has_key or part not in _ADDRESSES):
            _refuse(option, value, TYPED_ONLY[part])
    if parts[-1] in _NODES and isinstance(value, str) and "{" in value:
        _refuse(option, value, "may hold options that only the command line sets")


def _list_typed_options(words: Sequence[str]) -> Iterator[str]:
    """Yield the options that a command sets; `model={path: x}` sets `model.path`, and `model=openai` chooses a file."""
    for word in words:
        key, _, value = word.partition("=")
        yield key.lstrip("+~")
        if value.lstrip().startswith("{"):
            yield from (f"{key.lstrip('+~')}.{name}" for name in _INLINE_KEY.findall(value))
    if any(word.startswith("tracker=") for word in words):
        yield "tracker."


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


def add_location(message: str, folder: Path, words: Sequence[str]) -> str:
    """Return a message with file and line of the option that it names, if a file that the command chooses sets it."""
    match = _NAMED.search(message)
    name = next(filter(None, match.groups())).rpartition(".")[2] if match else ""
    typed = re.findall(r"[\w-]+", " ".join(words))
    for path in sorted(folder.rglob("*.yaml")) if name not in typed else ():
        lines = [line.partition("#")[0] for line in path.read_text("utf-8", "replace").splitlines()]
        numbers = [number for number, line in enumerate(lines, 1) if name in re.findall(r"[\w-]+", line)]
        if numbers and path.stem in typed:
            return f"{path}, line {numbers[-1]}: {message}"
    return message
