"""Explain in one line what to type in place of words that are no options, and errors of composing a configuration."""

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, cast

from hydra.errors import MissingConfigException
from omegaconf import OmegaConf
from omegaconf.errors import (
    ConfigAttributeError,
    ConfigKeyError,
    ConfigTypeError,
    GrammarParseError,
    MissingMandatoryValue,
    OmegaConfBaseException,
)

from openended.harness import core
from openended.harness.app.hydra.foreign_options import explain_foreign_option

# How messages of Hydra begin or end.
_SEVERAL = re.compile(r"Ambiguous value for argument '(.*?)'\n")
_MISSING = re.compile(r"Could not (?:load|find) '([^']+)'")
_NOT_DELETED = re.compile(r"Could not delete '([\w/.-]+)'")
_TYPED = re.compile(r"To append to your config use \+(\S+)")
_AVAILABLE = re.compile(r"Available options in '[^']*':\s*((?:\s+[\w-]+)+?)\s*(?:Config search path|$)")
# First of several first.
_SEARCHED = ("decoder", "model", "task", "prompting", "metric", "scorer", "embedder", "runtime", "report")
_OTHER_NAMES = {"slurm": "submitit", "local": "basic", "multiprocessing": "joblib", "bayes": "optuna",
                "hf": "transformers", "huggingface": "transformers"}  # fmt: skip
_MERGED = re.compile(r"Error merging override \+*([^=]+)=(.*)", re.DOTALL)
_SEARCH = re.compile(r"Sweep parameters '(.+)' requires --multirun")
_MAX_MATCHES = 3
_TEXT_FILE = re.compile(r"\.(jsonl?|npz|txt|[ct]sv|parquet|arrow|eval|gz|bz2|xz|zst)$")


def explain(err: BaseException) -> str:
    """Turn a composition error into one line, with the nearest name where an option or a choice is misspelt."""
    if isinstance(err, MissingMandatoryValue) and err.full_key:
        return f"option {err.full_key!r} has no default: give it as {err.full_key}=…"
    if explained := _explain_unknown_option(err):
        return explained
    if several := _SEVERAL.match(str(err)):
        group, _, names = several[1].partition("=")
        if group == "metric":
            return f"{several[1]}: the metrics of a run are a list; type metric=[{names}]"
        if hint := explain_foreign_option(group, names, {line.partition(":")[0] for line in core.list_options()}):
            is_option = hint.startswith("type ") and "=" in hint
            return f"no option {group!r}; {hint}{' and add -m: several values are a grid' if is_option else ''}"
        return f"{several[1]}: several values are a grid: add -m, as in openended -m {several[1]}"
    if merged := _MERGED.match(str(err)):
        cause = err.__cause__
        if isinstance(cause, GrammarParseError):
            return f"{merged[1]}: expected a value, or that of another option as ${{OPTION}}, got {merged[2]}"
        if isinstance(cause, ConfigTypeError):
            expected = "a list, as [a,b]" if OmegaConf.is_list(cause.parent_node) else "options, as {name: value}"
            return f"{merged[1]}: expected {expected}, got {merged[2]}"
    if search := _SEARCH.match(str(err)):
        return f"{search[1]}: several values are searched by a grid: add -m, as in openended -m {search[1]}"
    if missing := _MISSING.search(str(err)):
        return _explain_missing_choice(missing[1], str(err)) or core.format_error(err)
    if deleted := _NOT_DELETED.search(str(err)):
        return f"~{deleted[1]}: this run has no {deleted[1]} to leave out; for another choice type {deleted[1]}=NAME"
    if isinstance(err, MissingConfigException) and err.missing_cfg_file and err.options:
        group, _, choice = str(err.missing_cfg_file).rpartition("/")
        return f"no {group or 'config'} {choice!r}{core.suggest(choice, err.options)}"
    if isinstance(err, OmegaConfBaseException) and err.full_key:
        return f"{err.full_key}: {str(err).splitlines()[0]}"  # the others repeat the key and name a type
    return core.format_error(err)


