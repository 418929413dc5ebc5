"""Resolve what a report is built from (a grid's name or folder, or runs) and the report options of the grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openended.harness.core import DataError, read_json, suggest, temporary_files
from openended.harness.storage import GRID

RUNS, GRIDS = "runs", "grids"


@dataclass(frozen=True, slots=True)
class GridFolder:
    """A grid as described by the files in its folder."""

    folder: Path
    name: str
    """Name shared by its runs and its report."""
    total: int
    reports: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Name of each report of the grid → options of its layout."""
    command: str = ""
    """Digest of the options that were typed; empty in a grid of an earlier version."""
    process: str = ""
    """Name of a temporary file of the command's process; empty in a grid of an earlier version."""
    titles: tuple[str, ...] = ()
    """Title of each job."""

    @property
    def has_ended(self) -> bool:
        """Return true if the command that runs its jobs has certainly ended."""
        machine = temporary_files.build_process_tag().partition("-")[0]
        is_here = f"{temporary_files.MARK}{machine}-" in self.process
        return is_here and not temporary_files.is_in_use(Path(self.process))

    def is_resumed_by(self, other: GridFolder) -> bool:
        """Return true if another grid is the same command, typed again after this one."""
        same = (self.command, self.titles) == (other.command, other.titles)
        return bool(self.command) and same and self.folder.name < other.folder.name

    def jobs(self) -> list[dict[str, Any]]:
        """Read the JSON file of each job; unreadable files are skipped."""
        rows = []
        for path in sorted((self.folder / "jobs").glob("*.json")):
            try:
                row = read_json(path)
            except DataError:
                continue
            if isinstance(row, dict):
                rows.append(row)
        return rows

    def runs(self) -> list[Path]:
        """Return the folders of its finished runs without duplicates, even if the outputs folder was moved."""
        outputs = next((p.parent for p in self.folder.resolve().parents if p.name == GRIDS), None)
        recorded = [Path(str(job["folder"])) for job in self.jobs() if job.get("folder")]
        moved = [outputs / _cut_before_runs(path) if outputs is not None else path for path in recorded]
        return list(dict.fromkeys(m if m.is_dir() else t for m, t in zip(moved, recorded, strict=True)))


def _cut_before_runs(run: Path) -> Path:
    """Return the part of a run's path from `runs` on."""
    parts = run.parts
    return Path(*parts[len(parts) - 1 - parts[::-1].index(RUNS) :]) if RUNS in parts else run


@dataclass(frozen=True, slots=True)
class ReportRequest:
    """Runs to report on, and the layout options of their last report."""

    paths: tuple[Path, ...]
    name: str
    """Name of the report's folder."""
    options: Mapping[str, Any] | None
    """Layout options; None if the runs belong to no grid or to grids with different options."""


def read_grid(folder: Path) -> GridFolder | None:
    """Read the grid in a folder; None if it has no readable grid file."""
    try:
        facts = read_json(folder / GRID)
    except DataError:
        return None
    if not isinstance(facts, dict):
        return None
    reports = facts.get("reports")
    name = str(facts.get("name") or folder.name)
    titles = facts.get("titles")
    return GridFolder(
        folder,
        name,
        int(facts.get("total") or 0),
        reports if isinstance(reports, dict) else {},
        str(facts.get("command") or ""),
        str(facts.get("process") or ""),
        tuple(map(str, titles)) if isinstance(titles, list) else (),
    )


def read_grids(outputs: Path) -> list[GridFolder]:
    """Read the grids under `outputs`, oldest first."""
    folders = [p.parent for depth in ("*", "*/*") for p in (outputs / GRIDS).glob(f"{depth}/{GRID}")]
    grids = [read_grid(folder) for folder in sorted(folders, key=lambda p: p.name)]
    return [grid for grid in grids if grid is not None]


def resolve_report_request(words: Sequence[str], outputs: Path) -> ReportRequest:
    """Resolve names of grids and experiments, folders of grids, and paths of runs.

    Raises:
        DataError: If a word is neither a path nor a known name; lists the known names.
    """
    paths: list[Path] = []
    options: list[Mapping[str, Any] | None] = []
    for word in words:
        word_paths, laid_out = _resolve_word(word, outputs)
        paths += word_paths
        options.append(laid_out)
    same = options[0] if options and all(other == options[0] for other in options) else None
    return ReportRequest(tuple(paths), _choose_title(words), same)


def _resolve_word(word: str, outputs: Path) -> tuple[list[Path], Mapping[str, Any] | None]:
    path = Path(word)
    if path.exists():
        grid = read_grid(path) if path.is_dir() else None
        if grid is not None:
            return _list_runs(grid), grid.reports.get(grid.name)
        resolved = path.resolve()
        return [path], _find_last_options(
            resolved.name, resolved.parent.parent
        ) if resolved.parent.name == RUNS else None
    if (outputs / RUNS / word).is_dir():
        return [outputs / RUNS / word], _find_last_options(word, outputs)
    grids = {grid.folder.name: grid for grid in read_grids(outputs)} | {grid.name: grid for grid in read_grids(outputs)}
    if word in grids:  # the runs of a grid over a series carry the names of its experiments
        return _list_runs(grids[word]), grids[word].reports.get(grids[word].name)
    names = {*grids, *(p.name for p in (outputs / RUNS).glob("*") if p.is_dir())}
    raise DataError(f"no run folder or run name {word!r}{suggest(word, names) if names else ''}")


def _list_runs(grid: GridFolder) -> list[Path]:
    runs = grid.runs()
    if not runs:
        raise DataError(f"{grid.folder}: no job of this grid has finished")
    return runs


def _find_last_options(name: str, outputs: Path) -> Mapping[str, Any] | None:
    """Return the layout options of the last report of that name."""
    return next((g.reports[name] for g in reversed(read_grids(outputs)) if name in g.reports), None)


def _choose_title(words: Sequence[str]) -> str:
    first = Path(words[0]).resolve()
    name = first.parent.name if first.name == "record.json" else first.name
    grid = read_grid(first) if first.is_dir() else None
    name = grid.name if grid is not None else name
    return name if len(words) == 1 else f"{name}-and-{len(words) - 1}-more"
