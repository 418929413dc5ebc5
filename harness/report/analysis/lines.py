"""Lines of systems that differ in one swept setting, in figures and in claims about trends."""

import dataclasses
import math
from collections.abc import Sequence
from typing import NamedTuple

from openended.harness import results as measured
from openended.harness.results import CREATED, FACTS, STAGE, STEP, TRAINING, SystemValue

FIELDS = {"num_examples": "n", "max_new_tokens": "length", "embedder.max_length": "embedder"}  # of the signature
LEAST = 3  # points that make a line


class Line(NamedTuple):
    """Points of a system that differ only in the swept value."""

    label: str
    points: tuple[tuple[float, SystemValue], ...]


def group_into_lines(items: Sequence[SystemValue], axis: str, order: Sequence[str] = ()) -> list[Line]:
    """Group points that share all but the swept value: a number, or the index in `order`."""
    # The axes show who truncated the texts and how; all of these fields change with the length or the task's options.
    skipped = {axis.removeprefix("option."), FIELDS.get(axis, ""), "texts", "min_new_tokens"}
    skipped |= {"task"} if measured.get_parent_axis(axis) == "task" else set()
    varying: tuple[str, ...] = measured.CHECKPOINT_AXES if axis in (STEP, "model") else (axis,)
    if axis == CREATED:  # the model of a name changes from day to day
        varying = (axis, *(name for name in measured.CHECKPOINT_AXES if name != "model"))
    if axis == STAGE:  # the family names a line, whatever differs between its models
        skipped |= {"n", "model"}
        varying = (axis, *(name for item in items[:1] for name in item.axes if name.split(".")[0] == "model"))
    groups: dict[tuple[tuple[str, str], ...], dict[float, SystemValue]] = {}
    for item in items:
        fields = item.fields
        swept = item.axes if not axis.startswith("option.") else {axis: fields.get(axis.removeprefix("option."), "")}
        text = swept.get(axis, "")
        value = parse_number(text) if not order else order.index(text) if text in order else None
        if value is not None:
            fixed = {k: v for k, v in item.axes.items() if k not in (*varying, "task.texts")}
            fixed |= {f"option.{k}": v for k, v in fields.items() if k not in skipped}
            groups.setdefault(tuple(sorted(fixed.items())), {})[value] = item
    least = min(LEAST, len(order) or LEAST)
    series = [(dict(fixed), sorted(points.items())) for fixed, points in sorted(groups.items()) if len(points) >= least]
    # A line is named like a system that lacks the swept value. A decoder's title includes its options, so along one of
    # them it is its name, and the other options are named if they differ.
    like_systems = []
    for fixed, ((_, item), *_) in series:
        model = fixed[TRAINING] if axis == STEP else "" if axis in ("model", STAGE) else item.titles[0]
        decoder = fixed.get("decoder", "") if axis.startswith("decoder.") else item.titles[1]
        named = {TRAINING, *(f"option.{fact}" for fact in FACTS)}  # elsewhere: in the title of the model, in the table
        axes = {name: value for name, value in fixed.items() if name not in named}
        like_systems.append(dataclasses.replace(item, axes=axes, titles=(model, decoder)))
    labels = measured.label_systems(like_systems)
    return [Line(label, tuple(points)) for label, (_, points) in zip(labels, series, strict=True)]


def parse_number(text: str) -> float | None:
    """Return a finite number, or None."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def is_set(value: str) -> bool:
    """Return whether an axis has a value other than none."""
    return value.lower() not in ("", "none", "null", "false")


def has_enough_numbers(texts: Sequence[str]) -> bool:
    """Return whether texts are numbers, at least as many different ones as make a line."""
    return len({parse_number(text) for text in texts} - {None}) >= LEAST
