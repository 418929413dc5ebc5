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

from openended.harness.app.hydra.compose import name_of, plain, settings_of
from openended.harness.app.hydra.grid_folder import claim, claimed, ended, grid_record, written
from openended.harness.app.hydra.jobfile import JobFile, overview, own_folder, read_jobs
from openended.harness.app.hydra.plan import plan_jobs
from openended.harness.app.hydra.show import (
    composing,
    detail,
    ending,
    leave_with_code,
    set_detail,
    show_failed,
    show_report,
    show_twins,
    summary,
    write_report,
)
from openended.harness.app.hydra.simulated import judged_by_nobody, of_grid
from openended.harness.app.hydra.sweeper import Launching, all_jobs, members
from openended.harness.core import FAILED, HarnessError, one_line, show_progress, write_json
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
            self._one_of_a_grid(cfg, hydra)
        else:
            leave_with_code("openended", lambda: self._single(cfg, hydra))

    def _single(self, cfg: DictConfig, hydra: DictConfig) -> None:
        if cfg.plan_only:
            plan_jobs(cfg, [list(hydra.overrides.task)], single=True)
            return
        settings = settings_of(cfg, name_of(cfg, hydra))
        with show_progress(settings.experiment, enabled=settings.runtime.progress):
            outcome, said = self._run(settings, list(hydra.overrides.task))
        log.info("run        %s  (%s)", outcome.folder, said)
        show_report([outcome.folder], outcome.folder / "report", settings.report, detail(hydra))
        if outcome.failed:
            raise SystemExit(FAILED)

    def _one_of_a_grid(self, cfg: DictConfig, hydra: DictConfig) -> None:
        """Run a job whose errors are told at the grid's end; says how it went in one line."""
        watch = JobFile(hydra)
        if watch.stopped(on_error=str(cfg.runtime.on_error)):
            watch.write("skipped", error="an earlier job failed and runtime.on_error=stop")
            return
        watch.write("running")
        name = name_of(cfg, hydra, watch.grid)
        said, state, facts = "failed", "done", dict[str, Any]()
        try:
            with composing(), show_progress(watch.title or "run", enabled=bool(cfg.runtime.progress)):
                settings = settings_of(cfg, name)
                if any(metric.reads_grid for metric in settings.metrics) or of_grid(settings.judgments):
                    from openended.harness.run import prepare

                    prepare(settings, self._session(settings.outputs_dir, locking=settings.runtime.locking))
                    said, facts = "texts are there", {"overrides": watch.overrides}  # its metrics wait for all jobs
                else:
                    outcome, said = self._run(settings, watch.overrides)
                    facts = {"folder": str(outcome.folder), "made": outcome.made}
                    if outcome.failed:  # the others stand, and go into the report
                        state, facts["error"] = "failed", "; ".join(outcome.failed)
        except HarnessError as err:
            said = f"failed: {one_line(err)}"
            watch.write("failed", error=one_line(err), name=name)
        except Exception as err:
            said = f"failed: {type(err).__name__}: {one_line(err)}"
            log.debug("%s", traceback.format_exc())
            watch.write("failed", error=said.removeprefix("failed: "), trace=traceback.format_exc(), name=name)
        else:
            watch.write(state, **facts, name=name)
        log.info("grid       %s; %s: %s", overview(watch.grid), watch.title or "run", said)
        self._report_of(name, watch.grid, cfg)

    def _report_of(self, name: str, grid: Path, cfg: DictConfig) -> None:
        """Write the report of an experiment of a series as soon as its last job has ended, by whichever process."""
        folders = ended(grid, name)
        if folders and claim(grid, name):
            write_report(folders, Path(str(cfg.outputs_dir)) / "reports" / name, plain(cfg.get("report")))
            written(grid, name)

    def _session(self, outputs_dir: Path, *, locking: bool) -> Session:
        key = str(outputs_dir)
        if key not in self._sessions:
            self._sessions[key] = _open_session(outputs_dir, locking=locking)
        return self._sessions[key]

    def _run(self, settings: Settings, overrides: list[str]) -> tuple[Outcome, str]:
        """Run; returns what the run left, and what it came to in words."""
        from openended.harness.run import fed_by_file, judged_alone, run, run_judgments
        from openended.harness.storage import check_writable

        check_writable(settings.outputs_dir)
        session = self._session(settings.outputs_dir, locking=settings.runtime.locking)
        started = time.monotonic()
        settings = fed_by_file(settings, overrides)
        if judged_alone(settings, overrides):
            outcome = run_judgments(settings, session, overrides)
        else:
            outcome = run(settings, session, overrides)
        return outcome, summary(outcome, time.monotonic() - started)


