"""The jobs of a grid as files: one small file each in the grid's folder.

So the overview, `on_error` and the report at the end work for every launcher, and need nothing but a shared file
system.
"""

from __future__ import annotations

import atexit
import logging
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, read_write

from openended.harness.app.hydra.timeleft import time_left
from openended.harness.core import DataError, digest, read_json, to_json, write_json
from openended.harness.storage import GRID, new_folder

log = logging.getLogger(__name__)

FINAL = ("done", "failed", "skipped")
COPIES = "copies"  # of the files of the jobs that ended: a damaged one must not fail a grid whose jobs succeeded


class JobFile:
    """One job's line in the grid's folder: running, done, failed or skipped."""

    def __init__(self, hydra: DictConfig) -> None:
        self.overrides = list(hydra.overrides.task)
        self.grid = Path(hydra.sweep.dir)
        self.path = self.grid / "jobs" / f"{int(hydra.job.num):05d}.json"
        swept = grid_facts(self.grid).get("axes")
        known = swept if isinstance(swept, dict) else {word.split("=", 1)[0] for word in self.overrides}
        self.title = " ".join(word for word in self.overrides if word.split("=", 1)[0] in known)
        self._started = time.time()

    def write(self, state: str, **facts: Any) -> None:  # noqa: ANN401
        """Write the job's state atomically; a final one twice."""
        seconds = round(time.time() - self._started, 3)
        row = to_json({"job": self.title, "state": state, "seconds": seconds, **facts})
        sealed = {**row, "digest": digest(row)} if isinstance(row, dict) else row
        write_json(self.path, sealed)
        if state in FINAL:
            write_json(_copy(self.path), sealed)

    @property
    def state(self) -> str | None:
        """The state that was last written; None before the first."""
        return str(_read(self.path)["state"]) if self.path.exists() else None

    def stopped(self, *, on_error: str) -> bool:
        """Return true if an earlier job failed and the grid is to stop then."""
        return on_error == "stop" and any(job["state"] == "failed" for job in read_jobs(self.grid))


def own_folder(config: DictConfig) -> Path:
    """Make the folder of a grid, which no other grid has, and let the configuration and all its jobs say so.

    Two grids that start in the same second want one name: the second gets `-2` after it. A plan writes nothing into
    `outputs_dir`: its folder is a temporary one.

    Raises:
        StoreError: If it cannot be made.
    """
    if config.get("plan_only") is True:
        folder = Path(tempfile.mkdtemp(prefix="openended-plan-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    else:
        folder = new_folder(Path(config.hydra.sweep.dir))
    with read_write(config.hydra):
        config.hydra.sweep.dir = str(folder)
        # Hydra composes every job anew, from these words.
        quoted = str(folder).replace("'", r"\'")
        config.hydra.overrides.hydra.append(f"hydra.sweep.dir='{quoted}'")
    return folder


def grid_facts(grid: Path) -> dict[str, Any]:
    """Return what was written of a grid at its start; empty, with a remark, if that is damaged."""
    try:
        facts = read_json(grid / GRID)
    except DataError as err:
        log.warning("%s; the jobs are run all the same", err)
        return {}
    return facts if isinstance(facts, dict) else {}


def read_jobs(grid: Path) -> list[dict[str, Any]]:
    """Return the states of the grid's jobs so far, in the order of their numbers."""
    return [_read(path) for path in sorted((grid / "jobs").glob("*.json"))]


def _read(path: Path) -> dict[str, Any]:
    """Return what a job wrote; of a damaged file its copy; where that is no better, a job that failed."""
    why = ""
    for one in (path, _copy(path)):
        try:
            row = read_json(one)
            if isinstance(row, dict) and row.pop("digest", None) == digest(row):
                return row
            why = why or "it does not agree with its digest"
        except (DataError, TypeError, ValueError) as err:
            why = why or str(err)
    said = f"{path} is damaged ({why}); what the job made is kept, and found by the same command"
    return {"job": path.stem, "state": "failed", "seconds": 0.0, "error": said}


def _copy(path: Path) -> Path:
    return path.parent / COPIES / path.name


def overview(grid: Path) -> str:
    """Return how a grid stands: done, failed, running elsewhere, time left."""
    jobs = read_jobs(grid)
    facts = grid_facts(grid)
    total = int(facts.get("total") or len(jobs))
    count = {state: sum(job["state"] == state for job in jobs) for state in ("done", "running", "failed", "skipped")}
    words = [f"{count['done']} of {total} done"]
    words += [f"{count[state]} {state}" for state in ("failed", "skipped", "running") if count[state]]
    if left := time_left(jobs, facts, time.time()):
        words.append(left)
    return ", ".join(words)
