"""Files of grid folders: reports and jobs, which a report is built from, and the results of a search."""

import logging
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal, TypeVar

from openended.harness.core import DataError, SpecError, decode, read_json, suggest, temporary_files, write_json
from openended.harness.results.runs import list_archives, locate_run
from openended.harness.storage import GRID, RECORD

T = TypeVar("T")
log = logging.getLogger(__name__)

RUNS, GRIDS, SEARCH, DECISIONS = "runs", "grids", "search.json", "decisions.json"
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


@dataclass(frozen=True, slots=True)
class ReportRequest:
    """Runs to report on, and the layout options of their last report."""

    paths: tuple[Path, ...]
    name: str  # of the report's folder
    options: Mapping[str, Any] | None  # None if the runs belong to no grid or to grids with different options
    grid: Path | None = None  # folder of the grid, if the runs are those of one
    decided: tuple[str, ...] = ()  # of several words, those that name grids with decisions


def read_grid(folder: Path) -> GridFolder | None:
    """Read the grid in a folder; None if it has no grid file. Of a damaged file, the jobs alone are known."""
    file = folder / GRID
    grid = read_grid_file(file, "grid file", partial(_parse_grid, folder))
    return GridFolder(folder, folder.name, is_damaged=True) if grid is None and file.is_file() else grid


def _parse_grid(folder: Path, node: Any) -> GridFolder:  # noqa: ANN401 - JSON
    facts = {name: value for name, value in node.items() if name in _FACTS}
    return decode(GridFolder, {"folder": folder, "name": folder.name, **facts}, GRID)


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


def resolve_report_request(words: Sequence[str], outputs: Path) -> ReportRequest:
    """Resolve names of grids and experiments, folders of grids, and paths of runs.

    Raises:
        DataError: If a word is neither a path nor a known name; lists the known names.
    """
    resolved = [_resolve_word(word, outputs) for word in words]
    same = all(options == resolved[0][1] for _, options, _ in resolved)
    first = Path(words[0]).resolve()
    if (grid := read_grid(first)) is not None:
        name = grid.name
    else:
        name = first.parent.name if first.name == "record.json" else first.name
    title = name if len(words) == 1 else f"{name}-and-{len(words) - 1}-more"
    paths = tuple(path for of_word, _, _ in resolved for path in of_word)
    grids = [grid for _, _, grid in resolved]
    decided = tuple(w for w, g in zip(words, grids, strict=True) if g is not None and (g / DECISIONS).is_file())
    options = resolved[0][1] if same else None
    return ReportRequest(paths, title, options, *((grids[0],) if len(words) == 1 else (None, decided)))


def _resolve_word(word: str, outputs: Path) -> tuple[list[Path], Mapping[str, Any] | None, Path | None]:
    """Return the runs that a word names, the layout options of their last report, and their grid if there is one."""
    path = Path(word)
    grid = read_grid(path)
    if grid is None and not path.exists() and not (outputs / RUNS / word).is_dir():
        grids = read_grids(outputs)
        by_name = {grid.folder.name: grid for grid in grids} | {grid.name: grid for grid in grids}
        names = {*by_name, *(p.name for p in (outputs / RUNS).glob("*") if p.is_dir())}
        if word not in by_name and (of_archives := _resolve_in_archives(word, outputs)) is not None:
            return of_archives
        names |= {archive.name for archive in list_archives(outputs)}
        if word not in by_name:
            raise DataError(f"no run folder or run name {word!r}{suggest(word, names) if names else ''}")
        grid = by_name[word]
    if grid is not None:  # the runs of a grid over a series carry the names of its experiments
        if not (runs := grid.runs()):
            raise DataError(f"{grid.folder}: no job of this grid has finished")
        return runs, grid.reports.get(grid.name), grid.folder
    path = path if path.exists() else outputs / RUNS / word
    whole = path.resolve()
    outputs = next((p.parent for p in (whole, whole.parent) if p.name == RUNS), outputs)
    grids = read_grids(outputs)
    lost = [run for grid in grids for run in grid.list_lost() if whole in run.parents]
    for grid in reversed(grids if whole.parent.name == RUNS else []):
        if layout := grid.reports.get(path.resolve().name):
            decides = (grid.folder / DECISIONS).is_file()  # about its own runs, not others of its name
            return (grid.runs() if decides else [path, *lost]), layout, grid.folder if decides else None
    return [path, *lost], None, None


