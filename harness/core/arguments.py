"""An argparse parser whose errors are one line and suggest the nearest flag."""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from typing import Any, NoReturn

from openended.harness.core.exit_codes import BAD_INPUT, print_error

_UNKNOWN = "unrecognized arguments: "  # how argparse begins its messages
_MISSING = "the following arguments are required: "
_ARGUMENT = re.compile(r"argument ([^:]+): (.*)", re.DOTALL)
_CHOICE = re.compile(r"invalid choice: ('[^']*') \(choose from (.*)\)")
_TYPE = re.compile(r"invalid (\w+) value: (.*)", re.DOTALL)
_TYPES = {"int": "a whole number", "float": "a number", "positive_int": "a whole number of 1 or more"}
_DASHES_AS_VALUE = re.compile(r"(--[^=\s]+=|-\w=?)--")


class CommandParser(argparse.ArgumentParser):
    """A parser whose errors are one line on standard error and exit code 2.

    Args:
        example: A command line that works, printed where an argument is missing.
        **options: As for `argparse.ArgumentParser`.
    """

    def __init__(self, *, example: str = "", **options: Any) -> None:  # noqa: ANN401 - those of argparse
        super().__init__(**options)
        self.example = example

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:  # noqa: ANN401 - as in argparse
        """Check the flags, then parse: a misspelt flag is reported before what is missing because of it."""
        words = sys.argv[1:] if args is None else list(args)
        for word in words[: words.index("--")] if "--" in words else words:
            flag = word.partition("=")[0]
            if re.match(r"--\w", flag) and not any(name.startswith(flag) for name in self._option_string_actions):
                self.check_flag(flag)
            if _DASHES_AS_VALUE.fullmatch(word):  # argparse would read no value
                self.error(f"argument {word.removesuffix('--').rstrip('=')}: expected a value, got '--'")
        return super().parse_known_args(words, namespace)

    def error(self, message: str) -> NoReturn:
        """Print the error and how to get help, then exit.

        Raises:
            SystemExit: With 2.
        """
        if message.startswith(_UNKNOWN):
            words = message.removeprefix(_UNKNOWN)
            self.check_flag(next((word.split("=")[0] for word in words.split() if word.startswith("-")), "--help"))
            message = f"expected no further words, got {words}"
        elif message.startswith(_MISSING):
            example = f", as in {self.example}" if self.example else ""
            message = f"missing {message.removeprefix(_MISSING)}{example}"
        elif argument := _ARGUMENT.fullmatch(message):
            action = self._option_string_actions.get(argument[1].split("/")[0])
            value = _explain_value(argument[2])
            if argument[2] == "expected one argument" and action is not None:
                value = f"expected a value, as {argument[1]} {action.metavar or 'VALUE'}: {action.help}"
            message = f"{argument[1]}: {value}"
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


def _explain_value(message: str) -> str:
    """Rewrite argparse's message about a value in the form of this project's messages."""
    if choice := _CHOICE.fullmatch(message):
        accepted = choice[2].replace("'", "")
        close = difflib.get_close_matches(choice[1].strip("'"), accepted.split(", "), n=1)
        return f"expected one of {accepted}, got {choice[1]}" + (f"; did you mean {close[0]}?" if close else "")
    if wrong := _TYPE.fullmatch(message):
        return f"expected {_TYPES.get(wrong[1], wrong[1])}, got {wrong[2]}"
    return message


def positive_int(text: str) -> int:
    """Parse a whole number of at least 1."""
    if text.isdecimal() and int(text) >= 1:
        return int(text)
    raise argparse.ArgumentTypeError(f"expected a whole number of 1 or more, got {text!r}")
