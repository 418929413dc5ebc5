"""Log finished runs and reports to the chosen tracker, each once; a failing tracker does not fail a run."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar, Literal

from filelock import FileLock

from openended.harness.core import Spec, construct, digest_file, format_error, require_package, write_text
from openended.harness.report.trackers.clients import (
    MlflowTracker,
    TensorboardTracker,
    TrackedJob,
    Tracker,
    TrackioTracker,
    WandbTracker,
)
from openended.harness.results import Run, format_axis_value, read_results

log = logging.getLogger(__name__)

DEADLINE_SECONDS = 120.0  # for one run or report
_silent: set[str] = set()  # trackers that gave no answer
FOLDER = "trackers"  # below the outputs
_TABLE = ("system", "metric", "key", "value", "low", "high", "sd", "status", "signature")


@dataclass(frozen=True, kw_only=True)
class TrackerOptions(Spec):
    """Where finished runs are logged; not part of any key or signature."""

    name: ClassVar[str] = "tracker"

    kind: Literal["none", "trackio", "wandb", "mlflow", "tensorboard"] = "none"
    project: str = "openended"
    """Project of Trackio and Weights & Biases, experiment of MLflow."""
    uri: str | None = None
    """`mlflow`: a folder or a tracking server; null: a folder below the outputs."""
    mode: Literal["offline", "online"] | None = None
    """`wandb`: offline writes a folder for `wandb sync`; online sends everything at once; null: offline."""

    def check(self) -> None:
        """Check that the project has a name and that no option is given that the tracker does not have."""
        self.require(bool(self.project.strip()), "project", "a name")
        self.require(self.uri is None or self.kind == "mlflow", "uri", "null, unless tracker=mlflow")
        self.require(self.mode is None or self.kind == "wandb", "mode", "null, unless tracker=wandb")

    def list_hosts(self) -> dict[str, str]:
        """Return host → what the tracker sends there; empty if everything stays on this machine."""
        host = self.uri if self.uri is not None and "://" in self.uri and not self.uri.startswith("file:") else None
        if self.kind == "wandb" and self.mode == "online":
            host = os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")
        return {host: f"results and the key of your login ({self.kind})"} if host is not None else {}


TRACKERS: dict[str, Callable[[TrackerOptions, Path], Tracker]] = {
    "trackio": lambda options, _: TrackioTracker(options.project),
    "wandb": lambda options, folder: WandbTracker(options.project, options.mode or "offline", folder / "wandb"),
    "mlflow": lambda options, folder: MlflowTracker(options.project, options.uri or str(folder / "mlflow")),
    "tensorboard": lambda _, folder: TensorboardTracker(folder / "tensorboard"),
}


def build_tracker_options(node: object) -> TrackerOptions:
    """Build the options from a YAML node.

    Raises:
        SpecError: If an option is unknown or its value is not accepted.
    """
    return construct(TrackerOptions, node or {}, "tracker")


def require_tracker(options: TrackerOptions) -> None:
    """Raise `ExtraNotInstalled` if the tracker's package is missing."""
    if options.kind != "none":
        package = TRACKERS[options.kind](options, Path()).package
        require_package(package, package)


def track_runs(folders: Iterable[Path], options: TrackerOptions, outputs: Path) -> None:
    """Log runs that have finished; one that the tracker already has is skipped.

    Args:
        folders: Run folders.
        options: The tracker.
        outputs: Folder of all outputs.
    """
    if options.kind != "none":
        for folder in folders:
            job_id = f"{folder.parent.name}/{folder.name}"
            _track(job_id, partial(describe_run, folder, job_id), options, outputs)


def track_report(folder: Path, options: TrackerOptions, outputs: Path) -> None:
    """Log the tables and figures of a report; an equal report is skipped."""
    table = folder / "results.parquet"
    if options.kind != "none" and table.is_file():
        name = folder.name if folder.name != "report" else folder.parent.parent.name
        job_id = f"{name}/report-{digest_file(table)[:8]}"
        _track(job_id, partial(describe_report, folder, name, job_id), options, outputs)


