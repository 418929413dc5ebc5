"""From composed configuration to typed settings, and the name that runs, grid and report have."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hydra import compose
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, OverrideType
from omegaconf import DictConfig, OmegaConf

from openended.harness.app.hydra.config_limits import limit_configuration
from openended.harness.core import GROUPS, SpecError
from openended.harness.report import TrackerOptions, build_tracker_options
from openended.harness.results import build_layout
from openended.harness.run import Settings, build_settings

_NAME = re.compile(r"[\w][\w.+=-]*")
_GENERATING = ("model", "decoder", "samples", "min_new_tokens")
_OF_HYDRA = re.compile(r"hydra\b")
SINGLE = "default"  # folder of unnamed single runs; each gets its own folder and report there


def choose_name(cfg: DictConfig, hydra: DictConfig, grid: Path | None = None) -> str:
    """Return the name of runs and report: `name=…`, else the experiment's, else the grid's time."""
    typed = str(cfg.get("name") or "")
    if typed and not _NAME.fullmatch(typed):
        raise SpecError(f"name: expected letters, digits and . _ - + = without blanks, got {typed!r}")
    chosen = str(hydra.runtime.choices.get("experiment") or "").replace("/", "-")
    return typed or chosen or (grid.name if grid is not None else SINGLE)


def compose_settings(cfg: DictConfig, name: str) -> Settings:
    """Return the typed settings of a composed configuration; `name` is that of its runs."""
    node = OmegaConf.masked_copy(cfg, [str(key) for key in cfg if key != "hydra"])
    return _build_settings(to_plain(node), name)


def compose_tracker(cfg: DictConfig) -> TrackerOptions:
    """Return where the finished runs of a composed configuration are logged."""
    return build_tracker_options(to_plain(cfg.get("tracker")))


def iterate_settings(jobs: Sequence[Sequence[str]]) -> Iterator[Settings]:
    """Yield the settings of every job of a grid."""
    yield from map(JobComposer().compose_job, jobs)


def refuse_unused_options(words: Sequence[str]) -> None:
    """Refuse generation options together with `generations=FILE`, because nothing is generated."""
    typed = {word.lstrip("+~").partition("=")[0]: word for word in words}
    if typed.get("generations", "generations=null").partition("=")[2] in ("null", "") or "experiment" in typed:
        return  # an experiment may score files in addition to the systems that it generates
    unused = [word for key, word in typed.items() if key.partition(".")[0] in _GENERATING]
    if unused:
        raise SpecError(
            f"{typed['generations']} scores the texts of a file and generates nothing, so these options have no "
            f"effect: {' '.join(unused)}; leave them out"
        )


def _build_settings(config: dict[str, Any], name: str) -> Settings:
    planned = config.get("plan_only")
    settings = build_settings({**config, "plan_only": True if planned == "json" else planned, "experiment": name})
    build_layout(settings.report, "report")  # an invalid report fails before the runs, not after them
    build_tracker_options(config.get("tracker"))
    return settings


def to_plain(node: DictConfig | None) -> dict[str, Any]:
    """Convert a configuration node to plain containers, with interpolations resolved; empty for None."""
    limit_configuration()
    container = OmegaConf.to_container(node, resolve=True, throw_on_missing=True) if node is not None else {}
    return {str(key): value for key, value in container.items()} if isinstance(container, dict) else {}


class JobComposer:
    """Composes the settings of the jobs of a grid.

    Hydra composes once for each choice of options of the groups; values are then set in a copy, as Hydra sets them: a
    sweep of a value over a hundred jobs is composed once.
    """

    def __init__(self) -> None:
        self._parser = OverridesParser.create()
        self._composed: dict[tuple[str, ...], tuple[DictConfig, DictConfig]] = {}

    def compose_job(self, words: Sequence[str]) -> Settings:
        """Return the settings of the job with these overrides."""
        parsed = self._parser.parse_overrides(list(words))
        chosen = tuple(str(override.input_line) for override in parsed if not _is_value(override))
        if chosen not in self._composed:
            cfg = compose("config", overrides=list(chosen), return_hydra_config=True)
            self._composed[chosen] = OmegaConf.masked_copy(cfg, [str(key) for key in cfg if key != "hydra"]), cfg.hydra
        config, hydra = self._composed[chosen]
        job_config = copy.deepcopy(config)
        OmegaConf.set_struct(job_config, True)  # as Hydra's own: an unknown option is an error
        ConfigLoaderImpl._apply_overrides_to_config(
            [override for override in parsed if _is_value(override)], job_config
        )
        return _build_settings(to_plain(job_config), choose_name(job_config, hydra))


def _is_value(override: Override) -> bool:
    """True for `key=value` and `group.key=value`: what changes no option of a group, and adds and deletes nothing."""
    key = str(override.key_or_group)
    return (
        override.type == OverrideType.CHANGE
        and override.package is None
        and key not in GROUPS
        and not _OF_HYDRA.match(key)
    )
