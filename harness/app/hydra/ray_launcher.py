"""`hydra/launcher=ray`: the jobs of a grid on the workers of a Ray cluster, which keep their models from job to job.

The workers need the grid's folder and the store on a file system that all machines see, under the same paths; what they
say is in files there, as a Slurm job's is. One that dies (out of memory, its node gone) is started again by Ray, and
its job is tried once more; the others take the next ones meanwhile.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from omegaconf import DictConfig

from openended.harness.app.hydra.jobfile import JobFile, format_progress
from openended.harness.app.hydra.launchers import GridLauncher, mark_lost, run_jobs
from openended.harness.app.hydra.parent_watch import ParentProcess, identify_process
from openended.harness.app.hydra.trust import TRUST
from openended.harness.app.hydra.using import PLUGINS
from openended.harness.backends import ActorPool, WorkerDeath, connect_to_ray, list_nodes, warn_if_full
from openended.harness.core import DataError, SpecError

log = logging.getLogger(__name__)

TRIES = 2  # workers that may die over one job


class GridWorker:
    """The actor: a process that runs jobs, one after the other."""

    def __init__(self, folder: str, log_path: str, facts: Mapping[str, str], parent: ParentProcess) -> None:
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

    def do(self, config: DictConfig) -> None:
        """Run a job; how it went is in its file."""
        run_jobs([config], self._parent)


class Ray(GridLauncher):
    """Workers of a Ray cluster.

    Args:
        workers: How many, each a process with its own models.
        address: `auto`, `host:port`, or null: a cluster on this machine alone, which ends with the grid.
        cpus_per_worker: CPUs of each.
        gpus_per_worker: GPUs of each; a part of one is shared. null: 1 where the cluster has GPUs, else 0.
        resources: What else each needs, by the cluster's own names (`ray start --resources='{"big": 1}'`).

    Raises:
        SpecError: If an option is not accepted.
    """

    __module__ = PLUGINS

    def __init__(
        self,
        workers: int,
        address: str | None,
        cpus_per_worker: int,
        gpus_per_worker: float | None,
        resources: Mapping[str, float],
    ) -> None:
        super().__init__(workers, option="workers")
        if cpus_per_worker < 1:
            raise SpecError(f"hydra.launcher.cpus_per_worker: expected 1 or more, got {cpus_per_worker}")
        if gpus_per_worker is not None and gpus_per_worker < 0:
            raise SpecError(f"hydra.launcher.gpus_per_worker: expected 0 or more, or null, got {gpus_per_worker}")
        self.address, self.cpus, self.gpus = address, cpus_per_worker, gpus_per_worker
        self.resources = {str(name): float(amount) for name, amount in resources.items()}

    def _run(self, configs: Sequence[DictConfig]) -> None:
        actors = self._create_actors()

        def report_death(who: int, number: int, error: str) -> None:
            title = JobFile(configs[number].hydra).title
            log.warning("%s: its worker %d died (out of memory?); trying it once more: %s", title, who, error)

        last_line = ""
        for number, answer in actors.map([(config,) for config in configs], report_death):
            if isinstance(answer, WorkerDeath):
                mark_lost([configs[number]], f"its process was killed twice (out of memory?): {answer.reason}")
            line = format_progress(Path(self._config.hydra.sweep.dir))
            if line != last_line:
                log.info("grid       %s", line)
                last_line = line

    def _create_actors(self) -> ActorPool:
        ray = connect_to_ray(self.address, "hydra.launcher.address", cpus=self.processes * self.cpus)
        nodes = list_nodes(ray)
        gpus = self.gpus
        if gpus is None:
            gpus = 1.0 if any(node.get("GPU") for node in nodes) else 0.0
        needs = {"CPU": float(self.cpus), "GPU": gpus, **self.resources}
        for name, amount in needs.items():
            most = max((node.get(name, 0.0) for node in nodes), default=0.0)
            if most < amount:
                raise SpecError(f"hydra.launcher: each worker needs {amount:g} {name}, no node has more than {most:g}")
        folder = Path(self._config.hydra.sweep.dir).resolve() / "ray"
        folder.mkdir(parents=True, exist_ok=True)
        facts = {name: os.environ[name] for name in (TRUST,) if name in os.environ}
        if not gpus:
            facts["CUDA_VISIBLE_DEVICES"] = ""
        actor = ray.remote(GridWorker).options(
            num_cpus=self.cpus, num_gpus=gpus, resources=self.resources, max_restarts=-1
        )
        actors = [
            actor.remote(str(Path.cwd()), str(folder / f"worker-{who}.err"), facts, identify_process())
            for who in range(self.processes)
        ]
        log.info("workers    %d of %d CPUs and %g GPUs; logs in %s", self.processes, self.cpus, gpus, folder)
        warn_if_full(nodes, self.processes, needs)
        return ActorPool(ray, actors, deaths=TRIES, option="hydra/launcher=ray")
