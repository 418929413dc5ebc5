"""Commands of `openended`, declared as a table of arguments and the function that does the work."""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from openended.harness.core.choices import GROUPS, list_options
from openended.harness.core.terminal import CommandParser, run_command

Arguments = Mapping[str, Mapping[str, Any]]
"""Name of an argument or flag → the options of `add_argument`, and `synonyms`: flags that others have for it."""
OUTPUTS: Arguments = {
    "--outputs": {"type": Path, "default": Path("outputs"), "metavar": "DIR", "help": "default: outputs"}
}


def get_version() -> str:
    """Return the version of this package, whose root every module of it has imported."""
    return str(sys.modules["openended"].__version__)


def make_parser(
    command: str, description: str | None, arguments: Arguments, example: str = "", epilog: str | None = None
) -> CommandParser:
    """Return the parser of a command."""
    parser = CommandParser(
        prog=f"openended {command}", description=description, example=example, epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter if epilog else argparse.HelpFormatter,
    )  # fmt: skip
    parser.list_run_options = lambda: (*GROUPS, *(line.partition(":")[0] for line in list_options()))
    for name, options in arguments.items():
        names = name.split("/")
        parser.synonyms[names[-1]] = options.get("synonyms", ())
        parser.add_argument(*names, **{key: value for key, value in options.items() if key != "synonyms"})
    return parser


def make_main(
    command: str, description: str | None, arguments: Arguments, work: Callable[[argparse.Namespace], object], *,
    example: str = "", after: str = "nothing was changed", epilog: str | None = None, takes_run_options: bool = False,
) -> Callable[[Sequence[str]], int]:  # fmt: skip
    """Return the function that runs a command with its words and returns its exit code; `SystemExit` sets another."""

    def main(words: Sequence[str]) -> int:
        parser = make_parser(command, description, arguments, example, epilog)
        parser.takes_run_options = takes_run_options
        args = parser.parse_intermixed_args(words)  # flags may come between the other arguments
        args.typed = words
        return run_command(parser.prog, lambda: work(args), after_interrupt=after)

    return main
