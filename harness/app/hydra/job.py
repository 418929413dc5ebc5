"""The jobs of one command: a single run, or a grid whose jobs may run in several processes (see `jobfile`)."""

from __future__ import annotations

import logging
import time
import traceback
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.core.hydra_config import HydraConfig
from hydra.experimental.callback import Callback
from hydra.utils import get_class
from omegaconf import DictConfig

from openended.harness.app.hydra.compose import (
    choose_name,
    compose_settings,
    compose_tracker,
    refuse_unused_options,
    to_plain,
)
from openended.harness.app.hydra.grid_check import check_grid
from openended.harness.app.hydra.grid_folder import (
    claim_report,
    describe_grid,
    find_finished_runs,
    is_report_complete,
    mark_report_complete,
)
from openended.harness.app.hydra.job_output import (
    exit_on_error,
    leave_with_code,
    read_detail,
    set_detail,
    show_failed,
    show_report,
    show_shared_runs,
    summarize_outcome,
    translate_config_errors,
    write_report,
)
from openended.harness.app.hydra.jobfile import JobFile, create_grid_folder, format_progress, read_jobs
from openended.harness.app.hydra.plan import plan_jobs
from openended.harness.app.hydra.simulation import needs_whole_grid, refuse_single_run, simulate_judgments
from openended.harness.app.hydra.sweeper import LaunchingSweeper, compose_series, list_jobs
from openended.harness.core import FAILED, HarnessError, format_error, show_progress, write_json
from openended.harness.report import require_tracker, track_report, track_runs
from openended.harness.results import read_search
from openended.harness.run import Settings
from openended.harness.storage import GRID

if TYPE_CHECKING:
    from openended.harness.run import Outcome, Session

log = logging.getLogger(__name__)


class Job:
    """The function that Hydra calls for each run; keeps a session, so that models stay loaded between jobs."""

    # Hydra reads the name of the function it wraps.
    __name__ = "openended"
    __qualname__ = "openended"
    __module__ = "openended.harness.app.hydra.job"

    def __init__(self) -> None:
        self._sessions: dict[str, Session] = {}

    def __call__(self, cfg: DictConfig) -> None:
        """Run one job of the composed configuration."""
        hydra = HydraConfig.get()
        set_detail(verbose=bool(hydra.verbose))
        if str(hydra.mode).endswith("MULTIRUN"):
            self._run_grid_job(cfg, hydra)
        else:
            leave_with_code("openended", lambda: self._run_single(cfg, hydra))

    def _run_single(self, cfg: DictConfig, hydra: DictConfig) -> None:
        refuse_unused_options(list(hydra.overrides.task))
        if cfg.plan_only:
            plan_jobs(cfg, [list(hydra.overrides.task)], single=True)
            return
        settings = compose_settings(cfg, choose_name(cfg, hydra))
        require_tracker(compose_tracker(cfg))
        refuse_single_run(settings.judgments)
        with show_progress(settings.experiment, enabled=settings.runtime.progress):
            outcome, message = self._run(settings, list(hydra.overrides.task))
        log.info("run        %s  (%s)", outcome.folder, message)
        show_report([outcome.folder], outcome.folder / "report", settings.report, read_detail(hydra))
        tracker = compose_tracker(cfg)
        track_runs([outcome.folder], tracker, settings.outputs_dir)
        track_report(outcome.folder / "report", tracker, settings.outputs_dir)
        if outcome.failed:
            raise SystemExit(FAILED)

    def _run_grid_job(self, cfg: DictConfig, hydra: DictConfig) -> None:
        """Run one job of a grid and log its outcome in one line; errors are listed again at the grid's end."""
        watch = JobFile(hydra)
        if watch.should_stop(on_error=str(cfg.runtime.on_error)):
            watch.write("skipped", error="an earlier job failed and runtime.on_error=stop")
            return
        watch.write("running")
        name = choose_name(cfg, hydra, watch.grid)
        message, state, facts = "failed", "done", dict[str, Any]()
        try:
            title = f"{watch.position}: {watch.title}" if watch.title else watch.position
            with translate_config_errors(), show_progress(title, enabled=bool(cfg.runtime.progress)):
                settings = compose_settings(cfg, name)
                if any(metric.reads_grid for metric in settings.metrics) or needs_whole_grid(settings.judgments):
                    from openended.harness.run import compute_texts

                    compute_texts(settings, self._get_session(settings.outputs_dir, locking=settings.runtime.locking))
                    message, facts = "texts ready; its metrics wait for all jobs", {"overrides": watch.overrides}
                else:
                    outcome, message = self._run(settings, watch.overrides)
                    track_runs([outcome.folder], compose_tracker(cfg), settings.outputs_dir)
                    facts = {"folder": str(outcome.folder), "made": outcome.num_computed}
                    if outcome.failed:  # the run's other metrics are valid and go into the report
                        state, facts["error"] = "failed", "; ".join(outcome.failed)
        except HarnessError as err:
            message = f"failed: {watch.find_same_error(format_error(err))}"
            watch.write("failed", error=format_error(err), name=name)
        except Exception as err:
            message = f"failed: {type(err).__name__}: {format_error(err)}"
            log.debug("%s", traceback.format_exc())
            watch.write("failed", error=message.removeprefix("failed: "), trace=traceback.format_exc(), name=name)
        else:
            watch.write(state, **facts, name=name)
        log.info("grid       %s; %s: %s", format_progress(watch.grid), watch.title or "run", message)
        self._write_report_early(name, watch.grid, cfg)

    def _write_report_early(self, name: str, grid: Path, cfg: DictConfig) -> None:
        """Write the report of an experiment of a series as soon as its last job has ended, by whichever process."""
        folders = find_finished_runs(grid, name)
        if folders and claim_report(grid, name):
            write_report(folders, Path(str(cfg.outputs_dir)) / "reports" / name, to_plain(cfg.get("report")))
            mark_report_complete(grid, name)

    def _get_session(self, outputs_dir: Path, *, locking: bool) -> Session:
        key = str(outputs_dir)
        if key not in self._sessions:
            self._sessions[key] = _open_session(outputs_dir, locking=locking)
        return self._sessions[key]

    def _run(self, settings: Settings, overrides: list[str]) -> tuple[Outcome, str]:
        """Execute a run; return its outcome and a summary."""
        from openended.harness.run import run, run_judgments, select_metrics_for_file
        from openended.harness.storage import check_writable

        check_writable(settings.outputs_dir)
        session = self._get_session(settings.outputs_dir, locking=settings.runtime.locking)
        started = time.monotonic()
        settings = select_metrics_for_file(settings, overrides)
        if settings.is_judgments_only(overrides):
            outcome = run_judgments(settings, session, overrides)
        else:
            outcome = run(settings, session, overrides)
        return outcome, summarize_outcome(outcome, time.monotonic() - started)