def _resolve_in_archives(word: str, outputs: Path) -> tuple[list[Path], Mapping[str, Any] | None, Path | None] | None:
    """Return what a word names in the imported archives: one of them, or a name of runs that one of them has."""
    archives = list_archives(outputs)
    if named := next((archive for archive in archives if archive.name == word), None):
        if (named / RUNS / word).is_dir():
            return _resolve_word(word, named)
        return [named / RUNS], None, None
    holders = [archive for archive in archives if (archive / RUNS / word).is_dir()]
    if len(holders) > 1:
        paths = ", ".join(str(archive / RUNS / word) for archive in holders)
        raise DataError(f"{word!r}: several archives have runs of this name; name one or more of {paths}")
    return _resolve_word(word, holders[0]) if holders else None


# Searches -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SearchObjective:
    """An objective of a search."""

    title: str
    direction: Literal["maximize", "minimize"]

    @property
    def sign(self) -> float:
        """Factor that turns a value into a cost (lower is better)."""
        return -1.0 if self.direction == "maximize" else 1.0


@dataclass(frozen=True, slots=True)
class SearchTrial:
    """One trial of a search: a setting and its values."""

    number: int
    state: str  # `complete` or `failed`
    setting: Mapping[str, str]  # option → value
    values: tuple[float, ...]  # mean over seeds of each objective, or empty
    seeds: Mapping[str, tuple[float, ...]] = field(default_factory=dict)  # seed → values
    fresh: Mapping[str, tuple[float, ...]] = field(default_factory=dict)  # confirmation seed → values
    error: str = ""
    runs: tuple[str, ...] = ()  # folders of its runs

    @property
    def label(self) -> str:
        """The setting as text: choices by name, options without their prefix."""
        parts = [v if "." not in k else f"{k.rpartition('.')[2]}={v}" for k, v in self.setting.items()]
        return " ".join(parts)


@dataclass(frozen=True, slots=True)
class SearchResult:
    """State of a search."""

    name: str
    sampler: str
    objectives: tuple[SearchObjective, ...]
    trials: tuple[SearchTrial, ...]
    importance: tuple[Mapping[str, float], ...] = ()  # for each objective: parameter → share of importance

    @property
    def complete(self) -> list[SearchTrial]:
        return [t for t in self.trials if t.state == "complete"]

    def front(self) -> list[SearchTrial]:
        """Return the Pareto front of the complete trials, best first.

        With one objective these are the best trial and any that tie with it.
        """
        costs = {t.number: [v * o.sign for v, o in zip(t.values, self.objectives, strict=True)] for t in self.complete}
        return [t for t in self.rank_trials() if not any(dominates(cost, costs[t.number]) for cost in costs.values())]

    def rank_trials(self) -> list[SearchTrial]:
        """Return the complete trials, best first: by the first objective, then by the others."""
        signs = [objective.sign for objective in self.objectives]
        return sorted(self.complete, key=lambda t: ([v * s for v, s in zip(t.values, signs, strict=True)], t.number))


def dominates(first: list[float], second: list[float]) -> bool:
    """Return whether the first costs Pareto-dominate the second: nowhere higher, somewhere lower.

    >>> dominates([1, 2], [1, 3]), dominates([1, 2], [1, 2]), dominates([0, 3], [1, 2])
    (True, False, False)
    """
    return all(a <= b for a, b in zip(first, second, strict=True)) and first != second


def save_search(folder: Path, searched: SearchResult) -> None:
    """Write a search result into the folder of its grid."""
    write_json(folder / SEARCH, searched)


def read_search(folder: Path) -> SearchResult | None:
    """Read the search result in a grid's folder; None if there is none."""
    return read_grid_file(folder / SEARCH, "search file", lambda node: decode(SearchResult, node, SEARCH))
