"""Progress bars: tokens done, tokens/s, time left. Drawn on a terminal only; never in a log file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress(title: str, total: int, *, unit: str, enabled: bool) -> Iterator[Callable[[int], None]]:
    """Show a bar while the block runs; yields the function that advances it.

    Args:
        title: What is being done.
        total: Units in all (an upper bound is fine: the bar then ends early).
        unit: What is counted, for the rate.
        enabled: False, or a standard error that is no terminal, draws nothing.
    """
    if not enabled or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Task as RichTask
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: RichTask) -> Text:
            speed = task.finished_speed or task.speed
            return Text("" if speed is None else f"{speed:,.0f} {unit}/s")

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Rate(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=total)
        yield lambda amount: bar.advance(task, amount)
