"""What a configuration may make Hydra do: its own `hydra` node can name any class of any package, ours alone are made.

Under `hydra` a configuration names classes that Hydra, or the logging of the standard library, imports and calls:
callbacks, launcher, sweeper, handlers. So each composed configuration is checked before Hydra makes anything of it.
The environment holds people's keys: no configuration reads it. `--trust-config` lifts both.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from typing import Any, NoReturn

from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.errors import HydraException
from omegaconf import Container, DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from openended.harness.core import SpecError, first_line

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
_LOADS = ("ext://", "cfg://")  # what the logging of the standard library imports


def guard() -> None:
    """Check, from now on, every configuration that this process composes; what cannot be composed is told as ours."""
    OmegaConf.register_new_resolver("oc.env", _env, replace=True)
    original = ConfigLoaderImpl.load_configuration
    if hasattr(original, "__wrapped__"):
        return

    @functools.wraps(original)
    def load(self: ConfigLoaderImpl, *args: Any, **options: Any) -> DictConfig:  # noqa: ANN401
        try:
            composed: DictConfig = original(self, *args, **options)
        except (HydraException, OmegaConfBaseException):
            raise  # `show.composing` has words for them
        except Exception as err:
            raise SpecError(f"the configuration cannot be composed: {type(err).__name__}: {first_line(err)}") from err
        check(composed)
        return composed

    ConfigLoaderImpl.load_configuration = load


def check(config: DictConfig) -> None:
    """Refuse what would run somebody's code.

    Raises:
        SpecError: Names the option and its value.
    """
    if trusted():
        return
    raw = OmegaConf.to_container(config.hydra, resolve=False)
    node: dict[str, Any] = {str(k): v for k, v in raw.items()} if isinstance(raw, dict) else {}
    for part in _CALLED:
        for place, key, value in _texts(node.get(part), f"hydra.{part}"):
            wrong = key in _ALLOWED and value not in _ALLOWED[key]
            wrong = wrong or (value.startswith(_LOADS) and value not in _ALLOWED["stream"])
            if wrong or (value.startswith("${") and value.endswith("}") and _is_node(config, place, part)):
                _refuse(place, value, "is none of ours")
    typed = {str(word).partition("=")[0].lstrip("+") for word in (node.get("overrides") or {}).get("task") or ()}
    for role in ("model", "scorer"):  # a file could send anybody's key anywhere
        own = config.get(role)
        named = own.get("api_key_env") if isinstance(own, DictConfig) else None
        if named is not None and f"{role}.api_key_env" not in typed:
            _refuse(f"{role}.api_key_env", str(named), "would send a key from the environment: name it in the command")
    for name in ("env_set", "env_copy"):
        if given := node.get("job", {}).get(name):
            _refuse(f"hydra.job.{name}", given, "changes the environment of workers")


def trusted() -> bool:
    """Say whether the command was given `--trust-config`."""
    return os.environ.get(TRUST) == "1"


def _texts(value: Any, place: str, key: str = "") -> Iterator[tuple[str, str, str]]:  # noqa: ANN401
    """Yield (place, key, text) of every text in a node; a text that is a key stands for itself."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _texts("" if name == "()" and not isinstance(item, str) else item, f"{place}.{name}", str(name))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _texts(item, f"{place}[{number}]", key)
    elif isinstance(value, str) or key in ("_target_", "class", "()"):
        yield place, key, str(value)


def _is_node(config: DictConfig, place: str, part: str) -> bool:
    """Say whether an interpolation may stand for a whole node; of a sweeper's axes only where it does now."""
    if part != "sweeper":
        return True
    try:
        return isinstance(OmegaConf.select(config, place), Container)
    except OmegaConfBaseException:
        return False


def _env(*words: str) -> str:
    if not trusted():
        _refuse("${oc.env:…}", ", ".join(map(str, words)), "reads the environment, where keys are")
    found = os.environ.get(words[0], *words[1:2])
    if found is None:
        raise SpecError(f"${{oc.env:{words[0]}}}: no such environment variable")
    return found


def _refuse(place: str, value: object, why: str) -> NoReturn:
    raise SpecError(
        f"{place}: {str(value)[:100]!r} {why}: a configuration from somebody else could run code or take keys with it; "
        "if it is yours, add --trust-config"
    )
