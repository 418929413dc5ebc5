"""What a command owes the terminal, or whatever stands in its place: a pipe that closes, a full disk, nothing at all.

`start()` is called once, first thing, by each command.
"""

from __future__ import annotations

import errno
import io
import logging
import os
import signal
import sys
from contextlib import suppress
from types import FrameType
from typing import NoReturn

from openended.harness.core.exit_codes import BAD_INPUT, BROKEN_PIPE, Terminated, complain
from openended.harness.core.text import plain, redacted


class Record(logging.LogRecord):
    """A line of the log whose texts cannot steer the terminal and show no keys."""

    def getMessage(self) -> str:  # noqa: N802 - the library's name
        """Return the message, control characters written out, keys struck out."""
        return plain(redacted(super().getMessage()))


class Output(io.TextIOWrapper):
    """A standard stream whose failure ends the command cleanly, or, for standard error, goes unheard."""

    def __init__(self, stream: io.TextIOWrapper, *, needed: bool) -> None:
        self._needed, self._lost = needed, False
        # The old wrapper stays whole: others may hold it.
        super().__init__(
            stream.buffer,
            encoding=stream.encoding,
            errors="backslashreplace",
            line_buffering=True,
            write_through=not needed,
        )

    def write(self, text: str) -> int:
        """Write text; where the stream takes no more, the command ends (standard output) or goes on (error)."""
        try:
            return len(text) if self._lost else super().write(text)
        except OSError as err:
            self._lose(err)
            return len(text)

    def flush(self) -> None:
        """Flush, likewise."""
        try:
            if not self._lost:
                super().flush()
        except OSError as err:
            self._lose(err)

    def _lose(self, err: OSError) -> None:
        """Send what is still buffered nowhere, so that the interpreter's end does not stumble over it too."""
        self._lost = True
        with suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
        if not self._needed:
            return
        if err.errno == errno.EPIPE:  # `openended … | head`: the reader had enough
            raise SystemExit(BROKEN_PIPE)
        complain("openended", f"cannot write to standard output: {err.strerror or err}; everything finished is kept")
        raise SystemExit(BAD_INPUT)


def start() -> None:
    """Prepare the standard streams, the log and SIGTERM."""
    _open_closed()
    for name, needed in (("stdout", True), ("stderr", False)):
        stream = getattr(sys, name)
        # Whoever put a stream of his own there (a notebook, a test) keeps it.
        if isinstance(stream, io.TextIOWrapper) and stream is getattr(sys, f"__{name}__"):
            with suppress(OSError, ValueError):
                stream.flush()
            setattr(sys, name, Output(stream, needed=needed))
    clean_logs()
    with suppress(ValueError):  # not the main thread: somebody else's program, which has its own signals
        signal.signal(signal.SIGTERM, _terminate)


def clean_logs() -> None:
    """Let every line of the log of this process be a `Record`."""
    logging.setLogRecordFactory(Record)


def _terminate(_signal: int, _frame: FrameType | None) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a second one ends the command at once
    raise Terminated


def _open_closed() -> None:
    """Open what is closed of the three standard descriptors: the next file would else get its number and its output."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
    for number, name in ((1, "stdout"), (2, "stderr")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "w", closefd=False))
