"""The jobs of a grid as files: one small file each in the grid's folder.

Progress, `on_error` and the final report therefore work with every launcher, and need only a shared file system.
"""

from __future__ import annotations

import atexit
import logging
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, read_write

from openended.harness.app.hydra.time_left import estimate_time_left
from openended.harness.core import DataError, digest, read_json, to_json, write_json
from openended.harness.storage import GRID, create_unique_folder

log = logging.getLogger(__name__)

FINAL = ("done", "failed", "skipped")
_grids: list[Path] = []  # the folder of the grid that this process runs
COPIES = "copies"  # folder with copies of the files of ended jobs, so that a damaged file does not fail the grid


class JobFile:
    """One job's line in the grid's folder: running, done, failed or skipped."""

    def __init__(self, hydra: DictConfig) -> None:
        self.overrides = list(hydra.overrides.task)
        self.grid = Path(hydra.sweep.dir)
        self.path = self.grid / "jobs" / f"{int(hydra.job.num):05d}.json"
        facts = read_grid(self.grid)
        swept = facts.get("axes")
        axes = swept if isinstance(swept, dict) else {word.split("=", 1)[0] for word in self.overrides}
        total = facts.get("total")
        self.position = f"job {int(hydra.job.num) + 1}{f' of {total}' if total else ''}"
        self.title = " ".join(word for word in self.overrides if word.split("=", 1)[0] in axes)
        self._started = time.time()

    def write(self, state: str, **facts: Any) -> None:  # noqa: ANN401
        """Write the job's state atomically; a final one twice."""
        seconds = round(time.time() - self._started, 3)
        row = to_json({"job": self.title, "state": state, "seconds": seconds, **facts})
        sealed = {**row, "digest": digest(row)} if isinstance(row, dict) else row
        write_json(self.path, sealed)
        if state in FINAL:
            write_json(_copy(self.path), sealed)

    def find_same_error(self, error: str) -> str:
        """Return an error, or which earlier job failed with the same one, so that it is printed once."""
        same = next((job for job in read_jobs(self.grid) if job.get("error") == error), None)
        return error if same is None else f"for the same reason as {same['job'] or 'the first job'}"

    @property
    def state(self) -> str | None:
        """The state that was last written; None before the first."""
        return str(_read(self.path)["state"]) if self.path.exists() else None

    def should_stop(self, *, on_error: str) -> bool:
        """Return true if an earlier job failed and the grid is to stop then."""
        return on_error == "stop" and any(job["state"] == "failed" for job in read_jobs(self.grid))


def create_grid_folder(config: DictConfig) -> Path:
    """Create a new folder for a grid and write its path into the configuration of the grid and its jobs.

    If two grids start in the same second, the second folder gets the suffix `-2`. A plan writes nothing into
    `outputs_dir`: its folder is a temporary one.
    """
    if config.get("plan_only") is True:
        folder = Path(tempfile.mkdtemp(prefix="openended-plan-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    else:
        folder = create_unique_folder(Path(config.hydra.sweep.dir))
        _grids.append(folder)
    with read_write(config.hydra):
        config.hydra.sweep.dir = str(folder)
        # Hydra composes every job again, from these overrides.
        quoted = str(folder).replace("'", r"\'")
        config.hydra.overrides.hydra.append(f"hydra.sweep.dir='{quoted}'")
    return folder


def mark_interrupted(grid: Path) -> None:
    """Mark the running jobs of a grid as interrupted, because the command that runs them ends."""
    for path in sorted((grid / "jobs").glob("*.json")):
        row = _read(path)
        if row["state"] == "running":
            row["state"] = "interrupted"
            write_json(path, {**row, "digest": digest(row)})


@contextmanager
def mark_on_interrupt() -> Iterator[None]:
    """Mark the running jobs of this process's grid as interrupted if Ctrl-C or SIGTERM ends the block."""
    _grids.clear()
    try:
        yield
    except KeyboardInterrupt:
        for grid in _grids:
            mark_interrupted(grid)
        raise


def read_grid(grid: Path) -> dict[str, Any]:
    """Read the facts written at a grid's start; empty, with a warning, if the file is damaged."""
    try:
        facts = read_json(grid / GRID)
    except DataError as err:
        log.warning("%s; the jobs run anyway", err)
        return {}
    if not isinstance(facts, dict):
        log.warning("%s: expected names with values; the jobs run anyway", grid / GRID)
        return {}
    wrong = [name for name, is_valid in _FACTS.items() if facts.get(name) is not None and not is_valid(facts[name])]
    for name in wrong:
        log.warning("%s: %s has an unexpected value, %.40r; the jobs run anyway", grid / GRID, name, facts.pop(name))
    return facts


def _is_number(value: object) -> bool:
    is_real = isinstance(value, int | float) and not isinstance(value, bool)
    return is_real and 0 <= value < float("inf")  # type: ignore[operator]


# Types of the facts of a grid, checked when they are read.
_FACTS: dict[str, Callable[[object], bool]] = {
    "total": lambda value: isinstance(value, int) and _is_number(value),
    "started": _is_number,
    "axes": lambda value: isinstance(value, dict),
    "titles": lambda value: isinstance(value, list),
}


def read_jobs(grid: Path) -> list[dict[str, Any]]:
    """Return the states of the grid's jobs so far, in the order of their numbers."""
    return [_read(path) for path in sorted((grid / "jobs").glob("*.json"))]


def _read(path: Path) -> dict[str, Any]:
    """Read a job's file, or its copy if it is damaged; if both are damaged, return a failed job."""
    why = ""
    for file in (path, _copy(path)):
        try:
            row = read_json(file)
            if isinstance(row, dict) and row.pop("digest", None) == digest(row):
                return row
            why = why or "it does not agree with its digest"
        except (DataError, TypeError, ValueError) as err:
            why = why or str(err)
    error = f"{path} is damaged ({why}); its results are cached, run the same command again"
    return {"job": path.stem, "state": "failed", "seconds": 0.0, "error": error}


def _copy(path: Path) -> Path:
    return path.parent / COPIES / path.name


def format_progress(grid: Path) -> str:
    """Format the progress of a grid: done, failed, running, time left."""
    jobs = read_jobs(grid)
    facts = read_grid(grid)
    total = int(facts.get("total") or len(jobs))
    count = {state: sum(job["state"] == state for job in jobs) for state in ("done", "running", "failed", "skipped")}
    words = [f"{count['done']} of {total} done"]
    words += [f"{count[state]} {state}" for state in ("failed", "skipped", "running") if count[state]]
    if left := estimate_time_left(jobs, facts, time.time()):
        words.append(left)
    return ", ".join(words)
