"""Axes: the settings in which runs differ, which of them distinguish rows, and how their values are printed."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

# The human text ignores these.
MODEL_AXES = tuple("model decoder prompting seed generations judgments min_new_tokens created archive".split())
TITLE_AXES = ("model", "decoder", "generations")  # already shown by the titles
NUM_EXAMPLES = "num_examples"
SIZE_AXES = (NUM_EXAMPLES, "task.texts")  # axes that differ between the looks at one system
STEP, TRAINING = "model.step", "model.training"  # of a checkpoint
CREATED = "created"  # the day of a run, an axis where one asks for it: of a history
STAGE = "training.stage"  # of one of the models of a family, as base, SFT
# What differs between the steps of a training.
CHECKPOINT_AXES = ("model", "model.path", "model.revision", "model.digest", "model.weights", STEP)
SHORT_LABELS = {"max_new_tokens": "length", "num_examples": "N", "embedder.max_length": "max_length"}  # in labels
# Used only where no readable axis distinguishes two systems, in this order.
UNREADABLE = ("path", "revision", "reference", "generations", "judgments", "texts", "digest", "weights")
Row = Mapping[str, str]
"""Axis → its value, printed."""


@lru_cache(maxsize=10_000)  # sorting asks for the few values of the axes again and again
def make_natural_sort_key(text: str) -> tuple[tuple[int, float, str], ...]:
    """Return a sort key that compares numbers by value: `top_k k=5` before `top_k k=40`."""
    parts = re.split(r"(\d+(?:\.\d+)?)", text)
    return tuple((0, float(p), "") if i % 2 else (1, 0.0, p) for i, p in enumerate(parts))


def get_parent_axis(axis: str) -> str:
    """Return the axis that an option belongs to: `model` for `model.dtype`; empty if the axis is not an option.

    How a model was trained (`training.stage`) belongs to it.
    """
    parent = axis.partition(".")[0] if "." in axis else ""
    return "model" if parent == "training" else parent


def describes_human_side(axis: str) -> bool:
    """Return whether an axis also applies to the human text (it does not describe the model)."""
    return axis not in MODEL_AXES and get_parent_axis(axis) not in MODEL_AXES


def is_readable(axis: str) -> bool:
    """Return whether an axis has values that a reader recognizes (not a path, revision or digest)."""
    return axis.rpartition(".")[2] not in UNREADABLE


def add_options(axes: Iterable[str], names: Iterable[str]) -> list[str]:
    """Return axes followed by all their options: `embedder` adds `embedder.path`, `embedder.layer`, …."""
    requested = list(axes)
    return list(dict.fromkeys([*requested, *(n for n in names if get_parent_axis(n) in requested)]))


def order_axes(names: Iterable[str]) -> tuple[str, ...]:
    """Return axes in a fixed order: task, model, decoder, decoder options, seed, then the others."""
    ranks = {"task": 0, "model": 1, "decoder": 2, "decoder.": 3, "seed": 4}
    kinds = {name: "decoder." if name.startswith("decoder.") else name for name in names}
    return tuple(sorted(kinds, key=lambda name: (ranks.get(kinds[name], len(ranks)), name)))


def sort_by_readability(names: Iterable[str]) -> list[str]:
    """Sort axes so that those with readable values (names, not paths or digests) come first."""
    return sorted(names, key=lambda axis: -1 if is_readable(axis) else UNREADABLE.index(axis.rpartition(".")[2]))


def format_axis_value(value: Any) -> str:  # noqa: ANN401
    """Format an axis value as a user types it (0.95, not 0.9500000001); empty for a missing value."""
    if isinstance(value, float):
        return f"{value:.12g}" if math.isfinite(value) else ""
    return "" if value is None or str(value) == "<NA>" else str(value)  # pandas' missing whole number


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
    pairs = {name: {(row.get(get_parent_axis(name), ""), row.get(name, "")) for row in rows} for name in names}
    several = [name for name, values in pairs.items() if len(values) > len({parent for parent, _ in values})]
    readable = [name for name in several if is_readable(name)]
    return select_fewest_axes(rows, sort_by_readability(name for name in pairs if not is_readable(name)), readable)


def select_fewest_axes(rows: Sequence[Row], names: Iterable[str], selected: Sequence[str] = ()) -> list[str]:
    """Extend `selected` by the axes, in order, that distinguish rows which the axes before them do not."""
    axes = list(selected)
    for name in names:
        before, after = (len({tuple(row.get(n, "") for n in tried) for row in rows}) for tried in (axes, [*axes, name]))
        axes += [name] if after > before else []
    return axes


def find_differing_fields(rows: Sequence[Row]) -> list[str]:
    """Return the field names in which rows differ, in the order of the first row."""
    names = dict.fromkeys(name for row in rows for name in row)
    return [n for n in names if len({row.get(n) for row in rows}) > 1]


def describe_differences(first: Row, second: Row, separator: str = "; ") -> str:
    """Return the fields in which two rows differ, with both values: `k (5 and 40)`."""
    return separator.join(f"{k} ({first.get(k)} and {second.get(k)})" for k in find_differing_fields([first, second]))
