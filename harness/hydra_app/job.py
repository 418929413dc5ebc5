"""The jobs of one command: a single run, or a grid whose jobs may run in several processes (see `jobfile`)."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.core.hydra_config import HydraConfig
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf

from openended.harness.errors import HarnessError
from openended.harness.hydra_app.jobfile import GRID, JobFile, overview, own_folder, read_jobs
from openended.harness.hydra_app.union import all_jobs, axes_of, members
from openended.harness.io import write_json, write_text
from openended.harness.run.settings import Settings, settings_from
from openended.harness.text import plain_line

if TYPE_CHECKING:
    from openended.harness.run.pipeline import Outcome
    from openended.harness.run.session import Session

log = logging.getLogger(__name__)

FAILED = 1
USER_ERROR = 2


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
        multirun = str(hydra.mode).endswith("MULTIRUN")
        choice = _experiment(hydra)
        if not multirun:
            self._single(cfg, choice, list(hydra.overrides.task))
            return
        watch = JobFile(hydra)
        if watch.stopped(on_error=str(cfg.runtime.on_error)):
            watch.write("skipped", error="an earlier job failed and runtime.on_error=stop")
            return
        watch.write("running")
        try:
            settings = _settings(cfg, choice)
            if any(metric.reads_grid for metric in settings.metrics) and not settings.plan_only:
                self._prepare(settings)
                watch.write("done", overrides=watch.overrides)  # its metrics wait for the other jobs
                return
            folder = self._run(settings, watch.overrides)
        except HarnessError as err:
            watch.write("failed", error=" ".join(str(err).split()))
        except Exception as err:
            log.debug("%s", traceback.format_exc())
            watch.write("failed", error=f"{type(err).__name__}: {err}", trace=traceback.format_exc())
        else:
            watch.write("done", folder=str(folder) if folder else None)
        log.info("%s", overview(watch.grid))

    def _single(self, cfg: DictConfig, choice: str, overrides: list[str]) -> None:
        settings = _settings(cfg, choice)
        folder = self._run(settings, overrides)
        if folder is not None:
            show_report([folder], folder / "report", settings.report)

    def _prepare(self, settings: Settings) -> None:
        from openended.harness.run.pipeline import prepare

        prepare(settings, self._session(settings))

    def _session(self, settings: Settings) -> Session:
        key = str(settings.outputs_dir)
        if key not in self._sessions:
            self._sessions[key] = _open_session(settings)
        return self._sessions[key]

    def _run(self, settings: Settings, overrides: list[str]) -> Path | None:
        """Run or plan; returns the run folder, None after a plan."""
        from openended.harness.folders import check_writable
        from openended.harness.run.judgments import judged_alone, run_judgments
        from openended.harness.run.pipeline import plan, run

        if not settings.plan_only:
            check_writable(settings.outputs_dir)
        session = self._session(settings)
        if judged_alone(settings):
            outcome = run_judgments(settings, session, overrides)
        elif settings.plan_only:
            outcome = plan(settings, session)
        else:
            outcome = run(settings, session, overrides)
        if settings.plan_only:
            show_plan(settings, outcome)
            return None
        return outcome.folder


class Watch(Callback):  # type: ignore[misc]
    """Counts the jobs of a grid before it starts; builds the report and says what failed when it ends."""

    def on_multirun_start(self, config: DictConfig, **_: Any) -> None:  # noqa: ANN401
        """Write how many jobs there will be, and over which axes.

        Raises:
            SystemExit: With 2 if the grid's folder cannot be written.
        """
        with _no_mere_warning(Path(config.hydra.sweep.dir)):
            grid = own_folder(config)
            jobs = all_jobs(config)
            write_json(grid / GRID, {"total": len(jobs), "axes": axes_of(jobs)})

    def on_multirun_end(self, config: DictConfig, **_: Any) -> None:  # noqa: ANN401
        """Build the report of all finished jobs, and say which jobs failed.

        Raises:
            SystemExit: With 1 if a job failed or anything unforeseen happened, with 2 if the report cannot be made.
        """
        grid = Path(config.hydra.sweep.dir)
        with _no_mere_warning(grid):
            jobs = read_jobs(grid)
            failed = [job for job in jobs if job["state"] != "done"]
            try:
                self._report(config, jobs)
            finally:
                for job in failed:
                    log.error("%s: %s: %s", job["state"], job["job"], job.get("error", "it never ended"))
                if failed:
                    counts = f"{len(failed)} of {len(jobs)} jobs failed or were skipped"
                    log.error("%s; the same command tries them again", counts)
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
                write_report(own, reports / name, _plain(member.get("report")))
        if folders:
            show_report(sorted(folders), reports / _experiment(config.hydra), _plain(config.get("report")))


@contextmanager
def _no_mere_warning(grid: Path) -> Iterator[None]:
    """Leave with an exit code: of a callback's exceptions Hydra makes warnings, but it lets `SystemExit` through."""
    try:
        yield
    except HarnessError as err:
        log.error("openended: %s", " ".join(str(err).split()))
        raise SystemExit(USER_ERROR) from None
    except Exception as err:
        log.error("openended: the grid's end failed: %s: %s", type(err).__name__, " ".join(str(err).split()))
        log.error("the runs are kept: openended-report reads them; the traceback is in %s", grid / "error.txt")
        with suppress(HarnessError):
            write_text(grid / "error.txt", traceback.format_exc())
        raise SystemExit(FAILED) from None


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
        settings = _settings(cfg, choice)
        session = session or _open_session(settings)
        made.append((settings, overrides, prepare(settings, session)))
    # One system stands once in the pool, however many jobs lead to it (a greedy decoder and its seeds).
    pool = {source.digest: source for _, _, source in made}
    for settings, overrides, _ in made:
        if session is not None:
            folders.add(run(settings, session, overrides, tuple(pool.values())).folder)
    return folders


