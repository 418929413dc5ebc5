"""`openended show RUN|NAME`: print a run, its results and its first texts, or the runs of a name."""

import argparse
import math
import os
from collections.abc import Iterator
from pathlib import Path

from openended.harness.core import OUTPUTS, Arguments, DataError, argument, make_main, print_line
from openended.harness.results import find_archive, find_runs
from openended.harness.storage import MODEL_STAGES, RowFile, find_input, read_record

MAX_VALUES = 4  # values in the line of a run

TEXTS = 2
_SHOWN = f"generated texts to print; default: {TEXTS}"
_TEXTS_FLAGS = ("--n", "-n", "--num", "--limit", "--samples", "--num-texts", "--head", "--examples")
_ARGUMENTS: Arguments = {
    "run": argument("a run's folder, the end of its name (the 8 letters after the time), or the name of runs"),
    **OUTPUTS,
    "--texts": argument(_SHOWN, "N", type=int, default=TEXTS, synonyms=_TEXTS_FLAGS),
}


def _show(args: argparse.Namespace) -> None:
    if not args.run:
        raise DataError("expected the folder of a run, the end of its name or a name of runs, got ''")
    if args.texts < 0:
        raise DataError(f"--texts: expected 0 or more, got {args.texts}")
    folders = find_runs(args.run, args.outputs)
    if len(folders) > 1 and args.texts != TEXTS:
        raise DataError(f"--texts: {args.run} names {len(folders)} runs, and texts are printed of one: name that run")
    if len(folders) > 1:
        for folder in folders:
            record = read_record(folder)
            titles = [title for title in record.titles.values() if title] or [str(record.axes.get("model"))]
            titles += [f"seed {record.axes['seed']}"] if record.axes.get("seed") is not None else []
            rows = [row for row in record.results if row.system == "model" and row.primary in row.values]
            values = [f"{row.primary} {_format_number(row.values[row.primary])}" for row in rows[:MAX_VALUES]]
            key = folder.name.rpartition("-")[2]
            print_line(f"{key}  {record.created}  {', '.join(titles)}: {', '.join(values)}")
        return
    for line in format_run(folders[0], args.texts):
        print_line(line)


def format_run(folder: Path, texts: int) -> Iterator[str]:
    """Format a run's record for the terminal."""
    record = read_record(folder)
    yield f"run        {folder}"
    if archive := find_archive(folder):
        yield f"archive    {archive}: imported, not computed here"
    command = " ".join([*(Path(word).name for word in record.command[:1]), *record.command[1:]])
    yield f"created    {record.created}, by {command}"
    hidden = (".digest", ".texts", ".revision")
    axes = [f"{k}={v}" for k, v in record.axes.items() if v is not None and not k.endswith(hidden)]
    yield f"system     {', '.join(axes)}"
    commit = str(record.git.get("commit") or "an installed package")[:12]
    changed = ", changed since" if record.git.get("dirty") else ""
    yield f"code       {commit}{changed}; {record.hardware.get('accelerator') or record.hardware.get('processor')}"
    yield f"time       {', '.join(f'{stage} {seconds:.1f} s' for stage, seconds in record.timings.items())}"
    yield from (f"note       {note}" for note in (*record.notes, *record.describe_skipped()))
    for row in record.results:
        values = ", ".join(f"{key} {_format_number(value)}" for key, value in row.values.items())
        remarks = [*row.notes, *row.describe_missing_intervals()]
        reason = f" ({'; '.join(remarks)})" if remarks else ""
        yield f"{row.system:10} {row.metric}: {values}{reason}"
        yield f"           {row.signature}"
    texts_of_run = find_input(record.inputs, "model", *MODEL_STAGES)
    if texts_of_run is None or record.store is None or texts < 1:
        return
    file = folder / record.store / texts_of_run.artifact / "data.arrow"
    if not file.is_file():
        yield f"texts      no longer in the store ({texts_of_run.artifact}); the same command computes them again"
        return
    rows = RowFile(file)
    yield f"texts      {len(rows)} in {os.path.normpath(file.parent)}"
    for name, text in list(zip(rows.ids, rows.texts, strict=True))[:texts]:
        yield f"  {name}: {text!r}"


def _format_number(value: float) -> str:
    return f"{value:.4g}" if math.isfinite(value) else "–"


main = make_main("show", __doc__, _ARGUMENTS, _show, example="openended show 5b2c81aa")
