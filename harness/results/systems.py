"""Group values by system, task and metric options, and find the human value of a system."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from openended.harness.core import SpecError, compare_signatures, load_members, parse_signature, render_option
from openended.harness.results.axes import (
    describes_human_side,
    find_distinguishing_axes,
    format_option,
    get_parent_axis,
)
from openended.harness.results.fold import SystemValue, make_natural_sort_key, make_order_key
from openended.harness.results.labels import find_varying_axes, label_systems

Pair = tuple[str, str]
# Signature fields that describe the data, not the options of the metric; the axes show them.
FACTS = (
    "n", "model", "length", "min_new_tokens", "task", "texts", "scorer", "tokens", "embedder", "judgments", "raters",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class System:
    """One setting (task × model × decoder × …) with its values aggregated over seeds."""

    name: str
    """Unique label in tables, figures and files."""
    items: tuple[SystemValue, ...]

    def value(self, metric: str, key: str) -> SystemValue | None:
        """Return the value of a metric; None if there is none.

        Raises:
            SpecError: If there are several with different options of the metric.
        """
        matches = [i for i in self.items if (i.metric, i.key) == (metric, key)]
        if len(matches) > 1:
            first, second = (parse_signature(i.signature) for i in matches[:2])
            differ = ", ".join(
                f"{k} ({first.get(k)} and {second.get(k)})" for k in first if first.get(k) != second.get(k)
            )
            raise SpecError(f"{self.name} has several values of {metric}, which differ in {differ}; select fewer runs")
        return matches[0] if matches else None


def group_systems(items: Iterable[SystemValue]) -> list[System]:
    """Group the model values into systems in table order; labels are unique."""
    models = [i for i in items if i.system == "model"]
    axes = find_varying_axes(models)
    groups: dict[tuple[str, ...], list[SystemValue]] = {}
    for item in sorted(models, key=lambda i: tuple(make_order_key(a, i) for a in ("model", "decoder", *axes, *i.axes))):
        groups.setdefault(tuple(item.axes.values()), []).append(item)
    labels = label_systems([g[0] for g in groups.values()])
    return [System(label, tuple(g)) for label, g in zip(labels, groups.values(), strict=True)]


def select_values(items: Iterable[SystemValue], metric: str, key: str) -> list[SystemValue]:
    """Return the values of one key of one metric for all systems."""
    return [i for i in items if i.system == "model" and (i.metric, i.key) == (metric, key)]


def select_systems_with_both(
    items: Iterable[SystemValue], first: Pair, second: Pair
) -> list[tuple[System, SystemValue, SystemValue]]:
    """Return the systems that have both of two values (metric, key), with these values."""
    both = [(s, s.value(*first), s.value(*second)) for s in group_systems(items)]
    return [(s, a, b) for s, a, b in both if a and b and math.isfinite(a.mean) and math.isfinite(b.mean)]


def has_same_data(human: SystemValue, item: SystemValue) -> bool:
    """Return whether a human value describes the human text that a system is compared with."""
    return all(v == item.axes.get(a) for a, v in human.axes.items() if describes_human_side(a))


def _has_same_definition(human: SystemValue, item: SystemValue) -> bool:
    """Return whether two values have the same signature, ignoring the number of texts if the data is the same."""
    differ = compare_signatures(human.signature, item.signature)
    return not differ or (differ == ["n"] and has_same_data(human, item))


def find_human_value(items: Iterable[SystemValue], like: SystemValue) -> SystemValue | None:
    """Return the human value that matches a system's value in metric, signature and data.

    The number of texts may differ, since a system with several samples per prompt has more texts than the humans.
    """
    humans = [i for i in items if i.system == "human" and (i.metric, i.key) == (like.metric, like.key)]
    fitting = [h for h in humans if _has_same_definition(h, like)]
    exact = [h for h in fitting if has_same_data(h, like)]
    if exact or len({h.mean for h in fitting}) != 1:
        return min(exact, key=lambda h: h.signature != like.signature, default=None)
    return fitting[0]


def group_by_data(items: Sequence[SystemValue]) -> dict[str, list[SystemValue]]:
    """Group items by task and task options, which figures must not mix.

    Returns:
        Name of the task, with options if tasks of that name differ → its items.
    """
    rows = [i.axes for i in items if i.system == "model"]
    # `task.texts` varies with model and length because of truncation; the labels show model and length already.
    names = [n for n in (rows[0] if rows else ()) if "task" in (n, get_parent_axis(n)) and n != "task.texts"]
    axes = find_distinguishing_axes(list({tuple(r.get(n, "") for n in names): r for r in rows}.values()), names)
    shown_axes = ["task", *(a for a in axes if a != "task")]
    groups: dict[tuple[str, ...], list[SystemValue]] = {}
    for item in items:
        groups.setdefault(tuple(item.axes.get(a, "") for a in shown_axes), []).append(item)
    named = {
        key: [key[0], *(format_option(a, v) for a, v in zip(shown_axes[1:], key[1:], strict=True))] for key in groups
    }
    return {", ".join(named[key]): part for key, part in sorted(groups.items())}


def group_by_options(items: Sequence[SystemValue], metric: str) -> dict[str, list[SystemValue]]:
    """Group the items of one metric by the metric's options.

    Returns:
        The options in which the groups differ, as text (empty for one group) → the items.
    """
    metric_items = [i for i in items if i.metric == metric]
    options = find_differing_options(metric_items)
    groups: dict[str, list[SystemValue]] = {}
    for item in metric_items:
        groups.setdefault(format_options(metric, options[item.signature]), []).append(item)
    return dict(sorted(groups.items(), key=lambda group: make_natural_sort_key(group[0])))


def find_differing_options(items: Sequence[SystemValue], ignored: Sequence[str] = FACTS) -> dict[str, dict[str, str]]:
    """Return signature → the fields in which the systems' values differ, except those in `ignored`."""
    fields = {i.signature: {k: v for k, v in parse_signature(i.signature).items() if k not in ignored} for i in items}
    differ = find_differing_fields([fields[i.signature] for i in items if i.system == "model"])
    return {signature: {k: values.get(k, "none") for k in differ} for signature, values in fields.items()}


def format_options(metric: str, options: Mapping[str, str]) -> str:
    """Format options as `option=value, …` without those at the metric's default; if all are, the first is shown."""
    metric_class = load_members("metric").get(metric)  # None if the metric's plugin is not installed
    usual = (
        {f.name: render_option(f.default) for f in dataclasses.fields(metric_class)} if metric_class is not None else {}
    )
    words = {k: f"{k}={v}" for k, v in options.items()}
    return ", ".join([w for k, w in words.items() if options[k] != usual.get(k)] or list(words.values())[:1])


def group_by_task_and_options(items: Sequence[SystemValue], metric: str) -> dict[tuple[str, str], list[SystemValue]]:
    """Return (task, metric options) → the items that one figure may show together."""
    groups = {
        (task, options): members_of
        for task, part in group_by_data(items).items()
        for options, members_of in group_by_options(part, metric).items()
    }
    return {key: members_of for key, members_of in groups.items() if any(i.system == "model" for i in members_of)}


def find_differing_fields(rows: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the field names in which rows differ, in the order of the first row."""
    names = dict.fromkeys(name for row in rows for name in row)
    return [n for n in names if len({row.get(n) for row in rows}) > 1]
