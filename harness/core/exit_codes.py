"""Exit codes of the commands and their one-line errors on standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable

from openended.harness.core.errors import HarnessError
from openended.harness.core.text import escape_controls, escape_controls_in_line, redact_keys

OK = 0
FAILED = 1  # a job failed, or an unexpected error
BAD_INPUT = 2  # invalid options or files, or a missing package
INTERRUPTED = 130  # Ctrl-C: 128 + SIGINT, as in shells
BROKEN_PIPE = 141  # the reader of standard output has closed it
TERMINATED = 143  # SIGTERM


class Terminated(KeyboardInterrupt):
    """SIGTERM was received; handled like Ctrl-C, with another exit code."""


def format_error(err: BaseException) -> str:
    """Return an error's message as one line; errors of the operating system begin with the file name."""
    if isinstance(err, OSError) and err.strerror and err.filename:
        return f"{err.filename}: {err.strerror}"
    return " ".join(str(err).split())


def print_line(text: str) -> None:
    """Print one line on standard output, with control characters of names and texts escaped."""
    sys.stdout.write(f"{escape_controls_in_line(text)}\n")


def print_error(command: str, message: str) -> None:
    """Print a one-line error on standard error."""
    sys.stderr.write(f"{command}: {escape_controls(redact_keys(message))}\n")


def run_command(command: str, work: Callable[[], object], *, after_interrupt: str) -> int:
    """Run a command and return its exit code; expected errors and Ctrl-C print one line.

    Args:
        command: Its name, printed at the start of the line.
        work: The function to call.
        after_interrupt: What an interrupted command leaves behind, printed after `interrupted;`.
    """
    try:
        work()
    except (HarnessError, OSError) as err:
        print_error(command, format_error(err))
        return BAD_INPUT
    except KeyboardInterrupt as err:
        sys.stderr.write("\n")  # the terminal has written ^C
        print_error(command, f"interrupted; {after_interrupt}")
        return TERMINATED if isinstance(err, Terminated) else INTERRUPTED
    return OK
