"""One job of a command, composed by the command and run by any process; and what it prints."""

from __future__ import annotations

import logging
import logging.config
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig, ListConfig

from openended.harness.app.hydra.compose import JobWork, to_plain
from openended.harness.app.hydra.grid_state import (
    JobState,
    claim_report,
    find_finished_runs,
    format_progress,
    has_failed_job,
)
from openended.harness.app.hydra.simulation import needs_whole_grid
from openended.harness.core import HarnessError, SpecError, format_error, shorten_error, show_progress, write_text
from openended.harness.report import track_runs

if TYPE_CHECKING:
    from openended.harness.run import Outcome, Session, Settings

log = logging.getLogger(__name__)

REPORTED = "done"  # content of the marker of a complete report


@dataclass(frozen=True, slots=True)
class LogOptions:
    """What a command and its workers print."""

    config: Mapping[str, Any]
    """For `logging.config.dictConfig`."""
    verbose: bool
    quiet: bool
    loggers: tuple[str, ...] = ()
    """Loggers that `hydra.verbose` names."""

    @classmethod
    def read(cls, config: DictConfig) -> LogOptions:
        """Read the options of a composed command: `-q`, neither or `-v`."""
        node = to_plain(config.hydra.job_logging)
        verbose = config.hydra.verbose
        if not isinstance(verbose, bool | str | ListConfig):
            raise SpecError(f"hydra.verbose: expected true, false or names of loggers, got {verbose!r}")
        loggers = () if isinstance(verbose, bool) else (verbose,) if isinstance(verbose, str) else tuple(verbose)
        quiet = config.hydra.runtime.choices.get("hydra/job_logging") == "quiet"
        return cls(node, bool(verbose), quiet, loggers)

    def apply(self) -> None:
        """Configure the loggers; `-v` shows all lines of this package, one per artifact, but not those of libraries."""
        try:
            logging.config.dictConfig(dict(self.config))
        except (AttributeError, ImportError, KeyError, TypeError, ValueError) as err:
            reason = shorten_error(err.__cause__ or err)
            raise SpecError(f"hydra.job_logging: not a configuration of Python's logging: {reason}") from err
        own_loggers = (
            ("openended", "openended.harness.run", "openended.harness.models.model_cache") if self.verbose else ()
        )
        for name in (*own_loggers, *self.loggers):
            logging.getLogger(name).setLevel(logging.DEBUG)


@dataclass(frozen=True, slots=True)
class Job:
    """One job of a grid."""

    number: int
    overrides: tuple[str, ...]
    work: JobWork
    grid: Path
    """The folder of the grid."""
    name: str
    """Name of the job's runs and of their report."""
    title: str = ""
    """The options in which the jobs of the grid differ."""
    position: str = ""
    stop: bool = False
    """Whether the job is skipped if an earlier one failed."""

    @property
    def state(self) -> JobState:
        return JobState(self.grid, self.number, self.title)


class JobRunner:
    """Runs the jobs of a process; keeps a session for each store, so that models stay loaded between jobs."""

    def __init__(self) -> None:
        self._sessions: dict[str, Session] = {}

    def get_session(self, settings: Settings) -> Session:
        from openended.harness.run import Session
        from openended.harness.storage import Store

        key = str(settings.outputs_dir)
        if key not in self._sessions:
            self._sessions[key] = Session(Store(settings.outputs_dir / "store", locking=settings.runtime.locking))
        return self._sessions[key]

    def execute(self, settings: Settings, overrides: Sequence[str]) -> tuple[Outcome, str]:
        """Execute a run; return its outcome and a summary."""
        from openended.harness.run import run, run_judgments, select_metrics_for_file
        from openended.harness.storage import check_writable

        check_writable(settings.outputs_dir)
        session = self.get_session(settings)
        started = time.monotonic()
        settings = select_metrics_for_file(settings, overrides)
        if settings.is_judgments_only(overrides):
            outcome = run_judgments(settings, session, overrides)
        else:
            outcome = run(settings, session, overrides)
        cached, seconds = len(outcome.plan) - outcome.num_computed, time.monotonic() - started
        return outcome, f"{outcome.num_computed} computed, {cached} cached in {seconds:.1f} s"

    def run_job(self, job: Job) -> None:
        """Run one job of a grid and log its outcome in one line; errors are listed again at the grid's end."""
        state = job.state
        if job.stop and has_failed_job(job.grid):
            state.write("skipped", error="an earlier job failed and runtime.on_error=stop")
            return
        state.write("running")
        message = "failed"
        try:
            title = f"{job.position}: {job.title}" if job.title else job.position
            with show_progress(title, enabled=job.work.settings.runtime.progress):
                message = self._run_and_write_state(job, job.work, state)
        except HarnessError as err:
            message = f"failed: {state.find_same_error(format_error(err))}"
            state.write("failed", error=format_error(err), name=job.name)
        except Exception as err:
            message = f"failed: {type(err).__name__}: {format_error(err)}"
            log.debug("%s", traceback.format_exc())
            error = message.removeprefix("failed: ")
            state.write("failed", error=error, trace=traceback.format_exc(), name=job.name)
        log.info("grid       %s; %s: %s", format_progress(job.grid), job.title or "run", message)
        self._write_report_early(job, job.work.settings)

    def _run_and_write_state(self, job: Job, work: JobWork, state: JobState) -> str:
        settings = work.settings
        if any(metric.reads_grid for metric in settings.metrics) or needs_whole_grid(settings.judgments):
            from openended.harness.run import compute_texts

            compute_texts(settings, self.get_session(settings))
            state.write("done", waits=True, name=job.name)
            return "texts ready; its metrics wait for all jobs"
        outcome, message = self.execute(settings, job.overrides)
        track_runs([outcome.folder], work.tracker, settings.outputs_dir)
        facts: dict[str, Any] = {"folder": str(outcome.folder), "made": outcome.num_computed, "name": job.name}
        if outcome.failed:  # the run's other metrics are valid and go into the report
            state.write("failed", error="; ".join(outcome.failed), **facts)
        else:
            state.write("done", **facts)
        return message

    def _write_report_early(self, job: Job, settings: Settings) -> None:
        """Write the report of an experiment of a series as soon as its last job has ended, by whichever process."""
        folders = find_finished_runs(job.grid, job.name)
        if folders and claim_report(job.grid, job.name):
            write_experiment_report(folders, settings.outputs_dir / "reports" / job.name, settings.report)
            write_text(job.grid / "reports" / job.name, REPORTED)


def is_report_complete(grid: Path, name: str) -> bool:
    """Check whether the report of an experiment was completed before the grid's end."""
    marker = grid / "reports" / name
    return marker.is_file() and marker.read_text(encoding="utf-8") == REPORTED


def write_experiment_report(folders: list[Path], target: Path, options: Mapping[str, Any]) -> None:
    """Build the report of one experiment of a series, and print its path or the error."""
    from openended.harness.report import build_report

    try:
        build_report(folders, target, **options)
    except HarnessError as err:
        log.error("report     %s: %s", target.name, format_error(err))
    else:
        log.info("report     %s", target / "report.html")


def show_report(folders: list[Path], target: Path, options: Mapping[str, Any], detail: LogOptions) -> None:
    """Build the report of some runs and print its tables and where its files are."""
    from openended.harness.report import build_report

    report = build_report(folders, target, **options)
    if detail.quiet:
        sys.stdout.write(f"{report.folder}\n")
    else:
        report.show(verbose=detail.verbose)
