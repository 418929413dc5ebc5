"""Select and split the values of a table, and refuse incomparable values in one column."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from openended.harness.core import SpecError, compare_signatures, parse_signature
from openended.harness.report.tables.run_summary import summarize_sources
from openended.harness.results import (
    Layout,
    Pair,
    Results,
    SystemValue,
    add_options,
    describes_human_side,
    filter_results,
    find_varying_axes,
    get_parent_axis,
    group_by,
    label_system,
    sort_values,
)

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


@dataclass(frozen=True, slots=True)
class TablePart:
    """The values of one of the tables that a layout is split into."""

    items: list[SystemValue]
    stem: str
    """Name of its file."""
    where: Mapping[str, str]
    """Axis of the split → its value here."""
    about: tuple[str, ...]
    """Summary of the runs."""

    @property
    def tasks(self) -> str:
        """` on `, and the names of its tasks; empty without any."""
        tasks = sorted({i.axes["task"] for i in self.items if i.system == "model" and i.axes.get("task")})
        return f" on {', '.join(tasks)}" if tasks else ""


def select(results: Results, layout: Layout) -> Results:
    """Apply the filter of a layout; filters on axes that these runs lack are ignored."""
    where = {k: str(v) for k, v in layout.where.items() if k in results.frame.columns}
    return filter_results(results, where) if where else results


def split_results(results: Results, layout: Layout, name: str) -> list[TablePart]:
    """Split values by the axes that get one table per value; `auto` selects the data axes in which the runs differ.

    Human values go into every table with the same data.
    """
    items, axes = results.values, layout.split
    names = list(items[0].axes) if items else []
    if axes == ("auto",):
        used = add_options((*layout.rows, *layout.columns), names)
        axes = tuple(a for a in find_varying_axes(items) if (get_parent_axis(a) or a) in DATA_AXES and a not in used)
    for axis in axes:
        if items and axis not in names:
            raise SpecError(f"split: no axis {axis!r} in these runs; they have {', '.join(names)}")
    models = sort_values((i for i in items if i.system == "model"), axes)
    parts = group_by(models, lambda item: tuple(item.axes[a] for a in axes))
    for values, part in parts.items():
        shared = {a: v for a, v in zip(axes, values, strict=True) if describes_human_side(a)}
        part += [i for i in items if i.system != "model" and all(i.axes[a] == v for a, v in shared.items())]
    return [
        TablePart(part, stem, dict(zip(axes, values, strict=True)), summarize_sources(part, results.runs))
        for (values, part), stem in zip(parts.items(), name_files(name, list(parts)), strict=True)
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


def select_pairs(items: Sequence[SystemValue], layout: Layout) -> list[Pair]:
    """Return the (metric, key) pairs that the layout shows, in order, without those that were not measured.

    A companion that was not asked for is left out if another metric's column has the same numbers (two metrics report
    the entropy of a text).
    """
    columns: dict[Pair, dict[tuple[str, ...], float]] = {}
    keys: dict[str, dict[str, None]] = {}  # of each metric, the primary one first
    for item in sorted((i for i in items if i.system == "model"), key=lambda i: not i.primary):
        columns.setdefault(item.pair, {})[tuple(item.axes.values())] = item.mean
    for item in (i for i in items if i.system == "model"):
        keys.setdefault(item.metric, {pair[1]: None for pair in columns if pair[0] == item.metric})
    pairs: dict[Pair, None] = {}
    for pattern in layout.metrics or tuple(keys):
        metric, _, key = pattern.partition(".")
        measured = list(keys.get(metric, ()))
        chosen = [key] if key else [*measured[:1], *(COMPANIONS.get(metric, ()) if layout.companions else ())]
        pairs |= dict.fromkeys((metric, k) for k in (measured if key == "*" else chosen) if k in measured)
    requested = {tuple(pattern.split(".", 1)) for pattern in layout.metrics}

    def is_repeated(pair: Pair) -> bool:
        values = columns[pair]
        others = [columns[other] for other in pairs if other[0] != pair[0] and columns[other].keys() == values.keys()]
        return any(all(math.isclose(v, other[a], rel_tol=1e-9) for a, v in values.items()) for other in others)

    def is_companion(pair: Pair) -> bool:
        return pair[1] in COMPANIONS.get(pair[0], ()) and not {pair, (pair[0], "*")} & requested

    return [pair for pair in pairs if not (is_companion(pair) and is_repeated(pair))]


class IncomparableError(SpecError):
    """Raised if values with different signatures would share a column; carries these values."""

    def __init__(self, message: str, items: Sequence[SystemValue]) -> None:
        super().__init__(message)
        self.items = tuple(items)


def select_minority(items: Sequence[SystemValue]) -> list[SystemValue]:
    """Return the items whose signature is not the most frequent one."""
    usual = Counter(item.signature for item in items).most_common(1)[0][0]
    return [item for item in items if item.signature != usual]


def check_signatures(metric: str, items: Iterable[SystemValue], table: str, allow: Sequence[str] = ()) -> None:
    """Check that values of one column have equal signatures."""
    items = list(items)
    for item in (i for i in items if i.signature != items[0].signature):
        left, right = parse_signature(items[0].signature), parse_signature(item.signature)
        if not (differ := [k for k in compare_signatures(items[0].signature, item.signature) if k not in allow]):
            continue

        def suggest_filter(field: str, value: str | None) -> str:
            """Return the option that keeps the values with one value of a signature field."""
            axis = AXIS_OF.get(field, field)
            if axis in DATA_AXES and len({i.axes.get(axis, "") for i in items}) > 1:
                return f"--where '{axis}={items[0].axes[axis]}' (or --split {axis})"
            return f"--where '{metric}.{field}={value}'"

        fields = "; ".join(f"{k} ({left.get(k)} and {right.get(k)})" for k in differ)
        axes = find_varying_axes(items)
        labels = " and ".join(label_system(i, axes, several_models=True) for i in (items[0], item))
        raise IncomparableError(
            f"table {table}, column {metric}: two values are not comparable, their signatures differ in {fields}: "
            f"{labels}; keep one of them: {' or '.join(suggest_filter(k, left.get(k)) for k in differ)}",
            select_minority([i for i in items if i.system == "model"] or items),
        )
