"""The state of a grid: one small file per job, and what follows from them; no locks, no database."""

import logging
import statistics
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from openended.harness.core import format_duration, write_json
from openended.harness.results import GridFolder, read_grid, read_jobs
from openended.harness.storage import GRID

log = logging.getLogger(__name__)

FINAL = ("done", "failed", "skipped")


def write_state(grid: Path, number: int, title: str, state: str, seconds: float = 0.0, **facts: Any) -> None:  # noqa: ANN401
    """Write the file of a job atomically: running, done, failed, skipped or interrupted."""
    row = {"job": title, "state": state, "seconds": round(seconds, 3), **facts}
    write_json(grid / "jobs" / f"{number:05d}.json", row)


def find_same_error(grid: Path, error: str) -> str:
    """Return an error, or which earlier job failed with the same one, so that it is printed once."""
    same = next((job for job in read_jobs(grid) if job.get("error") == error), None)
    return error if same is None else f"for the same reason as {same['job'] or 'the first job'}"


def has_failed_job(grid: Path) -> bool:
    """Check whether a job has failed so far."""
    return any(job["state"] == "failed" for job in read_jobs(grid))


def mark_interrupted(grid: Path) -> None:
    """Mark the running jobs of a grid as interrupted, because the command that runs them ends."""
    for row in read_jobs(grid):
        if row["state"] == "running":
            write_json(grid / "jobs" / f"{row['number']:05d}.json", {**row, "state": "interrupted"})


def format_progress(folder: Path) -> str:
    """Format the progress of the grid in a folder: done, failed, running, time left."""
    jobs, grid = read_jobs(folder), read_grid(folder)
    if grid is None:
        log.warning("%s cannot be read; the jobs run anyway", folder / GRID)
        grid = GridFolder(folder, folder.name)
    count = Counter(str(job["state"]) for job in jobs)
    words = [f"{count['done']} of {grid.total or len(jobs)} done"]
    words += [f"{count[state]} {state}" for state in ("failed", "skipped", "running") if count[state]]
    if left := estimate_time_left(jobs, grid, time.time()):
        words.append(left)
    return ", ".join(words)


def estimate_time_left(jobs: Sequence[Mapping[str, Any]], grid: GridFolder, now: float) -> str:
    """Return `about 3 min left` by the median time of ended jobs; empty if none is left, or none has ended.

    Jobs that computed nothing (all cached) are ignored if possible. The elapsed time over the summed job time accounts
    for parallel jobs and pauses between jobs.
    """
    ended = [job for job in jobs if job["state"] in ("done", "failed")]
    num_left = len(grid.titles) - sum(job["state"] in FINAL for job in jobs)
    if num_left <= 0 or not ended:
        return ""
    typical = statistics.median(float(job["seconds"]) for job in [job for job in ended if job.get("made")] or ended)
    job_seconds, elapsed = sum(float(job["seconds"]) for job in ended), now - grid.started
    pace = elapsed / job_seconds if job_seconds and elapsed > 0 else 1.0
    return f"about {format_duration(num_left * typical * pace)} left"
