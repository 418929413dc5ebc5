"""Command lines read by argparse: errors are one line, with the nearest flag where one is misspelt."""

from __future__ import annotations

import argparse
import difflib
from typing import NoReturn

from openended.harness.core.exit_codes import BAD_INPUT, complain

_UNKNOWN = "unrecognized arguments: "  # how argparse begins the message


class CommandParser(argparse.ArgumentParser):
    """A parser whose errors are one line on standard error and exit code 2."""

    def error(self, message: str) -> NoReturn:
        """Write what is wrong and how to get help.

        Raises:
            SystemExit: With 2.
        """
        if message.startswith(_UNKNOWN):
            words = message.removeprefix(_UNKNOWN)
            self.check_flag(next((word.split("=")[0] for word in words.split() if word.startswith("-")), "--help"))
            message = f"expected no further words, got {words}"
        complain(self.prog, f"{message}; {self.prog} --help shows how")
        raise SystemExit(BAD_INPUT)

    def check_flag(self, flag: str) -> None:
        """End the command if it has no such flag; names the nearest.

        Raises:
            SystemExit: With 2.
        """
        if flag not in self._option_string_actions:
            close = difflib.get_close_matches(flag, self._option_string_actions, n=1)
            self.error(f"no option {flag}" + (f"; did you mean {close[0]}?" if close else ""))


def positive_int(text: str) -> int:
    """Read a whole number of at least 1 from a command line."""
    if text.isdecimal() and int(text) >= 1:
        return int(text)
    raise argparse.ArgumentTypeError(f"expected a whole number of 1 or more, got {text!r}")
