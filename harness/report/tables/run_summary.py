"""Summary lines under tables: task, number and length of texts, newest run, commands."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path

from openended.harness.results import Run, SystemValue, format_axis_value, make_natural_sort_key

MAX_LISTED_VALUES = 5  # of more values, only the first and last are listed
MAX_COMMANDS = 3
RATED = "rated"  # decoder of runs on judgments alone
INVENTED = ("example_ratings.csv", "example_pairs.csv")  # shipped example judgments, which are not from people


def summarize_sources(items: Iterable[SystemValue], runs: Sequence[Run]) -> tuple[str, ...]:
    """Summarize the runs behind values: data, date and commands.

    Everything comes from the records, so equal runs always give equal lines.
    """
    used = [runs[at] for at in sorted({at for item in items if item.system == "model" for at, _ in item.sources})]
    if not used:
        return ()
    newest = max(run.created for run in used)
    with contextlib.suppress(ValueError):
        newest = f"{datetime.fromisoformat(newest):%Y-%m-%d %H:%M} UTC"
    imported = [run.imported_stages for run in used if run.imported_stages]
    stages = ", ".join(sorted({stage for names in imported for stage in names}))
    return (
        *filter(None, [_describe_data(used)]),
        *([f"Imported, not computed here: {stages} (in {len(imported)} of {len(used)} runs)."] if stages else []),
        f"Newest run: {newest}.",
        *collect_commands(used),
    )


def collect_commands(runs: Sequence[Run]) -> list[str]:
    """Return the distinct command lines of the runs as typed by the user, newest first."""
    lines: dict[str, None] = {}
    for words in (run.command for run in sorted(runs, key=lambda run: run.created, reverse=True) if run.command):
        path = Path(words[0])
        program = ["python", "-m", path.parent.name] if path.name == "__main__.py" else path.name.split()
        lines[f"Command: {shlex.join([*program, *words[1:]])}"] = None
    rest = len(lines) - MAX_COMMANDS
    more = [f"{rest} more {'command' if rest == 1 else 'commands'}: see the runs' records."] if rest > 0 else []
    return [*list(lines)[:MAX_COMMANDS], *more]


def _describe_data(runs: Sequence[Run]) -> str:
    """Describe the task and the number and length of texts; of judgments alone, only their file."""
    if all(run.axes.get("decoder") == RATED for run in runs):
        return f"Judgments {format_axis_values(runs, 'judgments')}."
    samples, seeds = format_axis_values(runs, "samples"), format_axis_values(runs, "seed")
    lengths = format_axis_values(runs, "max_new_tokens")
    parts = (
        ("task {}", format_axis_values(runs, "task")),
        ("{} examples", format_axis_values(runs, "num_examples")),
        ("{} samples of each", "" if samples == "1" else samples),
        ("at most {} new tokens", lengths) if lengths else ("{}", "whole texts"),
        ("seed {}" if seeds.isdecimal() else "seeds {}", seeds),
        ("judgments {}", format_axis_values(runs, "judgments")),
    )
    text = "; ".join(form.format(value) for form, value in parts if value)
    return f"{text[:1].upper()}{text[1:]}."


def format_axis_values(runs: Iterable[Run], axis: str) -> str:
    """List the values of an axis; of many, the first, the last and their number; empty if there are none."""
    values = sorted({format_axis_value(run.axes.get(axis)) for run in runs} - {""}, key=make_natural_sort_key)
    if len(values) > MAX_LISTED_VALUES:
        return f"{values[0]} to {values[-1]} ({len(values)} values)"
    return ", ".join(values)
