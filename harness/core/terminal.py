"""Standard streams, log records and SIGTERM: closed pipes, full disks and missing streams end a command cleanly.

Each command calls `set_up()` once, first.
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

from openended.harness.core.exit_codes import BAD_INPUT, BROKEN_PIPE, Terminated, print_error
from openended.harness.core.text import escape_controls, redact_keys


class SafeLogRecord(logging.LogRecord):
    """A log record with control characters escaped and keys redacted."""

    def getMessage(self) -> str:  # noqa: N802 - the library's name
        """Return the message with control characters escaped and keys redacted."""
        return escape_controls(redact_keys(super().getMessage()))


class SafeStream(io.TextIOWrapper):
    """A standard stream whose failure ends the command cleanly (stdout) or is ignored (stderr)."""

    def __init__(self, stream: io.TextIOWrapper, *, needed: bool) -> None:
        self._needed, self._lost = needed, False
        # The old wrapper stays usable: others may hold a reference.
        super().__init__(
            stream.buffer,
            encoding=stream.encoding,
            errors="backslashreplace",
            line_buffering=True,
            write_through=not needed,
        )

    def write(self, text: str) -> int:
        """Write text; if the stream fails, end the command (stdout) or go on (stderr)."""
        try:
            return len(text) if self._lost else super().write(text)
        except OSError as err:
            self._lose(err)
            return len(text)

    def flush(self) -> None:
        """Flush, with errors handled as in `write`."""
        try:
            if not self._lost:
                super().flush()
        except OSError as err:
            self._lose(err)

    def _lose(self, err: OSError) -> None:
        """Redirect the stream to the null device, so that the interpreter's exit does not fail on buffered text."""
        self._lost = True
        with suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
        if not self._needed:
            return
        if err.errno == errno.EPIPE:  # `openended … | head`: the reader had enough
            raise SystemExit(BROKEN_PIPE)
        print_error("openended", f"cannot write to standard output: {err.strerror or err}; everything finished is kept")
        raise SystemExit(BAD_INPUT)


def set_up() -> None:
    """Prepare the standard streams, the log and SIGTERM."""
    _open_closed()
    for name, needed in (("stdout", True), ("stderr", False)):
        stream = getattr(sys, name)
        # Streams replaced by others (a notebook, a test) are left alone.
        if isinstance(stream, io.TextIOWrapper) and stream is getattr(sys, f"__{name}__"):
            with suppress(OSError, ValueError):
                stream.flush()
            setattr(sys, name, SafeStream(stream, needed=needed))
    escape_log_records()
    with suppress(ValueError):  # not the main thread: an embedding program handles signals itself
        signal.signal(signal.SIGTERM, _terminate)


def escape_log_records() -> None:
    """Use `SafeLogRecord` for all log records of this process."""
    logging.setLogRecordFactory(SafeLogRecord)


def _terminate(_signal: int, _frame: FrameType | None) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a second one ends the command at once
    raise Terminated


def _open_closed() -> None:
    """Open closed standard descriptors on the null device; otherwise the next opened file would get their output."""
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
