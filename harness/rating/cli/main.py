"""`openended rate make|collect|simulate|serve|judge`: forms for raters from finished runs, and their judgments."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from functools import partial
from types import ModuleType

from openended.harness.core import CommandParser, run_command, terminal
from openended.harness.rating.cli.arguments import parse_arguments

COMMANDS = {
    "make": "one HTML file per rater from finished runs",
    "collect": "judgments.csv and a quality sheet from what raters sent back",
    "simulate": "fill a study's sheets with simulated raters, for a complete trial run",
    "judge": "let an LLM behind a server rate in place of people",
    "serve": "serve a study on a local network: a link per rater, answers stored at once",
}
EPILOG = """\
Examples:
  openended rate make quickstart --protocol mauve --items 20 --raters 2 -o study
  openended rate make outputs/runs --protocol typicality --people 10
  openended rate collect study answers/*.json -o judgments.csv
  openended judgments=judgments.csv
  openended rate serve study
  openended rate judge study --base-url http://localhost:8000 --path my-judge --people judgments.csv
`openended rate COMMAND --help` lists a command's options.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a rating command and return its exit code."""
    terminal.set_up()
    words = list(sys.argv[1:] if argv is None else argv)
    listed = "\n".join(f"  {name:9} {line}" for name, line in COMMANDS.items())
    parser = CommandParser(
        prog="openended rate", description=f"{__doc__}\n\n{listed}", epilog=EPILOG,
        example="openended rate make quickstart --protocol mauve",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("command", choices=COMMANDS, metavar="COMMAND")
    name = parser.parse_args(words[:1]).command
    command, loaded = f"openended rate {name}", list[tuple[ModuleType, argparse.Namespace]]()
    code = run_command(command, lambda: loaded.append(_load(name, words[1:])), after_interrupt="nothing was started")
    for module, args in loaded:
        code = run_command(command, partial(module.work, args), after_interrupt=module.KEPT)
    return code


def _load(name: str, words: Sequence[str]) -> tuple[ModuleType, argparse.Namespace]:
    """Import a command, which takes a second, and parse its words."""
    module = importlib.import_module(f"openended.harness.rating.cli.{name}")
    return module, parse_arguments(module.make_parser(), words)


if __name__ == "__main__":
    sys.exit(main())
