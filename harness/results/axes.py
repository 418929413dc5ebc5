"""Axes of runs (task, model, decoder, options): their labels, their order, and which of them distinguish systems."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Row = Mapping[str, str]

MODEL_AXES = ("model", "decoder", "seed", "generations", "judgments", "min_new_tokens")  # the human text ignores these
SHORT_LABELS = {"max_new_tokens": "length", "num_examples": "N", "embedder.max_length": "max_length"}  # in labels
# Used only where no readable axis distinguishes two systems, in this order.
UNREADABLE = ("path", "revision", "reference", "generations", "judgments", "texts", "digest")


def get_parent_axis(axis: str) -> str:
    """Return the axis that an option belongs to: `model` for `model.dtype`; empty if the axis is not an option."""
    return axis.partition(".")[0] if "." in axis else ""


def describes_human_side(axis: str) -> bool:
    """Return whether an axis also applies to the human text (it does not describe the model)."""
    return axis not in MODEL_AXES and get_parent_axis(axis) not in MODEL_AXES


def add_options(axes: Iterable[str], names: Iterable[str]) -> list[str]:
    """Return axes followed by all their options: `embedder` adds `embedder.path`, `embedder.layer`, …."""
    requested = list(axes)
    return list(dict.fromkeys([*requested, *(n for n in names if get_parent_axis(n) in requested)]))


def order_axes(names: Iterable[str]) -> tuple[str, ...]:
    """Return axes in a fixed order: task, model, decoder, decoder options, seed, then the others."""
    first = {name: rank for rank, name in enumerate(("task", "model", "decoder", "decoder.", "seed"))}

    def rank(name: str) -> tuple[int, str]:
        return first.get("decoder." if name.startswith("decoder.") else name, len(first)), name

    return tuple(sorted(set(names), key=rank))


def format_axis_value(value: Any) -> str:  # noqa: ANN401
    """Format an axis value as a user types it (0.95, not 0.9500000001); empty for a missing value."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.12g}" if math.isfinite(value) else ""
    text = str(value)
    return "" if text == "<NA>" else text  # pandas' missing whole number


def format_option(axis: str, value: str) -> str:
    """Format an option for a label; options of scorer and embedder keep their prefix."""
    label = axis if get_parent_axis(axis) in {"scorer", "embedder"} else axis.rpartition(".")[2]
    return f"{SHORT_LABELS.get(axis, label)}={value or 'none'}"


def find_distinguishing_axes(rows: Sequence[Row], names: Iterable[str]) -> list[str]:
    """Return the axes that distinguish rows.

    An option counts only if it differs between rows with the same parent axis: two models also differ in path and
    digest, but their names show that already. Paths, revisions and digests count only if they distinguish rows that
    no other axis does.
    """

    def has_several_values(axis: str) -> bool:
        pairs = {(row.get(get_parent_axis(axis), ""), row.get(axis, "")) for row in rows}
        return len(pairs) > len({parent for parent, _ in pairs})

    every = list(names)
    readable = [n for n in every if is_readable(n) and has_several_values(n)]
    return select_fewest_axes(rows, sort_by_readability(n for n in every if not is_readable(n)), readable)


def select_fewest_axes(rows: Sequence[Row], names: Iterable[str], selected: Sequence[str] = ()) -> list[str]:
    """Extend `selected` by the axes, in order, that distinguish rows which the axes before them do not."""

    def count_distinct(axes: Sequence[str]) -> int:
        return len({tuple(row.get(n, "") for n in axes) for row in rows})

    out = list(selected)
    count = count_distinct(out)
    for name in names:
        if count < len(rows) and (more := count_distinct([*out, name])) > count:
            out.append(name)
            count = more
    return out


def sort_by_readability(names: Iterable[str]) -> list[str]:
    """Sort axes so that those with readable values (names, not paths or digests) come first."""
    return sorted(names, key=_rank)


def is_readable(axis: str) -> bool:
    """Return whether an axis has values that a reader recognizes (not a path, revision or digest)."""
    return _rank(axis) < 0


def _rank(axis: str) -> int:
    last = axis.rpartition(".")[2]
    return UNREADABLE.index(last) if last in UNREADABLE else -1
