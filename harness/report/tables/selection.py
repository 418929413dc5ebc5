"""Select and split the values of a table, refuse incomparable ones in one column, and summarize the runs behind it."""

import contextlib
import math
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from openended.harness import results as measured
from openended.harness.core import SpecError, compare_signatures, load_entry
from openended.harness.results import Layout, Pair, Results, Run, SystemValue

# Values that must be shown with a primary value: perplexity means little without diversity, precision without recall,
# and HUSE without its two parts.
COMPANIONS: Mapping[str, tuple[str, ...]] = {
    "clipped_density_coverage": ("clipped_coverage",),
    "gen_ppl": ("entropy",),
    "knn_precision_recall": ("precision", "recall"),
    "huse": ("huse_q", "huse_d"),
}
# Axes that are part of signatures, so that values which differ in them are not comparable.
AXIS_OF = {"n": "num_examples", "length": "max_new_tokens"}  # field of a signature → the axis that sets it
DATA_AXES = ("task", "num_examples", "max_new_tokens", "samples", "scorer", "embedder")
DIGESTS = ("reference", "generations", "judgments", "texts", "digest", "weights")  # ends of axes that nobody reads
MAX_LISTED_VALUES = 5  # of more values, only the first and last are listed
MAX_COMMANDS = 3


@dataclass(frozen=True, slots=True)
class TablePart:
    """The values of one of the tables that a layout is split into."""

    results: Results
    items: list[SystemValue]
    stem: str  # name of its file
    where: Mapping[str, str]  # axis of the split → its value here, of a digest the number of the version
    about: tuple[str, ...]  # summary of the runs

    @property
    def tasks(self) -> str:
        """` on `, and the names of its tasks; empty without any."""
        tasks = sorted({i.axes["task"] for i in self.items if i.system == "model" and i.axes.get("task")})
        return f" on {', '.join(tasks)}" if tasks else ""


def load_analysis(name: str) -> Callable[[TablePart, Layout], list[Any]]:
    """Import an analysis by name, a function to frames; no other one is imported."""
    return load_entry("analysis", name)  # type: ignore[no-any-return]


def split_results(results: Results, layout: Layout, name: str) -> list[TablePart]:
    """Filter values as a layout says, and split them by the axes that get one table per value.

    A filter on an axis that these runs lack is ignored; `auto` selects the data axes in which the runs
    differ. Human values go into every table with the same data.
    """
    filters = {*measured.FIXED, *results.axes, *(row.metric for row in results.rows)}
    if where := {k: str(v) for k, v in layout.where.items() if {k, k.partition(".")[0]} & filters}:
        results = measured.filter_results(results, where)
    items, axes = results.values, layout.tables
    if not items:
        return []
    names = list(items[0].axes)
    if axes == ("auto",):
        used = measured.add_options((*layout.rows, *layout.columns), names)
        varying = (a for a in measured.find_varying_axes(items) if a not in used)
        axes = tuple(a for a in varying if (measured.get_parent_axis(a) or a) in DATA_AXES)
    if unknown := [axis for axis in axes if axis not in names]:
        raise SpecError(f"tables: no axis {unknown[0]!r} in these runs; they have {', '.join(names)}")
    models = measured.sort_values((i for i in items if i.system == "model"), axes)
    parts = measured.group_by(models, lambda item: tuple(item.axes[a] for a in axes))
    for values, part in parts.items():
        shared = {a: v for a, v in zip(axes, values, strict=True) if measured.describes_human_side(a)}
        part += [i for i in items if i.system != "model" and all(i.axes[a] == v for a, v in shared.items())]
    where_of = [dict(zip(axes, values, strict=True)) for values in parts]
    for axis in (a for a in axes if a.rpartition(".")[2] in DIGESTS):
        versions = list(dict.fromkeys(where[axis] for where in where_of))
        for where in where_of:
            where[axis] = f"version {versions.index(where[axis]) + 1} of {len(versions)}"
    return [
        TablePart(results, part, stem, where, summarize_sources(part, results.runs))
        for part, where, stem in zip(parts.values(), where_of, name_files(name, list(parts)), strict=True)
    ]


