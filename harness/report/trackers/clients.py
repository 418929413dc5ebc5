"""The contract between finished runs and experiment trackers, and the four trackers."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from openended.harness.core import Json

if TYPE_CHECKING:
    import pandas as pd

JOB_TAG = "openended.job"  # of an MLflow run
_MAX_TEXT = 6000  # characters of a parameter that MLflow stores
_OTHER = re.compile(r"[^\w\-. :/]", re.ASCII)  # characters that MLflow refuses in names
_FILE_STORE = "MLFLOW_ALLOW_FILE_STORE"  # later versions ask for it
_RGBA = 4  # TensorBoard's number for it


@dataclass(frozen=True, slots=True)
class TrackedJob:
    """What a tracker logs about a finished run or about the report of a grid."""

    id: str
    """Equal for equal results: the folder of the run below `runs`, or the name and digest of the report."""
    name: str
    """Display name."""
    group: str
    """Name that the runs of a grid share."""
    config: Mapping[str, Json]
    """Option → value."""
    values: Mapping[str, float]
    """`metric/key` → value, with `metric/key.low` and `metric/key.high`; human values below `human/`."""
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    figures: Mapping[str, Path] = field(default_factory=dict)
    """Name → PNG."""

    def list_texts(self) -> dict[str, str]:
        """Return the config as text, for trackers whose parameters are text."""
        return {name: str(value) for name, value in self.config.items() if value is not None}


class Tracker(Protocol):
    """The interface of trackers; if a method raises, the run is kept."""

    package: ClassVar[str]
    """Import name of the package, and name of the extra that installs it."""

    def start(self, job: TrackedJob) -> None:
        """Open an entry for a job with its config; what a failed attempt left of it is replaced where possible."""

    def log_values(self, values: Mapping[str, float]) -> None:
        """Log finite values, once."""

    def log_table(self, name: str, table: pd.DataFrame) -> None:
        """Log a table."""

    def log_figure(self, name: str, path: Path) -> None:
        """Log a PNG."""

    def finish(self, *, failed: bool) -> None:
        """Close the entry, whether or not an earlier call raised."""


@dataclass
class TrackioTracker:
    """Logs to Trackio's own folder, which `trackio show` reads: a local SQLite file, no account."""

    package: ClassVar[str] = "trackio"

    project: str
    _is_open: bool = False

    def start(self, job: TrackedJob) -> None:
        import trackio

        trackio.init(
            project=self.project, name=job.id, group=job.group, config=dict(job.config), resume="allow", embed=False,
            auto_log_gpu=False, auto_log_cpu=False,
        )  # fmt: skip
        self._is_open = True

    def log_values(self, values: Mapping[str, float]) -> None:
        import trackio

        trackio.log(dict(values), step=0)

    def log_table(self, name: str, table: pd.DataFrame) -> None:
        import trackio

        trackio.log({f"tables/{name}": trackio.Table(dataframe=_to_plain(table))}, step=0)

    def log_figure(self, name: str, path: Path) -> None:
        import trackio

        trackio.log({f"figures/{name}": trackio.Image(str(path), caption=name)}, step=0)

    def finish(self, *, failed: bool) -> None:  # noqa: ARG002 - Trackio has no state of a run
        import trackio

        if self._is_open:
            self._is_open = False
            trackio.finish()


@dataclass
class WandbTracker:
    """Logs to a folder that `wandb sync` uploads (`mode=offline`), or to the server at once (`mode=online`)."""

    package: ClassVar[str] = "wandb"

    project: str
    mode: str
    folder: Path
    _run: Any = None

    def start(self, job: TrackedJob) -> None:
        """Open a run whose id follows from the job, so that the server keeps one run per job."""
        import wandb

        self.folder.mkdir(parents=True, exist_ok=True)
        number = hashlib.sha256(job.id.encode()).hexdigest()[:16]
        resume = "allow" if self.mode == "online" else None  # a folder of its own has nothing to resume
        self._run = wandb.init(
            project=self.project, id=number, name=job.name, group=job.group,
            config=dict(job.config), mode=self.mode, dir=str(self.folder), resume=resume,
            settings=wandb.Settings(silent=True, console="off", disable_git=True, x_disable_stats=True),
        )  # fmt: skip

    def log_values(self, values: Mapping[str, float]) -> None:
        self._run.log(dict(values))

    def log_table(self, name: str, table: pd.DataFrame) -> None:
        import wandb

        self._run.log({f"tables/{name}": wandb.Table(dataframe=_to_plain(table), allow_mixed_types=True)})

    def log_figure(self, name: str, path: Path) -> None:
        import wandb

        self._run.log({f"figures/{name}": wandb.Image(str(path))})

    def finish(self, *, failed: bool) -> None:
        run, self._run = self._run, None
        if run is not None:
            run.finish(exit_code=int(failed))


