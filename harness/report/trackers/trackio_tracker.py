"""Finished runs in Trackio: a local SQLite file, no account."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from openended.harness.report.trackers.base import TrackedJob

if TYPE_CHECKING:
    import pandas as pd


@dataclass
class TrackioTracker:
    """Logs to Trackio's own folder, which `trackio show` reads."""

    package: ClassVar[str] = "trackio"
    extra: ClassVar[str] = "trackio"

    project: str
    _is_open: bool = False

    def start(self, job: TrackedJob) -> None:
        """Open a run; Trackio prints how to look at it."""
        import trackio

        config = dict(job.config)
        trackio.init(
            project=self.project, name=job.id, group=job.group, config=config, resume="allow", embed=False,
            auto_log_gpu=False, auto_log_cpu=False,
        )  # fmt: skip
        self._is_open = True

    def log_values(self, values: Mapping[str, float]) -> None:
        """Log the values as step 0."""
        import trackio

        trackio.log(dict(values), step=0)

    def log_table(self, name: str, table: pd.DataFrame) -> None:
        """Log a table; missing values are empty."""
        import trackio

        plain = table.astype(object).where(table.notna(), None)
        trackio.log({f"tables/{name}": trackio.Table(dataframe=plain)}, step=0)

    def log_figure(self, name: str, path: Path) -> None:
        """Log an image."""
        import trackio

        trackio.log({f"figures/{name}": trackio.Image(str(path), caption=name)}, step=0)

    def finish(self, *, failed: bool) -> None:  # noqa: ARG002 - Trackio has no state of a run
        """Write everything that is waiting."""
        import trackio

        if self._is_open:
            self._is_open = False
            trackio.finish()
