"""An argparse parser whose errors are one line and suggest the nearest flag."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Sequence
from typing import Any, NoReturn

from openended.harness.core.exit_codes import BAD_INPUT, print_error

_UNKNOWN = "unrecognized arguments: "  # how argparse begins the message


class CommandParser(argparse.ArgumentParser):
    """A parser whose errors are one line on standard error and exit code 2."""

    def error(self, message: str) -> NoReturn:
        """Print the error and how to get help, then exit.

        Raises:
            SystemExit: With 2.
        """
        if message.startswith(_UNKNOWN):
            words = message.removeprefix(_UNKNOWN)
            self.check_flag(next((word.split("=")[0] for word in words.split() if word.startswith("-")), "--help"))
            message = f"expected no further words, got {words}"
        print_error(self.prog, f"{message}; see {self.prog} --help")
        raise SystemExit(BAD_INPUT)

    def check_flag(self, flag: str) -> None:
        """Exit if the command has no such flag; suggest the nearest one.

        Raises:
            SystemExit: With 2.
        """
        if flag not in self._option_string_actions:
            close = difflib.get_close_matches(flag, self._option_string_actions, n=1)
            self.error(f"no option {flag}" + (f"; did you mean {close[0]}?" if close else ""))


class RenamedOption(argparse.Action):
    """The old name of an option: prints the new one, `--DEST`, and sets it."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        """Set the option."""
        print_error(parser.prog, f"{option_string} is now --{self.dest}")
        setattr(namespace, self.dest, values)


def positive_int(text: str) -> int:
    """Parse a whole number of at least 1."""
    if text.isdecimal() and int(text) >= 1:
        return int(text)
    raise argparse.ArgumentTypeError(f"expected a whole number of 1 or more, got {text!r}")
