"""Summary lines under tables: task, number and length of texts, newest run, commands."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from openended.harness.report.tables.table import Table
from openended.harness.results import Results, Run, SystemValue, format_axis_value, make_natural_sort_key

MAX_LISTED_VALUES = 5  # of more values, only the first and last are listed
MAX_COMMANDS = 3
RATED = "rated"  # decoder of runs on judgments alone


def summarize_sources(items: Iterable[SystemValue], runs: Sequence[Run]) -> tuple[str, ...]:
    """Summarize the runs behind values: data, date and commands.

    Everything comes from the records, so equal runs always give equal lines.
    """
    used = sorted({at for item in items if item.system == "model" for at, _ in item.sources})
    return summarize_runs([runs[at] for at in used])


def summarize_runs(runs: Sequence[Run]) -> tuple[str, ...]:
    """Summarize runs: data, date and commands."""
    if not runs:
        return ()
    lines = (
        _describe_data(runs),
        _describe_imported(runs),
        f"Newest run: {find_newest_date(runs)}.",
        *collect_commands(runs),
    )
    return tuple(filter(None, lines))


def _describe_imported(runs: Sequence[Run]) -> str:
    """Return the note on artifacts that were imported; empty if there are none."""
    stages = sorted({stage for run in runs for stage in run.imported_stages})
    count = sum(bool(run.imported_stages) for run in runs)
    if not stages:
        return ""
    return f"Imported, not computed here: {', '.join(stages)} (in {count} of {len(runs)} runs)."


def add_summaries(tables: Iterable[Table], results: Results) -> list[Table]:
    """Add the summary of all runs to tables without one."""
    whole = summarize_sources(results.values, results.runs)
    return [table if table.about else replace(table, about=whole) for table in tables]


def find_newest_date(runs: Sequence[Run]) -> str:
    """Return the date and time of the newest run."""
    newest = max(run.created for run in runs)
    try:
        return f"{datetime.fromisoformat(newest):%Y-%m-%d %H:%M} UTC"
    except ValueError:
        return newest


def collect_commands(runs: Sequence[Run]) -> list[str]:
    """Return the distinct command lines of the runs, newest first."""
    newest_first = sorted(runs, key=lambda run: run.created, reverse=True)
    lines = list(dict.fromkeys(_format_command(run.command) for run in newest_first if run.command))
    rest = len(lines) - MAX_COMMANDS
    more = [f"{rest} more {'command' if rest == 1 else 'commands'}: see the runs' records."] if rest > 0 else []
    return [*(f"Command: {line}" for line in lines[:MAX_COMMANDS]), *more]


def _format_command(words: Sequence[str]) -> str:
    """Format a command as typed by the user, with the program name instead of its path."""
    path = Path(words[0])
    program = f"python -m {path.parent.name}" if path.name == "__main__.py" else path.name
    return shlex.join([*program.split(), *words[1:]])


def _describe_data(runs: Sequence[Run]) -> str:
    """Describe the task and the number and length of texts; of judgments alone, only their file."""
    if all(run.axes.get("decoder") == RATED for run in runs):
        return f"Judgments {format_axis_values(runs, 'judgments')}."
    samples = format_axis_values(runs, "samples")
    seeds = format_axis_values(runs, "seed")
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
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def format_axis_values(runs: Iterable[Run], axis: str) -> str:
    """List the values of an axis; of many, the first, the last and their number; empty if there are none."""
    values = sorted({format_axis_value(run.axes.get(axis)) for run in runs} - {""}, key=make_natural_sort_key)
    if len(values) > MAX_LISTED_VALUES:
        return f"{values[0]} to {values[-1]} ({len(values)} values)"
    return ", ".join(values)
