"""Several grids as one: `hydra/sweeper=union`.

`hydra.sweeper.grids` is a list of axes: the grid over `params` and the first, then over `params` and the second, …, so
that decoders of different parameters, or models each with its own, are one experiment. `hydra.sweeper.experiments` is a
list of experiments: each keeps its own axes, options and report, and the jobs of all run one after the other in one
session, so that models and the features of the human side are shared. Options of the command line count for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.plugins import Plugins
from hydra.plugins.launcher import Launcher
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf

from openended.harness.app.hydra.plan import plan_jobs
from openended.harness.app.hydra.using import CHOICE, PLUGINS, join_name

NAME = "name"
Jobs = list[list[str]]


class Launching(Sweeper):  # type: ignore[misc]
    """A sweeper that reads its options with the rest of the configuration, and has a launcher run jobs."""

    def __init__(self) -> None:
        self._config = OmegaConf.create()
        self._launcher: Launcher | None = None

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Make the launcher."""
        self._config = config
        self._launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    @classmethod
    def prepare_jobs(cls, config: DictConfig) -> Jobs:
        """Check a multirun before anything runs; returns the overrides of every job that is known by then.

        Raises:
            HydraException: If an experiment or an option of the command line does not exist.
        """
        return all_jobs(config)

    def launched(self, jobs: Jobs, first: int) -> Any:  # noqa: ANN401 - a sequence of Hydra's
        """Run jobs, numbered from `first`; raises what a job raised."""
        if self._launcher is None:
            raise RuntimeError("sweep before setup")
        returns = self._launcher.launch(jobs, initial_job_idx=first)
        for one in returns:
            _ = one.return_value  # raises what the job raised
        return returns


class Union(Launching):
    """Runs several grids as one; Hydra makes it of `conf/hydra/sweeper/union.yaml`."""

    __module__ = PLUGINS

    def __init__(self, **_: Any) -> None:  # noqa: ANN401
        # The axes are read by `all_jobs`, which the overview reads too.
        super().__init__()

    def sweep(self, arguments: list[str]) -> Any:  # noqa: ANN401, ARG002 - the arguments are in the configuration too
        """Launch all jobs as one batch; with `plan_only` none, but print what they would find and make.

        Raises:
            HydraException: As `all_jobs`.
        """
        if self._config.plan_only:
            plan_jobs(self._config, all_jobs(self._config))
            return []
        return [self.launched(all_jobs(self._config), 0)]


def all_jobs(config: DictConfig) -> Jobs:
    """Return the overrides of every job of a multirun.

    Raises:
        HydraException: If an experiment or an option of the command line does not exist.
    """
    words = list(config.hydra.overrides.task)
    series = members(config)
    if not series:
        return _jobs(config, words)
    own = [word for word in words if _key(word) not in (CHOICE, NAME)]
    # An experiment without axes would take itself for a single run.
    return [
        job
        for member, one in series.items()
        for job in _jobs(one, [f"{CHOICE}={member}", "hydra.mode=MULTIRUN", *own, *_named(config, member)])
    ]


def axes_of(jobs: Jobs) -> dict[str, int]:
    """Return option → number of values, for the options in which jobs differ."""
    values: dict[str, set[str]] = {}
    for word in (word for job in jobs for word in job):
        values.setdefault(_key(word), set()).add(word)
    return {key: len(found) for key, found in values.items() if len(found) > 1}


def members(config: DictConfig) -> dict[str, DictConfig]:
    """Return the composed experiments of a series by their names; empty where there is no series."""
    names = config.hydra.sweeper.get("experiments") or ()
    parsed = OverridesParser.create().parse_overrides(list(config.hydra.overrides.task))
    words = [str(o.input_line) for o in parsed if not o.is_sweep_override() and o.key_or_group not in (CHOICE, NAME)]
    members = [join_name(str(name), config.hydra.sweeper.get("series_using")) for name in names]
    return {name: _composed((f"{CHOICE}={name}", *words, *_named(config, name))) for name in members}


@lru_cache(maxsize=64)
def _composed(words: tuple[str, ...]) -> DictConfig:
    """Compose an experiment once: the grid's start, its jobs and its end ask for it."""
    from hydra import compose

    composed: DictConfig = compose("config", overrides=list(words), return_hydra_config=True)
    return composed


def _named(config: DictConfig, member: str) -> list[str]:
    """Return what gives the runs of an experiment a name of their own, where the series has one."""
    return [f"{NAME}={config.name}-{member}"] if config.get("name") else []


def _jobs(config: DictConfig, words: Sequence[str]) -> Jobs:
    """Return the jobs of one experiment; what the command line says wins over its own axes."""
    # Unresolved: an axis may speak of an option of the job, `${model.label}`.
    sweeper = OmegaConf.to_container(config.hydra.sweeper)
    node: dict[str, Any] = {str(k): v for k, v in sweeper.items()} if isinstance(sweeper, dict) else {}
    parser = OverridesParser.create()
    jobs: Jobs = []
    for grid in node.get("grids") or [{}]:
        axes = {**(node.get("params") or {}), **grid}
        # Null takes an axis out: of an experiment that another one builds on.
        own = [f"{key}={value}" for key, value in axes.items() if value is not None]
        parsed = parser.parse_overrides([*own, *words])
        jobs += BasicSweeper.split_arguments(parsed, None)[0]
    return by_model(jobs)


def by_model(jobs: Jobs) -> Jobs:
    """Put the jobs of one model side by side, else in their order: a process then loads each model once."""
    seen: dict[tuple[str, ...], int] = {}
    models = [tuple(word for word in job if _key(word).split(".")[0] == "model") for job in jobs]
    for model in models:
        seen.setdefault(model, len(seen))
    return [job for _, job in sorted(zip(models, jobs, strict=True), key=lambda pair: seen[pair[0]])]


def _key(word: str) -> str:
    return word.split("=", 1)[0].lstrip("+~")