class Watch(Callback):  # type: ignore[misc]
    """Counts the jobs of a grid before it starts; builds the report and says what failed when it ends."""

    def on_multirun_start(self, config: DictConfig, **_: Any) -> None:  # noqa: ANN401
        """Write how many jobs there will be, and over which axes.

        Raises:
            SystemExit: With 2 if the grid's folder cannot be written.
        """
        with ending(Path(config.hydra.sweep.dir)):
            jobs = prepare_jobs(config)
            if not config.plan_only:
                name_of(config, config.hydra)  # a name that fits no folder is refused before there is one
                grid = own_folder(config)
                write_json(grid / GRID, grid_record(config, jobs, members(config), grid))

    def on_multirun_end(self, config: DictConfig, **_: Any) -> None:  # noqa: ANN401
        """Build the report of all finished jobs, and say which jobs failed.

        Raises:
            SystemExit: With 1 if a job failed or anything unforeseen happened, with 2 if the report cannot be made.
        """
        grid = Path(config.hydra.sweep.dir)
        if config.plan_only:
            return
        set_detail(verbose=bool(config.hydra.verbose), quiet=detail(config.hydra) == "quiet")
        with ending(grid):
            jobs = read_jobs(grid)
            failed = 0
            try:
                self._report(config, jobs, grid)
            finally:
                failed = show_failed(jobs)
            if failed:
                raise SystemExit(FAILED)

    def _report(self, config: DictConfig, jobs: list[dict[str, Any]], grid: Path) -> None:
        """Build the report of the finished jobs; first the metrics that had to wait for all of them."""
        folders = {Path(job["folder"]) for job in jobs if job.get("folder")}
        search = read_search(grid)
        if search is not None:  # a search that went on has runs of its earlier jobs too
            folders |= {Path(run) for one in search.trials for run in one.runs if Path(run).is_dir()}
        folders |= measure_grid([job for job in jobs if job.get("overrides")])
        reports = Path(config.outputs_dir) / "reports"
        for member in members(config).values():
            name = name_of(member, member.hydra)
            own = [folder for folder in sorted(folders) if folder.parent.name == name]
            if own and not claimed(grid, name):
                write_report(own, reports / name, plain(member.get("report")))
        show_twins(jobs)
        if folders:
            target, options = reports / name_of(config, config.hydra, grid), plain(config.get("report"))
            show_report(sorted(folders), target, options, detail(config.hydra))


def prepare_jobs(config: DictConfig) -> list[list[str]]:
    """Let the sweeper check a multirun; returns the jobs that are known before it starts."""
    sweeper = get_class(str(config.hydra.sweeper.get("_target_")))
    return sweeper.prepare_jobs(config) if issubclass(sweeper, Launching) else all_jobs(config)


def _open_session(outputs_dir: Path, *, locking: bool) -> Session:
    from openended.harness.run import Session
    from openended.harness.storage import Store

    return Session(Store(outputs_dir / "store", locking=locking))


def measure_grid(jobs: list[dict[str, Any]]) -> set[Path]:
    """Run the jobs whose metrics read all systems of the grid, now that every text is there; returns their folders."""
    from hydra import compose

    from openended.harness.run import prepare, run

    folders: set[Path] = set()
    session: Session | None = None
    made = []
    for job in jobs:
        overrides = list(job["overrides"])
        settings = settings_of(compose("config", overrides=overrides), str(job["name"]))
        session = session or _open_session(settings.outputs_dir, locking=settings.runtime.locking)
        made.append((settings, overrides, prepare(settings, session)))
    # One system stands once in the pool, however many jobs lead to it (a greedy decoder and its seeds).
    pool = {texts.model_rows.digest: texts.model_rows for _, _, texts in made}
    judged = judged_by_nobody([texts for _, _, texts in made])
    for settings, overrides, _ in made:
        settings = replace(settings, judgments=judged.get(str(settings.judgments), settings.judgments))
        if session is not None:
            folders.add(run(settings, session, overrides, tuple(pool.values())).folder)
    return folders
