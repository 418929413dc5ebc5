"""Aggregate values over seeds: one value per system, metric and setting with mean, std and count."""

from __future__ import annotations

import math
import re
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from openended.harness.core import load_members
from openended.harness.decoders import Decoder
from openended.harness.results.axes import format_axis_value
from openended.harness.results.tidy import INTERNAL

if TYPE_CHECKING:
    import pandas as pd

IDENTITY = ("system", "setting", "metric", "key", "signature")  # values that agree in these differ only in the seed


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
    def reach(self) -> tuple[float, float]:
        """Lengths of an error bar below and above the mean: the interval for one seed, else one `sd`."""
        if self.ends is not None:
            return self.mean - self.ends[0], self.ends[1] - self.mean
        return (self.sd, self.sd) if math.isfinite(self.sd) else (0.0, 0.0)


def fold_seeds(frame: pd.DataFrame, axes: Sequence[str]) -> list[SystemValue]:
    """Aggregate values that differ only in the seed, in the order of the frame."""
    names = [a for a in axes if a != "seed"]
    columns = {str(c): frame[c].tolist() for c in frame.columns}
    groups: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for index, key in enumerate(zip(*(columns[c] for c in IDENTITY), strict=True)):
        groups[key].append(index)
    texts: dict[str, dict[str, str]] = {}  # formatted once per setting, not once per value
    folded = []
    for key, indices in groups.items():
        rows = [{c: v[i] for c, v in columns.items() if c not in names} for i in indices]
        if key[1] not in texts:
            texts[key[1]] = {n: format_axis_value(columns[n][indices[0]]) for n in names}
        folded.append(_fold_rows(rows, texts[key[1]]))
    return folded


def _fold_rows(rows: Sequence[Mapping[str, Any]], axes: Mapping[str, str]) -> SystemValue:
    first = rows[0]
    values = [float(r["value"]) for r in rows]
    finite = [v for v in values if math.isfinite(v)]
    seeds = [format_axis_value(r.get("seed")) or str(i) for i, r in enumerate(rows)]
    return SystemValue(
        system=first["system"],
        metric=first["metric"],
        key=first["key"],
        mean=math.fsum(finite) / len(finite) if finite else math.nan,
        sd=statistics.stdev(finite) if len(finite) > 1 else math.nan,
        seeds=len(finite),
        signature=first["signature"],
        direction=first["direction"],
        title=first["title"],
        reason="" if finite else next((r["reason"] for r in rows if r["reason"]), "no value"),
        note=next((r["reason"] for r in rows if r["reason"]), "") if finite else "",
        primary=bool(first["primary"]),
        family=first["family"],
        axes=axes,
        titles=(first["model_title"], first["decoder_title"]),
        values=dict(zip(seeds, values, strict=True)),
        sources=tuple((int(r[INTERNAL]), r["artefact"]) for r in rows),
        target=first["target"] if math.isfinite(first["target"]) else None,
        error=_compute_root_mean_square([float(r["sd"]) for r in rows]),
        ends=_read_interval(rows[0]) if len(rows) == 1 else None,
    )


def _read_interval(row: Mapping[str, Any]) -> tuple[float, float] | None:
    low, high = float(row["low"]), float(row["high"])
    varies = math.isfinite(low) and math.isfinite(high) and low < high
    return (low, high) if varies else None


def _compute_root_mean_square(spreads: Sequence[float]) -> float:
    """Return the root mean square of the finite values; NaN if there are none."""
    finite = [s for s in spreads if math.isfinite(s)]
    return math.sqrt(math.fsum(s * s for s in finite) / len(finite)) if finite else math.nan


def make_natural_sort_key(text: str) -> tuple[tuple[int, float, str], ...]:
    """Return a sort key that compares numbers by value: `top_k k=5` before `top_k k=40`."""
    parts = re.split(r"(\d+(?:\.\d+)?)", text)
    return tuple((0, float(p), "") if i % 2 else (1, 0.0, p) for i, p in enumerate(parts))


def make_order_key(axis: str, item: SystemValue) -> tuple[Any, ...]:
    """Return the sort key of a value by one axis."""
    value = item.axes.get(axis, "")
    if axis == "decoder":
        return (_get_table_rank(value), make_natural_sort_key(value), make_natural_sort_key(item.titles[1]))
    if axis == "model":
        return (0, make_natural_sort_key(item.titles[0]), make_natural_sort_key(value))
    return (0, make_natural_sort_key(value), ())


def _get_table_rank(decoder: str) -> int:
    """Return the rank of a decoder in tables; decoders that are not installed come last."""
    rank: int = getattr(load_members("decoder").get(decoder, Decoder), "table_rank")  # noqa: B009
    return rank
