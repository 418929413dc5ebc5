"""What a table shows of all values: which metrics, in which tables, and what may not stand side by side."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from openended.harness.core import SpecError, parse_signature
from openended.harness.results import (
    Folded,
    Layout,
    Results,
    filtered,
    head_of,
    label_of,
    of_human,
    order_key,
    varying,
    with_options,
)

# A primary value that must not be read without the others: perplexity says nothing without diversity, precision
# nothing without recall, HUSE nothing without its two parts.
COMPANIONS: Mapping[str, tuple[str, ...]] = {
    "gen_ppl": ("entropy",),
    "knn_precision_recall": ("precision", "recall"),
    "huse": ("huse_q", "huse_d"),
}


# Axes, with their options, that the signatures know: values that differ in them are not comparable.
AXIS_OF = {"n": "num_examples", "length": "max_new_tokens"}  # field of a signature → the axis that sets it
DATA_AXES = ("task", "num_examples", "max_new_tokens", "samples", "scorer", "embedder")


def split_axes(items: Sequence[Folded], layout: Layout) -> tuple[str, ...]:
    """Return the axes that make tables of their own; `auto` are the axes of the data in which the runs differ."""
    if layout.split != ("auto",):
        return layout.split
    names = list(items[0].axes) if items else []
    taken = with_options((*layout.rows, *layout.columns), names)
    return tuple(a for a in varying(items) if (head_of(a) or a) in DATA_AXES and a not in taken)


def select(results: Results, layout: Layout) -> Results:
    """Apply a layout's own filter; a filter on an axis that these runs lack leaves everything."""
    where = {k: str(v) for k, v in layout.where.items() if k in results.frame.columns}
    return filtered(results, where) if where else results


def split_items(items: Sequence[Folded], axes: Sequence[str]) -> dict[tuple[str, ...], list[Folded]]:
    """Group items by the axes that make tables of their own."""
    for axis in axes:
        if items and axis not in items[0].axes:
            raise SpecError(f"split: no axis {axis!r} in these runs; they have {', '.join(items[0].axes)}")
    parts: dict[tuple[str, ...], list[Folded]] = {}
    for item in sorted((i for i in items if i.system == "model"), key=lambda i: tuple(order_key(a, i) for a in axes)):
        parts.setdefault(tuple(item.axes[a] for a in axes), []).append(item)
    for item in (i for i in items if i.system != "model"):  # the human side stands in every table that it fits
        for values, part in parts.items():
            if all(item.axes[a] == v for a, v in zip(axes, values, strict=True) if of_human(a)):
                part.append(item)
    return parts


def stems(name: str, parts: Sequence[Sequence[str]]) -> list[str]:
    """Return the stem of the files of every part; no two are alike."""
    made: list[str] = []
    for values in parts:
        stem = f"{name}{''.join('-' + slug(v) for v in values)}"
        made.append(stem if stem not in made else f"{stem}-{len(made) + 1}")
    return made


def slug(text: str) -> str:
    """Return a text as part of a file name."""
    return "".join(c if c.isalnum() or c in "._=" else "_" for c in text) or "none"


def wanted(items: Sequence[Folded], layout: Layout) -> list[tuple[str, str]]:
    """Return the (metric, key) pairs that the layout shows, in order; those not measured are left out."""
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
            out |= dict.fromkeys((metric, k) for k in _keys(metric, key, have[metric], primary, layout.companions))
    asked = {tuple(pattern.split(".", 1)) for pattern in layout.metrics}
    named = [p for p in out if p in asked or (p[0], "*") in asked or p[1] not in COMPANIONS.get(p[0], ())]
    return [p for p in out if p in named or not _repeated(p, out, items)]


def _repeated(pair: tuple[str, str], others: Iterable[tuple[str, str]], items: Sequence[Folded]) -> bool:
    """Say whether a column of another metric shows the same numbers (two metrics state the entropy of a text)."""
    values: dict[tuple[str, str], dict[tuple[str, ...], float]] = {}
    for item in (i for i in items if i.system == "model"):
        values.setdefault((item.metric, item.key), {})[tuple(item.axes.values())] = item.mean
    own = values.get(pair, {})
    columns = [values.get(o, {}) for o in others if o[0] != pair[0]]
    return any(
        own.keys() == c.keys() and all(math.isclose(v, c[a], rel_tol=1e-9) for a, v in own.items()) for c in columns
    )


def _keys(metric: str, key: str, have: Sequence[str], primary: Mapping[str, str], companions: bool) -> list[str]:
    first = [primary[metric]] if metric in primary else list(have[:1])
    if key == "*":
        return [*first, *(k for k in have if k not in first)]
    if key:
        return [key] if key in have else []
    return [*first, *(k for k in COMPANIONS.get(metric, ()) if companions and k in have and k not in first)]


class NotComparableError(SpecError):
    """Values of different signatures would share a column; knows whose."""

    def __init__(self, message: str, items: Sequence[Folded]) -> None:
        super().__init__(message)
        self.items = tuple(items)


def fewest(items: Sequence[Folded]) -> list[Folded]:
    """Return the items of the signatures that the fewest have: all but those of the most frequent one."""
    counts = Counter(item.signature for item in items)
    usual = max(counts, key=lambda signature: counts[signature])
    return [item for item in items if item.signature != usual]


def typed(metric: str, field: str, value: str, items: Sequence[Folded]) -> str:
    """Return what to type to keep the values with one value of a signature's field."""
    axis = AXIS_OF.get(field, field)
    there = {item.axes.get(axis, "") for item in items}
    if axis in DATA_AXES and len(there) > 1:
        known = next((i.axes[axis] for i in items if parse_signature(i.signature).get(field) == value), "")
        return f"--where '{axis}={known}' (or --split {axis})"
    return f"--where '{metric}.{field}={value}'"


def check_signatures(metric: str, own: Sequence[Folded], table: str, allow: Sequence[str] = ()) -> None:
    """Refuse to set values of different signatures side by side.

    Raises:
        SpecError: Names the fields that differ, their values and the two systems.
    """
    for item in own[1:]:
        first = own[0]
        if item.signature == first.signature:
            continue
        left, right = parse_signature(first.signature), parse_signature(item.signature)
        differ = [k for k in {**left, **right} if left.get(k) != right.get(k) and k not in allow]
        if differ:
            fields = "; ".join(f"{k} ({left.get(k)} and {right.get(k)})" for k in differ)
            told = varying(own)
            one, other = (label_of(i, told, several_models=True) for i in (first, item))
            options = " or ".join(typed(metric, k, str(left.get(k)), own) for k in differ)
            raise NotComparableError(
                f"table {table}, column {metric}: two values are not comparable, their signatures differ in {fields}: "
                f"{one} and {other}; keep one of them: {options}",
                fewest([i for i in own if i.system == "model"] or own),
            )
