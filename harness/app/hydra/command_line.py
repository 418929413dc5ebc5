"""Rewrite a command line so that Hydra can read it; what cannot be read becomes a one-line error."""

from __future__ import annotations

import difflib
import os
import re
import sys
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path

from openended.harness.app.hydra.choices import refuse_lists
from openended.harness.app.hydra.using import apply_using
from openended.harness.core import (
    GROUPS,
    SpecError,
    find_broken_plugin,
    is_shared,
    list_bundled_choices,
    list_choices,
    list_options,
    read_full_yaml,
    suggest,
)

# Hydra's flags without and with a value.
_ALONE = ("-m", "--multirun", "-r", "--run", "--resolve", "-sc", "--shell-completion", "--hydra-help", "-h", "--help")
_WITH_VALUE = ("-c", "--cfg", "-p", "--package", "-cp", "--config-path", "-cn", "--config-name", "-cd", "--config-dir",
               "--experimental-rerun", "--info", "-i")  # fmt: skip
OWN_FLAGS = {
    # Of our loggers alone: with `true` Hydra prints itself and its plug-ins first.
    **dict.fromkeys(("-v", "--verbose"), "hydra.verbose=[openended]"),
    **dict.fromkeys(("-q", "--quiet"), "hydra/job_logging=quiet"),
    "--json": "plan_only=json",
}
_ROOT_FLAGS = ("-cp", "--config-path", "-cn", "--config-name")
_FOLDER_FLAGS = ("-cd", "--config-dir")
_OWN_CONFIGURATIONS = "your own choices go into a folder: --config-dir DIR makes DIR/decoder/mine.yaml decoder=mine"
_INFO = ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath")
_FLAG_VALUES = {
    **dict.fromkeys(("-c", "--cfg"), ("job", "hydra", "all")),
    **dict.fromkeys(("-i", "--info"), _INFO),
    **dict.fromkeys(("-p", "--package"), GROUPS),
}
_ALL_FLAGS = (*OWN_FLAGS, "--multirun", "--help", "--version", "--trust-config", "--config-dir", "--cfg", "--info")
# Options of a search, typed without the `hydra.sweeper.` where Hydra has them.
_SEARCH = ("maximize", "minimize", "toward_human", "trials", "sampler", "sampler_options", "sampler_seed", "batch",
           "rungs", "reduction", "confirm_seeds", "spaces", "storage")  # fmt: skip
_OTHER_NAMES = {"slurm": "submitit", "local": "basic", "multiprocessing": "joblib", "bayes": "optuna"}
_RENAMED = {"judge": "scoring"}  # old name of an option → its name
_TEXT_FILES = (".json", ".jsonl", ".npz", ".txt", ".csv", ".tsv", ".parquet", ".gz")
_SWEEPER, _OPTUNA = "hydra/sweeper", "optuna"


def to_hydra_arguments(words: Sequence[str], config: str = "config") -> list[str]:
    """Convert a command line to Hydra's form: Hydra's flags first, this project's flags as options, values quoted."""
    flags: list[str] = []
    options: list[str] = []
    own_options: dict[str, None] = {}
    rest = iter(enumerate(words))
    for position, word in rest:
        if word in OWN_FLAGS:
            own_options[OWN_FLAGS[word]] = None
        elif word in _ALONE:
            flags.append(word)
        elif word.split("=", 1)[0] in _WITH_VALUE:
            flag, sign, value = word.partition("=")
            if not sign and position + 1 < len(words):
                value = next(rest)[1]
            _check_flag_value(flag, value)
            flags += [flag, *([value] if value else [])]
        elif word.startswith("-"):
            raise SpecError(_explain_unknown_flag(word, words[position + 1 :]))
        elif "=" not in word and not word.startswith("~"):
            raise SpecError(_explain_missing_equals(word))
        else:
            options.append(word)
    options = list(map(_replace_old_name, options))
    refuse_lists(options)
    options = apply_using(options)
    search_key = next((key for key in map(_find_search_option, options) if key), None)
    if search_key is not None:
        others = [_quote_for_hydra(word) for word in options if not _find_search_option(word)]
        if resolve_sweeper(config, others, _find_config_folder(flags)) != _OPTUNA:
            raise SpecError(f"{search_key}= is an option of a search: add -m {_SWEEPER}={_OPTUNA}")
        options = [_to_search_override(word) if _find_search_option(word) else word for word in options]
    return [*flags, *map(_quote_for_hydra, options), *own_options]


