"""`openended power NAME|RUNS`: how many texts a difference of two systems needs, from runs of any size."""

from __future__ import annotations

import argparse

from openended.harness.app.commands import OUTPUTS, Arguments, make_main
from openended.harness.core import SpecError, print_line
from openended.harness.report import format_power
from openended.harness.results import read_results, resolve_report_request

_ARGUMENTS: Arguments = {
    "paths": {"nargs": "+", "metavar": "NAME|GRID_FOLDER|RUNS", "help": "runs of two systems or more: a pilot"},
    "--difference": {"type": float, "metavar": "D", "help": "the difference to resolve; default: the one measured"},
    "--metrics": {"default": "", "metavar": "NAMES", "help": "metrics or values; default: the first of each metric"},
    **OUTPUTS,
}


def _print_power(args: argparse.Namespace) -> None:
    if args.difference is not None and not 0 < args.difference < float("inf"):
        raise SpecError(f"--difference: expected a number above 0, got {args.difference:g}")
    results = read_results(resolve_report_request(args.paths, args.outputs).paths)
    names = [name.strip() for name in args.metrics.split(",") if name.strip()]
    for line in format_power(results, names, args.difference):
        print_line(line)


main = make_main("power", __doc__, _ARGUMENTS, _print_power, example="openended power quickstart --difference 0.02")
