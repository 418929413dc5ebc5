"""Compose the configuration of a command once, and its jobs, typed, from the same files."""

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, OverrideType
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from openended.harness.app.hydra.command_line import DECISION_OPTIONS, SEARCH_OPTIONS, CommandLine
from openended.harness.app.hydra.config_loader import ConfigLoader, copy_plain, limit_interpolations
from openended.harness.app.hydra.grid_state import write_state
from openended.harness.core import GROUPS, SpecError
from openended.harness.report import TrackerOptions, build_tracker_options
from openended.harness.results import build_layout
from openended.harness.run import NO_JUDGMENTS, Settings, build_settings, check_name

log = logging.getLogger(__name__)
_REFERENCE = re.compile(r"\$\{([\w.]+)\}")
GENERATING = ("model", "decoder", "prompting", "samples", "min_new_tokens")
CONFIG, SWEEPER, OPTUNA = "config", "hydra/sweeper", "optuna"


@dataclass(frozen=True, slots=True)
class Job:
    """One job, composed once by the command: it is planned, checked and run, here or by a worker."""

    overrides: tuple[str, ...]
    settings: Settings  # their `experiment` names the job's runs and their report
    tracker: TrackerOptions  # where the finished run is logged
    grid: Path = Path()  # the folder of its grid; this and the following are set when the grid is launched
    number: int = 0
    title: str = ""  # the options in which the jobs of the grid differ
    position: str = ""
    stop: bool = False  # whether the job is skipped if an earlier one failed

    def write_state(self, state: str, seconds: float = 0.0, **facts: Any) -> None:  # noqa: ANN401
        write_state(self.grid, self.number, self.title, state, seconds, **facts)


@dataclass(frozen=True, slots=True)
class Experiment:
    """An experiment of a series: what differs from the other experiments."""

    name: str  # name of its runs and its report
    sweeper: Mapping[str, Any]  # its axes, with interpolations
    report: Mapping[str, Any]