def _settings(cfg: DictConfig, choice: str) -> Settings:
    own = OmegaConf.masked_copy(cfg, [str(key) for key in cfg if key != "hydra"])
    return settings_from({**_plain(own), "experiment": choice})


def _plain(node: DictConfig | None) -> dict[str, Any]:
    """Plain containers of a configuration node, interpolations resolved; empty for none."""
    container = OmegaConf.to_container(node, resolve=True, throw_on_missing=True) if node is not None else {}
    return {str(key): value for key, value in container.items()} if isinstance(container, dict) else {}


def show_plan(settings: Settings, outcome: Outcome) -> None:
    """Print the plan: stage, what, hit or make, key; and the files that the task still needs."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    title = Text(plain_line(f"{settings.experiment}: seed {settings.seed}"))
    table = Table(title=title, title_justify="left", box=None)
    for name in ("stage", "what", "state", "key"):
        table.add_column(name)
    for step in outcome.plan:
        table.add_row(
            step.stage, Text(plain_line(step.what)), step.state, step.key[:16] if step.key else "after the above"
        )
    console = Console(width=110, soft_wrap=True, highlight=False)
    console.print(table)
    for source in settings.task.files():
        state = "present" if source.present else "missing"
        where = f"file {source.name}: {state} at {source.path}" + (f", from {source.url}" if source.url else "")
        console.print(Text(plain_line(where)))
    for reason in outcome.missing:
        console.print(Text(plain_line(f"missing: {reason}")))


def write_report(folders: list[Path], target: Path, options: Mapping[str, Any]) -> None:
    """Build the report of one experiment of a series; says where it is, and what is wrong if it cannot be made."""
    from openended.harness.report import build_report

    try:
        build_report(folders, target, **options)
    except HarnessError as err:
        log.error("report     %s: %s", target.name, " ".join(str(err).split()))
    else:
        log.info("report     %s", target / "report.html")


def show_report(folders: list[Path], target: Path, options: Mapping[str, Any]) -> None:
    """Build the report of some runs and print its table and where its files are."""
    from openended.harness.report import build_report

    build_report(folders, target, **options).show()
