"""Restrict what a configuration file can make Hydra import, call or read from the environment.

Under `hydra` a configuration names classes that Hydra, or the logging of the standard library, imports and calls:
callbacks, launcher, sweeper, handlers. So each composed configuration is checked before Hydra makes anything of it.
The environment holds people's keys: no configuration reads it. `--trust-config` lifts both.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.errors import HydraException
from omegaconf import Container, DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from openended.harness.app.hydra.choices import refuse_composed_lists
from openended.harness.app.hydra.config_limits import limit_configuration
from openended.harness.core import HarnessError, SpecError, shorten_error

TRUST = "OPENENDED_TRUST_CONFIG"  # set by `--trust-config`, and so known to the workers of a grid
# The parts of the `hydra` node from which something is called.
_CALLED = ("callbacks", "launcher", "sweeper", "hydra_logging", "job_logging")
_BASIC = "hydra._internal.core_plugins"
_ALLOWED = {
    "_target_": {
        "openended.harness.app.hydra.job.Watch",
        "hydra_plugins.openended.Union", "hydra_plugins.openended.Joblib", "hydra_plugins.openended.Submitit",
        "hydra_plugins.openended.Ray",
        "hydra_plugins.openended.OptunaSweeper",
        f"{_BASIC}.basic_launcher.BasicLauncher", f"{_BASIC}.basic_sweeper.BasicSweeper",
    },
    "class": {"logging.StreamHandler", "logging.NullHandler"},
    "()": set[str](),
    "stream": {"ext://sys.stderr", "ext://sys.stdout"},
}  # fmt: skip
# What a file may set of `hydra.launcher.parameters`; others, such as `local_setup`, can run commands of a shell.
_LAUNCHER_PARAMETERS = {
    "name", "timeout_min", "cpus_per_task", "gpus_per_node", "tasks_per_node", "nodes", "mem_gb", "slurm_account",
    "slurm_partition", "slurm_qos", "slurm_constraint", "slurm_array_parallelism",
}  # fmt: skip
# Options that only the command line may set, because they send keys, run code or open a cluster that deserializes
# pickles.
_TYPED_ONLY = {
    "model.api_key_env": "would send a key from the environment",
    "scorer.api_key_env": "would send a key from the environment",
    "model.trust_remote_code": "runs the code of a model of the hub",
    "scorer.trust_remote_code": "runs the code of a model of the hub",
    "tracker.uri": "would send results to a server",
    "tracker.mode": "would send results to a server",
    "runtime.ray_address": "connects to a Ray cluster, whose data can run code",
    "hydra.launcher.address": "connects to a Ray cluster, whose data can run code",
}
_TYPED_AXES = ("api_key_env", "ray_address", "trust_remote_code")
_OWN_CLUSTER = "auto"  # the Ray cluster that this machine is part of
# Options that the command of this process sets; a plan composes its jobs without their values.
_typed: set[str] = set()
_LOADS = ("ext://", "cfg://")  # prefixes with which the logging configuration of the standard library imports objects


def guard_composition() -> None:
    """Check every configuration that this process composes from now on."""
    _typed.clear()
    limit_configuration()
    OmegaConf.register_new_resolver("oc.env", _read_environment, replace=True)
    original = ConfigLoaderImpl.load_configuration
    if hasattr(original, "__wrapped__"):
        return

    @functools.wraps(original)
    def load(self: ConfigLoaderImpl, *args: Any, **options: Any) -> DictConfig:  # noqa: ANN401
        limit_configuration()
        try:
            composed: DictConfig = original(self, *args, **options)
        except (HarnessError, HydraException, OmegaConfBaseException):
            raise  # `job_output.translate_config_errors` explains them
        except Exception as err:
            raise SpecError(
                f"the configuration cannot be composed: {type(err).__name__}: {shorten_error(err)}"
            ) from err
        overrides = options.get("overrides", args[1] if len(args) > 1 else ())
        check_config(composed, overrides)
        refuse_composed_lists(composed)
        return composed

    ConfigLoaderImpl.load_configuration = load


def check_config(config: DictConfig, overrides: Sequence[str]) -> None:
    """Refuse a configuration that could run code or take keys."""
    if is_config_trusted():
        return
    raw = OmegaConf.to_container(config.hydra, resolve=False)
    node: dict[str, Any] = {str(k): v for k, v in raw.items()} if isinstance(raw, dict) else {}
    for part in _CALLED:
        for option, key, value in _iterate_texts(node.get(part), f"hydra.{part}"):
            wrong = key in _ALLOWED and value not in _ALLOWED[key]
            wrong = wrong or (value.startswith(_LOADS) and value not in _ALLOWED["stream"])
            if wrong or (value.startswith("${") and value.endswith("}") and _is_node(config, option, part)):
                _refuse(option, value, "is not part of openended")
    _check_typed_options(config, node, overrides)
    for name in ("env_set", "env_copy"):
        if changes := node.get("job", {}).get(name):
            _refuse(f"hydra.job.{name}", changes, "changes the environment of workers")


def _check_typed_options(config: DictConfig, node: Mapping[str, Any], overrides: Sequence[str]) -> None:
    """Refuse files that set an option that only the command line may set."""
    for kind, words in (node.get("overrides") or {}).items():
        for word in words or ():
            if word not in overrides:  # Hydra appends what is typed to what a file has there
                _refuse(f"hydra.overrides.{kind}", word, "is not part of the command")
    _typed.update(_list_typed_keys(overrides))
    for option, reason in _TYPED_ONLY.items():
        value = OmegaConf.select(config, option)
        if value not in (None, False, _OWN_CLUSTER) and not _is_typed(option):
            _refuse(option, value, f"{reason}: name it in the command")
    for name, value in ((node.get("launcher") or {}).get("parameters") or {}).items():
        option = f"hydra.launcher.parameters.{name}"
        if value is not None and name not in _LAUNCHER_PARAMETERS and not _is_typed(option):
            _refuse(option, value, "could run commands: name it in the command")
    for key in _iterate_keys(node.get("sweeper")):
        if key.startswith("hydra") or key.endswith(_TYPED_AXES) or key == "runtime":
            _refuse("hydra.sweeper", key, "is an axis that only the command may set")


def _list_typed_keys(overrides: Sequence[str]) -> Iterator[str]:
    """Yield the options that a command sets, a whole node as `model.`; `model=openai` chooses a file and sets none."""
    for word in overrides:
        key, _, value = word.partition("=")
        yield key.lstrip("+~")
        if value.lstrip().startswith("{"):
            yield f"{key.lstrip('+~')}."


def _is_typed(option: str) -> bool:
    """Check whether the command sets an option or a node that contains it."""
    return any(option == key or (key.endswith(".") and option.startswith(key)) for key in _typed)


def _iterate_keys(value: object) -> Iterator[str]:
    """Yield all keys of nested mappings and lists, without the signs of Hydra's overrides."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield str(key).lstrip("+~")
            yield from _iterate_keys(item)
    elif isinstance(value, list):
        for item in value:
            yield from _iterate_keys(item)