def name_files(name: str, parts: Sequence[Sequence[str]]) -> list[str]:
    """Return a unique file stem for every part."""
    names: list[str] = []
    for values in parts:
        stem = f"{name}{''.join('-' + make_slug(v) for v in values)}"
        names.append(stem if stem not in names else f"{stem}-{len(names) + 1}")
    return names


def make_slug(text: str) -> str:
    """Return a text as part of a file name."""
    return "".join(c if c.isalnum() or c in "._=" else "_" for c in text) or "none"


def select_pairs(items: Sequence[SystemValue], metrics: Iterable[str] = (), *, companions: bool = True) -> list[Pair]:
    """Return the (metric, key) pairs that `metrics` names (empty: all metrics), without those that were not measured.

    Without a key it is the primary value and its companions. One that was not asked for is left out if another metric's
    column has the same numbers (two metrics report the entropy of a text).
    """
    models = [i for i in items if i.system == "model"]
    columns: dict[Pair, dict[tuple[str, ...], float]] = {}
    for item in sorted(models, key=lambda i: not i.primary):  # of each metric, the primary key first
        columns.setdefault(item.pair, {})[tuple(item.axes.values())] = item.mean
    chosen: dict[Pair, bool] = {}  # whether it is a companion that was not asked for
    for pattern in metrics or dict.fromkeys(i.metric for i in models):
        metric, _, key = pattern.partition(".")
        keys = [pair[1] for pair in columns if pair[0] == metric]
        requested = keys if key == "*" else [key] if key else keys[:1]
        others = COMPANIONS.get(metric, ()) if companions and not key else ()
        chosen |= {(metric, k): False for k in requested if k in keys}
        chosen |= {(metric, k): chosen.get((metric, k), True) for k in others if k in keys}

    def is_repeated(pair: Pair) -> bool:
        values = columns[pair]
        others = [columns[other] for other in chosen if other[0] != pair[0] and columns[other].keys() == values.keys()]
        return any(all(math.isclose(v, other[a], rel_tol=1e-9) for a, v in values.items()) for other in others)

    return [pair for pair, is_companion in chosen.items() if not (is_companion and is_repeated(pair))]


def select_minority(items: Sequence[SystemValue]) -> list[SystemValue]:
    """Return the items whose signature is not the most frequent one."""
    counts = Counter(item.signature for item in items)
    return [item for item in items if item.signature != counts.most_common(1)[0][0]]


def check_signatures(items: Iterable[SystemValue], table: str, allow: Sequence[str] = ()) -> None:
    """Check that values of one column have equal signatures."""
    items = list(items)
    for item in (i for i in items if i.signature != items[0].signature):
        first = items[0]
        left, right = first.fields, item.fields
        if not (differ := [k for k in compare_signatures(first.signature, item.signature) if k not in allow]):
            continue
        filters = []  # that keep the values with one value of a field
        for name in differ:
            axis = AXIS_OF.get(name, name)
            is_axis = axis in DATA_AXES and len({i.axes.get(axis, "") for i in items}) > 1
            option = f"{axis}={first.axes[axis]}" if is_axis else f"{item.metric}.{name}={left.get(name)}"
            filters.append(f"--where '{option}'{f' (or --tables {axis})' if is_axis else ''}")
        fields = "; ".join(f"{k} ({left.get(k)} and {right.get(k)})" for k in differ)
        axes = measured.find_varying_axes(items)
        labels = " and ".join(measured.label_system(i, axes, several_models=True) for i in (first, item))
        minority = select_minority([i for i in items if i.system == "model"] or items)
        runs = sorted({str(run.folder) for i in minority for run, _ in i.sources})
        more = f" and {len(runs) - MAX_LISTED_VALUES} more" if len(runs) > MAX_LISTED_VALUES else ""
        raise SpecError(
            f"table {table}, column {item.metric}: two values are not comparable, their signatures differ in {fields}: "
            f"{labels}; keep one of them: {' or '.join(filters)}; the runs that differ: "
            f"{', '.join(runs[:MAX_LISTED_VALUES])}{more}"
        )


# Names of a layout ----------------------------------------------------------------------------------------------------