class Composer:
    """Composes configurations from files that are read once."""

    def __init__(self, line: CommandLine | None = None, config: str = CONFIG) -> None:
        self.line = line or CommandLine()
        self.root = config
        self.loader = ConfigLoader(self.line.config_dir, self.line.words, trusted=self.line.trusted)
        self.parser = OverridesParser.create(self.loader)  # `glob(*)` reads its choices
        # Jobs share most of their words.
        self._parse = lru_cache(maxsize=None)(lambda word: self.parser.parse_overrides([word])[0])
        self._plain: dict[tuple[str, ...], _PlainConfig] = {}
        self._command: DictConfig | None = None
        self._unused: set[str] = set()

    def compose_command(self) -> DictConfig:
        """Return the configuration of the command, with the node `hydra`, whose `mode` says whether it is a grid."""
        line = self.line
        mode = RunMode.MULTIRUN if line.multirun else RunMode.RUN
        config = self.loader.compose(self.root, line.words, mode, sweeps=line.multirun)
        mode = mode if line.multirun else config.hydra.mode or mode
        if mode != RunMode.MULTIRUN:
            parsed = self.parser.parse_overrides(list(line.words))
            self.loader.validate_sweep_overrides_legal(parsed, RunMode.RUN, from_shell=True)
        config.hydra.mode = mode
        for name in ("launcher", "sweeper"):
            if not isinstance(config.hydra[name], DictConfig):
                raise SpecError(f"hydra.{name}: expected options; a choice is typed as hydra/{name}=NAME")
        if unread := next((word for word in line.words if word.lstrip("+").startswith("hydra.run.")), None):
            raise SpecError(f"{unread:.80}: no effect; outputs_dir=DIR says where runs go")
        typed = [word for word in line.words if word.lstrip("+").startswith("hydra.sweeper.")]
        options = [re.split("[.=]", word)[2] for word in typed]
        search_option = next((option for option in options if option in SEARCH_OPTIONS), None)
        if typed and mode != RunMode.MULTIRUN and not search_option:
            raise SpecError(f"{typed[0].removeprefix('++hydra.sweeper.'):.80} concerns a grid: add -m")
        decision_option = next((option for option in options if option in DECISION_OPTIONS), None)
        if decision_option and config.hydra.sweeper.get("decide") is None:
            raise SpecError(f"{decision_option}: has no effect without decide='SYSTEM>SYSTEM: METRIC'; leave it out")
        if search_option and config.hydra.runtime.choices.get(SWEEPER) != OPTUNA:
            raise SpecError(f"{search_option}= is an option of a search: add -m {SWEEPER}={OPTUNA}")
        HydraConfig.instance().set_config(config)
        self._command = config
        return config

    def compose_job(self, words: Sequence[str], *, unnamed: str = "default") -> Job:
        """Return the job with these overrides; `unnamed` is the name of its runs where none is configured."""
        node, files = self._compose_plain(words)
        planned = node.get("plan_only")
        name = choose_name(node, files.choices) or unnamed
        options = {word.lstrip("+~").partition("=")[0] for word in words}
        unused: list[str] = []
        if "metric" in options and isinstance(node.get("metric"), dict):
            # An experiment's options of metrics that are left out have no `name`.
            by_grid = not any(word.lstrip("+").startswith("metric=") for word in self.line.words)
            typed = {option.split(".")[1] for option in options if option.startswith("metric.") and not by_grid}
            nodes = node["metric"].items()
            lost = [n for n, m in nodes if n not in typed and isinstance(m, dict) and m and "name" not in m]
            node = {**node, "metric": {n: m for n, m in nodes if n not in lost}}
            unused = [f"metric.{n}" for n in lost]
        settings = build_settings({**node, "plan_only": True if planned == "json" else planned, "experiment": name})
        if "judgments=null" in words and settings.list_judging():  # typed, so the values that need them are absent
            settings = replace(settings, judgments=NO_JUDGMENTS)
        if "metric" in options and "judgments" not in options and not settings.list_judging():
            unused += ["judgments"] if settings.judgments is not None else []
            settings = replace(settings, judgments=None)
        if new := [option for option in unused if option not in self._unused]:
            self._unused.update(new)
            log.info("left out   %s of the experiment: no metric of metric=[…] reads it", ", ".join(new))
        layout = build_layout(settings.report, "report")  # an invalid report fails before the runs, not after them
        if layout.analysis in ("frontier", "stress") and not settings.intervals:
            raise SpecError(
                f"intervals=0: the layout {layout.analysis} needs intervals; leave it out, or set report=default"
            )
        return Job(tuple(words), settings, build_tracker_options(node.get("tracker")))

    def compose_experiment(self, words: Sequence[str]) -> Experiment:
        node, files = self._compose_plain(words, complete=False)
        return Experiment(choose_name(node, files.choices), files.sweeper, node.get("report") or {})

    def _compose_plain(self, words: Sequence[str], *, complete: bool = True) -> "tuple[dict[str, Any], _PlainConfig]":
        """Compose a configuration without the node `hydra`; return its merged files too."""
        files, values = self._merge_files(words)
        if not files.overrides and (node := _set_values(files.node, values)) is not None:
            return node, files
        config = OmegaConf.create(files.node)
        OmegaConf.set_struct(config, True)  # as Hydra's own: an unknown option is an error
        ConfigLoader._apply_overrides_to_config([*files.overrides, *values], config)
        if self._command is not None:
            OmegaConf.copy_cache(from_config=self._command, to_config=config)  # ${now:…} is one time for all jobs
        return to_plain(config, complete=complete), files

    def _merge_files(self, words: Sequence[str]) -> "tuple[_PlainConfig, list[Override]]":
        """Merge files, once for each choice of options of the groups; return the values to be set in a copy too."""
        values: list[Override] = []
        choices: list[str] = []
        for override in map(self._parse, words):
            key = str(override.key_or_group)
            is_group = override.package is not None or key in GROUPS or re.match(r"hydra\b", key)
            if is_group or override.type != OverrideType.CHANGE:
                choices.append(str(override.input_line))
            else:
                values.append(override)
        if (chosen := tuple(choices)) not in self._plain:
            defaults = self.loader.list_defaults(CONFIG, chosen)
            node = self.loader.merge_plain(defaults.defaults)
            all_choices = defaults.overrides.known_choices
            others = [override for override in defaults.config_overrides if not override.is_hydra_override()]
            sweeper = (node.pop("hydra", None) or {}).get("sweeper") or {}
            self._plain[chosen] = _PlainConfig(node, sweeper, all_choices, others)
        return self._plain[chosen], values


