"""Short, unique labels of systems, built from the options in which the systems of a report differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from openended.harness.results.axes import (
    describes_human_side,
    find_distinguishing_axes,
    format_option,
    get_parent_axis,
    is_readable,
    select_fewest_axes,
    sort_by_readability,
)
from openended.harness.results.fold import SystemValue


def find_varying_axes(items: Iterable[SystemValue]) -> list[str]:
    """Return the axes other than model and decoder that distinguish the model rows."""
    rows = list({tuple(f.axes.items()): f.axes for f in items if f.system == "model"}.values())
    names = [n for n in (rows[0] if rows else ()) if n not in _TITLE_AXES and get_parent_axis(n) not in _TITLE_AXES]
    return find_distinguishing_axes(rows, names)


_TITLE_AXES = ("model", "decoder", "generations")  # already shown by the titles


def label_systems(items: Sequence[SystemValue], skip: Iterable[str] = ()) -> list[str]:
    """Label systems by model, decoder and other options that differ, plus what makes the labels unique.

    Args:
        items: One value per system; no two agree in all axes.
        skip: Axes that are shown elsewhere (in column titles or the table title).
    """
    models = [i for i in items if i.system == "model"]
    several = len({i.titles[0] for i in models}) > 1
    left = set(skip)
    names = [n for n in dict.fromkeys(n for i in items for n in i.axes) if n not in left]
    options = [n for n in names if n not in _TITLE_AXES and get_parent_axis(n) != "decoder" and is_readable(n)]
    axes = find_distinguishing_axes([i.axes for i in items], options)
    # An option that some systems lack and that is equal for the others does not distinguish two systems.
    axes = [a for a in axes if len({i.axes[a] for i in items if i.axes.get(a)}) > 1]
    labels = [label_system(i, axes, several_models=several) for i in items]
    for label in [label for label, count in Counter(labels).items() if count > 1]:
        alike = [at for at, candidate in enumerate(labels) if candidate == label]
        rows = [items[at].axes for at in alike]
        differ = select_fewest_axes(
            rows, sort_by_readability(sorted(names, key=lambda n: get_parent_axis(n) != "decoder"))
        )
        for at, row in zip(alike, rows, strict=True):
            labels[at] = f"{label} ({', '.join(format_option(n, row.get(n, '')) for n in differ)})" if differ else label
    return labels


def label_system(item: SystemValue, axes: Sequence[str], *, several_models: bool) -> str:
    """Label a row by its decoder, its model if there are several, and the other axes that differ."""
    if item.system != "model":
        base = "human"
    else:
        model, decoder = item.titles
        published = item.axes.get("decoder") == "imported"  # has its own name
        names = (model, "") if published and model else (model if several_models else "", decoder)
        base = " ".join(p for p in names if p) or model or item.axes.get("system", "")
    rest = [format_option(a, item.axes[a]) for a in axes if item.axes.get(a) and _is_in_label(item, a)]
    return ", ".join([base or "model", *rest])


def _is_in_label(item: SystemValue, axis: str) -> bool:
    """Return whether a row's label spells out an axis."""
    if axis in {"model", "decoder"} or get_parent_axis(axis) == "decoder":
        return False
    return item.system == "model" or describes_human_side(axis)