def _explain_unknown_option(err: BaseException) -> str | None:
    """Return the line for an option that the configuration does not have; None for other errors."""
    cause: Any = err
    while cause is not None:
        parent = getattr(cause, "parent_node", None)
        unknown = isinstance(cause, (ConfigAttributeError, ConfigKeyError)) and getattr(cause, "full_key", None)
        if unknown and parent is not None and hasattr(parent, "keys"):
            key = str(cause.full_key)
            config = cast("dict[str, Any]", OmegaConf.to_container(parent._get_root(), resolve=False))
            typed = _TYPED.search(str(err))
            name, sign, value = (typed[1] if typed else key).partition("=")
            is_misspelt = bool(get_close_matches(name, config, n=1, cutoff=0.85))
            is_elsewhere = name.split(".")[0] not in core.GROUPS and not name.startswith("_") and not is_misspelt
            matches = " or ".join(f"{path}{sign}{value}" for path in _find_paths(name, config))
            if hint := explain_foreign_option(name, value, config):
                return f"no option {key!r}; {hint}"
            if is_elsewhere and matches:
                return f"no option {key!r}; did you mean {matches}?"
            if is_elsewhere and "." not in name and (translated := _find_translations(name)):
                return f"no option {key!r}; it is {' or '.join(translated)}"
            # The key may contain dots; only its last part is unknown.
            names = [str(key) for key in parent if key != ("name" if parent._key() else "hydra")]
            owners = _find_owners(key, config, has_metric=str(parent._key()) != "metric")
            return f"no option {key!r}{owners}{core.suggest(str(cause.key), names)}"
        cause = cause.__cause__
    return None


def _find_paths(name: str, config: Mapping[str, Any]) -> list[str]:
    """Return the first full names of options with this last part."""
    options = [path for group in _SEARCHED for path in _iterate_options(group, config.get(group))]
    return [path for path in options if path.endswith(f".{name}")][:_MAX_MATCHES]


def _iterate_options(path: str, node: object) -> Iterator[str]:
    """Yield the dotted names of all options in a node."""
    yield path
    if isinstance(node, Mapping):
        for name, value in node.items():
            yield from _iterate_options(f"{path}.{name}", value)


def _find_owners(key: str, config: Mapping[str, Any], *, has_metric: bool) -> str:
    """Name the choices that have an option which the selected one lacks: `; it is an option of decoder=nucleus`."""
    group, _, option = key.partition(".")
    if group == "decoder" and (config.get("decoder") or {}).get("name") == "user_processor":
        return "; a decoder from a file takes no options; define one for each setting, as STRONG = MyProcessor(0.9)"
    if group == "metric":
        name = option.partition(".")[0]
        return f"; add {name} to metric=[…]" if name in core.list_bundled_choices(group) and not has_metric else ""
    choices = core.list_bundled_choices(group) if group in core.GROUPS and option else ()
    owners = [name for name in choices if option in _read_options(group, name)]
    if group == "decoder" and (translated := _find_translations(option)):
        return f"; it is {' or '.join([*translated, *(f'an option of decoder={name}' for name in owners)])}"
    names = ", ".join(f"{group}={name}" for name in owners[:3]) + (", …" if len(owners) > 3 else "")
    if not owners and option:
        others = _find_paths(option, config)
        return f"; there is {' and '.join(others)}" if others else ""
    return f"; it is an option of {names}" if owners else ""


def _find_translations(option: str) -> list[str]:
    """Return what an option of servers and other libraries is called here: `decoder.p of decoder=nucleus`."""
    classes = core.load_members("decoder")
    options = {name: (vars(cls).get("server_options") or {}).get(option) for name, cls in classes.items()}
    return [f"decoder.{word} of decoder={name}" for name, word in options.items() if word][:_MAX_MATCHES]


def _read_options(group: str, name: str) -> Mapping[str, Any]:
    """Return the options of a choice, without those that it sets of the run."""
    node = core.read_node(group, name)
    options: Mapping[str, Any] = node.get(group, node)
    return options


