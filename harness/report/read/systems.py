"""Systems as the figures see them: a label, a place in the order, its values by metric."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from openended.harness.report.figures.drawing import plain
from openended.harness.report.read.fold import Folded, label_of, order_key, varying
from openended.harness.report.read.frame import of_human
from openended.harness.signature import signature_difference


@dataclass(frozen=True, slots=True)
class System:
    """One setting (task × model × decoder × …) over its seeds."""

    label: str
    items: tuple[Folded, ...]

    def value(self, metric: str, key: str) -> Folded | None:
        """Return one of its values, or nothing if there is none."""
        return next((i for i in self.items if (i.metric, i.key) == (metric, key)), None)


def systems_of(items: Iterable[Folded]) -> list[System]:
    """Group the model rows into systems, in the order of the tables."""
    models = [i for i in items if i.system == "model"]
    axes = varying(models)
    several = len({i.titles[0] for i in models}) > 1
    groups: dict[tuple[str, ...], list[Folded]] = {}
    for item in sorted(models, key=lambda i: tuple(order_key(a, i) for a in ("model", "decoder", *axes))):
        groups.setdefault(tuple(item.axes.values()), []).append(item)
    found = [System(plain(label_of(g[0], axes, several_models=several)), tuple(g)) for g in groups.values()]
    labels = [s.label for s in found]
    return [s if labels.count(s.label) == 1 else System(_long_label(s, found), s.items) for s in found]


def _long_label(system: System, found: Sequence[System]) -> str:
    """Add the options in which systems of one label differ."""
    alike = [s.items[0].axes for s in found if s.label == system.label]
    differ = [a for a in alike[0] if len({x.get(a) for x in alike}) > 1]
    own = system.items[0].axes
    options = ", ".join(f"{a.rpartition('.')[2]}={own[a]}" for a in differ if own.get(a))
    return f"{system.label} ({options})" if options else system.label


def same_data(human: Folded, item: Folded) -> bool:
    """Say whether a human value is of the human side that a system's value is about."""
    return all(v == item.axes.get(a) for a, v in human.axes.items() if of_human(a))


def _fits(human: Folded, item: Folded) -> bool:
    """Say whether two values are of one definition: of one signature, but for the number of texts of the same data."""
    differ = signature_difference(human.signature, item.signature)
    return not differ or (differ == ["n"] and same_data(human, item))


def human_value(items: Iterable[Folded], like: Folded) -> Folded | None:
    """Return the human value that belongs to a system's value: same metric, signature and data.

    A system with several samples a prompt has more texts than the human side: it is compared with what there is.
    """
    humans = [i for i in items if i.system == "human" and (i.metric, i.key) == (like.metric, like.key)]
    fitting = [h for h in humans if _fits(h, like)]
    exact = [h for h in fitting if same_data(h, like)]
    return next(iter(exact or fitting), None)


def by_data(items: Iterable[Folded]) -> dict[tuple[str, ...], list[Folded]]:
    """Group items by the data that figures must not mix: the task."""
    groups: dict[tuple[str, ...], list[Folded]] = {}
    for item in items:
        groups.setdefault((item.axes.get("task", ""),), []).append(item)
    return dict(sorted(groups.items()))
