"""The jobs of one command: a single run, or a grid whose jobs may run in several processes.

A grid's jobs leave one small file each in the grid's folder; so the overview and the report at the end work for every
launcher, and need nothing but a shared file system.
"""

from __future__ import annotations

import logging
import math
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.core.hydra_config import HydraConfig
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf

from harness.errors import HarnessError
from harness.io import read_json, write_json
from harness.settings import Settings, settings_from

if TYPE_CHECKING:
    from harness.pipeline import Outcome
    from harness.session import Session

log = logging.getLogger(__name__)

FAILED = 1
USER_ERROR = 2
GRID = "grid.json"


class Job:
    """The function that Hydra calls for each run; keeps a session, so that models stay loaded between jobs."""

    # Hydra reads the name of the function it wraps.
    __name__ = "openended"
    __qualname__ = "openended"
    __module__ = "harness.grid"

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
        watch = JobFile(Path(hydra.sweep.dir), int(hydra.job.num), list(hydra.overrides.task))
        if watch.stopped(on_error=str(cfg.runtime.on_error)):
            watch.write("skipped", error="an earlier job failed and runtime.on_error=stop")
            return
        watch.write("running")
        overrides = list(hydra.overrides.task)
        try:
            settings = _settings(cfg, choice)
            if any(metric.reads_grid for metric in settings.metrics) and not settings.plan_only:
                self._prepare(settings)
                watch.write("done", overrides=overrides)  # its metrics wait for the other jobs
                return
            folder = self._run(settings, overrides)
        except HarnessError as err:
            watch.write("failed", error=" ".join(str(err).split()))
        except Exception as err:
            log.debug("%s", traceback.format_exc())
            watch.write("failed", error=f"{type(err).__name__}: {err}", trace=traceback.format_exc())
        else:
            watch.write("done", folder=str(folder) if folder else None)
        watch.say()

    def _single(self, cfg: DictConfig, choice: str, overrides: list[str]) -> None:
        settings = _settings(cfg, choice)
        folder = self._run(settings, overrides)
        if folder is not None:
            show_report([folder], folder / "report", settings.report)

    def _prepare(self, settings: Settings) -> None:
        from harness.pipeline import prepare

        prepare(settings, self._session(settings))

    def _session(self, settings: Settings) -> Session:
        key = str(settings.outputs_dir)
        if key not in self._sessions:
            self._sessions[key] = _open_session(settings)
        return self._sessions[key]

    def _run(self, settings: Settings, overrides: list[str]) -> Path | None:
        """Run or plan; returns the run folder, None after a plan."""
        from harness.people import judged_alone, run_judgments
        from harness.pipeline import plan, run
        from harness.store import check_writable

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


class JobFile:
    """One job's line in the grid's folder: running, done, failed or skipped."""

    def __init__(self, grid: Path, number: int, overrides: list[str]) -> None:
        self.folder = grid / "jobs"
        self.path = self.folder / f"{number:05d}.json"
        swept = read_json(grid / GRID)["axes"]
        self.title = " ".join(word for word in overrides if word.split("=", 1)[0] in swept)
        self._started = time.time()

    def write(self, state: str, **facts: Any) -> None:  # noqa: ANN401
        """Write the job's state atomically."""
        seconds = round(time.time() - self._started, 3)
        write_json(self.path, {"job": self.title, "state": state, "seconds": seconds, **facts})

    def stopped(self, *, on_error: str) -> bool:
        """Return true if an earlier job failed and the grid is to stop then."""
        return on_error == "stop" and any(job["state"] == "failed" for job in read_jobs(self.folder.parent))

    def say(self) -> None:
        """Log the overview: done, running, failed, time left."""
        log.info("%s", overview(self.folder.parent))


