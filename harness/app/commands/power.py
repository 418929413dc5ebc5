"""`openended power NAME|RUNS`: how many texts a difference of two systems needs, from runs of any size."""

import argparse
from contextlib import suppress

from openended.harness.core import OUTPUTS, Arguments, SpecError, argument, make_main, print_line, split_names
from openended.harness.report import format_power
from openended.harness.results import read_results, resolve_report_request

_NAMES = {"type": split_names, "default": ""}
_DIFFERENCES = "differences to resolve, each in the unit of its value; default: those measured"
_EFFECTS = ("--effect", "--effect-size", "--delta", "--diff", "--mde")
_ARGUMENTS: Arguments = {
    "paths": argument("runs of two systems or more: a pilot", "NAME|GRID_FOLDER|RUNS", nargs="+"),
    "--difference": argument(_DIFFERENCES, "VALUE=D,…", synonyms=_EFFECTS, **_NAMES),
    "--metrics": argument("metrics or values; default: the first of each metric", "NAMES", **_NAMES),
    **OUTPUTS,
}


def _print_power(args: argparse.Namespace) -> None:
    differences = dict(map(_parse_difference, args.difference))
    results = read_results(resolve_report_request(args.paths, args.outputs).paths)
    for line in format_power(results, args.metrics, differences):
        print_line(line)


def _parse_difference(word: str) -> tuple[str, float]:
    name, _, number = word.partition("=")
    with suppress(ValueError):
        if name and 0 < (difference := float(number)) < float("inf"):
            return name, difference
    raise SpecError(f"--difference: expected a value and a number above 0, as mauve=0.02, got {word!r}")


main = make_main(
    "power", __doc__, _ARGUMENTS, _print_power, example="openended power quickstart --difference distinct_n=0.02"
)
