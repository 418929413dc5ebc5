"""What Hydra finds besides `conf/`: the options of classes, and experiments on other data than the paper's.

A choice without a YAML file has the options of its class with their defaults, those of plug-ins included; a file builds
on them by `defaults: [nucleus, _self_]`, or one of the same name by `_nucleus`. A model is also named by its address,
a folder, a GGUF file or a hub id: `model=./my-model`, `scoring=openai-community/gpt2`. The section `using=docs:` of an
experiment's YAML is an experiment of its own, `mauve_table3_docs`, which is also the name of its runs. An entry point
`openended.conf` names a package with YAML files.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigLoadError, ConfigResult, ConfigSource
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import DictConfig, OmegaConf

from openended.harness import core
from openended.harness.models import is_address

PLUGINS = "hydra_plugins.openended"  # where Hydra looks for this project's plugins
SCHEME = "openended"
GROUP, CHOICE, PAPER = "using", "experiment", "paper"
SCORING = "scoring"
_CLASSES_OF_MODELS = {
    "model": ("model", "transformers"),
    "scorer": ("model", "transformers"),
    "embedder": ("embedder", "_base"),
}
_SECTION = re.compile(rf"^{GROUP}=(\w+):", re.MULTILINE)


@lru_cache
def sections(experiment: str) -> tuple[str, ...]:
    """Return the options of `using` for which an experiment has a section."""
    if experiment not in core.list_bundled_choices(CHOICE):
        return ()
    return tuple(_SECTION.findall(core.read_option_yaml(CHOICE, experiment)))


def split_name(name: str) -> tuple[str, str]:
    """Split the name of a section, `mauve_table3_docs`, into (experiment, option of `using`); else (name, "")."""
    experiment, _, using = name.rpartition("_")
    return (experiment, using) if using in sections(experiment) else (name, "")


def join_name(experiment: str, using: str | None) -> str:
    """Return the name under which Hydra composes an experiment with an option of `using`."""
    name = split_name(experiment)[0]
    return name if using in (None, PAPER) else f"{name}_{using}"


def apply_using(words: Sequence[str]) -> list[str]:
    """Replace `experiment=… using=…` by the experiments that Hydra composes."""
    options = {key: value.split(",") for key, sign, value in (word.partition("=") for word in words) if sign}
    experiments, using = options.get(CHOICE, []), options.get(GROUP, [])
    requested = {option for option in using if option != PAPER}
    lacking = [name for name in experiments if requested - set(sections(split_name(name)[0]))]
    if not requested or len(lacking) == len(experiments):
        return list(words)
    if lacking:
        raise core.SpecError(f"{GROUP}={','.join(using)}: {', '.join(lacking)} has no such section: run it by itself")
    for group, values in ((CHOICE, experiments), (GROUP, using)):
        if twice := core.find_repeated(values):
            raise core.SpecError(f"{group}={','.join(values)}: {twice} is listed twice; name each value once")
    names = [join_name(name, option) for name in experiments for option in using]
    chosen = f"{CHOICE}={','.join(names)}"
    others = [word for word in words if not word.startswith(f"{GROUP}=")]
    return [chosen if word.startswith(f"{CHOICE}=") else word for word in others]


class ComputedConfigs(ConfigSource):  # type: ignore[misc]
    """Gives Hydra configurations that no file holds: options of classes, and sections of experiments.

    An experiment with sections is given without them. A class is imported when it is chosen.
    """

    __module__ = PLUGINS

    @staticmethod
    def scheme() -> str:
        return SCHEME

    def load_config(self, config_path: str) -> ConfigResult:
        if not self.is_config(config_path):
            raise ConfigLoadError(f"Config not found: {config_path}")
        group, name = _split_path(config_path)
        if group in (SCORING, *_CLASSES_OF_MODELS) and is_address(name):
            return self._give_model(group, name)
        if group != CHOICE:
            return self._give(OmegaConf.create(dict(core.read_node(group, name))), package=None)
        experiment, using = split_name(name)
        config: Any = OmegaConf.create(core.read_option_yaml(CHOICE, experiment))
        parts = {option: config.pop(f"{GROUP}={option}") for option in sections(experiment)}
        if using:
            base = OmegaConf.create({"defaults": [experiment, f"/{GROUP}/{using}", "_self_"]})
            config = OmegaConf.merge(base, parts[using] or {})
        return self._give(config, package="_global_")

    def _give_model(self, group: str, address: str) -> ConfigResult:
        """Give the configuration of a model that is named by its address."""
        if group == SCORING:
            defaults = [{f"override /{role}": address} for role in ("scorer", "embedder")]
            return self._give(OmegaConf.create({"defaults": defaults}), package="_global_")
        node = core.read_node(*_CLASSES_OF_MODELS[group])
        return self._give(OmegaConf.create({**node, "path": address}), package=None)

    def _give(self, config: DictConfig, *, package: str | None) -> ConfigResult:
        return ConfigResult(provider=self.provider, path=self.full_path(), config=config, header={"package": package})

    def available(self) -> bool:
        return True

    def is_group(self, config_path: str) -> bool:
        return config_path in core.CLASS_GROUPS

    def is_config(self, config_path: str) -> bool:
        group, name = _split_path(config_path)
        if group in (SCORING, *_CLASSES_OF_MODELS) and is_address(name):
            return True
        if group == CHOICE:
            return bool(sections(name) or split_name(name)[1])
        class_name = core.find_class(group, name)
        return class_name is not None and core.find_member(group, class_name) is not None

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        is_listed = config_path in core.CLASS_GROUPS and results_filter != ObjectType.GROUP
        return core.list_members(config_path) if is_listed else []  # all else that can be chosen is listed by `conf/`


def _split_path(config_path: str) -> tuple[str, str]:
    path = config_path.removesuffix(".yaml")
    group, _, rest = path.partition("/")
    if group in (SCORING, *_CLASSES_OF_MODELS):
        return group, rest
    group, _, name = path.rpartition("/")
    return group, name


class PluginPackages(SearchPathPlugin):  # type: ignore[misc]
    """Adds the YAMLs of plug-in packages."""

    __module__ = PLUGINS

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Extend the search path; raises `SpecError` if an entry point `openended.conf` names no package."""
        search_path.prepend("openended", f"{ComputedConfigs.scheme()}://{CHOICE}")
        for package in core.list_config_packages():
            if find_spec(package) is None:
                raise core.SpecError(f"entry point openended.conf: no package {package!r}")
            search_path.append("openended", f"pkg://{package}")
