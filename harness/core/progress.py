"""The live line of a terminal: what is being done, how far, the rate, the time left. Never in a log file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

Advance = Callable[[int], None]
"""Takes the number of units just done."""

_shown: list[Progress] = []  # a terminal has one live display, in which the innermost step has the line


@contextmanager
def show_progress(title: str, total: int | None = None, *, unit: str = "", enabled: bool) -> Iterator[Advance]:
    """Show a live line while the block runs; yields the function that advances it.

    Args:
        title: What is being done.
        total: Units in all (an upper bound is fine: the bar then ends early); None where nothing is counted.
        unit: What is counted, for the rate.
        enabled: False, or a standard error that is no terminal, draws nothing.
    """
    # While a display is open, rich stands in for standard error.
    if not enabled or not (_shown or sys.stderr.isatty()):
        yield lambda _: None
        return
    with _display() as bar:
        above = [task.id for task in bar.tasks if task.visible]
        for one in above:
            bar.update(one, visible=False)
        task = bar.add_task(title, total=total, unit=unit)
        try:
            yield lambda amount: bar.advance(task, amount)
        finally:
            bar.remove_task(task)
            for one in above:
                bar.update(one, visible=True)


@contextmanager
def _display() -> Iterator[Progress]:
    """The live display: the one that is open, else a new one, which leaves no trace."""
    if _shown:
        yield _shown[-1]
        return
    from rich.console import Console
    from rich.progress import Progress, ProgressColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Task as Step
    from rich.text import Text

    class Count(ProgressColumn):
        """Done, the rate and the time left, where something is counted."""

        def render(self, task: Step) -> Text:
            if task.total is None:
                return Text("")
            speed = task.finished_speed or task.speed
            left = task.time_remaining
            words = [f"{task.completed:,.0f} of {task.total:,.0f} {task.fields['unit']}"]
            words += [f"{speed:,.0f} {task.fields['unit']}/s"] if speed else []
            words += [f"{duration(left)} left"] if left is not None else []
            return Text(", ".join(words))

    title = TextColumn("{task.description}", markup=False)
    columns = (SpinnerColumn(), title, Count(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        _shown.append(bar)
        try:
            yield bar
        finally:
            _shown.remove(bar)


def duration(seconds: float) -> str:
    """Return a duration in its largest unit: `40 s`, `3 min`, `2.5 h`."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"