class Watch(Callback):  # type: ignore[misc]
    """Write the grid's facts before it starts; build the report and list failures at its end."""

    def on_multirun_start(self, config: DictConfig, **_: Any) -> None:  # noqa: ANN401
        """Write the number of jobs and the axes of the grid."""
        with exit_on_error(config):
            refuse_unused_options(list(config.hydra.overrides.task))
            jobs = prepare_jobs(config)
            if not config.plan_only:
                require_tracker(compose_tracker(config))
                choose_name(config, config.hydra)  # a name that fits no folder is refused before there is one
                check_grid(config, jobs)
                grid = create_grid_folder(config)
                write_json(grid / GRID, describe_grid(config, jobs, compose_series(config), grid))

    def on_multirun_end(self, config: DictConfig, **_: Any) -> None:  # noqa: ANN401
        """Build the report of all finished jobs and list the failed ones."""
        if config.plan_only:
            return
        set_detail(verbose=bool(config.hydra.verbose), quiet=read_detail(config.hydra) == "quiet")
        with exit_on_error(config) as grid:
            jobs = read_jobs(grid)
            failed = 0
            try:
                self._write_reports(config, jobs, grid)
            finally:
                failed = show_failed(jobs)
            if failed:
                raise SystemExit(FAILED)

    def _write_reports(self, config: DictConfig, jobs: list[dict[str, Any]], grid: Path) -> None:
        """Build the report of the finished jobs; first the metrics that had to wait for all of them."""
        folders = {Path(job["folder"]) for job in jobs if job.get("folder")}
        search = read_search(grid)
        if search is not None:  # a resumed search also has runs of its earlier jobs
            folders |= {Path(run) for trial in search.trials for run in trial.runs if Path(run).is_dir()}
        folders |= measure_grid([job for job in jobs if job.get("overrides")])
        reports = Path(config.outputs_dir) / "reports"
        for member in compose_series(config).values():
            name = choose_name(member, member.hydra)
            member_folders = [folder for folder in sorted(folders) if folder.parent.name == name]
            if member_folders and not is_report_complete(grid, name):
                write_report(member_folders, reports / name, to_plain(member.get("report")))
        show_shared_runs(jobs)
        if folders:
            target, options = reports / choose_name(config, config.hydra, grid), to_plain(config.get("report"))
            show_report(sorted(folders), target, options, read_detail(config.hydra))
            tracker = compose_tracker(config)
            track_runs(sorted(folders), tracker, Path(config.outputs_dir))  # also those that could not be logged before
            track_report(target, tracker, Path(config.outputs_dir))


def prepare_jobs(config: DictConfig) -> list[list[str]]:
    """Check a multirun with its sweeper; return the jobs that are known before it starts."""
    sweeper = get_class(str(config.hydra.sweeper.get("_target_")))
    return sweeper.prepare_jobs(config) if issubclass(sweeper, LaunchingSweeper) else list_jobs(config)


def _open_session(outputs_dir: Path, *, locking: bool) -> Session:
    from openended.harness.run import Session
    from openended.harness.storage import Store

    return Session(Store(outputs_dir / "store", locking=locking))


def measure_grid(jobs: list[dict[str, Any]]) -> set[Path]:
    """Run the jobs whose metrics read all systems of the grid after all texts exist; return their folders."""
    from hydra import compose

    from openended.harness.run import compute_texts, run

    folders: set[Path] = set()
    session: Session | None = None
    prepared = []
    for job in jobs:
        overrides = list(job["overrides"])
        settings = compose_settings(compose("config", overrides=overrides), str(job["name"]))
        session = session or _open_session(settings.outputs_dir, locking=settings.runtime.locking)
        prepared.append((settings, overrides, compute_texts(settings, session)))
    # A system is in the pool once, even if several jobs lead to it (a greedy decoder with several seeds).
    pool = {texts.model_rows.digest: texts.model_rows for _, _, texts in prepared}
    judged = simulate_judgments([texts for _, _, texts in prepared])
    for settings, overrides, _ in prepared:
        settings = replace(settings, judgments=judged.get(str(settings.judgments), settings.judgments))
        if session is not None:
            folders.add(run(settings, session, overrides, tuple(pool.values())).folder)
    return folders
