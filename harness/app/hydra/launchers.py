"""Launchers of a grid beside Hydra's own: `hydra/launcher=joblib` (processes) and `hydra/launcher=submitit` (Slurm).

A worker process keeps its models from job to job: joblib's workers take the next job of the grid when they are free, a
submitit job takes a run of neighbors. That is why these are not Hydra's plug-ins of the same names, which carry a
fresh task function to every job and would load every model again for each (and have seen no release since 2022).

A worker is sent one thing, the composed configuration; what it makes it leaves in the store, and how it went in its
file in the grid's folder. So the results do not depend on the launcher.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import JobReturn, JobStatus, configure_log, setup_globals
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf, open_dict

from openended.harness.app.hydra.job_output import name_lines
from openended.harness.app.hydra.jobfile import JobFile, format_progress
from openended.harness.app.hydra.joblib_memory import claim_shared_memory
from openended.harness.app.hydra.parent_watch import ParentProcess, end_with_parent, identify_process
from openended.harness.app.hydra.trust import guard_composition
from openended.harness.app.hydra.using import PLUGINS
from openended.harness.core import ExtraNotInstalled, SpecError, escape_log_records

if TYPE_CHECKING:
    from openended.harness.app.hydra.job import Job

log = logging.getLogger(__name__)

POLL_SECONDS = 0.5  # seconds between checks of a cluster's jobs
CANCEL_SECONDS = 10.0  # seconds that cancelled processes get to end
Jobs = Sequence[DictConfig]
_worker_jobs: list[Job] = []  # of this worker process: its sessions hold the loaded models


def run_jobs(configs: Sequence[DictConfig], parent: ParentProcess) -> None:
    """Run jobs one after the other in a worker, which ends with its parent; how each went is in its `JobFile`."""
    from openended.harness.app.hydra.job import Job

    end_with_parent(parent)
    escape_log_records()
    guard_composition()
    if not _worker_jobs:
        _worker_jobs.append(Job())
    setup_globals()
    for config in configs:
        HydraConfig.instance().set_config(config)
        configure_log(config.hydra.job_logging, config.hydra.verbose)
        name_lines(JobFile(config.hydra).title)
        _worker_jobs[0](config)


def run_jobs_ignoring_interrupt(configs: Sequence[DictConfig], parent: ParentProcess) -> None:
    """Run jobs in a worker that shares the terminal: Ctrl-C is for the parent, which ends its workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    run_jobs(configs, parent)


