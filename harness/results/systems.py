"""Systems: their values, their unique labels, and the groups that a figure or table may show together."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from openended.harness.core import SpecError, load_members, parse_signature, render_option
from openended.harness.results.axes import (
    describes_human_side,
    find_distinguishing_axes,
    format_option,
    get_parent_axis,
    is_readable,
    select_fewest_axes,
    sort_by_readability,
)
from openended.harness.results.values import Pair, SystemValue, group_by, make_natural_sort_key, sort_values

TITLE_AXES = ("model", "decoder", "generations")  # already shown by the titles
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
        matches = [i for i in self.items if i.pair == (metric, key)]
        if len(matches) > 1:
            first, second = (parse_signature(i.signature) for i in matches[:2])
            differ = describe_differences(first, second, ", ")
            raise SpecError(f"{self.name} has several values of {metric}, which differ in {differ}; select fewer runs")
        return matches[0] if matches else None


def group_systems(items: Iterable[SystemValue]) -> list[System]:
    """Group the model values into systems in table order; labels are unique."""
    models = [i for i in items if i.system == "model"]
    order = ("model", "decoder", *find_varying_axes(models), *(models[0].axes if models else ()))
    groups = group_by(sort_values(models, order), lambda item: tuple(item.axes.values()))
    labels = label_systems([g[0] for g in groups.values()])
    return [System(label, tuple(g)) for label, g in zip(labels, groups.values(), strict=True)]


def select_systems_with_both(
    items: Iterable[SystemValue], first: Pair, second: Pair
) -> list[tuple[System, SystemValue, SystemValue]]:
    """Return the systems that have both of two values (metric, key), with these values."""
    both = ((s, s.value(*first), s.value(*second)) for s in group_systems(items))
    return [(s, a, b) for s, a, b in both if a and b and math.isfinite(a.mean) and math.isfinite(b.mean)]


# Labels ---------------------------------------------------------------------------------------------------------------


def find_varying_axes(items: Iterable[SystemValue]) -> list[str]:
    """Return the axes other than model and decoder that distinguish the model rows."""
    rows = list({tuple(f.axes.items()): f.axes for f in items if f.system == "model"}.values())
    names = [n for n in (rows[0] if rows else ()) if n not in TITLE_AXES and get_parent_axis(n) not in TITLE_AXES]
    return find_distinguishing_axes(rows, names)


def label_systems(items: Sequence[SystemValue], skip: Iterable[str] = ()) -> list[str]:
    """Label systems by model, decoder and other options that differ, plus what makes the labels unique.

    Args:
        items: One value per system; no two agree in all axes.
        skip: Axes that are shown elsewhere (in column titles or the table title).
    """
    several = len({i.titles[0] for i in items if i.system == "model"}) > 1
    left = set(skip)
    names = [n for n in dict.fromkeys(n for i in items for n in i.axes) if n not in left]
    options = [n for n in names if n not in TITLE_AXES and get_parent_axis(n) != "decoder" and is_readable(n)]
    axes = find_distinguishing_axes([i.axes for i in items], options)
    # An option that some systems lack and that is equal for the others does not distinguish two systems.
    axes = [a for a in axes if len({i.axes[a] for i in items if i.axes.get(a)}) > 1]
    labels = [label_system(i, axes, several_models=several) for i in items]
    for label in [label for label, count in Counter(labels).items() if count > 1]:
        alike = [at for at, candidate in enumerate(labels) if candidate == label]
        rows = [items[at].axes for at in alike]
        order = sort_by_readability(sorted(names, key=lambda n: get_parent_axis(n) != "decoder"))
        differ = select_fewest_axes(rows, order)
        for at, row in zip(alike, rows, strict=True):
            labels[at] = f"{label} ({', '.join(format_option(n, row.get(n, '')) for n in differ)})" if differ else label
    return labels


def label_system(item: SystemValue, axes: Sequence[str], *, several_models: bool) -> str:
    """Label a row by its decoder, its model if there are several, and the other axes that differ."""
    base = "human"
    if item.system == "model":
        model, decoder = item.titles
        imported = item.axes.get("decoder") == "imported"  # has its own name
        names = (model, "") if imported and model else (model if several_models else "", decoder)
        base = " ".join(p for p in names if p) or model or item.axes.get("system", "") or "model"
    visible = (a for a in axes if item.axes.get(a) and "decoder" not in (a, get_parent_axis(a)) and a != "model")
    rest = [format_option(a, item.axes[a]) for a in visible if item.system == "model" or describes_human_side(a)]
    return ", ".join([base, *rest])


# Groups ---------------------------------------------------------------------------------------------------------------


def group_by_data(items: Sequence[SystemValue]) -> dict[str, list[SystemValue]]:
    """Group items by task and task options, which figures must not mix.

    Returns:
        Name of the task, with options if tasks of that name differ → its items.
    """
    rows = [i.axes for i in items if i.system == "model"]
    # `task.texts` varies with model and length because of truncation; the labels show model and length already.
    names = [n for n in (rows[0] if rows else ()) if "task" in (n, get_parent_axis(n)) and n != "task.texts"]
    axes = find_distinguishing_axes(list({tuple(r.get(n, "") for n in names): r for r in rows}.values()), names)
    options = [a for a in axes if a != "task"]
    groups = group_by(items, lambda item: tuple(item.axes.get(a, "") for a in ("task", *options)))
    return {", ".join([task, *map(format_option, options, of)]): part for (task, *of), part in sorted(groups.items())}


def group_by_options(items: Sequence[SystemValue], metric: str) -> dict[str, list[SystemValue]]:
    """Group the items of one metric by the metric's options.

    Returns:
        The options in which the groups differ, as text (empty for one group) → the items.
    """
    metric_items = [i for i in items if i.metric == metric]
    # The option `system` of a metric of human judgments is the system's own name in the file.
    options = find_differing_options(metric_items, (*FACTS, "system"))
    groups = group_by(metric_items, lambda item: format_options(metric, options[item.signature]))
    return dict(sorted(groups.items(), key=lambda group: make_natural_sort_key(group[0])))


def group_by_task_and_options(items: Sequence[SystemValue], metric: str) -> dict[tuple[str, str], list[SystemValue]]:
    """Return (task, metric options) → the items that one figure may show together."""
    return {
        (task, options): members
        for task, part in group_by_data(items).items()
        for options, members in group_by_options(part, metric).items()
        if any(i.system == "model" for i in members)
    }


def find_differing_options(items: Sequence[SystemValue], ignored: Sequence[str] = FACTS) -> dict[str, dict[str, str]]:
    """Return signature → the fields in which the systems' values differ, except those in `ignored`."""
    fields = {i.signature: {k: v for k, v in parse_signature(i.signature).items() if k not in ignored} for i in items}
    differ = find_differing_fields([fields[i.signature] for i in items if i.system == "model"])
    return {signature: {k: values.get(k, "none") for k in differ} for signature, values in fields.items()}


def format_options(metric: str, options: Mapping[str, str]) -> str:
    """Format options as `option=value, …` without those at the metric's default; if all are, the first is shown."""
    metric_class = load_members("metric").get(metric)  # None if the metric's plugin is not installed
    fields = dataclasses.fields(metric_class) if metric_class is not None else ()
    usual = {f.name: render_option(f.default) for f in fields}
    words = {k: f"{k}={v}" for k, v in options.items()}
    return ", ".join([w for k, w in words.items() if options[k] != usual.get(k)] or list(words.values())[:1])


def find_differing_fields(rows: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the field names in which rows differ, in the order of the first row."""
    names = dict.fromkeys(name for row in rows for name in row)
    return [n for n in names if len({row.get(n) for row in rows}) > 1]


def describe_differences(first: Mapping[str, str], second: Mapping[str, str], separator: str = "; ") -> str:
    """Return the fields in which two rows differ, with both values: `k (5 and 40)`."""
    return separator.join(f"{k} ({first.get(k)} and {second.get(k)})" for k in find_differing_fields([first, second]))