def list_options(axis: str, row: Mapping[str, str]) -> dict[str, str]:
    """Return the options of the value of an axis, without its name."""
    return {k.removeprefix(f"{axis}."): v for k, v in row.items() if k.startswith(f"{axis}.")}


def find_name(names: Iterable[str], axis: str, *rows: Mapping[str, str]) -> str | None:
    """Return the first of some names that fits the value of an axis in a row, or it and its options in the last row.

    Such as `beam num_beams=4`.
    """
    keys, options = [row[axis] for row in rows if axis in row], list_options(axis, rows[-1])
    for name in names:
        word, *words = name.split(" ")
        typed = dict(each.split("=", 1) for each in words if "=" in each)
        if name in keys or (word in keys and len(typed) == len(words) > 0 and typed.items() <= options.items()):
            return name
    return None


# Runs -----------------------------------------------------------------------------------------------------------------


def summarize_sources(items: Iterable[SystemValue], runs: Sequence[Run]) -> tuple[str, ...]:
    """Summarize the runs behind values: data, date and commands.

    Everything comes from the records, so equal runs always give equal lines.
    """
    sources = {run for item in items if item.system == "model" for run, _ in item.sources}
    used = [run for run in runs if run in sources]
    if not used:
        return ()
    newest = max(run.created for run in used)
    with contextlib.suppress(ValueError):
        newest = f"{datetime.fromisoformat(newest):%Y-%m-%d %H:%M} UTC"
    origins = Counter(run.archive for run in used if run.archive)
    archives = ", ".join(f"{name} ({count} of {len(used)} runs)" for name, count in sorted(origins.items()))
    return (
        *([data] if (data := _describe_data(used)) else []),
        *([f"From archives, not computed here: {archives}."] if archives else []),
        f"Newest run: {newest}.",
        *collect_commands(used),
    )


def collect_commands(runs: Sequence[Run]) -> list[str]:
    """Return the distinct command lines of the runs as typed by the user, newest first."""
    lines: dict[str, None] = {}
    for words in (run.command for run in sorted(runs, key=lambda run: run.created, reverse=True) if run.command):
        path = Path(words[0])
        program = ["python", "-m", "openended"] if path.name == "__main__.py" else path.name.split()
        lines[f"Command: {shlex.join([*program, *words[1:]])}"] = None
    rest = len(lines) - MAX_COMMANDS
    more = [f"{rest} more {'command' if rest == 1 else 'commands'}: see the runs' records."] if rest > 0 else []
    return [*list(lines)[:MAX_COMMANDS], *more]


def _describe_data(runs: Sequence[Run]) -> str:
    """Describe the task and the number and length of texts; of judgments alone, only their file."""
    judgments = format_axis_values(runs, "judgments")
    if judgments and not any(run.axes.get("decoder") for run in runs):
        return f"Judgments {judgments}."
    names = ("task", "num_examples", "samples", "max_new_tokens", "seed")
    task, examples, samples, lengths, seeds = (format_axis_values(runs, name) for name in names)
    # `min_new_tokens=max_new_tokens` forbids the end of a text before its last token.
    most = "exactly" if format_axis_values(runs, "min_new_tokens") == "max_new_tokens" else "at most"
    parts = (
        task and f"task {task}",
        examples and f"{examples} examples",
        f"{samples} samples of each" if samples not in ("", "1") else "",
        f"{most} {lengths} new tokens" if lengths else "whole texts",
        seeds and f"{'seed' if seeds.isdecimal() else 'seeds'} {seeds}",
        judgments and f"judgments {judgments}",
    )
    text = "; ".join(filter(None, parts))
    return f"{text[:1].upper()}{text[1:]}."


def format_axis_values(runs: Iterable[Run], axis: str) -> str:
    """List the values of an axis; of many, the first, the last and their number; empty if there are none."""
    texts = {measured.format_axis_value(run.axes.get(axis)) for run in runs} - {""}
    values = sorted(texts, key=measured.make_natural_sort_key)
    if len(values) > MAX_LISTED_VALUES:
        return f"{values[0]} to {values[-1]} ({len(values)} values)"
    return ", ".join(values)
