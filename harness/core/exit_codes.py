"""How every command ends: its exit code, and one line on standard error about what was wrong."""

from __future__ import annotations

import sys
from collections.abc import Callable

from openended.harness.core.errors import HarnessError
from openended.harness.core.text import plain, redacted

OK = 0
FAILED = 1  # a job failed, or something happened that nobody foresaw
BAD_INPUT = 2  # options, files, or what is installed
INTERRUPTED = 130  # Ctrl-C: 128 and the number of SIGINT, as shells have it
BROKEN_PIPE = 141  # nobody reads standard output any more
TERMINATED = 143  # SIGTERM


class Terminated(KeyboardInterrupt):
    """SIGTERM: says what Ctrl-C says, and leaves with its own code."""


def one_line(err: BaseException) -> str:
    """Return an error's message as one line; the file's name first where the system has refused one."""
    if isinstance(err, OSError) and err.strerror and err.filename:
        return f"{err.filename}: {err.strerror}"
    return " ".join(str(err).split())


def complain(command: str, message: str) -> None:
    """Write one line about what is wrong."""
    sys.stderr.write(f"{command}: {plain(redacted(message))}\n")


def code_of(command: str, work: Callable[[], object], *, kept: str) -> int:
    """Do a command's work and return its exit code; the user's errors and Ctrl-C become one line.

    Args:
        command: Its name, which begins the line.
        work: What it does.
        kept: What an interrupted command leaves behind, as the end of a sentence.
    """
    try:
        work()
    except (HarnessError, OSError) as err:
        complain(command, one_line(err))
        return BAD_INPUT
    except KeyboardInterrupt as err:
        sys.stderr.write("\n")  # the terminal has written ^C
        complain(command, f"interrupted; {kept}")
        return TERMINATED if isinstance(err, Terminated) else INTERRUPTED
    return OK