def is_config_trusted() -> bool:
    """Check whether the command has `--trust-config`."""
    return os.environ.get(TRUST) == "1"


def _iterate_texts(value: Any, option: str, key: str = "") -> Iterator[tuple[str, str, str]]:  # noqa: ANN401
    """Yield (option, key, text) of every text in a node."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _iterate_texts(
                "" if name == "()" and not isinstance(item, str) else item, f"{option}.{name}", str(name)
            )
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _iterate_texts(item, f"{option}[{number}]", key)
    elif isinstance(value, str) or key in ("_target_", "class", "()"):
        yield option, key, str(value)


def _is_node(config: DictConfig, option: str, part: str) -> bool:
    """Return whether an interpolation may stand for a whole node; in a sweeper's axes only where it already does."""
    if part != "sweeper":
        return True
    try:
        return isinstance(OmegaConf.select(config, option), Container)
    except OmegaConfBaseException:
        return False


def _read_environment(*words: str) -> str:
    if not is_config_trusted():
        _refuse("${oc.env:…}", ", ".join(map(str, words)), "reads the environment, where keys are")
    value = os.environ.get(words[0], *words[1:2])
    if value is None:
        raise SpecError(f"${{oc.env:{words[0]}}}: no such environment variable")
    return value


def _refuse(option: str, value: object, why: str) -> NoReturn:
    raise SpecError(
        f"{option}: {str(value)[:100]!r} {why}: a configuration from somebody else could run code or take keys; "
        "if it is yours, add --trust-config"
    )