def _check_flag_value(flag: str, value: str) -> None:
    """Check the value of a flag of Hydra, whose own errors have several lines."""
    if flag in _ROOT_FLAGS:
        raise SpecError(f"{flag}: openended has its own root configuration; {_OWN_CONFIGURATIONS}")
    if flag in _FOLDER_FLAGS and not os.path.isdir(value):
        raise SpecError(f"{flag}: no such folder: {value!r}; {_OWN_CONFIGURATIONS}")
    accepted = _FLAG_VALUES.get(flag)
    if accepted and value not in accepted:
        raise SpecError(f"{flag}: expected one of {', '.join(accepted)}, got {value!r}")


def _replace_old_name(word: str) -> str:
    """Replace the old name of an option in an override by its current one, and print what to type."""
    key, sign, value = word.partition("=")
    name = _RENAMED.get(key.strip())
    if key.strip() == "samples" and Path(value.strip()).suffix in _TEXT_FILES:  # otherwise a number of texts
        name = "generations"
    if name is None or not sign:
        return word
    sys.stderr.write(f"openended: {word} is now {name}={value.strip()}\n")
    return f"{name}={value}"


def resolve_sweeper(config: str, words: Sequence[str], folder: str | None = None) -> str | None:
    """Resolve the defaults list of a command and return its choice of `hydra/sweeper`."""
    from hydra._internal.config_loader_impl import ConfigLoaderImpl
    from hydra._internal.utils import create_config_search_path
    from hydra.types import RunMode

    search_path = create_config_search_path("pkg://openended.conf")
    if folder is not None:
        search_path.append("command-line", f"file://{os.path.abspath(folder)}")
    defaults = ConfigLoaderImpl(search_path).compute_defaults_list(config, list(words), RunMode.MULTIRUN)
    choice: str | None = defaults.overrides.known_choices.get(_SWEEPER)
    return choice


def _find_config_folder(flags: Sequence[str]) -> str | None:
    """Return the value of `--config-dir`, typed as two words or with `=`."""
    for flag, after in zip_longest(flags, flags[1:]):
        name, sign, value = flag.partition("=")
        if name in ("-cd", "--config-dir"):
            return value if sign else after
    return None


def _find_search_option(word: str) -> str | None:
    """Return the option of a search that a word sets; None if it sets none."""
    key = word.partition("=")[0].split(".")[0].strip()
    return key if key in _SEARCH else None


def _to_search_override(word: str) -> str:
    """Rewrite `maximize=[mauve]` as an override of `hydra.sweeper`; spaces are quoted, since the search parses them."""
    key, _, value = word.partition("=")
    if key.startswith("spaces.") and not value.startswith(("'", '"')):
        value = "'" + value.replace("'", r"\'") + "'"
    return f"{'++' if '.' in key else ''}hydra.sweeper.{key}={value}"


def _explain_unknown_flag(word: str, after: Sequence[str]) -> str:
    """Say what to type in place of `--decoder greedy`."""
    flag, sign, value = word.partition("=")
    options = [*GROUPS, *(line.partition(":")[0] for line in list_options())]
    name = next(iter(difflib.get_close_matches(flag.lstrip("-").replace("-", "_"), options, n=1, cutoff=0.75)), "")
    close = difflib.get_close_matches(flag, _ALL_FLAGS, n=1, cutoff=0.75)
    value = value if sign else next((w for w in after[:1] if "=" not in w and not w.startswith("-")), "…")
    if name:
        hint = f"an option is typed as {name}={value};"
    elif close:
        hint = f"did you mean {close[0]}?"
    else:
        hint = "options are typed as option=value, as in decoder=nucleus seed=1;"
    return f"no flag {flag!r}: {hint} flags are -m, -v, -q, --json, --help, --version"


