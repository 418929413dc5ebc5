"""Progress lines in a terminal: current step, count, rate and time left; never written to log files."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

Advance = Callable[[int], None]
"""Takes the number of units just done."""

_shown: list[Progress] = []  # one live display per terminal; it shows the innermost step


@contextmanager
def show_progress(title: str, total: int | None = None, *, unit: str = "", enabled: bool) -> Iterator[Advance]:
    """Show a progress line while the block runs; yield the function that advances it.

    Inside another block, the line shows the titles of the outermost and of this block.

    Args:
        title: What is being done.
        total: Number of units, or an upper bound; None if nothing is counted.
        unit: What is counted, for the rate.
        enabled: If false, or if standard error is not a terminal, nothing is shown.
    """
    # An open display replaces standard error, so isatty() is false then.
    if not enabled or not (_shown or sys.stderr.isatty()):
        yield lambda _: None
        return
    with _display() as bar:
        above = [task.id for task in bar.tasks if task.visible]
        title = f"{bar.tasks[0].description} › {title}" if bar.tasks else title
        for task_id in above:
            bar.update(task_id, visible=False)
        task = bar.add_task(title, total=total, unit=unit)
        try:
            yield lambda amount: bar.advance(task, amount)
        finally:
            bar.remove_task(task)
            for task_id in above:
                bar.update(task_id, visible=True)


@contextmanager
def _display() -> Iterator[Progress]:
    """Return the open display, or open a new one that is erased at the end."""
    if _shown:
        yield _shown[-1]
        return
    from rich.console import Console
    from rich.progress import (
        Progress,
        ProgressColumn,
        SpinnerColumn,
        Task as ProgressTask,
        TextColumn,
        TimeElapsedColumn,
    )
    from rich.text import Text

    class Count(ProgressColumn):
        """Count, rate and time left, if units are counted."""

        def render(self, task: ProgressTask) -> Text:
            if task.total is None:
                return Text("")
            speed = task.finished_speed or task.speed
            left = task.time_remaining
            words = [f"{task.completed:,.0f} of {task.total:,.0f} {task.fields['unit']}"]
            words += [f"{speed:,.0f} {task.fields['unit']}/s"] if speed else []
            words += [f"{format_duration(left)} left"] if left is not None else []
            return Text(", ".join(words))

    title = TextColumn("{task.description}", markup=False)
    columns = (SpinnerColumn(), title, Count(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        _shown.append(bar)
        try:
            yield bar
        finally:
            _shown.remove(bar)


def format_duration(seconds: float) -> str:
    """Format a duration in its largest unit: `40 s`, `3 min`, `2.5 h`."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"