def _track(job_id: str, describe: Callable[[], TrackedJob], options: TrackerOptions, outputs: Path) -> None:
    """Log a job unless it was logged before; a failure is one warning."""
    # Each project or server has its own list of logged jobs.
    parts = filter(None, [options.kind, options.project, options.uri])
    target = "-".join("".join(c if c.isalnum() else "_" for c in part) for part in parts)
    marker = outputs / FOLDER / "logged" / target / f"{job_id}.txt"
    if marker.exists():
        return
    try:
        marker.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(marker.with_suffix(".lock"))  # jobs of a grid in several processes may share a run
        with lock, contextlib.redirect_stdout(sys.stderr):  # hide what packages print
            if not marker.exists():
                job = describe()
                call_with_deadline(lambda: log_job(TRACKERS[options.kind](options, outputs / FOLDER), job), target)
                write_text(marker, f"{job_id}\n")
    except (Exception, SystemExit) as err:
        what = f"{type(err).__name__}: {format_error(err)}"
        log.warning("tracker    %s: %s was not logged (%s); the same command tries again", options.kind, job_id, what)


def call_with_deadline(work: Callable[[], None], target: str) -> None:
    """Call a tracker in a thread; one that gave no answer in time is not asked again by this process.

    Raises:
        TimeoutError: If it does not end in time; the thread ends with the process.
    """
    if target in _silent:
        raise TimeoutError("it gave no answer before")
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as err:  # raised again below
            errors.append(err)

    thread = threading.Thread(target=run, name="tracker", daemon=True)
    thread.start()
    thread.join(DEADLINE_SECONDS)
    if thread.is_alive():
        _silent.add(target)
        raise TimeoutError(f"no answer in {DEADLINE_SECONDS:g} s")
    if errors:
        raise errors[0]


def log_job(tracker: Tracker, job: TrackedJob) -> None:
    """Log a job with the five calls of the contract; the entry is closed whatever happens."""
    try:
        tracker.start(job)
        tracker.log_values(job.values)
        for name, table in job.tables.items():
            tracker.log_table(name, table)
        for name, path in job.figures.items():
            tracker.log_figure(name, path)
    except BaseException:
        with contextlib.suppress(Exception):  # the first error is the one to report
            tracker.finish(failed=True)
        raise
    tracker.finish(failed=False)


def describe_run(folder: Path, job_id: str) -> TrackedJob:
    """Return what a tracker logs about a finished run."""
    results = read_results([folder])
    (run,) = results.runs
    config = {name: value for name, value in run.axes.items() if value is not None}
    seed = format_axis_value(run.axes.get("seed"))
    names = (run.titles["model"], run.titles["decoder"] or str(run.axes.get("system") or ""))
    name = ", ".join(filter(None, (*names, f"seed {seed}" if seed else ""))) or run.name
    tables = {"values": results.frame[list(_TABLE)]}
    return TrackedJob(job_id, name, run.experiment, config, dict(_list_values(run)), tables)


def _list_values(run: Run) -> Iterator[tuple[str, float]]:
    """Yield the finite values of a run with their interval ends; human values get a prefix."""
    for row in (row for row in run.results if row.system in ("model", "human")):
        prefix = "human/" if row.system == "human" else ""
        for key, value in row.values.items():
            interval = row.intervals.get(key, {})
            ends = {f".{end}": interval.get(end, math.nan) for end in ("low", "high")}
            for suffix, number in {"": value, **ends}.items():
                if math.isfinite(number):
                    yield f"{prefix}{row.metric}/{key}{suffix}", number


def describe_report(folder: Path, name: str, job_id: str) -> TrackedJob:
    """Return what a tracker logs about a report: its tables and figures."""
    import pandas as pd

    tables = {path.stem: pd.read_csv(path, dtype=str) for path in sorted((folder / "tables").glob("*.csv"))}
    figures = {path.stem: path for path in sorted((folder / "figures").glob("*.png"))}
    return TrackedJob(job_id, f"report of {name}", name, {"report": str(folder)}, {}, tables, figures)
