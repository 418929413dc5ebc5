"""`openended status [NAME]`: list grids, their progress and why jobs failed."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from openended.harness.core import CommandParser, DataError, print_line, run_command, suggest
from openended.harness.results import GridFolder, read_grids

LAST = 10  # grids shown by default


def main(words: Sequence[str]) -> int:
    """Run the command; returns one of `exit_codes`."""
    parser = CommandParser(prog="openended status", description=__doc__)
    parser.add_argument("name", nargs="?", help=f"of a grid, or its time; default: the last {LAST} grids")
    parser.add_argument("--outputs", default="outputs", metavar="DIR", help="where grids are looked up")
    args = parser.parse_args(words)
    return run_command("openended status", lambda: _status(args), after_interrupt="nothing was changed")


def _status(args: argparse.Namespace) -> None:
    grids = read_grids(Path(args.outputs))
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
        for line in format_grid(grid):
            print_line(line)


def format_grid(grid: GridFolder) -> Iterator[str]:
    """Format a grid: its progress, then one line per reason why jobs failed or were skipped."""
    jobs = grid.jobs()
    count = Counter(str(job.get("state")) for job in jobs)
    waiting = max(grid.total - len(jobs), 0)
    words = [f"{count['done']} of {grid.total} done"]
    words += [f"{count[state]} {state}" for state in ("failed", "skipped", "running") if count[state]]
    words += [f"{waiting} not started"] if waiting else []
    yield f"{grid.name}  {grid.folder}: {', '.join(words)}"
    reasons: dict[str, list[str]] = {}
    for job in jobs:
        if job.get("state") in ("failed", "skipped"):
            reasons.setdefault(str(job.get("error", "it did not finish")), []).append(str(job.get("job")))
    for reason, titles in reasons.items():
        more = f" and {len(titles) - 1} more" if len(titles) > 1 else ""
        yield f"  {titles[0]}{more}: {reason}"
    if count["running"]:
        titles = [str(job.get("job")) for job in jobs if job.get("state") == "running"]
        yield f"  running, or stopped unexpectedly: {'; '.join(titles)}"
