"""The words of a command line, made such that Hydra reads them; what it could not read becomes one line of ours."""

from __future__ import annotations

import os
from collections.abc import Sequence

from openended.harness.app.hydra.using import apply_using, split_name
from openended.harness.core.catalogue import GROUPS, choices, is_shared, own_choices, source
from openended.harness.core.errors import SpecError, suggest

# Hydra's own flags: those that stand alone, and those that a value follows.
_ALONE = ("-m", "--multirun", "-r", "--run", "--resolve", "-sc", "--shell-completion", "--hydra-help", "-h", "--help")
_WITH_VALUE = ("-c", "--cfg", "-p", "--package", "-cp", "--config-path", "-cn", "--config-name", "-cd", "--config-dir",
               "--experimental-rerun", "--info", "-i")  # fmt: skip
OURS = {
    # Of our loggers alone: with `true` Hydra prints itself and its plug-ins first.
    **dict.fromkeys(("-v", "--verbose"), "hydra.verbose=[openended]"),
    **dict.fromkeys(("-q", "--quiet"), "hydra/job_logging=quiet"),
    "--json": "plan_only=json",
}
# Of a search, typed without the place where Hydra has them.
_SEARCH = ("maximize", "minimize", "toward_human", "trials", "sampler", "sampler_options", "sampler_seed", "batch",
           "rungs", "reduction", "confirm_seeds", "spaces", "storage")  # fmt: skip
_SEARCHES = ("hydra/sweeper=optuna", "override hydra/sweeper: optuna", "override /hydra/sweeper: optuna")


def hydra_words(words: Sequence[str]) -> list[str]:
    """Return a command line as Hydra reads it: flags first, ours as options, values quoted that need it.

    Raises:
        SpecError: Says what to type in place of a word that is no option.
    """
    flags: list[str] = []
    options: list[str] = []
    ours: dict[str, None] = {}
    rest = iter(enumerate(words))
    for place, word in rest:
        if word in OURS:
            ours[OURS[word]] = None
        elif word in _ALONE or word.split("=", 1)[0] in _WITH_VALUE:
            flags.append(word)
            if word in _WITH_VALUE and place + 1 < len(words):
                flags.append(next(rest)[1])
        elif word.startswith("-"):
            raise SpecError(_no_flag(word, words[place + 1 :]))
        elif "=" not in word and not word.startswith("~"):
            raise SpecError(_no_option(word))
        else:
            options.append(word)
    options = apply_using(options)
    if _searches(options):
        options = [_of_a_search(word) for word in options]
    return [*flags, *map(_readable, options), *ours]


def _searches(words: Sequence[str]) -> bool:
    """Say whether a command line, or the experiment that it chooses, chooses the sweeper that searches."""
    chosen = [split_name(word.partition("=")[2])[0] for word in words if word.startswith("experiment=")]
    told = [source("experiment", name) for name in chosen if name in own_choices("experiment")]
    return _SEARCHES[0] in words or any(word in text for text in told for word in _SEARCHES[1:])


def _of_a_search(word: str) -> str:
    """Return `maximize=[mauve]` as Hydra reads it; the space of a choice is read by the search, not by Hydra."""
    key, _, value = word.partition("=")
    if key.split(".")[0] not in _SEARCH:
        return word
    if key.startswith("spaces.") and not value.startswith(("'", '"')):
        value = "'" + value.replace("'", r"\'") + "'"
    return f"{'++' if '.' in key else ''}hydra.sweeper.{key}={value}"


def _no_flag(word: str, after: Sequence[str]) -> str:
    """Say what to type in place of `--decoder greedy`."""
    name, sign, value = word.lstrip("-").partition("=")
    name = name.replace("-", "_")
    value = value if sign else next((w for w in after[:1] if "=" not in w and not w.startswith("-")), "…")
    return f"no flag {word!r}: options are given as {name}={value}; flags are -m, -v, -q, --json, --help, --version"


def _no_option(word: str) -> str:
    """Say what to type in place of a word without `=`."""
    groups = [group for group in GROUPS if word in choices(group)]
    if groups:
        hint = f"did you mean {' or '.join(f'{g}={_listed(g, word)}' for g in groups)}?"
    elif word.endswith((".jsonl", ".gz", ".csv", ".parquet")):
        hint = f"a file of texts is scored by generations={word}"
    else:
        hint = "openended --help names the options and commands"
    return f"expected option=value, got {word!r}; {hint}"


def _listed(group: str, choice: str) -> str:
    return f"[{choice}]" if group == "metric" else choice


def _readable(word: str) -> str:
    """Return an override that Hydra's grammar reads: as it is, else with its value quoted."""
    if _parses(word):
        return word
    key, _, value = (part.strip() for part in word.partition("="))
    if _parses(f"{key}={value}"):
        return f"{key}={value}"
    if not value.startswith(("[", "{", "'", '"')):
        full = os.path.expanduser(value) if value.startswith("~/") else value
        quoted = "'" + full.replace("'", r"\'") + "'"
        if _parses(f"{key}={quoted}"):
            return f"{key}={quoted}"
    raise SpecError(f"cannot read {word!r}: do its brackets and quotes match? a list is typed as '{key}=[a,b]'")


def _parses(word: str) -> bool:
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        OverridesParser.create().parse_override(word)
    except (HydraException, ValueError):  # ValueError: a number of thousands of digits
        return False
    return True


def hide_shared_files() -> None:
    """Let completion offer no file that others inherit from (`_base`)."""
    from hydra._internal.config_loader_impl import ConfigLoaderImpl

    original = ConfigLoaderImpl.get_group_options

    def choosable(self: ConfigLoaderImpl, *args: object, **options: object) -> list[str]:
        return [name for name in original(self, *args, **options) if not is_shared(name)]

    ConfigLoaderImpl.get_group_options = choosable


def no_choice(file: str) -> str | None:
    """Say which options a group has, given the file of one that it has not; None if there is no such group."""
    group, _, choice = file.rpartition("/")
    known = choices(group) if group in GROUPS else {}
    return f"no {group} {choice!r}{suggest(choice, known)}" if known else None
