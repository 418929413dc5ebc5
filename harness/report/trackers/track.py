"""Log finished runs and reports to the chosen tracker, each once; a failing tracker does not fail a run."""

import contextlib
import hashlib
import logging
import math
import os
import re
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent import futures
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from filelock import FileLock

from openended.harness.core import Json, digest_file, format_error, load_entry, write_text
from openended.harness.report.tracking import TrackerOptions
from openended.harness.results import format_axis_value, read_results

log = logging.getLogger(__name__)

DEADLINE_SECONDS = 120.0  # for one run or report
FOLDER = "trackers"  # below the outputs
JOB_TAG = "openended.job"  # of an MLflow run
_silent: set[str] = set()  # trackers that gave no answer
_TABLE = ("system", "metric", "key", "value", "low", "high", "sd", "status", "signature")
_MAX_TEXT = 6000  # characters of a parameter that MLflow stores
_REFUSED_CHARACTERS = re.compile(r"[^\w\-. :/]", re.ASCII)  # characters that MLflow refuses in names
_RGBA = 4  # TensorBoard's number for it


@dataclass(frozen=True, slots=True)
class TrackedJob:
    """What a tracker logs about a finished run or about the report of a grid."""

    id: str  # equal for equal results: the folder of the run below `runs`, or the name and digest of the report
    name: str  # display name
    group: str  # name that the runs of a grid share
    config: Mapping[str, Json]  # option → value
    values: Mapping[str, float]
    """`metric/key` → value, with `metric/key.low` and `metric/key.high`; human values below `human/`."""
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    figures: Mapping[str, Path] = field(default_factory=dict)  # name → PNG

    def list_texts(self) -> dict[str, str]:
        """Return the config as text, for trackers whose parameters are text."""
        return {name: str(value) for name, value in self.config.items() if value is not None}


@contextlib.contextmanager
def close_entry(finish: Callable[[bool], object]) -> Iterator[None]:
    """Close a tracker's entry by `finish(failed)` whatever happens; the first error is the one that is raised."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(Exception):
            finish(True)
        raise
    finish(False)


def log_to_trackio(job: TrackedJob, options: TrackerOptions, _folder: Path) -> None:
    """Log to Trackio's own folder, which `trackio show` reads: a local SQLite file, no account."""
    import trackio

    quiet: dict[str, Any] = {"resume": "allow", "embed": False, "auto_log_gpu": False, "auto_log_cpu": False}
    trackio.init(project=options.project, name=job.id, group=job.group, config=dict(job.config), **quiet)
    with close_entry(lambda _: trackio.finish()):
        trackio.log(dict(job.values), step=0)
        for name, table in job.tables.items():
            trackio.log({f"tables/{name}": trackio.Table(dataframe=_to_plain(table))}, step=0)
        for name, path in job.figures.items():
            trackio.log({f"figures/{name}": trackio.Image(str(path), caption=name)}, step=0)


def log_to_wandb(job: TrackedJob, options: TrackerOptions, folder: Path) -> None:
    """Log to a folder that `wandb sync` uploads (`mode=offline`), or to the server at once (`mode=online`).

    The id of the run follows from the job, so that the server keeps one run per job.
    """
    import wandb

    mode = options.mode or "offline"
    (folder / "wandb").mkdir(parents=True, exist_ok=True)
    number = hashlib.sha256(job.id.encode()).hexdigest()[:16]
    resume = "allow" if mode == "online" else None  # a folder of its own has nothing to resume
    quiet = wandb.Settings(silent=True, console="off", disable_git=True, x_disable_stats=True)
    where: dict[str, Any] = {"mode": mode, "dir": str(folder / "wandb"), "resume": resume, "settings": quiet}
    names = {"project": options.project, "id": number, "name": job.name, "group": job.group}
    run = wandb.init(**names, config=dict(job.config), **where)
    with close_entry(lambda failed: run.finish(exit_code=int(failed))):
        run.log(dict(job.values))
        for name, table in job.tables.items():
            run.log({f"tables/{name}": wandb.Table(dataframe=_to_plain(table), allow_mixed_types=True)})
        for name, path in job.figures.items():
            run.log({f"figures/{name}": wandb.Image(str(path))})


def log_to_mlflow(job: TrackedJob, options: TrackerOptions, folder: Path) -> None:
    """Log to a tracking server or a folder; runs of earlier attempts at the same job are deleted.

    The client is our own, so MLflow's global state stays as it is.
    """
    uri = options.uri or str(folder / "mlflow")
    if "://" not in uri:
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # later versions ask for it
        uri = Path(uri).resolve().as_uri()
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Param

    client = MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name(options.project)
    number = experiment.experiment_id if experiment is not None else client.create_experiment(options.project)
    for earlier in client.search_runs([number], f"tags.`{JOB_TAG}` = '{job.id}'"):
        client.delete_run(earlier.info.run_id)
    tags = {JOB_TAG: job.id, "openended.group": job.group}
    run = client.create_run(number, run_name=job.name, tags=tags).info.run_id
    with close_entry(lambda failed: client.set_terminated(run, "FAILED" if failed else "FINISHED")):
        params = [
            Param(_REFUSED_CHARACTERS.sub("_", name), text[:_MAX_TEXT]) for name, text in job.list_texts().items()
        ]
        metrics = [Metric(_REFUSED_CHARACTERS.sub("_", name), value, 0, 0) for name, value in job.values.items()]
        client.log_batch(run, params=params)
        client.log_batch(run, metrics=metrics)
        for name, table in job.tables.items():
            client.log_text(run, table.to_csv(index=False), f"tables/{name}.csv")
        for path in job.figures.values():
            client.log_artifact(run, str(path), "figures")


