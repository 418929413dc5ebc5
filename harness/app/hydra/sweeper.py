"""Run the union of several grids or experiments as one multirun (`hydra/sweeper=union`).

`hydra.sweeper.grids` is a list of axes: the grid over `params` and the first, then over `params` and the second, …, so
that decoders of different parameters, or models each with its own, are one experiment. `hydra.sweeper.experiments` is a
list of experiments: each keeps its own axes, options and report, and the jobs of all run one after the other in one
session, so that models and the features of the human side are shared. Options of the command line count for all.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, Override, RangeSweep
from hydra.core.plugins import Plugins
from hydra.plugins.launcher import Launcher
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf

from openended.harness.app.hydra.plan import plan_jobs
from openended.harness.app.hydra.using import CHOICE, PLUGINS, join_name
from openended.harness.core import SpecError

NAME = "name"
MOST_JOBS = 100_000  # maximum per grid
Jobs = list[list[str]]


class LaunchingSweeper(Sweeper):  # type: ignore[misc]
    """Base class of sweepers: takes its options from the composed configuration and runs jobs with the launcher."""

    def __init__(self) -> None:
        self._config = OmegaConf.create()
        self._launcher: Launcher | None = None

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Store the configuration and create the launcher."""
        self._config = config
        self._launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    @classmethod
    def prepare_jobs(cls, config: DictConfig) -> Jobs:
        """Check a multirun before anything runs; return the overrides of every job known at this point."""
        return list_jobs(config)

    def launch_jobs(self, jobs: Jobs, first: int) -> Any:  # noqa: ANN401 - a sequence of Hydra's
        """Run jobs, numbered from `first`; raises what a job raised."""
        if self._launcher is None:
            raise RuntimeError("sweep before setup")
        returns = self._launcher.launch(jobs, initial_job_idx=first)
        for job_return in returns:
            _ = job_return.return_value  # raises what the job raised
        return returns


class Union(LaunchingSweeper):
    """Runs several grids as one; Hydra instantiates it from `conf/hydra/sweeper/union.yaml`."""

    __module__ = PLUGINS

    def __init__(self, **_: Any) -> None:  # noqa: ANN401
        # `list_jobs` reads the axes from the configuration.
        super().__init__()

    def sweep(self, arguments: list[str]) -> Any:  # noqa: ANN401, ARG002 - the arguments are in the configuration too
        """Launch all jobs as one batch; with `plan_only` only print what is cached and what would be computed.

        Raises:
            HydraException: As for `list_jobs`.
        """
        if self._config.plan_only:
            plan_jobs(self._config, list_jobs(self._config))
            return []
        return [self.launch_jobs(list_jobs(self._config), 0)]


def list_jobs(config: DictConfig) -> Jobs:
    """Return the overrides of every job of a multirun."""
    words = list(config.hydra.overrides.task)
    series = compose_series(config)
    if not series:
        return _list_experiment_jobs(config, words)
    user_words = [word for word in words if _get_option_name(word) not in (CHOICE, NAME)]
    # Without hydra.mode, an experiment without axes would be composed as a single run.
    return [
        job
        for member, experiment in series.items()
        for job in _list_experiment_jobs(
            experiment, [f"{CHOICE}={member}", "hydra.mode=MULTIRUN", *user_words, *_name_override(config, member)]
        )
    ]


def find_axes(jobs: Jobs) -> dict[str, int]:
    """Return option → number of values, for the options in which jobs differ."""
    values: dict[str, set[str]] = {}
    for word in (word for job in jobs for word in job):
        values.setdefault(_get_option_name(word), set()).add(word)
    return {key: len(words) for key, words in values.items() if len(words) > 1}


def compose_series(config: DictConfig) -> dict[str, DictConfig]:
    """Compose the experiments of a series; return name → configuration, empty if there is no series."""
    names = config.hydra.sweeper.get("experiments") or ()
    parsed = OverridesParser.create().parse_overrides(list(config.hydra.overrides.task))
    words = [str(o.input_line) for o in parsed if not o.is_sweep_override() and o.key_or_group not in (CHOICE, NAME)]
    members = [join_name(str(name), config.hydra.sweeper.get("series_using")) for name in names]
    return {name: _compose_member((f"{CHOICE}={name}", *words, *_name_override(config, name))) for name in members}


@lru_cache(maxsize=64)
def _compose_member(words: tuple[str, ...]) -> DictConfig:
    """Compose an experiment; cached, because it is needed several times per grid."""
    from hydra import compose

    composed: DictConfig = compose("config", overrides=list(words), return_hydra_config=True)
    return composed


def _name_override(config: DictConfig, member: str) -> list[str]:
    """Return the override that names the runs of an experiment; empty if the series has no name."""
    return [f"{NAME}={config.name}-{member}"] if config.get("name") else []


def _list_experiment_jobs(config: DictConfig, words: Sequence[str]) -> Jobs:
    """Return the jobs of one experiment; the command line takes precedence over the experiment's axes."""
    # Unresolved, because an axis may refer to an option of the job (`${model.label}`).
    sweeper = OmegaConf.to_container(config.hydra.sweeper)
    node: dict[str, Any] = {str(k): v for k, v in sweeper.items()} if isinstance(sweeper, dict) else {}
    parser = OverridesParser.create()
    jobs: Jobs = []
    for grid in node.get("grids") or [{}]:
        axes = {**(node.get("params") or {}), **grid}
        # Null removes an axis inherited from another experiment.
        axis_words = [f"{key}={value}" for key, value in axes.items() if value is not None]
        parsed = parser.parse_overrides([*axis_words, *words])
        check_grid_size(parsed)
        jobs += BasicSweeper.split_arguments(parsed, None)[0]
    return group_by_model(jobs)


def check_grid_size(overrides: Sequence[Override]) -> None:
    """Refuse a grid of too many jobs before it is expanded."""
    jobs = math.prod(count_values(override) for override in overrides if override.is_sweep_override())
    if jobs > MOST_JOBS:
        raise SpecError(f"the grid has {jobs:,} jobs; expected at most {MOST_JOBS:,}: shorten its axes")


def count_values(override: Override) -> int:
    """Count the values of a swept option without listing those of a range."""
    value = override.value()
    if isinstance(value, RangeSweep):
        start, stop, step = (float(v) for v in (value.start or 0, value.stop or 0, value.step))
        steps = (stop - start) / step if step else math.inf
        return max(math.ceil(min(steps, sys.maxsize)), 0)
    return len(value.list) if isinstance(value, ChoiceSweep) else 1


def group_by_model(jobs: Jobs) -> Jobs:
    """Sort jobs by model (stable, in order of first appearance), so that a process loads each model once."""
    seen: dict[tuple[str, ...], int] = {}
    models = [tuple(word for word in job if _get_option_name(word).split(".")[0] == "model") for job in jobs]
    for model in models:
        seen.setdefault(model, len(seen))
    return [job for _, job in sorted(zip(models, jobs, strict=True), key=lambda pair: seen[pair[0]])]


def _get_option_name(word: str) -> str:
    return word.split("=", 1)[0].lstrip("+~")
