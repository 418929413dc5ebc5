"""The launcher `ray`: workers of a Ray cluster run a grid's jobs."""

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from openended.harness.app.hydra.command_line import LogOptions
from openended.harness.app.hydra.compose import Job
from openended.harness.app.hydra.jobs import Launcher
from openended.harness.app.hydra.launchers import Jobs, mark_lost, print_progress, run_jobs
from openended.harness.core import DataError, SpecError, ranged, temporary_files

log = logging.getLogger(__name__)
_CLUSTER = "openended.harness.backends.ray.cluster"
RAY_TRIES = 2  # workers that may die over one job


@dataclass(frozen=True, kw_only=True)
class Ray(Launcher):
    """Workers of a Ray cluster, each a process with its own models. Needs the extra `ray`.

    They need the grid's folder and the store on a file system that all machines see, under the same paths. One that
    dies (out of memory, its node gone) is started again by Ray, and its job is tried once more.
    """

    name = "ray"
    workers: int = ranged(2, "[1, inf)", "1 or more")
    """Processes, each with its own copy of the models."""
    address: str | None = None
    """auto (the cluster that this machine is part of) or host:port; null: this machine alone."""
    cpus_per_worker: int = ranged(1, "[1, inf)", "1 or more")
    """CPUs that Ray reserves for each."""
    gpus_per_worker: float | None = ranged(None, "[0, inf)", "0 or more, or null")
    """0.5: two share a GPU; null: 1 where the cluster has GPUs, else 0."""
    resources: Mapping[str, float] = field(default_factory=dict)
    """What else a worker needs, by the cluster's own names, for example {big_memory: 1}."""

    def run(self, jobs: Jobs, options: LogOptions) -> None:
        def report_death(who: int, number: int, error: str) -> None:
            title = jobs[number].title
            log.warning("%s: its worker %d died (out of memory?); trying it once more: %s", title, who, error)

        line, cluster = "", import_module(_CLUSTER)
        actors = self._create_actors(jobs[0].grid)
        for number, answer in actors.map([(job, options) for job in jobs], report_death):
            if isinstance(answer, cluster.WorkerDeath):
                mark_lost([jobs[number]], f"its process was killed twice (out of memory?): {answer.reason}")
            line = print_progress(jobs[0].grid, line)

    def _create_actors(self, grid: Path) -> Any:  # noqa: ANN401 - `ActorPool`
        cluster = import_module(_CLUSTER)
        ray = cluster.connect_to_ray(self.address, "hydra.launcher.address", cpus=self.workers * self.cpus_per_worker)
        nodes = cluster.list_nodes(ray)
        gpus = self.gpus_per_worker
        if gpus is None:
            gpus = 1.0 if any(node.get("GPU") for node in nodes) else 0.0
        needs = {"CPU": float(self.cpus_per_worker), "GPU": gpus, **self.resources}
        for name, amount in needs.items():
            most = max((node.get(name, 0.0) for node in nodes), default=0.0)
            if most < amount:
                raise SpecError(f"hydra.launcher: each worker needs {amount:g} {name}, no node has more than {most:g}")
        folder = grid.resolve() / "ray"
        folder.mkdir(parents=True, exist_ok=True)
        facts = {} if gpus else {"CUDA_VISIBLE_DEVICES": ""}
        actor = ray.remote(GridWorker).options(
            num_cpus=self.cpus_per_worker, num_gpus=gpus, resources=dict(self.resources), max_restarts=-1
        )
        actors = [
            actor.remote(str(Path.cwd()), str(folder / f"worker-{who}.err"), facts, temporary_files.build_process_tag())
            for who in range(self.workers)
        ]
        log.info("workers    %d of %d CPUs and %g GPUs; logs in %s", self.workers, self.cpus_per_worker, gpus, folder)
        cluster.warn_if_full(nodes, self.workers, needs)
        return cluster.ActorPool(ray, actors, deaths=RAY_TRIES, option="hydra/launcher=ray")


class GridWorker:
    """The actor of Ray: a process that runs jobs, one after the other."""

    def __init__(self, folder: str, log_path: str, facts: Mapping[str, str], parent: str) -> None:
        try:
            os.chdir(folder)
            handle = os.open(log_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        except OSError as err:
            raise DataError(f"{err.filename}: {err.strerror}; every machine needs it under this path") from err
        os.dup2(handle, 2)
        os.close(handle)
        os.environ.update(facts)
        self._parent = parent

    def ready(self) -> int:
        """Return the process id once the worker has started."""
        return os.getpid()

    def do(self, job: Job, options: LogOptions) -> None:
        run_jobs([job], options, self._parent)
