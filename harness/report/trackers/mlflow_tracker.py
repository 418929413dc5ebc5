"""Finished runs in MLflow."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from openended.harness.report.trackers.base import TrackedJob, flatten_config

if TYPE_CHECKING:
    import pandas as pd

JOB_TAG = "openended.job"
_MAX_TEXT = 6000  # characters of a parameter that MLflow stores
_OTHER = re.compile(r"[^\w\-. :/]", re.ASCII)  # characters that MLflow refuses in names
_FILE_STORE = "MLFLOW_ALLOW_FILE_STORE"  # later versions ask for it


@dataclass
class MlflowTracker:
    """Logs to a tracking server or a folder; the client is our own, so MLflow's global state stays as it is."""

    package: ClassVar[str] = "mlflow"
    extra: ClassVar[str] = "mlflow"

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
        params = [Param(_OTHER.sub("_", name), text[:_MAX_TEXT]) for name, text in flatten_config(job.config).items()]
        self._client.log_batch(self._run, params=params)

    def log_values(self, values: Mapping[str, float]) -> None:
        """Log the values as metrics; `@` and the like become `_` in their names."""
        from mlflow.entities import Metric

        metrics = [Metric(_OTHER.sub("_", name), value, 0, 0) for name, value in values.items()]
        self._client.log_batch(self._run, metrics=metrics)

    def log_table(self, name: str, table: pd.DataFrame) -> None:
        """Log a table as a CSV artifact."""
        self._client.log_text(self._run, table.to_csv(index=False), f"tables/{name}.csv")

    def log_figure(self, name: str, path: Path) -> None:  # noqa: ARG002 - the artifact has the file's name
        """Log a PNG as an artifact."""
        self._client.log_artifact(self._run, str(path), "figures")

    def finish(self, *, failed: bool) -> None:
        """End the run."""
        run, self._run = self._run, ""
        if run:
            self._client.set_terminated(run, "FAILED" if failed else "FINISHED")
