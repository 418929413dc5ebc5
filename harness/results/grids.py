"""What a report is asked for: the name of a grid, its folder, or any runs; and the options that a grid's report had."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openended.harness.core import DataError, read_json, suggest
from openended.harness.storage import GRID

RUNS, GRIDS = "runs", "grids"


@dataclass(frozen=True, slots=True)
class GridFolder:
    """A grid as its folder tells it."""

    folder: Path
    name: str
    """Of its runs and its report."""
    total: int
    reports: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Name of a report that the grid writes → options of its layout."""

    def jobs(self) -> list[dict[str, Any]]:
        """Return what its jobs wrote of themselves; unreadable files are passed over."""
        found = []
        for path in sorted((self.folder / "jobs").glob("*.json")):
            try:
                row = read_json(path)
            except DataError:
                continue
            if isinstance(row, dict):
                found.append(row)
        return found

    def runs(self) -> list[Path]:
        """Return the folders of its finished runs, each once, wherever the outputs lie now."""
        outputs = next((p.parent for p in self.folder.resolve().parents if p.name == GRIDS), None)
        told = [Path(str(job["folder"])) for job in self.jobs() if job.get("folder")]
        moved = [outputs / _inside(path) if outputs is not None else path for path in told]
        return list(dict.fromkeys(m if m.is_dir() else t for m, t in zip(moved, told, strict=True)))


def _inside(run: Path) -> Path:
    """Return a run's place inside of the outputs, from `runs` on."""
    parts = run.parts
    return Path(*parts[len(parts) - 1 - parts[::-1].index(RUNS) :]) if RUNS in parts else run


@dataclass(frozen=True, slots=True)
class Asked:
    """Paths of runs, and how the report of them was laid out."""

    paths: tuple[Path, ...]
    name: str
    """Of the folder of the report."""
    options: Mapping[str, Any] | None
    """Of the layout; None where no grid, or several with different ones, made the runs."""


def read_grid(folder: Path) -> GridFolder | None:
    """Return the grid of a folder, or None if it holds none that can be read."""
    try:
        facts = read_json(folder / GRID)
    except DataError:
        return None
    if not isinstance(facts, dict):
        return None
    reports = facts.get("reports")
    name = str(facts.get("name") or folder.name)
    return GridFolder(folder, name, int(facts.get("total") or 0), reports if isinstance(reports, dict) else {})


def grids_of(outputs: Path) -> list[GridFolder]:
    """Return the grids under `outputs`, in the order of their time."""
    places = [p.parent for depth in ("*", "*/*") for p in (outputs / GRIDS).glob(f"{depth}/{GRID}")]
    found = [read_grid(place) for place in sorted(places, key=lambda p: p.name)]
    return [grid for grid in found if grid is not None]


def asked(words: Sequence[str], outputs: Path) -> Asked:
    """Resolve names of grids and experiments, folders of grids, and paths of runs.

    Raises:
        DataError: If a word is neither a path nor a name; says which names there are.
    """
    paths: list[Path] = []
    options: list[Mapping[str, Any] | None] = []
    for word in words:
        own, laid_out = _asked(word, outputs)
        paths += own
        options.append(laid_out)
    same = options[0] if options and all(one == options[0] for one in options) else None
    return Asked(tuple(paths), _title(words), same)


def _asked(word: str, outputs: Path) -> tuple[list[Path], Mapping[str, Any] | None]:
    path = Path(word)
    if path.exists():
        grid = read_grid(path) if path.is_dir() else None
        if grid is not None:
            return _runs(grid), grid.reports.get(grid.name)
        place = path.resolve()
        return [path], _used(place.name, place.parent.parent) if place.parent.name == RUNS else None
    if (outputs / RUNS / word).is_dir():
        return [outputs / RUNS / word], _used(word, outputs)
    known = {grid.folder.name: grid for grid in grids_of(outputs)} | {grid.name: grid for grid in grids_of(outputs)}
    if word in known:  # a grid over a series has runs under the names of its experiments
        return _runs(known[word]), known[word].reports.get(known[word].name)
    names = {*known, *(p.name for p in (outputs / RUNS).glob("*") if p.is_dir())}
    raise DataError(f"no such run folder: {word}" + (f", and no name{suggest(word, names)}" if names else ""))


def _runs(grid: GridFolder) -> list[Path]:
    runs = grid.runs()
    if not runs:
        raise DataError(f"{grid.folder}: no job of this grid has finished")
    return runs


def _used(name: str, outputs: Path) -> Mapping[str, Any] | None:
    """Return the options of the last report of a name."""
    return next((g.reports[name] for g in reversed(grids_of(outputs)) if name in g.reports), None)


def _title(words: Sequence[str]) -> str:
    first = Path(words[0]).resolve()
    name = first.parent.name if first.name == "record.json" else first.name
    grid = read_grid(first) if first.is_dir() else None
    name = grid.name if grid is not None else name
    return name if len(words) == 1 else f"{name}-and-{len(words) - 1}-more"
