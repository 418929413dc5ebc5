"""Names of systems: short, and made unique by the options in which the systems of a report differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from openended.harness.results.axes import by_name, fewest, head_of, is_word, of_human, said, telling
from openended.harness.results.fold import Folded


def varying(items: Iterable[Folded]) -> list[str]:
    """Return the axes, those of model and decoder aside, that tell the model rows apart."""
    rows = list({tuple(f.axes.items()): f.axes for f in items if f.system == "model"}.values())
    names = [n for n in (rows[0] if rows else ()) if n not in _NAMED and head_of(n) not in _NAMED]
    return telling(rows, names)


_NAMED = ("model", "decoder", "generations")  # the titles name them


def labels_of(items: Sequence[Folded], skip: Iterable[str] = ()) -> list[str]:
    """Name systems, one item each: model and decoder, the other options that differ, and whatever makes names unique.

    Args:
        items: One value of each system; no two share all axes.
        skip: Axes that are said elsewhere: those of the columns or of the table.
    """
    models = [i for i in items if i.system == "model"]
    several = len({i.titles[0] for i in models}) > 1
    left = set(skip)
    names = [n for n in dict.fromkeys(n for i in items for n in i.axes) if n not in left]
    options = [n for n in names if n not in _NAMED and head_of(n) != "decoder" and is_word(n)]
    shown = telling([i.axes for i in items], options)
    made = [label_of(i, shown, several_models=several) for i in items]
    for label in [label for label, count in Counter(made).items() if count > 1]:
        alike = [at for at, one in enumerate(made) if one == label]
        rows = [items[at].axes for at in alike]
        differ = fewest(rows, by_name(sorted(names, key=lambda n: head_of(n) != "decoder")))
        for at, row in zip(alike, rows, strict=True):
            made[at] = f"{label} ({', '.join(said(n, row.get(n, '')) for n in differ)})" if differ else label
    return made


def label_of(item: Folded, axes: Sequence[str], *, several_models: bool) -> str:
    """Name a row: its decoder, its model where there are several, and the other axes that differ."""
    if item.system != "model":
        base = "human"
    else:
        model, decoder = item.titles
        published = item.axes.get("decoder") == "imported"  # a system with a name of its own
        shown = (model, "") if published and model else (model if several_models else "", decoder)
        base = " ".join(p for p in shown if p) or model or item.axes.get("system", "")
    rest = [said(a, item.axes[a]) for a in axes if item.axes.get(a) and _named(item, a)]
    return ", ".join([base or "model", *rest])


def _named(item: Folded, axis: str) -> bool:
    """Say whether an axis is written out in a row's label."""
    if axis in {"model", "decoder"} or head_of(axis) == "decoder":
        return False
    return item.system == "model" or of_human(axis)
