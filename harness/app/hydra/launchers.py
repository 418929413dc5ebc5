"""Launchers of a grid's jobs in other processes: of this machine (joblib), a cluster (submitit) and Ray.

A worker is sent its composed jobs; what it computes goes into the store, and how it went into the job's file in the
grid's folder. So the results do not depend on the launcher. A worker keeps its models from job to job.
"""

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from openended.harness.app.hydra.command_line import LogOptions
from openended.harness.app.hydra.compose import Job, to_plain
from openended.harness.app.hydra.grid_state import format_progress
from openended.harness.app.hydra.jobs import JobRunner, Launcher
from openended.harness.core import (
    DataError,
    SpecError,
    escape_log_records,
    list_entries,
    load_entry,
    require_package,
    temporary_files,
)
from openended.harness.results import read_jobs

log = logging.getLogger(__name__)

_CLUSTER = "openended.harness.backends.ray.cluster"
POLL_SECONDS = 0.5  # seconds between checks of a cluster's jobs
PARENT_POLL_SECONDS = 1.0  # seconds between checks of the parent process
CANCEL_SECONDS = 10.0  # seconds that cancelled processes get to end
RAY_TRIES = 2  # workers that may die over one job
Jobs = Sequence[Job]


_watched: set[str] = set()  # tags of parent processes
_runners: list[JobRunner] = []  # of this worker process: its sessions hold the loaded models


def end_with_parent(parent: str) -> None:
    """End this process when the one with this tag ends, even if killed; nothing if it is on another machine."""
    machine, pid, start = parent.rsplit("-", 2)
    if (
        parent in _watched
        or temporary_files.build_process_tag().rsplit("-", 2)[0] != machine
        or int(pid) == os.getpid()
    ):
        return
    _watched.add(parent)

    def wait_for_end() -> None:
        while temporary_files.is_running(int(pid), int(start)):
            time.sleep(PARENT_POLL_SECONDS)
        # An exception might not reach the main thread inside a library call. The next start removes unfinished files.
        os.kill(os.getpid(), signal.SIGKILL if sys.platform != "win32" else signal.SIGTERM)

    threading.Thread(target=wait_for_end, name="end-with-parent", daemon=True).start()


def run_jobs(jobs: Jobs, options: LogOptions, parent: str, *, shares_terminal: bool = False) -> None:
    """Run jobs one after the other in a worker, which ends with its parent."""
    if shares_terminal:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends its workers
    end_with_parent(parent)
    escape_log_records()
    if not _runners:
        _runners.append(JobRunner())
    for job in jobs:
        options.apply()
        for handler in logging.getLogger().handlers:
            handler.addFilter(partial(_add_title, job.title))
        _runners[0].run_job(job)


def _add_title(title: str, record: logging.LogRecord) -> bool:
    """Begin a line with the title of the job, because several processes share the terminal."""
    if not record.name.startswith("openended.harness.app.hydra"):
        record.msg, record.args = f"[{title}] {record.getMessage()}", ()
    return True


class Joblib(Launcher):
    """Processes on this machine, by joblib (its `loky` workers)."""

    def __init__(self, processes: int) -> None:
        _check_processes(processes, "processes", least=2)  # with one, joblib would run jobs in this process
        self.processes = processes

    def run(self, jobs: Jobs, options: LogOptions) -> None:
        from joblib.externals.loky.process_executor import TerminatedWorkerError

        left, again = list(jobs), list[Job]()
        while left:
            try:
                self._run_pool(left, options)
                left = []
            except TerminatedWorkerError:
                running, waiting = (_select(left, state) for state in ("running", None))
                left, again = (waiting, again + running) if running else ([], again + waiting)
        # One at a time, so that a job is not lost only because it ran beside one that filled the memory.
        for job in again:
            log.warning("%s: its process was killed (out of memory?); trying it once more", job.title)
            try:
                self._run_pool([job], options)
            except TerminatedWorkerError:
                mark_lost([job], "its process was killed twice (out of memory?)")

    def _run_pool(self, jobs: Jobs, options: LogOptions) -> None:
        from joblib import Parallel, delayed

        # Jobs hold no arrays, so that joblib needs no shared memory for them.
        pool = Parallel(n_jobs=self.processes, backend="loky", batch_size=1, max_nbytes=None)
        run = delayed(run_jobs)
        pool(run([job], options, temporary_files.build_process_tag(), shares_terminal=True) for job in jobs)


