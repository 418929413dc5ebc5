"""The jobs of a grid as files: one small file each in the grid's folder.

So the overview, `on_error` and the report at the end work for every launcher, and need nothing but a shared file
system.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from openended.harness.hydra_app.timeleft import time_left
from openended.harness.io import read_json, write_json
from openended.harness.record import GRID

FINAL = ("done", "failed", "skipped")


class JobFile:
    """One job's line in the grid's folder: running, done, failed or skipped."""

    def __init__(self, hydra: DictConfig) -> None:
        self.overrides = list(hydra.overrides.task)
        self.grid = Path(hydra.sweep.dir)
        self.path = self.grid / "jobs" / f"{int(hydra.job.num):05d}.json"
        swept = read_json(self.grid / GRID)["axes"]
        self.title = " ".join(word for word in self.overrides if word.split("=", 1)[0] in swept)
        self._started = time.time()

    def write(self, state: str, **facts: Any) -> None:  # noqa: ANN401
        """Write the job's state atomically."""
        seconds = round(time.time() - self._started, 3)
        write_json(self.path, {"job": self.title, "state": state, "seconds": seconds, **facts})

    @property
    def state(self) -> str | None:
        """The state that was last written; None before the first."""
        return str(read_json(self.path)["state"]) if self.path.exists() else None

    def stopped(self, *, on_error: str) -> bool:
        """Return true if an earlier job failed and the grid is to stop then."""
        return on_error == "stop" and any(job["state"] == "failed" for job in read_jobs(self.grid))


def read_jobs(grid: Path) -> list[dict[str, Any]]:
    """Return the states of the grid's jobs so far, in the order of their numbers."""
    return [read_json(path) for path in sorted((grid / "jobs").glob("*.json"))]


def overview(grid: Path) -> str:
    """Return how a grid stands: done, failed, running elsewhere, time left."""
    jobs = read_jobs(grid)
    facts = read_json(grid / GRID)
    total = int(facts["total"])
    count = {state: sum(job["state"] == state for job in jobs) for state in ("done", "running", "failed", "skipped")}
    words = [f"{count['done']} of {total} done"]
    words += [f"{count[state]} {state}" for state in ("failed", "skipped", "running") if count[state]]
    if left := time_left(jobs, facts, time.time()):
        words.append(left)
    return ", ".join(words)
