"""A grid's folder: what is written of it at its start, and the reports of a series, each written when it can be."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from openended.harness.app.hydra.compose import name_of, plain
from openended.harness.app.hydra.jobfile import FINAL
from openended.harness.app.hydra.sweeper import axes_of
from openended.harness.app.hydra.using import CHOICE
from openended.harness.core import DataError, read_json, write_text
from openended.harness.storage import GRID

_DONE = "done"


def grid_record(
    config: DictConfig, jobs: Sequence[Sequence[str]], members: Mapping[str, DictConfig], grid: Path
) -> dict[str, Any]:
    """Return what a grid's folder says of it: its name, its jobs, and the options of the reports that it writes."""
    axes = axes_of([list(job) for job in jobs])
    name = name_of(config, config.hydra, grid)
    names = {member: name_of(one, one.hydra) for member, one in members.items()}
    reports = {names[member]: plain(one.get("report")) for member, one in members.items()}
    chosen = [next((w.split("=", 1)[1] for w in job if w.startswith(f"{CHOICE}=")), "") for job in jobs]
    return {
        "name": name,
        "started": time.time(),
        "total": len(jobs),
        "axes": axes,
        "titles": [" ".join(word for word in job if word.split("=", 1)[0] in axes) for job in jobs],
        "series": [names[choice] for choice in chosen] if names else [],
        "reports": {**reports, name: plain(config.get("report"))},
    }


def ended(grid: Path, name: str) -> list[Path]:
    """Return the runs of an experiment of a series if all its jobs have ended and none waits for the whole grid."""
    try:
        series = read_json(grid / GRID).get("series") or []
        places = [number for number, one in enumerate(series) if one == name]
        jobs = [read_json(grid / "jobs" / f"{number:05d}.json") for number in places]
    except (DataError, AttributeError):
        return []  # some have not begun; what is damaged is told at the end
    if any(job["state"] not in FINAL or job.get("overrides") for job in jobs):
        return []
    return sorted({Path(job["folder"]) for job in jobs if job.get("folder")})


def claim(grid: Path, name: str) -> bool:
    """Return true for the one process that is to write a report."""
    place = _place(grid, name)
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        place.open("x").close()
    except FileExistsError:
        return False
    return True


def written(grid: Path, name: str) -> None:
    """Note that a report is complete."""
    write_text(_place(grid, name), _DONE)


def claimed(grid: Path, name: str) -> bool:
    """Return true if a report was written before the grid's end."""
    place = _place(grid, name)
    return place.is_file() and place.read_text(encoding="utf-8") == _DONE


def _place(grid: Path, name: str) -> Path:
    return grid / "reports" / name