def _select(jobs: Jobs, state: str | None) -> list[Job]:
    """Return the jobs in a state; None: that have not begun."""
    states = {row["number"]: row["state"] for row in read_jobs(jobs[0].grid)}
    return [job for job in jobs if states.get(job.number) == state]


class Submitit(Launcher):
    """Jobs of a cluster (Slurm), or processes on this machine, by submitit."""

    def __init__(self, processes: int, cluster: str, folder: str, parameters: Mapping[str, Any]) -> None:
        _check_processes(processes, "processes")
        if cluster not in ("auto", "slurm", "local"):
            raise SpecError(f"hydra.launcher.cluster: expected auto, slurm or local, got {cluster!r}")
        self.processes = processes
        self.cluster = None if cluster == "auto" else cluster
        self.folder = folder
        if not isinstance(parameters, Mapping):
            raise SpecError(f"hydra.launcher.parameters: expected options of sbatch, got {parameters!r}")
        self.parameters = {str(k): v for k, v in parameters.items() if v is not None}
        for name, value in {"folder": folder, **self.parameters}.items():
            if isinstance(value, str) and not value.isprintable():  # a line break would end a line of sbatch's script
                raise SpecError(f"hydra.launcher {name}: expected a text without control characters, got {value!r}")

    def run(self, jobs: Jobs, options: LogOptions) -> None:
        require_package("submitit", "slurm")
        import submitit

        executor = submitit.AutoExecutor(folder=self.folder, cluster=self.cluster)
        try:
            executor.update_parameters(**self.parameters)
        except (NameError, TypeError, ValueError) as err:
            raise SpecError(f"hydra.launcher.parameters: {err}") from err
        left = self._run_round(executor, split_into_neighbors(jobs, self.processes), options)
        if left:
            log.warning("%d processes were killed, or ran out of time; trying their jobs once more", len(left))
            left = self._run_round(executor, [part for part, _ in left], options)
        for part, stderr_path in left:
            mark_lost(part, f"its process ended twice before it was done (killed, or out of time); see {stderr_path}")

    def _run_round(self, executor: Any, parts: Sequence[Jobs], options: LogOptions) -> list[tuple[Jobs, str]]:  # noqa: ANN401
        """Run parts as cluster jobs; return the rest of each failed part, with its last job and error file."""
        parent = temporary_files.build_process_tag()
        with _redirect_stderr(Path(self.folder) / "controllers.err", executor.cluster == "local"), executor.batch():
            cluster_jobs = [executor.submit(ClusterJob(part, options, parent)) for part in parts]
        log.info("submitted  %d jobs in %d processes; logs in %s", sum(map(len, parts)), len(parts), self.folder)
        try:
            line = ""
            while not all(job.done() for job in cluster_jobs):
                line = print_progress(parts[0][0].grid, line)
                time.sleep(POLL_SECONDS)
            print_progress(parts[0][0].grid, line)
        except BaseException:
            for job in cluster_jobs:
                job.cancel(check=False)
            until = time.monotonic() + CANCEL_SECONDS  # in which they end and release their locks
            while time.monotonic() < until and not all(job.done() for job in cluster_jobs):
                time.sleep(0.1)
            raise
        unfinished: list[tuple[Jobs, str]] = []
        for part, cluster_job in zip(parts, cluster_jobs, strict=True):
            if cluster_job.exception() is not None:
                log.debug("%s", cluster_job.exception())
            if rest := [*_select(part, None), *_select(part, "running")]:
                unfinished.append((rest, str(cluster_job.paths.stderr)))
        return unfinished


class ClusterJob:
    """The work of one cluster job; submitit asks for its checkpoint when the time is nearly over or it is preempted."""

    def __init__(self, jobs: Jobs, options: LogOptions, parent: str) -> None:
        self.jobs, self.options, self.parent = list(jobs), options, parent

    def __call__(self) -> None:
        run_jobs(self.jobs, self.options, self.parent)

    def checkpoint(self) -> Any:  # noqa: ANN401
        """Return the same work, to be submitted again; finished results are found in the store."""
        import submitit

        return submitit.helpers.DelayedSubmission(self)