class GridLauncher(Launcher):  # type: ignore[misc]
    """What the launchers share: composing the jobs, and what to do about those whose process died."""

    def __init__(self, processes: int, least: int = 1, option: str = "processes") -> None:
        if processes < least:
            raise SpecError(f"hydra.launcher.{option}: expected {least} or more, got {processes}")
        self.processes = processes
        self._context: HydraContext | None = None
        self._config = OmegaConf.create()

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:  # noqa: ARG002
        """Keep what composes a job. The task function stays here: workers have their own."""
        self._context, self._config = hydra_context, config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Run all jobs and return when the last has ended."""
        setup_globals()
        configure_log(self._config.hydra.job_logging, self._config.hydra.verbose)
        Path(self._config.hydra.sweep.dir).mkdir(parents=True, exist_ok=True)
        configs = [self._compose(words, initial_job_idx + i) for i, words in enumerate(job_overrides)]
        try:
            self._run(configs)
        finally:
            configure_log(self._config.hydra.hydra_logging, self._config.hydra.verbose)
        # Failed jobs are reported at the end of the grid, as with Hydra's launchers; None raises nothing here.
        return [JobReturn(overrides=words, status=JobStatus.COMPLETED, _return_value=None) for words in job_overrides]

    def _compose(self, overrides: Sequence[str], number: int) -> DictConfig:
        if self._context is None:
            raise RuntimeError("launch before setup")
        config: DictConfig = self._context.config_loader.load_sweep_config(self._config, list(overrides))
        with open_dict(config):
            config.hydra.job.id = config.hydra.job.num = number
            config.runtime.progress = False  # bars of several processes would overwrite each other
        return config

    @abstractmethod
    def _run(self, configs: Sequence[DictConfig]) -> None:
        """Run the jobs; returns when each has a final state."""


class Joblib(GridLauncher):
    """Processes on this machine, by joblib (its `loky` workers).

    Raises:
        SpecError: If `processes` is not accepted.
    """

    __module__ = PLUGINS

    def __init__(self, processes: int) -> None:
        # With one process joblib would run jobs in this process, which must outlive them.
        super().__init__(processes, least=2)

    def _run(self, configs: Sequence[DictConfig]) -> None:
        from joblib.externals.loky.process_executor import TerminatedWorkerError

        left, again = list(configs), list[DictConfig]()
        while left:
            try:
                self._pool(left)
                left = []
            except TerminatedWorkerError:
                left, killed = _split_after_kill(left)
                again += killed
        # One at a time, so that a job is not lost only because it ran beside one that filled the memory.
        for config in again:
            log.warning("%s: its process was killed (out of memory?); trying it once more", JobFile(config.hydra).title)
            try:
                self._pool([config])
            except TerminatedWorkerError:
                mark_lost([config], "its process was killed twice (out of memory?)")

    def _pool(self, configs: Sequence[DictConfig]) -> None:
        from joblib import Parallel, delayed

        with claim_shared_memory() as folder:
            pool = Parallel(n_jobs=self.processes, backend="loky", batch_size=1, temp_folder=folder)
            pool(delayed(run_jobs_ignoring_interrupt)([config], identify_process()) for config in configs)


def _split_after_kill(configs: Sequence[DictConfig]) -> tuple[list[DictConfig], list[DictConfig]]:
    """Return the jobs that had not begun, and those that ran when a worker was killed."""
    states = [(config, JobFile(config.hydra).state) for config in configs]
    running = [config for config, state in states if state == "running"]
    waiting = [config for config, state in states if state is None]
    return (waiting, running) if running else ([], waiting)


class Submitit(GridLauncher):
    """Jobs of a cluster (Slurm), or processes on this machine, by submitit.

    Args:
        processes: Into how many cluster jobs the grid is cut, each a run of neighboring jobs of the grid.
        cluster: `slurm`, `local`, or `auto`: slurm where there is one.
        folder: Where submitit keeps its logs.
        parameters: What submitit's executor takes (`timeout_min`, `gpus_per_node`, `slurm_partition`, …); null is not
            given.

    Raises:
        SpecError: If `cluster` or `processes` is not accepted.
    """

    __module__ = PLUGINS

    def __init__(self, processes: int, cluster: str, folder: str, parameters: Mapping[str, Any]) -> None:
        super().__init__(processes)
        if cluster not in ("auto", "slurm", "local"):
            raise SpecError(f"hydra.launcher.cluster: expected auto, slurm or local, got {cluster!r}")
        self.cluster = None if cluster == "auto" else cluster
        self.folder = folder
        self.parameters = {str(k): v for k, v in parameters.items() if v is not None}
        for name, value in {"folder": folder, **self.parameters}.items():
            if isinstance(value, str) and not value.isprintable():  # a line break would end a line of sbatch's script
                raise SpecError(f"hydra.launcher {name}: expected a text without control characters, got {value!r}")

    def _run(self, configs: Sequence[DictConfig]) -> None:
        try:
            import submitit
        except ImportError as err:
            raise ExtraNotInstalled("submitit", "slurm") from err
        executor = submitit.AutoExecutor(folder=self.folder, cluster=self.cluster)
        try:
            executor.update_parameters(**self.parameters)
        except (NameError, TypeError, ValueError) as err:
            raise SpecError(f"hydra.launcher.parameters: {err}") from err
        left = self._round(executor, list(split_into_neighbors(configs, self.processes)))
        if left:
            log.warning("%d processes were killed, or ran out of time; trying their jobs once more", len(left))
            left = self._round(executor, [part for part, _ in left])
        for part, stderr_path in left:
            mark_lost(part, f"its process ended twice before it was done (killed, or out of time); see {stderr_path}")

    def _round(self, executor: Any, parts: Sequence[Jobs]) -> list[tuple[Jobs, str]]:  # noqa: ANN401
        """Run parts as cluster jobs; return the rest of each failed part, with its last job and error file."""
        with _redirect_stderr(Path(self.folder) / "controllers.err", executor.cluster == "local"), executor.batch():
            jobs = [executor.submit(ClusterJob(part, identify_process())) for part in parts]
        log.info("submitted  %d jobs in %d processes; logs in %s", sum(map(len, parts)), len(parts), self.folder)
        try:
            self._watch(jobs)
        except BaseException:
            _cancel(jobs)
            raise
        unfinished: list[tuple[Jobs, str]] = []
        for part, job in zip(parts, jobs, strict=True):
            if job.exception() is not None:
                log.debug("%s", job.exception())
            running, waiting = (
                [config for config in part if JobFile(config.hydra).state == state] for state in ("running", None)
            )
            if running or waiting:
                unfinished.append(([*waiting, *running], str(job.paths.stderr)))
        return unfinished

    def _watch(self, jobs: Sequence[Any]) -> None:
        last_line = ""
        while True:
            ended = all(job.done() for job in jobs)
            line = format_progress(Path(self._config.hydra.sweep.dir))
            if line != last_line:
                log.info("grid       %s", line)
                last_line = line
            if ended:
                return
            time.sleep(POLL_SECONDS)


class ClusterJob:
    """The work of one cluster job; submitit asks for its checkpoint when the time is nearly over or it is preempted."""

    def __init__(self, configs: Sequence[DictConfig], parent: ParentProcess) -> None:
        self.configs, self.parent = list(configs), parent

    def __call__(self) -> None:
        """Run the jobs."""
        run_jobs(self.configs, self.parent)

    def checkpoint(self) -> Any:  # noqa: ANN401
        """Return the same work, to be submitted again; finished results are found in the store."""
        import submitit

        return submitit.helpers.DelayedSubmission(self)


def split_into_neighbors(configs: Sequence[DictConfig], processes: int) -> Iterator[Sequence[DictConfig]]:
    """Split jobs into at most `processes` runs of neighbors of similar size; neighbors mostly share their model."""
    count = min(processes, len(configs))
    for part in range(count):
        yield configs[part * len(configs) // count : (part + 1) * len(configs) // count]


def mark_lost(configs: Sequence[DictConfig], reason: str) -> None:
    """Note that the processes of jobs died."""
    for config in configs:
        JobFile(config.hydra).write("failed", error=reason)


@contextmanager
def _redirect_stderr(path: Path, here: bool) -> Iterator[None]:
    """Redirect standard error to a file for processes that the block starts.

    submitit's local controllers share the terminal, and each would answer Ctrl-C with a traceback.
    """
    if not here:
        yield
        return
    sys.stderr.flush()
    path.parent.mkdir(parents=True, exist_ok=True)
    terminal = os.dup(2)
    try:
        with path.open("ab") as log_file:
            os.dup2(log_file.fileno(), 2)
            yield
    finally:
        os.dup2(terminal, 2)
        os.close(terminal)


def _cancel(jobs: Sequence[Any]) -> None:
    """Cancel queued and running jobs, and wait a while until they have ended and released their locks."""
    for job in jobs:
        job.cancel(check=False)
    until = time.monotonic() + CANCEL_SECONDS
    while time.monotonic() < until and not all(job.done() for job in jobs):
        time.sleep(0.1)
