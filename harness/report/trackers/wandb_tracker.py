"""Finished runs in Weights & Biases."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from openended.harness.report.trackers.base import TrackedJob

if TYPE_CHECKING:
    import pandas as pd


@dataclass
class WandbTracker:
    """Logs to a folder that `wandb sync` uploads (`mode=offline`), or to the server at once (`mode=online`)."""

    package: ClassVar[str] = "wandb"
    extra: ClassVar[str] = "wandb"

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
        """Log the values as one step."""
        self._run.log(dict(values))

    def log_table(self, name: str, table: pd.DataFrame) -> None:
        """Log a table as text and numbers."""
        import wandb

        plain = table.astype(object).where(table.notna(), None)
        self._run.log({f"tables/{name}": wandb.Table(dataframe=plain, allow_mixed_types=True)})

    def log_figure(self, name: str, path: Path) -> None:
        """Log an image."""
        import wandb

        self._run.log({f"figures/{name}": wandb.Image(str(path))})

    def finish(self, *, failed: bool) -> None:
        """Close the run."""
        run, self._run = self._run, None
        if run is not None:
            run.finish(exit_code=int(failed))
