"""Experiments on other data than the paper's: `experiment=mauve_table3 using=docs`.

An experiment's YAML has a section `using=docs:` that holds what differs there: options, smaller axes, and a `defaults`
list where it does not build on the experiment itself. Hydra composes the section as an experiment of its own,
`mauve_table3_docs`; that is also the name of its runs and its report. `conf/using/docs.yaml` holds what all of them
share, and is all that an experiment without a section takes from `using=docs`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigLoadError, ConfigResult, ConfigSource
from omegaconf import DictConfig, OmegaConf

from openended.harness.core import SpecError, list_bundled_choices, read_option_yaml

PLUGINS = "hydra_plugins.openended"  # where Hydra looks for this project's plugins
GROUP, CHOICE, PAPER = "using", "experiment", "paper"
_SECTION = re.compile(rf"^{GROUP}=(\w+):", re.MULTILINE)


@lru_cache
def sections(experiment: str) -> tuple[str, ...]:
    """Return the options of `using` for which an experiment has a section."""
    return (
        tuple(_SECTION.findall(read_option_yaml(CHOICE, experiment)))
        if experiment in list_bundled_choices(CHOICE)
        else ()
    )


def split_name(name: str) -> tuple[str, str]:
    """Split the name of a section, `mauve_table3_docs`, into (experiment, option of `using`); else (name, "")."""
    experiment, _, using = name.rpartition("_")
    return (experiment, using) if using in sections(experiment) else (name, "")


def join_name(experiment: str, using: str | None) -> str:
    """Return the name under which Hydra composes an experiment with an option of `using`."""
    name = split_name(experiment)[0]
    return name if using in (None, PAPER) else f"{name}_{using}"


def apply_using(words: Sequence[str]) -> list[str]:
    """Return command-line options with `experiment=… using=…` replaced by the experiments that Hydra composes.

    An old name, `experiment=mauve_table3_docs`, works too and prints what to type.
    """
    options = {key: value.split(",") for key, sign, value in (word.partition("=") for word in words) if sign}
    experiments, using = options.get(CHOICE, []), options.get(GROUP, [])
    _name_the_new_form(experiments)
    requested = {option for option in using if option != PAPER}
    lacking = [name for name in experiments if requested - set(sections(split_name(name)[0]))]
    if not requested or len(lacking) == len(experiments):
        return list(words)
    if lacking:
        raise SpecError(f"{GROUP}={','.join(using)}: {', '.join(lacking)} has no such section: run it by itself")
    names = [join_name(name, option) for name in experiments for option in using]
    chosen = f"{CHOICE}={','.join(names)}"
    others = [word for word in words if not word.startswith(f"{GROUP}=")]
    return [chosen if word.startswith(f"{CHOICE}=") else word for word in others]


def _name_the_new_form(experiments: Sequence[str]) -> None:
    for old in experiments:
        experiment, using = split_name(old)
        if using:
            sys.stderr.write(f"openended: {CHOICE}={old} is now {CHOICE}={experiment} {GROUP}={using}\n")


class ExperimentSections(ConfigSource):  # type: ignore[misc]
    """Gives Hydra the sections of experiments as experiments, and the experiments without their sections."""

    __module__ = PLUGINS

    @staticmethod
    def scheme() -> str:
        """Return the scheme of this source in Hydra's search path."""
        return GROUP

    def load_config(self, config_path: str) -> ConfigResult:
        """Return an experiment, or a section of one.

        Raises:
            ConfigLoadError: If there is none.
        """
        if not self.is_config(config_path):
            raise ConfigLoadError(f"Config not found: {config_path}")
        experiment, using = split_name(_parse_experiment(config_path))
        node: Any = OmegaConf.create(read_option_yaml(CHOICE, experiment))
        parts = {option: node.pop(f"{GROUP}={option}") for option in sections(experiment)}
        config = OmegaConf.merge(_make_defaults(experiment, using), parts[using] or {}) if using else node
        return ConfigResult(
            config=config, path=self.full_path(), provider=self.provider, header={"package": "_global_"}
        )

    def available(self) -> bool:
        """Return true: the experiments come with the package."""
        return True

    def is_group(self, config_path: str) -> bool:  # noqa: ARG002
        """Return false: the groups are those of `conf/`."""
        return False

    def is_config(self, config_path: str) -> bool:
        """Return true for an experiment with sections, and for a section."""
        name = _parse_experiment(config_path)
        return bool(name and (sections(name) or split_name(name)[1]))

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:  # noqa: ARG002
        """Return nothing: what can be chosen is listed by `conf/`."""
        return []


def _parse_experiment(config_path: str) -> str:
    group, _, name = config_path.removesuffix(".yaml").rpartition("/")
    return name if group == CHOICE else ""


def _make_defaults(experiment: str, using: str) -> DictConfig:
    return OmegaConf.create({"defaults": [experiment, f"/{GROUP}/{using}", "_self_"]})
