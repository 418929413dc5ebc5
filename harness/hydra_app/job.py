"""The jobs of one command: a single run, or a grid whose jobs may run in several processes (see `jobfile`)."""

from __future__ import annotations

import logging
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.core.hydra_config import HydraConfig
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf

from openended.harness.errors import HarnessError
from openended.harness.exitcodes import FAILED, one_line
from openended.harness.hydra_app.jobfile import GRID, JobFile, overview, own_folder, read_jobs
from openended.harness.hydra_app.show import (
    composing,
    ending,
    leave_with_code,
    set_detail,
    show_failed,
    show_plan,
    show_report,
    summary,
    write_report,
)
from openended.harness.hydra_app.sweeper import all_jobs, axes_of, members
from openended.harness.io import write_json
from openended.harness.progress import progress
from openended.harness.run.settings import Settings, settings_from

if TYPE_CHECKING:
    from openended.harness.run.pipeline import Outcome
    from openended.harness.run.session import Session

log = logging.getLogger(__name__)


class Job:
    """The function that Hydra calls for each run; keeps a session, so that models stay loaded between jobs."""

    # Hydra reads the name of the function it wraps.
    __name__ = "openended"
    __qualname__ = "openended"
    __module__ = "openended.harness.hydra_app.job"

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
        settings = settings_of(cfg, _experiment(hydra))
        with progress(settings.experiment, enabled=settings.runtime.progress):
            outcome, said = self._run(settings, list(hydra.overrides.task))
        if outcome is not None:
            folder = outcome.folder
            log.info("run        %s  (%s)", folder, said)
            show_report([folder], folder / "report", settings.report, bool(hydra.verbose))
            if outcome.failed:
                raise SystemExit(FAILED)

    def _one_of_a_grid(self, cfg: DictConfig, hydra: DictConfig) -> None:
        """Run a job whose errors are told at the grid's end; says how it went in one line."""
        watch = JobFile(hydra)
        if watch.stopped(on_error=str(cfg.runtime.on_error)):
            watch.write("skipped", error="an earlier job failed and runtime.on_error=stop")
            return
        watch.write("running")
        said, state, facts = "failed", "done", dict[str, Any]()
        try:
            with composing(), progress(watch.title or "run", enabled=bool(cfg.runtime.progress)):
                settings = settings_of(cfg, _experiment(hydra))
                if any(metric.reads_grid for metric in settings.metrics) and not settings.plan_only:
                    self._prepare(settings)
                    said, facts = "texts are there", {"overrides": watch.overrides}  # its metrics wait for all jobs
                else:
                    outcome, said = self._run(settings, watch.overrides)
                    facts = {"folder": str(outcome.folder) if outcome else None}
                    if outcome is not None and outcome.failed:  # the others stand, and go into the report
                        state, facts["error"] = "failed", "; ".join(outcome.failed)
        except HarnessError as err:
            watch.write("failed", error=one_line(err))
        except Exception as err:
            log.debug("%s", traceback.format_exc())
            watch.write("failed", error=f"{type(err).__name__}: {err}", trace=traceback.format_exc())
        else:
            watch.write(state, **facts)
        log.info("grid       %s; %s: %s", overview(watch.grid), watch.title or "run", said)

    def _prepare(self, settings: Settings) -> None:
        from openended.harness.run.pipeline import prepare

        prepare(settings, self._session(settings))

    def _session(self, settings: Settings) -> Session:
        key = str(settings.outputs_dir)
        if key not in self._sessions:
            self._sessions[key] = _open_session(settings)
        return self._sessions[key]

    def _run(self, settings: Settings, overrides: list[str]) -> tuple[Outcome | None, str]:
        """Run or plan; returns what the run left (None after a plan), and what it came to in words."""
        from openended.harness.folders import check_writable
        from openended.harness.run.judgments import fed_by_file, judged_alone, run_judgments
        from openended.harness.run.pipeline import plan, run

        if not settings.plan_only:
            check_writable(settings.outputs_dir)
        session = self._session(settings)
        started = time.monotonic()
        settings = fed_by_file(settings, overrides)
        if judged_alone(settings):
            outcome = run_judgments(settings, session, overrides)
        elif settings.plan_only:
            outcome = plan(settings, session)
        else:
            outcome = run(settings, session, overrides)
        if settings.plan_only:
            show_plan(settings, outcome)
            return None, "planned"
        return outcome, summary(outcome, time.monotonic() - started)


