"""Select and split the values of a table, and refuse incomparable values in one column."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from openended.harness.core import SpecError, parse_signature
from openended.harness.results import (
    Layout,
    Results,
    SystemValue,
    add_options,
    describes_human_side,
    filter_results,
    find_varying_axes,
    get_parent_axis,
    label_system,
    make_order_key,
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


def split_axes(items: Sequence[SystemValue], layout: Layout) -> tuple[str, ...]:
    """Return the axes that get one table per value; `auto` selects the data axes in which the runs differ."""
    if layout.split != ("auto",):
        return layout.split
    names = list(items[0].axes) if items else []
    used = add_options((*layout.rows, *layout.columns), names)
    return tuple(a for a in find_varying_axes(items) if (get_parent_axis(a) or a) in DATA_AXES and a not in used)


def select(results: Results, layout: Layout) -> Results:
    """Apply the filter of a layout; filters on axes that these runs lack are ignored."""
    where = {k: str(v) for k, v in layout.where.items() if k in results.frame.columns}
    return filter_results(results, where) if where else results


def split_items(items: Sequence[SystemValue], axes: Sequence[str]) -> dict[tuple[str, ...], list[SystemValue]]:
    """Group items by the axes that get one table per value."""
    for axis in axes:
        if items and axis not in items[0].axes:
            raise SpecError(f"split: no axis {axis!r} in these runs; they have {', '.join(items[0].axes)}")
    parts: dict[tuple[str, ...], list[SystemValue]] = {}
    for item in sorted(
        (i for i in items if i.system == "model"), key=lambda i: tuple(make_order_key(a, i) for a in axes)
    ):
        parts.setdefault(tuple(item.axes[a] for a in axes), []).append(item)
    for item in (i for i in items if i.system != "model"):  # human values go into every table with the same data
        for values, part in parts.items():
            if all(item.axes[a] == v for a, v in zip(axes, values, strict=True) if describes_human_side(a)):
                part.append(item)
    return parts


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


def select_pairs(items: Sequence[SystemValue], layout: Layout) -> list[tuple[str, str]]:
    """Return the (metric, key) pairs that the layout shows, in order, without those that were not measured."""
    have: dict[str, list[str]] = {}
    primary: dict[str, str] = {}
    for item in (i for i in items if i.system == "model"):
        keys = have.setdefault(item.metric, [])
        if item.key not in keys:
            keys.append(item.key)
        if item.primary:
            primary.setdefault(item.metric, item.key)
    out: dict[tuple[str, str], None] = {}
    for pattern in layout.metrics or tuple(have):
        metric, _, key = pattern.partition(".")
        if metric in have:
            out |= dict.fromkeys(
                (metric, k) for k in _select_keys(metric, key, have[metric], primary, layout.companions)
            )
    requested = {tuple(pattern.split(".", 1)) for pattern in layout.metrics}
    named = [p for p in out if p in requested or (p[0], "*") in requested or p[1] not in COMPANIONS.get(p[0], ())]
    return [p for p in out if p in named or not _is_repeated(p, out, items)]


def _is_repeated(pair: tuple[str, str], others: Iterable[tuple[str, str]], items: Sequence[SystemValue]) -> bool:
    """Return whether another metric's column has the same numbers (two metrics report the entropy of a text)."""
    values: dict[tuple[str, str], dict[tuple[str, ...], float]] = {}
    for item in (i for i in items if i.system == "model"):
        values.setdefault((item.metric, item.key), {})[tuple(item.axes.values())] = item.mean
    values_of_pair = values.get(pair, {})
    columns = [values.get(o, {}) for o in others if o[0] != pair[0]]
    return any(
        values_of_pair.keys() == c.keys()
        and all(math.isclose(v, c[a], rel_tol=1e-9) for a, v in values_of_pair.items())
        for c in columns
    )


def _select_keys(metric: str, key: str, have: Sequence[str], primary: Mapping[str, str], companions: bool) -> list[str]:
    first = [primary[metric]] if metric in primary else list(have[:1])
    if key == "*":
        return [*first, *(k for k in have if k not in first)]
    if key:
        return [key] if key in have else []
    return [*first, *(k for k in COMPANIONS.get(metric, ()) if companions and k in have and k not in first)]


class IncomparableError(SpecError):
    """Raised if values with different signatures would share a column; carries these values."""

    def __init__(self, message: str, items: Sequence[SystemValue]) -> None:
        super().__init__(message)
        self.items = tuple(items)


def select_minority(items: Sequence[SystemValue]) -> list[SystemValue]:
    """Return the items whose signature is not the most frequent one."""
    counts = Counter(item.signature for item in items)
    usual = max(counts, key=lambda signature: counts[signature])
    return [item for item in items if item.signature != usual]


def suggest_filter(metric: str, field: str, value: str, items: Sequence[SystemValue]) -> str:
    """Return the command-line option that keeps the values with one value of a signature field."""
    axis = AXIS_OF.get(field, field)
    axis_values = {item.axes.get(axis, "") for item in items}
    if axis in DATA_AXES and len(axis_values) > 1:
        axis_value = next((i.axes[axis] for i in items if parse_signature(i.signature).get(field) == value), "")
        return f"--where '{axis}={axis_value}' (or --split {axis})"
    return f"--where '{metric}.{field}={value}'"


def select_comparable(
    metric: str, items: Sequence[SystemValue], table: str, layout: Layout
) -> tuple[list[SystemValue], list[SystemValue]]:
    """Return the values that may share a column, and with `differing: mark` those that may not."""
    if layout.differing != "mark" or not items:
        check_signatures(metric, items, table, layout.allow)
        return list(items), []
    others = select_minority(items)
    signatures = {item.signature for item in others}
    return [item for item in items if item.signature not in signatures], others


def check_signatures(metric: str, items: Sequence[SystemValue], table: str, allow: Sequence[str] = ()) -> None:
    """Check that values of one column have equal signatures."""
    for item in items[1:]:
        first = items[0]
        if item.signature == first.signature:
            continue
        left, right = parse_signature(first.signature), parse_signature(item.signature)
        differ = [k for k in {**left, **right} if left.get(k) != right.get(k) and k not in allow]
        if differ:
            fields = "; ".join(f"{k} ({left.get(k)} and {right.get(k)})" for k in differ)
            axes = find_varying_axes(items)
            first_label, second_label = (label_system(i, axes, several_models=True) for i in (first, item))
            options = " or ".join(suggest_filter(metric, k, str(left.get(k)), items) for k in differ)
            raise IncomparableError(
                f"table {table}, column {metric}: two values are not comparable, their signatures differ in {fields}: "
                f"{first_label} and {second_label}; keep one of them: {options}",
                select_minority([i for i in items if i.system == "model"] or items),
            )