def split_into_neighbors(jobs: Jobs, processes: int) -> list[Jobs]:
    """Split jobs into at most `processes` runs of neighbors of similar size; neighbors mostly share their model."""
    count = min(processes, len(jobs))
    return [jobs[part * len(jobs) // count : (part + 1) * len(jobs) // count] for part in range(count)]


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


class Ray(Launcher):
    """Workers of a Ray cluster, each a process with its own models.

    They need the grid's folder and the store on a file system that all machines see, under the same paths. One that
    dies (out of memory, its node gone) is started again by Ray, and its job is tried once more.
    """

    def __init__(
        self, workers: int, address: str | None, cpus_per_worker: int, gpus_per_worker: float | None,
        resources: Mapping[str, float],
    ) -> None:  # fmt: skip
        _check_processes(workers, "workers")
        _check_processes(cpus_per_worker, "cpus_per_worker")
        if gpus_per_worker is not None and gpus_per_worker < 0:
            raise SpecError(f"hydra.launcher.gpus_per_worker: expected 0 or more, or null, got {gpus_per_worker}")
        self.processes, self.address, self.cpus, self.gpus = workers, address, cpus_per_worker, gpus_per_worker
        self.resources = {str(name): float(amount) for name, amount in resources.items()}

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
        ray = cluster.connect_to_ray(self.address, "hydra.launcher.address", cpus=self.processes * self.cpus)
        nodes = cluster.list_nodes(ray)
        gpus = self.gpus
        if gpus is None:
            gpus = 1.0 if any(node.get("GPU") for node in nodes) else 0.0
        needs = {"CPU": float(self.cpus), "GPU": gpus, **self.resources}
        for name, amount in needs.items():
            most = max((node.get(name, 0.0) for node in nodes), default=0.0)
            if most < amount:
                raise SpecError(f"hydra.launcher: each worker needs {amount:g} {name}, no node has more than {most:g}")
        folder = grid.resolve() / "ray"
        folder.mkdir(parents=True, exist_ok=True)
        facts = {} if gpus else {"CUDA_VISIBLE_DEVICES": ""}
        actor = ray.remote(GridWorker).options(
            num_cpus=self.cpus, num_gpus=gpus, resources=self.resources, max_restarts=-1
        )
        actors = [
            actor.remote(str(Path.cwd()), str(folder / f"worker-{who}.err"), facts, temporary_files.build_process_tag())
            for who in range(self.processes)
        ]
        log.info("workers    %d of %d CPUs and %g GPUs; logs in %s", self.processes, self.cpus, gpus, folder)
        cluster.warn_if_full(nodes, self.processes, needs)
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


def print_progress(grid: Path, last: str) -> str:
    """Print the progress of a grid if it has changed since the last line; return the line."""
    line = format_progress(grid)
    if line != last:
        log.info("grid       %s", line)
    return line


def mark_lost(jobs: Jobs, reason: str) -> None:
    """Note that the processes of jobs died."""
    for job in jobs:
        job.write_state("failed", error=reason)


def _check_processes(count: int, option: str, least: int = 1) -> None:
    if not isinstance(count, int) or count < least:
        raise SpecError(f"hydra.launcher.{option}: expected {least} or more, got {count}")


def make_launcher(config: DictConfig) -> Launcher:
    """Make the launcher that a command chooses by `hydra/launcher=…`."""
    node = to_plain(config.hydra.launcher)
    target = str(node.pop("_target_", None))
    paths = {path.replace(":", "."): name for name, path in list_entries("launcher").items()}
    if target not in paths:
        raise SpecError(f"hydra.launcher: {target!r} is not part of openended; choose one by hydra/launcher=NAME")
    try:
        return load_entry("launcher", paths[target])(**node)  # type: ignore[no-any-return]
    except TypeError as err:
        raise SpecError(f"hydra.launcher: {err}") from err
