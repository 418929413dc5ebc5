"""Systems as the figures see them: a label, a place in the order, its values by metric."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from openended.harness.core import (
    SpecError,
    escape_mathtext,
    members,
    parse_signature,
    render,
    signature_difference,
    unescape_mathtext,
)
from openended.harness.results.axes import head_of, of_human, said, telling
from openended.harness.results.fold import Folded, natural, order_key
from openended.harness.results.labels import labels_of, varying

Pair = tuple[str, str]
# Fields of a signature that are about the data, not the metric's options: the axes say them.
FACTS = (
    "n", "model", "length", "min_new_tokens", "task", "texts", "scorer", "tokens", "embedder", "judgments", "raters",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class System:
    """One setting (task × model × decoder × …) over its seeds."""

    label: str
    """As a figure takes it; see `text.escape_mathtext`."""
    items: tuple[Folded, ...]

    @property
    def name(self) -> str:
        """The label as tables and files show it."""
        return unescape_mathtext(self.label)

    def value(self, metric: str, key: str) -> Folded | None:
        """Return one of its values, or nothing if there is none.

        Raises:
            SpecError: If it has several, of different options of the metric.
        """
        found = [i for i in self.items if (i.metric, i.key) == (metric, key)]
        if len(found) > 1:
            one, other = (parse_signature(i.signature) for i in found[:2])
            differ = ", ".join(f"{k} ({one.get(k)} and {other.get(k)})" for k in one if one.get(k) != other.get(k))
            raise SpecError(f"{self.label} has several values of {metric}, which differ in {differ}; read fewer runs")
        return found[0] if found else None


def systems_of(items: Iterable[Folded]) -> list[System]:
    """Group the model rows into systems, in the order of the tables; no two have one label."""
    models = [i for i in items if i.system == "model"]
    axes = varying(models)
    groups: dict[tuple[str, ...], list[Folded]] = {}
    for item in sorted(models, key=lambda i: tuple(order_key(a, i) for a in ("model", "decoder", *axes, *i.axes))):
        groups.setdefault(tuple(item.axes.values()), []).append(item)
    labels = labels_of([g[0] for g in groups.values()])
    return [System(escape_mathtext(label), tuple(g)) for label, g in zip(labels, groups.values(), strict=True)]


def values_of(items: Iterable[Folded], metric: str, key: str) -> list[Folded]:
    """Return one value of one metric of every system."""
    return [i for i in items if i.system == "model" and (i.metric, i.key) == (metric, key)]


def with_both(items: Iterable[Folded], one: Pair, other: Pair) -> list[tuple[System, Folded, Folded]]:
    """Return the systems that have two values, with both: each a metric and the key of its value."""
    both = [(s, s.value(*one), s.value(*other)) for s in systems_of(items)]
    return [(s, a, b) for s, a, b in both if a and b and math.isfinite(a.mean) and math.isfinite(b.mean)]


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
    if exact or len({h.mean for h in fitting}) != 1:
        return min(exact, key=lambda h: h.signature != like.signature, default=None)
    return fitting[0]


def by_data(items: Sequence[Folded]) -> dict[str, list[Folded]]:
    """Group items by the data that figures must not mix: the task with all its options.

    Returns:
        Name of the task, with the options in which tasks of one name differ, → its items.
    """
    rows = [i.axes for i in items if i.system == "model"]
    # What the tokenizer cut differs from model to model, and from length to length: the labels say those.
    names = [n for n in (rows[0] if rows else ()) if "task" in (n, head_of(n)) and n != "task.texts"]
    axes = telling(list({tuple(r.get(n, "") for n in names): r for r in rows}.values()), names)
    shown = ["task", *(a for a in axes if a != "task")]
    groups: dict[tuple[str, ...], list[Folded]] = {}
    for item in items:
        groups.setdefault(tuple(item.axes.get(a, "") for a in shown), []).append(item)
    named = {key: [key[0], *(said(a, v) for a, v in zip(shown[1:], key[1:], strict=True))] for key in groups}
    return {", ".join(named[key]): part for key, part in sorted(groups.items())}


def variants(items: Sequence[Folded], metric: str) -> dict[str, list[Folded]]:
    """Group one metric's items by its own options.

    Returns:
        What is said of the options in which the groups differ (see `told_options`; empty for one group) → the items.
    """
    own = [i for i in items if i.metric == metric]
    options = own_options(own)
    groups: dict[str, list[Folded]] = {}
    for item in own:
        groups.setdefault(told_options(metric, options[item.signature]), []).append(item)
    return dict(sorted(groups.items(), key=lambda group: natural(group[0])))


def own_options(items: Sequence[Folded], aside: Sequence[str] = FACTS) -> dict[str, dict[str, str]]:
    """Return signature → the fields in which the systems' values differ, those in `aside` left out."""
    fields = {i.signature: {k: v for k, v in parse_signature(i.signature).items() if k not in aside} for i in items}
    differ = differing([fields[i.signature] for i in items if i.system == "model"])
    return {signature: {k: own.get(k, "none") for k in differ} for signature, own in fields.items()}


def told_options(metric: str, options: Mapping[str, str]) -> str:
    """Return `option=value, …`, those at the metric's default left out; if all are, the first is told.

    Different options are told differently.
    """
    known = members("metric").get(metric)  # a plugin's may not be installed here
    usual = {f.name: render(f.default) for f in dataclasses.fields(known)} if known is not None else {}
    words = {k: f"{k}={v}" for k, v in options.items()}
    return ", ".join([w for k, w in words.items() if options[k] != usual.get(k)] or list(words.values())[:1])


def parts_of(items: Sequence[Folded], metric: str) -> dict[tuple[str, str], list[Folded]]:
    """Return (task, options of the metric) → what one figure about the metric may show together."""
    found = {
        (task, options): own for task, part in by_data(items).items() for options, own in variants(part, metric).items()
    }
    return {told: own for told, own in found.items() if any(i.system == "model" for i in own)}


def differing(rows: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the names, in the order of the first row, in which rows differ."""
    names = dict.fromkeys(name for row in rows for name in row)
    return [n for n in names if len({row.get(n) for row in rows}) > 1]