class Watch(Callback):  # type: ignore[misc]
    """Counts the jobs of a grid before it starts; builds the report and says what failed when it ends."""

    def on_multirun_start(self, config: DictConfig, **_: Any) -> None:  # noqa: ANN401
        """Write how many jobs there will be, and over which axes.

        Raises:
            SystemExit: With 2 if the grid's folder cannot be written.
        """
        with ending(Path(config.hydra.sweep.dir)):
            grid = own_folder(config)
            jobs = all_jobs(config)
            write_json(grid / GRID, {"total": len(jobs), "axes": axes_of(jobs)})

    def on_multirun_end(self, config: DictConfig, **_: Any) -> None:  # noqa: ANN401
        """Build the report of all finished jobs, and say which jobs failed.

        Raises:
            SystemExit: With 1 if a job failed or anything unforeseen happened, with 2 if the report cannot be made.
        """
        grid = Path(config.hydra.sweep.dir)
        set_detail(verbose=bool(config.hydra.verbose))
        with ending(grid):
            jobs = read_jobs(grid)
            failed = 0
            try:
                self._report(config, jobs)
            finally:
                failed = show_failed(jobs)
            if failed:
                raise SystemExit(FAILED)

    def _report(self, config: DictConfig, jobs: list[dict[str, Any]]) -> None:
        """Build the report of the finished jobs; first the metrics that had to wait for all of them."""
        folders = {Path(job["folder"]) for job in jobs if job.get("folder")}
        folders |= measure_grid([job["overrides"] for job in jobs if job.get("overrides")])
        reports = Path(config.outputs_dir) / "reports"
        for name, member in members(config).items():
            own = [folder for folder in sorted(folders) if folder.parent.name == name]
            if own:
                write_report(own, reports / name, plain(member.get("report")))
        if folders:
            target, options = reports / _experiment(config.hydra), plain(config.get("report"))
            show_report(sorted(folders), target, options, bool(config.hydra.verbose))


def _experiment(hydra: DictConfig) -> str:
    """Name of the chosen experiment, fit for a folder."""
    return str(hydra.runtime.choices.get("experiment") or "default").replace("/", "-")


def _open_session(settings: Settings) -> Session:
    from openended.harness.run.session import Session
    from openended.harness.store import Store

    return Session(Store(settings.outputs_dir / "store", locking=settings.runtime.locking))


def measure_grid(jobs: list[list[str]]) -> set[Path]:
    """Run the jobs whose metrics read all systems of the grid, now that every text is there; returns their folders."""
    from hydra import compose

    from openended.harness.run.pipeline import prepare, run

    folders: set[Path] = set()
    session: Session | None = None
    made = []
    for overrides in jobs:
        cfg = compose("config", overrides=overrides, return_hydra_config=True)
        choice = _experiment(cfg.hydra)
        settings = settings_of(cfg, choice)
        session = session or _open_session(settings)
        made.append((settings, overrides, prepare(settings, session)))
    # One system stands once in the pool, however many jobs lead to it (a greedy decoder and its seeds).
    pool = {source.digest: source for _, _, source in made}
    for settings, overrides, _ in made:
        if session is not None:
            folders.add(run(settings, session, overrides, tuple(pool.values())).folder)
    return folders


def settings_of(cfg: DictConfig, choice: str) -> Settings:
    """Return the typed settings of a composed configuration; `choice` is the experiment's name."""
    own = OmegaConf.masked_copy(cfg, [str(key) for key in cfg if key != "hydra"])
    settings = settings_from({**plain(own), "experiment": choice})
    from openended.harness.report.read.layout import layout_of

    layout_of(settings.report, "report")  # a report that cannot be made is told before the runs, not after them
    return settings


def plain(node: DictConfig | None) -> dict[str, Any]:
    """Plain containers of a configuration node, interpolations resolved; empty for none."""
    container = OmegaConf.to_container(node, resolve=True, throw_on_missing=True) if node is not None else {}
    return {str(key): value for key, value in container.items()} if isinstance(container, dict) else {}
