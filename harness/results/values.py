"""The value of a system: one per metric and setting, aggregated over seeds, with mean, std and interval."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from openended.harness.core import compare_signatures, load_members
from openended.harness.decoders import Decoder
from openended.harness.results.axes import describes_human_side, format_axis_value

if TYPE_CHECKING:
    import pandas as pd

INTERNAL = "at"  # column with the index into `Results.runs`; not exported
IDENTITY = ("system", "setting", "metric", "key", "signature")  # values that agree in these differ only in the seed
Pair = tuple[str, str]  # metric, key
K = TypeVar("K")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SystemValue:
    """One value of one system, aggregated over its seeds."""

    system: str
    metric: str
    key: str
    mean: float
    """Mean over seeds; NaN if it is undefined for every seed."""
    sd: float
    """Sample standard deviation over seeds (n − 1); NaN for one seed."""
    seeds: int
    signature: str
    direction: str
    """`higher`, `lower`, `match_human`, `target` or `none`."""
    title: str
    reason: str
    """Why there is no value; empty if there is one."""
    note: str
    """A caveat about an existing value."""
    primary: bool
    family: str
    axes: Mapping[str, str]
    """All axes except the seed, as text; empty if an axis does not apply."""
    titles: tuple[str, str]
    """Display names of model and decoder."""
    values: Mapping[str, float]
    """Seed → value."""
    sources: tuple[tuple[int, str | None], ...]
    """(index of the run, artifact) of each seed."""
    error: float = math.nan
    """Standard error or deviation that the metric itself reports; over several seeds the root mean square."""
    target: float | None = None
    """The best possible value if the direction is `target`."""
    ends: tuple[float, float] | None = None
    """95 % interval over examples; None for several seeds, whose std is shown instead, and without variation."""

    @property
    def pair(self) -> Pair:
        """Metric and key."""
        return self.metric, self.key

    @property
    def reach(self) -> tuple[float, float]:
        """Lengths of an error bar below and above the mean: the interval for one seed, else one `sd`."""
        if self.ends is not None:
            return self.mean - self.ends[0], self.ends[1] - self.mean
        return (self.sd, self.sd) if math.isfinite(self.sd) else (0.0, 0.0)


def fold_seeds(frame: pd.DataFrame, axes: Sequence[str]) -> list[SystemValue]:
    """Aggregate values that differ only in the seed, in the order of the frame."""
    rows = frame.to_dict("records")
    # Formatted once per setting, not once per value.
    settings = {s: {a: format_axis_value(of[0][a]) for a in axes if a != "seed"}
                for s, of in group_by(rows, lambda row: row["setting"]).items()}  # fmt: skip
    groups = group_by(rows, lambda row: tuple(row[column] for column in IDENTITY))
    return [_fold(group, settings[group[0]["setting"]]) for group in groups.values()]


def _fold(rows: Sequence[Mapping[Any, Any]], axes: Mapping[str, str]) -> SystemValue:
    first = rows[0]
    values = [float(r["value"]) for r in rows]
    finite = [v for v in values if math.isfinite(v)]
    errors = [float(r["sd"]) for r in rows if math.isfinite(r["sd"])]
    seeds = [format_axis_value(r.get("seed")) or str(i) for i, r in enumerate(rows)]
    reason = next((r["reason"] for r in rows if r["reason"]), "")
    low, high = float(first["low"]), float(first["high"])
    varies = math.isfinite(low) and math.isfinite(high) and low < high
    return SystemValue(
        **{name: first[name] for name in ("system", "metric", "key", "signature", "direction", "title", "family")},
        mean=math.fsum(finite) / len(finite) if finite else math.nan,
        sd=statistics.stdev(finite) if len(finite) > 1 else math.nan,
        seeds=len(finite),
        reason="" if finite else reason or "no value",
        note=reason if finite else "",
        primary=bool(first["primary"]),
        axes=axes,
        titles=(first["model_title"], first["decoder_title"]),
        values=dict(zip(seeds, values, strict=True)),
        sources=tuple((int(r[INTERNAL]), r["artifact"]) for r in rows),
        target=first["target"] if math.isfinite(first["target"]) else None,
        error=math.sqrt(math.fsum(e * e for e in errors) / len(errors)) if errors else math.nan,
        ends=(low, high) if len(rows) == 1 and varies else None,
    )


def group_by(items: Iterable[T], make_key: Callable[[T], K]) -> dict[K, list[T]]:
    """Group items by a key; keys and members keep their order."""
    groups: dict[K, list[T]] = {}
    for item in items:
        groups.setdefault(make_key(item), []).append(item)
    return groups


def make_natural_sort_key(text: str) -> tuple[tuple[int, float, str], ...]:
    """Return a sort key that compares numbers by value: `top_k k=5` before `top_k k=40`."""
    parts = re.split(r"(\d+(?:\.\d+)?)", text)
    return tuple((0, float(p), "") if i % 2 else (1, 0.0, p) for i, p in enumerate(parts))


def sort_values(items: Iterable[SystemValue], axes: Sequence[str]) -> list[SystemValue]:
    """Sort values by axes, in the order of tables: decoders by rank, models by title, numbers by value."""

    def make_key(axis: str, item: SystemValue) -> tuple[Any, ...]:
        value = item.axes.get(axis, "")
        if axis == "decoder":  # decoders that are not installed come last
            rank = getattr(load_members("decoder").get(value, Decoder), "table_rank")  # noqa: B009
            return rank, make_natural_sort_key(value), make_natural_sort_key(item.titles[1])
        if axis == "model":
            return 0, make_natural_sort_key(item.titles[0]), make_natural_sort_key(value)
        return 0, make_natural_sort_key(value), ()

    return sorted(items, key=lambda item: tuple(make_key(axis, item) for axis in axes))


def select_values(items: Iterable[SystemValue], metric: str, key: str) -> list[SystemValue]:
    """Return the values of one key of one metric for all systems."""
    return [i for i in items if i.system == "model" and i.pair == (metric, key)]


def has_same_data(human: SystemValue, item: SystemValue) -> bool:
    """Return whether a human value describes the human text that a system is compared with."""
    return all(v == item.axes.get(a) for a, v in human.axes.items() if describes_human_side(a))


def find_human_value(items: Iterable[SystemValue], like: SystemValue) -> SystemValue | None:
    """Return the human value (of two sides: the human ceiling) that matches a system's in metric, signature and data.

    The number of texts may differ, since a system with several samples per prompt has more texts than the humans.
    """
    exact, others = [], []
    roles = ("human", "ceiling") if like.direction == "match_human" else ("human",)
    for human in (i for i in items if i.system in roles and i.pair == like.pair):
        differ = compare_signatures(human.signature, like.signature)
        if has_same_data(human, like) and differ in ([], ["n"]):
            exact.append(human)
        elif not differ:
            others.append(human)
    if exact or len({h.mean for h in others}) != 1:
        return min(exact, key=lambda h: h.signature != like.signature, default=None)
    return others[0]
