"""Launchers of a grid's jobs in other processes: of this machine (joblib) and of a cluster (submitit).

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
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from openended.harness.app.hydra.command_line import LogOptions
from openended.harness.app.hydra.compose import Job
from openended.harness.app.hydra.grid_state import format_progress
from openended.harness.app.hydra.jobs import JobRunner, Launcher
from openended.harness.core import SpecError, escape_log_records, ranged, require_package, temporary_files
from openended.harness.results import read_jobs

log = logging.getLogger(__name__)

POLL_SECONDS = 0.5  # seconds between checks of a cluster's jobs
PARENT_POLL_SECONDS = 1.0  # seconds between checks of the parent process
CANCEL_SECONDS = 10.0  # seconds that cancelled processes get to end
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


@dataclass(frozen=True, kw_only=True)
class Joblib(Launcher):
    """Processes on this machine, by joblib (its `loky` workers)."""

    name = "joblib"
    synonyms = ("multiprocessing",)
    processes: int = ranged(2, "[2, inf)", "2 or more")
    """Each keeps its own copy of the models in memory. With one, joblib would run jobs in this process."""

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


# submitit's own words for sbatch; null is not given.
_SBATCH = {
    "name": "openended",
    "timeout_min": 240,
    **dict.fromkeys(("cpus_per_task", "gpus_per_node", "mem_gb")),
    **dict.fromkeys(("slurm_partition", "slurm_constraint", "slurm_array_parallelism")),
}


@dataclass(frozen=True, kw_only=True)
class Submitit(Launcher):
    """Jobs of a Slurm cluster; without one, processes on this machine. Needs the extra `slurm`."""

    name = "submitit"
    synonyms = ("slurm",)
    processes: int = ranged(4, "[1, inf)", "1 or more")
    """The grid is cut into so many cluster jobs, each a run of neighboring jobs of the grid."""
    cluster: Literal["auto", "slurm", "local"] = "auto"
    """auto: slurm where there is one."""
    folder: str | None = None
    """Of the logs; null: `submitit` in the grid's folder."""
    parameters: Mapping[str, Any] = field(default_factory=lambda: dict(_SBATCH))
    """submitit's own words; null is not given. Others, for example `+hydra.launcher.parameters.slurm_account=NAME`. A
    job that reaches its `timeout_min` is queued again and resumes."""

    def check(self) -> None:
        for name, value in {"folder": self.folder, **self.parameters}.items():
            if isinstance(value, str) and not value.isprintable():  # a line break would end a line of sbatch's script
                raise SpecError(f"hydra.launcher {name}: expected a text without control characters, got {value!r}")

    def run(self, jobs: Jobs, options: LogOptions) -> None:
        require_package("submitit", "slurm")
        import submitit

        folder = Path(self.folder or jobs[0].grid / "submitit")
        executor = submitit.AutoExecutor(folder=folder, cluster=None if self.cluster == "auto" else self.cluster)
        try:
            executor.update_parameters(**{name: value for name, value in self.parameters.items() if value is not None})
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
        with _redirect_stderr(executor.folder / "controllers.err", executor.cluster == "local"), executor.batch():
            cluster_jobs = [executor.submit(ClusterJob(part, options, parent)) for part in parts]
        log.info("submitted  %d jobs in %d processes; logs in %s", sum(map(len, parts)), len(parts), executor.folder)
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