@dataclass(frozen=True, slots=True)
class _PlainConfig:
    """The merged files of some choices."""

    node: dict[str, Any]
    sweeper: Mapping[str, Any]
    choices: Mapping[str, Any]
    overrides: Sequence[Override]  # what adds or deletes options


def _set_values(plain: dict[str, Any], values: Sequence[Override]) -> dict[str, Any] | None:
    """Set values in a copy and resolve its references, fifty times as fast as OmegaConf; None where that is needed."""
    node: dict[str, Any] = copy_plain(plain)
    for override in values:
        *parents, name = str(override.key_or_group).split(".")
        target: Any = node
        for parent in parents:
            target = target.get(parent) if isinstance(target, dict) else None
        value = override.value()
        is_plain = isinstance(value, str | int | float | None)
        if not is_plain or not isinstance(target, dict) or isinstance(target.get(name, {}), dict | list):
            return None
        target[name] = value
    return node if _resolve_references(node, node) else None


def _resolve_references(node: dict[Any, Any] | list[Any], root: Mapping[str, Any]) -> bool:
    """Replace references of the form `${option}` in a node; return false if it has others, or lacks a value."""
    items = node.items() if isinstance(node, dict) else enumerate(node)
    for key, value in list(items):
        if isinstance(value, dict | list):
            if not _resolve_references(value, root):
                return False
        elif isinstance(value, str) and ("$" in value or value == "???"):
            target: Any = root
            for part in _REFERENCE.sub(r"\1", value).split("."):
                target = target.get(part) if isinstance(target, dict) else None
            if not _REFERENCE.fullmatch(value) or not isinstance(target, int | float):
                return False
            node[key] = target
    return True


def choose_name(config: Mapping[str, Any] | DictConfig, choices: Mapping[str, Any]) -> str:
    """Return the name of runs and report: `name=…`, else the experiment's; empty if there is none."""
    typed = str(config.get("name") or "")
    check_name(typed)
    return typed or str(choices.get("experiment") or "").replace("/", "-")


def to_plain(node: DictConfig | None, *, complete: bool = True) -> dict[str, Any]:
    """Convert a configuration node to plain containers, with interpolations resolved; empty for None."""
    limit_interpolations()
    container = OmegaConf.to_container(node, resolve=True, throw_on_missing=complete) if node is not None else {}
    return {str(key): value for key, value in container.items()} if isinstance(container, dict) else {}


def refuse_unused_options(words: Sequence[str]) -> None:
    """Refuse generation options together with `generations=FILE`, because nothing is generated."""
    typed = {word.lstrip("+~").partition("=")[0]: word for word in words}
    if "experiment" in typed:
        return  # an experiment may score files in addition to the systems that it generates
    if typed.get("generations", "generations=null").partition("=")[2] in ("null", ""):
        for option, file in (("generations_field", "generations"), ("generations_role", "generations"),
                             ("generations_thinking", "generations"), ("system", "generations"),
                             ("judgment_columns", "judgments"), ("judgment_players", "judgments")):  # fmt: skip
            if option in typed and file not in typed and typed[option].partition("=")[2] != "null":
                raise SpecError(f"{typed[option]}: describes the file {file}=FILE, which is not set")
        return
    unused = [word for key, word in typed.items() if key.partition(".")[0] in GENERATING]
    if unused:
        raise SpecError(
            f"{typed['generations']} scores the texts of a file and generates nothing, so these options have no "
            f"effect: {' '.join(unused)}; leave them out"
        )
