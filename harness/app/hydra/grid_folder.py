"""The folder of a grid: its facts, and markers for the reports of a series."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from openended.harness.app.hydra.compose import choose_name, to_plain
from openended.harness.app.hydra.jobfile import FINAL
from openended.harness.app.hydra.sweeper import find_axes
from openended.harness.app.hydra.using import CHOICE
from openended.harness.core import DataError, digest, read_json, temporary_files, write_text
from openended.harness.storage import GRID

_DONE = "done"


def describe_grid(
    config: DictConfig, jobs: Sequence[Sequence[str]], members: Mapping[str, DictConfig], grid: Path
) -> dict[str, Any]:
    """Describe a grid: its name, its jobs and the options of its reports."""
    axes = find_axes([list(job) for job in jobs])
    name = choose_name(config, config.hydra, grid)
    names = {member: choose_name(experiment, experiment.hydra) for member, experiment in members.items()}
    reports = {names[member]: to_plain(experiment.get("report")) for member, experiment in members.items()}
    chosen = [next((w.split("=", 1)[1] for w in job if w.startswith(f"{CHOICE}=")), "") for job in jobs]
    return {
        "name": name,
        "started": time.time(),
        "process": temporary_files.create_temporary_name(GRID),
        "command": digest(list(config.hydra.overrides.task)),
        "total": len(jobs),
        "axes": axes,
        "titles": [" ".join(word for word in job if word.split("=", 1)[0] in axes) for job in jobs],
        "series": [names[choice] for choice in chosen] if names else [],
        "reports": {**reports, name: to_plain(config.get("report"))},
    }


def find_finished_runs(grid: Path, name: str) -> list[Path]:
    """Find the runs of an experiment of a series; empty unless all its jobs have finished."""
    try:
        series = read_json(grid / GRID).get("series") or []
        numbers = [number for number, experiment in enumerate(series) if experiment == name]
        jobs = [read_json(grid / "jobs" / f"{number:05d}.json") for number in numbers]
    except (DataError, AttributeError, TypeError):
        return []  # some jobs have not started; damaged files are reported at the end
    if any(job.get("state") not in FINAL or job.get("overrides") for job in jobs):
        return []
    return sorted({Path(job["folder"]) for job in jobs if job.get("folder")})


def claim_report(grid: Path, name: str) -> bool:
    """Claim a report; true for exactly one process."""
    marker = _find_report_marker(grid, name)
    marker.parent.mkdir(parents=True, exist_ok=True)
    try:
        marker.open("x").close()
    except FileExistsError:
        return False
    return True


def mark_report_complete(grid: Path, name: str) -> None:
    """Mark a report as complete."""
    write_text(_find_report_marker(grid, name), _DONE)


def is_report_complete(grid: Path, name: str) -> bool:
    """Check whether a report was completed before the grid's end."""
    marker = _find_report_marker(grid, name)
    return marker.is_file() and marker.read_text(encoding="utf-8") == _DONE


def _find_report_marker(grid: Path, name: str) -> Path:
    return grid / "reports" / name
