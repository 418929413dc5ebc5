"""Files of grid folders: reports and jobs, which a report is built from."""

import logging
import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from openended.harness.core import DataError, SpecError, decode, read_json, temporary_files
from openended.harness.results.runs import locate_run
from openended.harness.storage import GRID, RECORD

T = TypeVar("T")
log = logging.getLogger(__name__)

RUNS, GRIDS, DECISIONS = "runs", "grids", "decisions.json"
_NAME = re.compile(r"\d+\.json$")  # of a job's file
_STATES = ("done", "failed", "skipped", "running", "interrupted")  # of a job
_FACTS = ("name", "total", "started", "reports", "command", "process", "titles")  # of a grid's file


@dataclass(frozen=True, slots=True)
class GridFolder:
    """A grid as described by the files in its folder."""

    folder: Path
    name: str  # shared by its runs and its report
    total: int = 0  # number of its jobs
    started: float = math.nan  # seconds since the epoch
    reports: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # name of a report → options of its layout
    command: str = ""  # digest of the options that were typed
    process: str = ""  # name of a temporary file of the command's process
    titles: tuple[str, ...] = ()  # of each job
    is_damaged: bool = False  # its file cannot be read, so that only its jobs are known

    @property
    def has_ended(self) -> bool:
        """Return true if the command that runs its jobs has certainly ended."""
        machine = temporary_files.build_process_tag().partition("-")[0]
        is_here = f"{temporary_files.MARK}{machine}-" in self.process
        return is_here and not temporary_files.is_in_use(Path(self.process))

    def is_resumed_by(self, other: "GridFolder") -> bool:
        """Return true if another grid is the same command, typed again after this one."""
        same = (self.command, self.titles) == (other.command, other.titles)
        return bool(self.command) and same and self.folder.name < other.folder.name

    def runs(self) -> list[Path]:
        """Return the folders of its runs below `runs`, each once, even if the outputs folder was moved; see `lost`."""
        outputs = next((p.parent for p in self.folder.resolve().parents if p.name == GRIDS), None)
        folders: dict[Path, None] = {}
        for run in (Path(str(job["folder"])) for job in read_jobs(self.folder) if job.get("folder")):
            parent = next((parent for parent in run.parents if parent.name == RUNS), None)
            if parent is not None and ".." not in run.parts:
                folders[locate_run(run if outputs is None else outputs / RUNS / run.relative_to(parent))] = None
        return list(folders)

    def list_lost(self) -> list[Path]:
        return [folder for folder in self.runs() if not (folder / RECORD).is_file()]


def read_grid(folder: Path) -> GridFolder | None:
    """Read the grid in a folder; None if it has no grid file. Of a damaged file, the jobs alone are known."""
    file = folder / GRID

    def parse(node: Any) -> GridFolder:  # noqa: ANN401 - JSON
        facts = {name: value for name, value in node.items() if name in _FACTS}
        return decode(GridFolder, {"folder": folder, "name": folder.name, **facts}, GRID)

    grid = read_grid_file(file, "grid file", parse)
    return GridFolder(folder, folder.name, is_damaged=True) if grid is None and file.is_file() else grid


def read_jobs(grid: Path) -> list[dict[str, Any]]:
    """Read the states of the grid's jobs so far, in the order of their numbers; a damaged file is a failed job.

    Every job of a grid asks; only files that are new since the last time are read.
    """
    try:
        with os.scandir(grid / "jobs") as entries:
            files = sorted((file.path, file.stat(follow_symlinks=False)) for file in entries if _NAME.match(file.name))
    except FileNotFoundError:
        return []
    return [dict(_read_job(Path(path), at.st_mtime_ns, at.st_ino, at.st_size)) for path, at in files]


@lru_cache(maxsize=1 << 14)
def _read_job(path: Path, *_version: int) -> dict[str, Any]:
    """Read the state of a job; a file that was replaced has another version, and is read again."""
    why = "it is not the state of a job"
    try:
        row = read_json(path)
        if isinstance(row, dict) and row.get("state") in _STATES and isinstance(row.get("seconds"), int | float):
            return {"job": path.stem, **row, "number": int(path.stem)}
    except DataError as err:
        why = str(err)
    error = f"{path} is damaged ({why}); its results are cached, run the same command again"
    return {"job": path.stem, "state": "failed", "seconds": 0.0, "error": error, "number": int(path.stem)}


def read_grid_file(path: Path, what: str, parse: Callable[[Any], T]) -> T | None:
    """Read a file of a grid's folder; None if there is none, or with a warning if it is damaged."""
    try:
        return parse(read_json(path)) if path.is_file() else None
    except (AttributeError, DataError, KeyError, SpecError, TypeError, ValueError) as err:
        _warn_once(f"{path}: damaged, left aside: not a {what} ({type(err).__name__}: {err})")
        return None


@lru_cache(maxsize=1 << 10)
def _warn_once(message: str) -> None:
    log.warning("%s", message)


def read_grids(outputs: Path) -> list[GridFolder]:
    """Read the grids under `outputs`, oldest first."""
    folders = [p.parent for depth in ("*", "*/*") for p in (outputs / GRIDS).glob(f"{depth}/{GRID}")]
    grids = [grid for folder in folders if (grid := read_grid(folder)) is not None]
    return sorted(grids, key=lambda grid: grid.folder.name)