def log_to_tensorboard(job: TrackedJob, _options: TrackerOptions, folder: Path) -> None:
    """Write one folder of events for the job, without TensorFlow or PyTorch; an earlier one is replaced."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.compat.proto.types_pb2 import DT_STRING
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    events = folder / "tensorboard" / job.id
    shutil.rmtree(events, ignore_errors=True)
    events.mkdir(parents=True)
    writer = EventFileWriter(str(events))

    def write(*values: Mapping[str, Any]) -> None:
        summary = Summary(value=[Summary.Value(**value) for value in values])
        writer.add_event(Event(wall_time=time.time(), step=0, summary=summary))

    def write_rows(name: str, head: Iterable[object], rows: Iterable[Iterable[object]]) -> None:
        """Write a table as Markdown."""
        lines: list[Iterable[object]] = [list(head), ["---" for _ in head], *rows]
        texts = [[str(cell).replace("|", "\\|").replace("\n", " ") for cell in line] for line in lines]
        text = "\n".join(f"| {' | '.join(line)} |" for line in texts)
        tensor = {"dtype": DT_STRING, "string_val": [text.encode()], "tensor_shape": {"dim": [{"size": 1}]}}
        write({"tag": f"{name}/text_summary", "metadata": {"plugin_data": {"plugin_name": "text"}}, "tensor": tensor})

    with close_entry(lambda _: writer.close()):
        write_rows("config", ("option", "value"), job.list_texts().items())
        write(*({"tag": name, "simple_value": value} for name, value in job.values.items()))
        for name, table in job.tables.items():
            write_rows(f"tables/{name}", list(table.columns), _to_plain(table, "").itertuples(index=False))
        for name, path in job.figures.items():
            data = path.read_bytes()  # a PNG has width and height in bytes 16 to 24
            size = {"width": int.from_bytes(data[16:20]), "height": int.from_bytes(data[20:24])}
            write({"tag": f"figures/{name}", "image": {**size, "colorspace": _RGBA, "encoded_image_string": data}})


def _to_plain(table: pd.DataFrame, missing: str | None = None) -> pd.DataFrame:
    """Return a table of plain objects, with a replacement for missing values."""
    return table.astype(object).where(table.notna(), missing)


def track_runs(folders: Iterable[Path], options: TrackerOptions, outputs: Path) -> None:
    """Log the runs of finished run folders below `outputs`; one that the tracker already has is skipped."""
    for folder in folders:
        job_id = f"{folder.parent.name}/{folder.name}"
        _log_job(job_id, partial(describe_run, folder, job_id), options, outputs)


def track_report(folder: Path, options: TrackerOptions, outputs: Path) -> None:
    """Log the tables and figures of a report; an equal report is skipped."""
    table = folder / "results.parquet"
    if table.is_file():
        name = folder.name if folder.name != "report" else folder.parent.parent.name
        job_id = f"{name}/report-{digest_file(table)[:8]}"
        _log_job(job_id, partial(describe_report, folder, name, job_id), options, outputs)


def _log_job(job_id: str, describe: Callable[[], TrackedJob], options: TrackerOptions, outputs: Path) -> None:
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
                write = load_entry("tracker_log", options.kind)
                call_with_deadline(partial(write, job, options, outputs / FOLDER), target)
                write_text(marker, f"{job_id}\n")
    except (Exception, SystemExit) as err:
        what = f"{type(err).__name__}: {format_error(err)}"
        log.warning("tracker    %s: %s was not logged (%s); the same command tries again", options.kind, job_id, what)


def call_with_deadline(work: Callable[[], None], target: str) -> None:
    """Call a tracker in a thread; one that gave no answer in time is not asked again by this process."""
    if target in _silent:
        raise TimeoutError("it gave no answer before")
    future: futures.Future[None] = futures.Future()

    def run() -> None:
        try:
            work()
            future.set_result(None)
        except BaseException as err:  # raised again below
            future.set_exception(err)

    threading.Thread(target=run, name="tracker", daemon=True).start()  # it ends with the process
    if not futures.wait([future], DEADLINE_SECONDS).done:
        _silent.add(target)
        raise TimeoutError(f"no answer in {DEADLINE_SECONDS:g} s")
    future.result()


def describe_run(folder: Path, job_id: str) -> TrackedJob:
    """Return what a tracker logs about a finished run."""
    results = read_results([folder])
    (run,) = results.runs
    config = {name: value for name, value in run.axes.items() if value is not None}
    seed = format_axis_value(run.axes.get("seed"))
    names = (run.titles["model"], run.titles["decoder"] or str(run.axes.get("system") or ""))
    name = ", ".join(filter(None, (*names, f"seed {seed}" if seed else ""))) or run.name
    tables = {"values": results.frame[list(_TABLE)]}
    values: dict[str, float] = {}
    for row in (row for row in run.results if row.system in ("model", "human")):
        prefix = "human/" if row.system == "human" else ""
        for key, value in row.values.items():
            ends = {f".{end}": row.intervals.get(key, {}).get(end, math.nan) for end in ("low", "high")}
            values |= {f"{prefix}{row.metric}/{key}{suffix}": number for suffix, number in {"": value, **ends}.items()}
    finite = {entry: value for entry, value in values.items() if math.isfinite(value)}
    return TrackedJob(job_id, name, run.experiment, config, finite, tables)


def describe_report(folder: Path, name: str, job_id: str) -> TrackedJob:
    """Return what a tracker logs about a report: its tables and figures."""
    tables = {path.stem: pd.read_csv(path, dtype=str) for path in sorted((folder / "tables").glob("*.csv"))}
    figures = {path.stem: path for path in sorted((folder / "figures").glob("*.png"))}
    return TrackedJob(job_id, f"report of {name}", name, {"report": str(folder)}, {}, tables, figures)
