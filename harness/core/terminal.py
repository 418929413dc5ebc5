"""Commands at a terminal: exit codes and one-line errors, progress lines, standard streams, SIGTERM.

Each command calls `set_up()` once, first: closed pipes, full disks and missing streams then end it cleanly.
"""

import errno
import io
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from openended.harness.core.errors import HarnessError
from openended.harness.core.text import escape_controls, escape_controls_in_line, redact_keys

if TYPE_CHECKING:
    from rich.progress import Progress, Task

log = logging.getLogger(__name__)

OK = 0
FAILED = 1  # a job or a check failed
BAD_INPUT = 2  # invalid options or files, or a missing package
CRASHED = 70  # an unexpected error, or memory ran out
MEMORY_RAN_OUT = "memory ran out; use fewer or shorter texts, or a smaller batch (runtime.batch_size, --batch-size)"
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
    except MemoryError:
        print_error(command, MEMORY_RAN_OUT)
        return CRASHED
    except KeyboardInterrupt as err:
        sys.stderr.write("\n")  # the terminal has written ^C
        print_error(command, f"interrupted; {after_interrupt}")
        return TERMINATED if isinstance(err, Terminated) else INTERRUPTED
    return OK


# Progress.

Advance = Callable[[int], None]
"""Takes the number of units just done."""

_shown: "list[Progress]" = []  # one live display per terminal; it shows the innermost step


_LOG_SECONDS = 60.0


@contextmanager
def show_progress(
    title: str, total: int | None = None, *, unit: str = "", tokens: int = 0, enabled: bool
) -> Iterator[Advance]:
    """Show a progress line while the block runs; yield the function that advances it.

    Inside another block, the line shows the titles of the outermost and of this block. Where standard error is not a
    terminal, a line is logged every minute.

    Args:
        title: What is being done.
        total: Number of units, or an upper bound; None if nothing is counted.
        unit: What is counted, for the rate.
        tokens: Number of tokens of all units, for the rate; 0 if it is not known.
        enabled: If false, nothing is shown.
    """
    if not enabled:
        yield lambda _: None
        return
    with _display() as bar:
        above = [task.id for task in bar.tasks if task.visible]
        title = f"{bar.tasks[0].description} › {title}" if bar.tasks else title
        for task_id in above:
            bar.update(task_id, visible=False)
        task = bar.add_task(title, total=total, unit=unit, tokens=tokens)
        try:
            yield lambda amount: bar.advance(task, amount)
        finally:
            bar.remove_task(task)
            for task_id in above:
                bar.update(task_id, visible=True)


def _describe(task: "Task") -> str:
    """Return what of a step is done, the rate and the time left; empty for a step that counts nothing."""
    if not task.total:
        return ""
    unit, per_unit = task.fields["unit"], task.fields["tokens"] / task.total
    words = [f"{task.completed:,.0f} of {task.total:,.0f} {unit}"]
    words += [f"about {task.completed * per_unit:,.0f} tokens"] if per_unit else []
    if speed := task.finished_speed or task.speed:
        words.append(f"{speed * (per_unit or 1):,.0f} {'tokens' if per_unit else unit}/s")
    left = task.time_remaining
    return ", ".join([*words, *([f"{format_duration(left)} left"] if left is not None else [])])


@contextmanager
def _display() -> "Iterator[Progress]":
    """Return the open display, or open a new one that is erased at the end.

    Where standard error is not a terminal, a thread logs a line about the innermost step instead.
    """
    if _shown:
        yield _shown[-1]
        return
    from rich.console import Console
    from rich.progress import Progress, ProgressColumn, SpinnerColumn, Task, TextColumn, TimeElapsedColumn
    from rich.text import Text

    class CountColumn(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(_describe(task))

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), CountColumn(), TimeElapsedColumn())
    ended, is_terminal = threading.Event(), sys.stderr.isatty()
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not is_terminal) as bar:

        def log_lines() -> None:
            while not ended.wait(_LOG_SECONDS):
                for task in bar.tasks[-1:]:
                    done = _describe(task) or f"since {format_duration(task.elapsed or 0.0)}"
                    log.info("progress   %s: %s", task.description, done)

        if not is_terminal:
            threading.Thread(target=log_lines, daemon=True).start()
        _shown.append(bar)
        try:
            yield bar
        finally:
            ended.set()
            _shown.remove(bar)


def format_duration(seconds: float) -> str:
    """Format a duration in its largest unit: `40 s`, `3 min`, `2.5 h`."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"


# Standard streams, log records and signals.


class SafeLogRecord(logging.LogRecord):
    """A log record with control characters escaped and keys redacted."""

    def getMessage(self) -> str:  # noqa: N802 - the library's name
        return escape_controls(redact_keys(super().getMessage()))


class SafeStream(io.TextIOWrapper):
    """A standard stream whose failure ends the command cleanly (stdout) or is ignored (stderr)."""

    def __init__(self, stream: io.TextIOWrapper, *, needed: bool) -> None:
        self._needed, self._lost = needed, False
        # The old wrapper stays usable: others may hold a reference.
        encoding, errors = stream.encoding, "backslashreplace"
        super().__init__(stream.buffer, encoding, errors, line_buffering=True, write_through=not needed)

    def write(self, text: str) -> int:
        """Write text; if the stream fails, end the command (stdout) or go on (stderr)."""
        try:
            return len(text) if self._lost else super().write(text)
        except OSError as err:
            self._lose(err)
            return len(text)

    def flush(self) -> None:
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
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed: else the next file would get its descriptor
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - as long as the process
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