def _explain_missing_choice(file: str, message: str) -> str | None:
    """Explain that a group has no such choice, and suggest another one; None if there is no such group."""
    group, _, choice = file.partition("/")
    if group not in core.GROUPS:
        group, _, choice = file.rpartition("/")
    if group in core.GROUPS:
        accepted = core.list_names(group)
        if _OTHER_NAMES.get(choice) in accepted:
            return f"no {group} {choice!r}: type {group}={_OTHER_NAMES[choice]}"
        if "=" in choice:
            return f"no {group} {choice!r}: options are words of their own, without quotes around all of them"
        if " " in choice:
            typed = ",".join(choice.split())
            typed = f"[{typed}]" if group == "metric" else typed
            return f"no {group} {choice!r}: names are separated by commas, as {group}={typed}"
        if group == "task" and Path(choice).suffix[1:].isalpha():
            return (
                f"no task {choice!r}: a file is task=jsonl task.path={choice}, with task.prompt_length=35 where the "
                "prompt is the beginning of the text, or without prompts task=texts"
            )
        if group == "decoder" and choice.endswith(".py"):
            return f"no decoder {choice!r}: name what the file defines: decoder={choice}:NAME"
        if broken := core.find_broken_plugin(group, choice):
            return f"{group} {choice!r} is a plug-in that cannot be used: {broken}"
        if group in ("model", "scorer", "embedder", "scoring"):
            close = get_close_matches(choice, accepted, n=1, cutoff=0.75)
            hint = f"did you mean {close[0]!r}?" if close else f"openended list {group} has those that we describe;"
            return f"no {group} {choice!r}; {hint} others: {group}=./FOLDER, {group}=FILE.gguf, {group}=OWNER/NAME"
        hub = " (a dataset of the hub is task=hub task.path=OWNER/NAME)" if group == "task" else ""
        return f"no {group} {choice!r}{core.suggest(choice, accepted)}{hub}" if accepted else None
    listed = _AVAILABLE.search(message)
    if not listed:
        return None
    names = listed[1].split()
    if _OTHER_NAMES.get(choice) in names:
        return f"no {group} {choice!r}: type {group}={_OTHER_NAMES[choice]}"
    return f"no {group} {choice!r}{core.suggest(choice, names)}"


def explain_unknown_flag(word: str, after: Sequence[str], flags: Sequence[str]) -> str:
    """Say what to type in place of `--decoder greedy`."""
    flag, sign, value = word.partition("=")
    options = [*core.GROUPS, *(line.partition(":")[0] for line in core.list_options())]
    word = flag.lstrip("-").replace("-", "_")
    name = next(iter(get_close_matches(word, options, n=1, cutoff=0.75)), "")
    close = get_close_matches(flag, flags, n=1, cutoff=0.75)
    value = value if sign else next((w for w in after[:1] if "=" not in w and not w.startswith("-")), "…")
    if foreign := explain_foreign_option(word, value, options):
        hint = f"{foreign};"
    elif name:
        hint = f"an option is typed as {name}={value};"
    elif close:
        hint = f"did you mean {close[0]}?"
    else:
        hint = "options are typed as option=value, as in decoder=nucleus seed=1;"
    return f"no flag {flag!r}: {hint} flags are -m, -v, -q, --json, --help, --version"


def explain_missing_equals(word: str) -> str:
    """Say what to type in place of a word without `=`."""
    groups = [group for group in core.GROUPS if word in core.list_names(group)]
    if groups:
        choices = (f"{group}=[{word}]" if group == "metric" else f"{group}={word}" for group in groups)
        hint = f"did you mean {' or '.join(choices)}?"
    elif _TEXT_FILE.search(word):
        hint = f"texts of a file are scored by openended score {word} --human FILE"
    elif line := next((line for line in core.list_options() if line.startswith(f"{word}:")), None):
        hint = f"type {word}={'true' if line.startswith(f'{word}: false') else 'VALUE'}"
    elif word.replace(".", "").isdecimal():
        hint = "several values of an option are separated by commas, without spaces"
    elif word in core.GROUPS:
        hint = f"type {word}=NAME; openended list {word} has the names"
    else:
        hint = "openended --help names the options and commands"
    return f"expected option=value, got {word!r}; {hint}"
