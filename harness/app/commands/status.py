"""`openended status [NAME]`: list grids, their progress and why jobs failed."""

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from openended.harness.core import OUTPUTS, DataError, argument, make_main, print_line, suggest
from openended.harness.results import GridFolder, read_grids, read_jobs
from openended.harness.storage import RECORD

LAST = 10  # grids shown by default


_ARGUMENTS = {"name": argument(f"of a grid, or its time; default: the last {LAST} grids", nargs="?"), **OUTPUTS}


def _print_status(args: argparse.Namespace) -> None:
    grids = read_grids(args.outputs)
    if args.name:
        names = {word for grid in grids for word in (grid.name, grid.folder.name)}
        if args.name not in names:
            raise DataError(
                f"no grid {args.name!r} in {args.outputs}/grids{suggest(args.name, names) if names else ''}"
            )
        grids = [grid for grid in grids if args.name in (grid.name, grid.folder.name)]
    if not grids:
        print_line(f"no grids in {args.outputs}/grids")
    for grid in grids[-LAST:]:
        unfinished = sum(job["state"] == "done" for job in read_jobs(grid.folder)) < grid.total
        resumed = next((other for other in reversed(grids) if unfinished and grid.is_resumed_by(other)), None)
        for line in format_grid(grid, resumed):
            print_line(line)


def format_grid(grid: GridFolder, resumed: GridFolder | None = None) -> Iterator[str]:
    """Format a grid: its progress, why jobs failed or were skipped, and those that run, were interrupted or killed."""
    jobs = read_jobs(grid.folder)
    progress = _format_progress(grid, jobs)
    if resumed is not None:
        then = _format_progress(resumed, read_jobs(resumed.folder))
        yield f"{grid.name}  {grid.folder}: {progress}; resumed in {resumed.folder}: {then}"
        return
    yield f"{grid.name}  {grid.folder}: {progress}"
    for run in grid.list_lost():
        yield f"  lost: {run}/{RECORD} is missing; the same command writes it again"
    reasons: dict[str, list[str]] = {}
    for job in jobs:
        if job["state"] in ("failed", "skipped"):
            reasons.setdefault(str(job.get("error", "it did not finish")), []).append(str(job.get("job")))
    for reason, titles in reasons.items():
        more = f" and {len(titles) - 1} more" if len(titles) > 1 else ""
        yield f"  {titles[0]}{more}: {reason}"
    for state in ("running", "interrupted"):
        unfinished = "; ".join(str(job.get("job")) for job in jobs if job["state"] == state)
        if unfinished and state == "running" and not grid.has_ended:
            yield f"  running{'' if grid.process else ', or stopped unexpectedly'}: {unfinished}"
        elif unfinished:
            what = "interrupted" if state == "interrupted" else "killed"
            yield f"  {what}: {unfinished}; the same command resumes here"


def _format_progress(grid: GridFolder, jobs: Sequence[Mapping[str, Any]]) -> str:
    count = Counter(str(job["state"]) for job in jobs)
    waiting, lost = max(grid.total - len(jobs), 0), len(grid.list_lost())
    words = [f"{count['done'] - lost} of {'?' if grid.is_damaged else grid.total} done"]
    words += [f"{lost} lost"] if lost else []
    words += [f"{count[state]} {state}" for state in ("failed", "skipped", "interrupted") if count[state]]
    if count["running"]:
        words.append(f"{count['running']} {'killed' if grid.has_ended else 'running'}")
    words += [f"{waiting} not started"] if waiting else []
    return ", ".join(words)


main = make_main("status", __doc__, _ARGUMENTS, _print_status)
