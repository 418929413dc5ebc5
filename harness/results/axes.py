"""Axes: what two runs of a report can differ in. What they say, their order, and which of them tell systems apart."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Row = Mapping[str, str]

MAKER = ("model", "decoder", "seed", "generations", "judgments", "min_new_tokens")  # no human text depends on these
SHORT = {"max_new_tokens": "length", "num_examples": "N", "embedder.max_length": "max_length"}  # in labels
# Said only where nothing that a reader knows by name tells two systems apart, in this order.
LAST = ("path", "revision", "reference", "generations", "judgments", "texts", "digest")


def head_of(axis: str) -> str:
    """Return the axis that an option belongs to: `model` of `model.dtype`; empty for an axis of its own."""
    return axis.partition(".")[0] if "." in axis else ""


def of_human(axis: str) -> bool:
    """Say whether an axis also describes the human side (it is not about who writes the texts)."""
    return axis not in MAKER and head_of(axis) not in MAKER


def with_options(axes: Iterable[str], names: Iterable[str]) -> list[str]:
    """Return axes and all options that belong to them: `embedder` brings `embedder.path`, `embedder.layer`, …."""
    asked = list(axes)
    return list(dict.fromkeys([*asked, *(n for n in names if head_of(n) in asked)]))


def in_order(names: Iterable[str]) -> tuple[str, ...]:
    """Return axes in a fixed order: task, model, decoder, its parameters, seed, the rest."""
    known = set(names)
    first = [n for n in ("task", "model", "decoder") if n in known]
    options = sorted(n for n in known if n.startswith("decoder."))
    seed = ["seed"] if "seed" in known else []
    return (*first, *options, *seed, *sorted(known - {*first, *options, *seed}))


def axis_text(value: Any) -> str:  # noqa: ANN401
    """Write an axis value as a user writes it: 0.95, not 0.9500000001; nothing for a missing one."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.12g}" if math.isfinite(value) else ""
    text = str(value)
    return "" if text == "<NA>" else text  # pandas' missing whole number


def said(axis: str, value: str) -> str:
    """Write an option as it stands in a label; those of scorer and embedder with whose they are."""
    own = axis if head_of(axis) in {"scorer", "embedder"} else axis.rpartition(".")[2]
    return f"{SHORT.get(axis, own)}={value or 'none'}"


def telling(rows: Sequence[Row], names: Iterable[str]) -> list[str]:
    """Return the axes that tell rows apart.

    An option counts where rows that agree in what it belongs to differ in it: two models differ in path and digest too,
    but their names say it. Paths, revisions and digests count only where they tell more rows apart than all the others.
    """
    every = list(names)
    out = [n for n in every if is_word(n) and _differs(rows, n)]
    return fewest(rows, sorted((n for n in every if not is_word(n)), key=_rank), out)


def fewest(rows: Sequence[Row], names: Iterable[str], known: Sequence[str] = ()) -> list[str]:
    """Return `known` with those axes, in order, each of which tells apart rows that those before it do not."""
    out = list(known)
    count = _distinct(rows, out)
    for name in names:
        if count < len(rows) and _distinct(rows, [*out, name]) > count:
            out.append(name)
            count = _distinct(rows, out)
    return out


def by_name(names: Iterable[str]) -> list[str]:
    """Return axes with those first whose values a reader knows by name."""
    return sorted(names, key=_rank)


def is_word(axis: str) -> bool:
    """Say whether an axis has values that a reader knows by name: no path, no digest."""
    return _rank(axis) < 0


def _rank(axis: str) -> int:
    last = axis.rpartition(".")[2]
    return LAST.index(last) if last in LAST else -1


def _differs(rows: Sequence[Row], axis: str) -> bool:
    head, groups = head_of(axis), dict[str, set[str]]()
    for row in rows:
        groups.setdefault(row.get(head, ""), set()).add(row.get(axis, ""))
    return any(len(values) > 1 for values in groups.values())


def _distinct(rows: Sequence[Row], names: Sequence[str]) -> int:
    return len({tuple(row.get(n, "") for n in names) for row in rows})
