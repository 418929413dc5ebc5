"""What a table is of: task, number and length of the texts, the date of the newest run, the command."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from openended.harness.report.tables.table import Table
from openended.harness.results import Folded, Results, Run, axis_text, fold_seeds, natural

SHOWN = 5  # values that are listed; of more, the first and the last
COMMANDS = 3  # commands that are listed


def about_of(items: Iterable[Folded], runs: Sequence[Run]) -> tuple[str, ...]:
    """Return the lines about the runs behind values: the data, the date, the commands.

    All of it is read from the records: the same runs give the same lines at any time.
    """
    used = sorted({at for item in items if item.system == "model" for at, _ in item.sources})
    return about_runs([runs[at] for at in used])


def about_runs(runs: Sequence[Run]) -> tuple[str, ...]:
    """Return the lines about some runs."""
    if not runs:
        return ()
    return tuple(filter(None, (_data(runs), f"Newest run: {date_of(runs)}.", *commands_of(runs))))


def told(tables: Iterable[Table], results: Results) -> list[Table]:
    """Return tables that all say what they are of; those that do not yet are of all runs."""
    whole = about_of(fold_seeds(results), results.runs)
    return [table if table.about else replace(table, about=whole) for table in tables]


def date_of(runs: Sequence[Run]) -> str:
    """Return when the newest run ended."""
    newest = max(run.created for run in runs)
    try:
        return f"{datetime.fromisoformat(newest):%Y-%m-%d %H:%M} UTC"
    except ValueError:
        return newest


def commands_of(runs: Sequence[Run]) -> list[str]:
    """Return the command lines of the runs, the newest first, each once."""
    newest_first = sorted(runs, key=lambda run: run.created, reverse=True)
    lines = list(dict.fromkeys(_command(run.command) for run in newest_first if run.command))
    rest = len(lines) - COMMANDS
    more = [f"{rest} more {'command' if rest == 1 else 'commands'}: see the runs' records."] if rest > 0 else []
    return [*(f"Command: {line}" for line in lines[:COMMANDS]), *more]


def _command(words: Sequence[str]) -> str:
    """Write a command as a user types it: the program without its folder."""
    path = Path(words[0])
    program = f"python -m {path.parent.name}" if path.name == "__main__.py" else path.name
    return shlex.join([*program.split(), *words[1:]])


def _data(runs: Sequence[Run]) -> str:
    """Say the task, and how many texts of what length."""
    samples = listed(runs, "samples")
    seeds = listed(runs, "seed")
    parts = (
        ("task {}", listed(runs, "task")),
        ("{} examples", listed(runs, "num_examples")),
        ("{} samples of each", "" if samples == "1" else samples),
        ("at most {} new tokens", listed(runs, "max_new_tokens")),
        ("seed {}" if seeds.isdecimal() else "seeds {}", seeds),
        ("judgments {}", listed(runs, "judgments")),
    )
    text = "; ".join(form.format(value) for form, value in parts if value)
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def listed(runs: Iterable[Run], axis: str) -> str:
    """List what runs have of an axis: all values, or of many the first, the last and their number; empty for none."""
    values = sorted({axis_text(run.axes.get(axis)) for run in runs} - {""}, key=natural)
    if len(values) > SHOWN:
        return f"{values[0]} to {values[-1]} ({len(values)} values)"
    return ", ".join(values)