def _explain_missing_equals(word: str) -> str:
    """Say what to type in place of a word without `=`."""
    groups = [group for group in GROUPS if word in list_choices(group)]
    if groups:
        hint = f"did you mean {' or '.join(f'{g}={_format_choice(g, word)}' for g in groups)}?"
    elif word.endswith(_TEXT_FILES):
        hint = f"texts of a file are scored by openended score {word} --human FILE"
    else:
        hint = "openended --help names the options and commands"
    return f"expected option=value, got {word!r}; {hint}"


def _format_choice(group: str, choice: str) -> str:
    return f"[{choice}]" if group == "metric" else choice


def _quote_for_hydra(word: str) -> str:
    """Quote the value of an override if Hydra's grammar cannot read it as it is."""
    if _is_readable(word):
        return word
    key, _, value = (part.strip() for part in word.partition("="))
    if _is_readable(f"{key}={value}"):
        return f"{key}={value}"
    if not value.startswith(("[", "{", "'", '"')):
        full = os.path.expanduser(value) if value.startswith("~/") else value
        quoted = "'" + full.replace("'", r"\'") + "'"
        if _is_readable(f"{key}={quoted}"):
            return f"{key}={quoted}"
    raise SpecError(f"cannot read {word!r}: do its brackets and quotes match? a list is typed as '{key}=[a,b]'")


def _is_readable(word: str) -> bool:
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        OverridesParser.create().parse_override(word)
    except (HydraException, ValueError):  # ValueError: a number of thousands of digits
        return False
    return True


def hide_shared_files() -> None:
    """Exclude files that other options inherit from (`_base`) from completion."""
    from hydra._internal.config_loader_impl import ConfigLoaderImpl

    original = ConfigLoaderImpl.get_group_options

    def list_choosable(self: ConfigLoaderImpl, *args: object, **options: object) -> list[str]:
        return [name for name in original(self, *args, **options) if not is_shared(name)]

    ConfigLoaderImpl.get_group_options = list_choosable


def explain_missing_choice(file: str, message: str = "") -> str | None:
    """Explain that a group has no such choice, and suggest another one; None if there is no such group."""
    group, _, choice = file.rpartition("/")
    if group in GROUPS:
        accepted = list_choices(group)
        broken = find_broken_plugin(group, choice)
        if broken:
            return f"{group} {choice!r} is a plug-in that cannot be imported: {broken}"
        return f"no {group} {choice!r}{suggest(choice, accepted)}" if accepted else None
    listed = re.search(r"Available options in '[^']*':\s*((?:\s+[\w-]+)+?)\s*(?:Config search path|$)", message)
    if not listed:
        return None
    names = listed[1].split()
    if _OTHER_NAMES.get(choice) in names:
        return f"no {group} {choice!r}: type {group}={_OTHER_NAMES[choice]}"
    return f"no {group} {choice!r}{suggest(choice, names)}"


def find_owners(key: str) -> str:
    """Name the choices that have an option which the selected one lacks: `; it is an option of decoder=nucleus`."""
    group, _, option = key.partition(".")
    if group == "metric":
        name = option.partition(".")[0]
        return f"; add {name} to metric=[…]" if name in list_bundled_choices(group) else ""
    choices = list_bundled_choices(group) if group in GROUPS and option else {}
    line = re.compile(rf"^{re.escape(option)}:", re.MULTILINE)
    owners = [name for name in choices if line.search(read_full_yaml(group, name))]
    names = ", ".join(f"{group}={name}" for name in owners[:3]) + (", …" if len(owners) > 3 else "")
    return f"; it is an option of {names}" if owners else ""