@dataclass
class MlflowTracker:
    """Logs to a tracking server or a folder; the client is our own, so MLflow's global state stays as it is."""

    package: ClassVar[str] = "mlflow"

    project: str
    uri: str
    """A folder, or the address of a tracking server."""
    _client: Any = None
    _run: str = ""

    def start(self, job: TrackedJob) -> None:
        """Open a run; runs of earlier attempts at the same job are deleted."""
        if "://" not in self.uri:
            os.environ.setdefault(_FILE_STORE, "true")
        from mlflow import MlflowClient
        from mlflow.entities import Param

        uri = self.uri if "://" in self.uri else Path(self.uri).resolve().as_uri()
        self._client = MlflowClient(tracking_uri=uri)
        experiment = self._client.get_experiment_by_name(self.project)
        number = experiment.experiment_id if experiment is not None else self._client.create_experiment(self.project)
        for earlier in self._client.search_runs([number], f"tags.`{JOB_TAG}` = '{job.id}'"):
            self._client.delete_run(earlier.info.run_id)
        tags = {JOB_TAG: job.id, "openended.group": job.group}
        self._run = self._client.create_run(number, run_name=job.name, tags=tags).info.run_id
        params = [Param(_OTHER.sub("_", name), text[:_MAX_TEXT]) for name, text in job.list_texts().items()]
        self._client.log_batch(self._run, params=params)

    def log_values(self, values: Mapping[str, float]) -> None:
        from mlflow.entities import Metric

        metrics = [Metric(_OTHER.sub("_", name), value, 0, 0) for name, value in values.items()]
        self._client.log_batch(self._run, metrics=metrics)

    def log_table(self, name: str, table: pd.DataFrame) -> None:
        self._client.log_text(self._run, table.to_csv(index=False), f"tables/{name}.csv")

    def log_figure(self, name: str, path: Path) -> None:  # noqa: ARG002 - the artifact has the file's name
        self._client.log_artifact(self._run, str(path), "figures")

    def finish(self, *, failed: bool) -> None:
        run, self._run = self._run, ""
        if run:
            self._client.set_terminated(run, "FAILED" if failed else "FINISHED")


@dataclass
class TensorboardTracker:
    """Writes one folder of events per job, without TensorFlow or PyTorch."""

    package: ClassVar[str] = "tensorboard"

    folder: Path
    _writer: Any = None

    def start(self, job: TrackedJob) -> None:
        """Open an empty folder for the job and write its config as a table."""
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        folder = self.folder / job.id
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self._writer = EventFileWriter(str(folder))
        self._write_rows("config", ("option", "value"), job.list_texts().items())

    def log_values(self, values: Mapping[str, float]) -> None:
        self._write({"tag": name, "simple_value": value} for name, value in values.items())

    def log_table(self, name: str, table: pd.DataFrame) -> None:
        self._write_rows(f"tables/{name}", list(table.columns), _to_plain(table, "").itertuples(index=False))

    def log_figure(self, name: str, path: Path) -> None:
        """Write a PNG as it is; it has width and height in bytes 16 to 24."""
        data = path.read_bytes()
        size = {"width": int.from_bytes(data[16:20]), "height": int.from_bytes(data[20:24])}
        self._write([{"tag": f"figures/{name}", "image": {**size, "colorspace": _RGBA, "encoded_image_string": data}}])

    def finish(self, *, failed: bool) -> None:  # noqa: ARG002 - TensorBoard has no state of a run
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()

    def _write_rows(self, name: str, head: Iterable[object], rows: Iterable[Iterable[object]]) -> None:
        """Write a table as Markdown."""
        from tensorboard.compat.proto.types_pb2 import DT_STRING

        lines: list[Iterable[object]] = [list(head), ["---" for _ in head], *rows]
        texts = [[str(cell).replace("|", "\\|").replace("\n", " ") for cell in line] for line in lines]
        text = "\n".join(f"| {' | '.join(line)} |" for line in texts)
        tensor = {"dtype": DT_STRING, "string_val": [text.encode()], "tensor_shape": {"dim": [{"size": 1}]}}
        metadata = {"plugin_data": {"plugin_name": "text"}}
        self._write([{"tag": f"{name}/text_summary", "metadata": metadata, "tensor": tensor}])

    def _write(self, values: Iterable[Mapping[str, Any]]) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        summary = Summary(value=[Summary.Value(**value) for value in values])
        self._writer.add_event(Event(wall_time=time.time(), step=0, summary=summary))


def _to_plain(table: pd.DataFrame, missing: str | None = None) -> pd.DataFrame:
    """Return a table of plain objects, with a replacement for missing values."""
    return table.astype(object).where(table.notna(), missing)