class Watch(Callback):  # type: ignore[misc]
    """Counts the jobs of a grid before it starts; builds the report and says what failed when it ends."""

    def on_multirun_start(self, config: DictConfig, **_: Any) -> None:  # noqa: ANN401
        """Write how many jobs there will be, and over which axes."""
        axes = swept_axes(config)
        write_json(Path(config.hydra.sweep.dir) / GRID, {"total": math.prod(axes.values()), "axes": axes})

    def on_multirun_end(self, config: DictConfig, **_: Any) -> None:  # noqa: ANN401
        """Build the report of all finished jobs; leave with 1 if a job failed.

        Raises:
            SystemExit: Hydra lets this through where it would only warn of other exceptions.
        """
        grid = Path(config.hydra.sweep.dir)
        jobs = read_jobs(grid)
        failed = [job for job in jobs if job["state"] in ("failed", "skipped")]
        try:
            self._report(config, jobs)
        except HarnessError as err:
            log.error("openended: %s", " ".join(str(err).split()))
            raise SystemExit(USER_ERROR) from None
        for job in failed:
            log.error("%s: %s: %s", job["state"], job["job"], job["error"])
        if failed:
            log.error("%d of %d jobs failed or were skipped; the same command tries them again", len(failed), len(jobs))
            raise SystemExit(FAILED)

    def _report(self, config: DictConfig, jobs: list[dict[str, Any]]) -> None:
        """Build the report of the finished jobs; first the metrics that had to wait for all of them."""
        folders = {Path(job["folder"]) for job in jobs if job.get("folder")}
        folders |= measure_grid([job["overrides"] for job in jobs if job.get("overrides")])
        if folders:
            choice = _experiment(config.hydra)
            target = Path(config.outputs_dir) / "reports" / choice
            show_report(sorted(folders), target, _plain(config.get("report")))


def _experiment(hydra: DictConfig) -> str:
    """Name of the chosen experiment, fit for a folder."""
    return str(hydra.runtime.choices.get("experiment") or "default").replace("/", "-")


def _open_session(settings: Settings) -> Session:
    from harness.session import Session
    from harness.store import Store

    return Session(Store(settings.outputs_dir / "store", locking=settings.runtime.locking))


def measure_grid(jobs: list[list[str]]) -> set[Path]:
    """Run the jobs whose metrics read all systems of the grid, now that every text is there; returns their folders."""
    from hydra import compose

    from harness.pipeline import prepare, run

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


def swept_axes(config: DictConfig) -> dict[str, int]:
    """Return option → number of values, for the options that the grid sweeps over."""
    from hydra.core.override_parser.overrides_parser import OverridesParser

    words = [f"{key}={value}" for key, value in _plain(config.hydra.sweeper.get("params")).items()]
    given = {word.split("=", 1)[0]: word for word in [*words, *config.hydra.overrides.task]}
    parsed = OverridesParser.create().parse_overrides(list(given.values()))
    return {str(o.key_or_group): len(list(o.sweep_string_iterator())) for o in parsed if o.is_sweep_override()}


def read_jobs(grid: Path) -> list[dict[str, Any]]:
    """Return the states of the grid's jobs so far, in the order of their numbers."""
    return [read_json(path) for path in sorted((grid / "jobs").glob("*.json"))]


def overview(grid: Path) -> str:
    """Return one line: done, running, failed, time left."""
    jobs = read_jobs(grid)
    total = int(read_json(grid / GRID)["total"])
    count = {state: sum(job["state"] == state for job in jobs) for state in ("done", "running", "failed", "skipped")}
    finished = [job["seconds"] for job in jobs if job["state"] in ("done", "failed")]
    left = total - len(finished) - count["skipped"]
    workers = max(count["running"], 1)
    seconds = sum(finished) / max(len(finished), 1) * left / workers
    return (
        f"grid       {count['done']} of {total} done, {count['running']} running, {count['failed']} failed, "
        f"about {seconds / 60:.0f} min left"
    )


def show_plan(settings: Settings, outcome: Outcome) -> None:
    """Print the plan: stage, what, hit or make, key; and the files that the task still needs."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{settings.experiment}: seed {settings.seed}", title_justify="left", box=None)
    for name in ("stage", "what", "state", "key"):
        table.add_column(name)
    for step in outcome.plan:
        table.add_row(step.stage, step.what, step.state, step.key[:16] if step.key else "after the above")
    console = Console(width=110, soft_wrap=True, highlight=False)
    console.print(table)
    for source in settings.task.files():
        state = "present" if source.present else "missing"
        console.print(f"file {source.name}: {state} at {source.path}" + (f", from {source.url}" if source.url else ""))
    for reason in outcome.missing:
        console.print(f"missing: {reason}")


def show_report(folders: list[Path], target: Path, options: Mapping[str, Any]) -> None:
    """Build the report of some runs and print its table and where its files are."""
    from harness.report import build_report

    build_report(folders, target, **options).show()
