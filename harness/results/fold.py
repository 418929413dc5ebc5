"""Folding of seeds: one value a system, metric and setting with mean, spread and count; the order of rows."""

from __future__ import annotations

import math
import re
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from openended.harness.core import members
from openended.harness.decoders import Decoder
from openended.harness.results.axes import axis_text
from openended.harness.results.frame import Results
from openended.harness.results.tidy import INTERNAL

IDENTITY = ("system", "setting", "metric", "key", "signature")  # what makes two values the same but for the seed


@dataclass(frozen=True, slots=True)
class Folded:
    """One value of one system, over its seeds."""

    system: str
    metric: str
    key: str
    mean: float
    """NaN where it is undefined for every seed."""
    sd: float
    """Sample standard deviation over seeds (n − 1); NaN for one seed."""
    seeds: int
    signature: str
    direction: str
    """`higher`, `lower`, `match_human`, `target` or `none`."""
    title: str
    reason: str
    """Why there is no value; empty where there is one."""
    note: str
    """What the reader must know about the value although there is one."""
    primary: bool
    family: str
    axes: Mapping[str, str]
    """All axes but the seed, as text; empty for those that do not apply."""
    titles: tuple[str, str]
    """Display names of model and decoder."""
    values: Mapping[str, float]
    """Seed → value."""
    sources: tuple[tuple[int, str | None], ...]
    """(index of the run, artefact) of each seed."""
    error: float = math.nan
    """Standard error or deviation that the metric itself states of a value, over seeds their root mean square."""
    target: float | None = None
    """The number that is best, where the direction is `target`."""
    ends: tuple[float, float] | None = None
    """95 % interval over the examples, of a value of one seed; else the seeds speak for the spread."""

    @property
    def reach(self) -> tuple[float, float]:
        """How far a figure's bar reaches below and above the mean: the interval of one seed, else one `sd`."""
        if self.ends is not None:
            return self.mean - self.ends[0], self.ends[1] - self.mean
        return (self.sd, self.sd) if math.isfinite(self.sd) else (0.0, 0.0)


def fold_seeds(results: Results) -> list[Folded]:
    """Group values by everything but the seed, in the order of the frame."""
    return results.memo("folded", lambda: _fold(results))


def _fold(results: Results) -> list[Folded]:
    names = [a for a in results.axes if a != "seed"]
    columns = {str(c): results.frame[c].tolist() for c in results.frame.columns}
    groups: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for place, key in enumerate(zip(*(columns[c] for c in IDENTITY), strict=True)):
        groups[key].append(place)
    texts: dict[str, dict[str, str]] = {}  # the axes of a setting are written once, not for every value
    folded = []
    for key, places in groups.items():
        rows = [{c: v[i] for c, v in columns.items() if c not in names} for i in places]
        if key[1] not in texts:
            texts[key[1]] = {n: axis_text(columns[n][places[0]]) for n in names}
        folded.append(_folded(rows, texts[key[1]]))
    return folded


def _folded(rows: Sequence[Mapping[str, Any]], axes: Mapping[str, str]) -> Folded:
    first = rows[0]
    values = [float(r["value"]) for r in rows]
    finite = [v for v in values if math.isfinite(v)]
    seeds = [axis_text(r.get("seed")) or str(i) for i, r in enumerate(rows)]
    return Folded(
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
        error=_stated([float(r["sd"]) for r in rows]),
        ends=_ends(rows[0]) if len(rows) == 1 else None,
    )


def _ends(row: Mapping[str, Any]) -> tuple[float, float] | None:
    low, high = float(row["low"]), float(row["high"])
    return (low, high) if math.isfinite(low) and math.isfinite(high) else None


def _stated(spreads: Sequence[float]) -> float:
    """Return the root mean square of what is known; NaN where nothing is."""
    known = [s for s in spreads if math.isfinite(s)]
    return math.sqrt(math.fsum(s * s for s in known) / len(known)) if known else math.nan


def natural(text: str) -> tuple[tuple[int, float, str], ...]:
    """Return a sorting key in which numbers count as numbers: `top_k k=5` before `top_k k=40`."""
    parts = re.split(r"(\d+(?:\.\d+)?)", text)
    return tuple((0, float(p), "") if i % 2 else (1, 0.0, p) for i, p in enumerate(parts))


def order_key(axis: str, item: Folded) -> tuple[Any, ...]:
    """Return a sorting key of a row's value of one axis."""
    value = item.axes.get(axis, "")
    if axis == "decoder":
        return (_table_rank(value), natural(value), natural(item.titles[1]))
    if axis == "model":
        return (0, natural(item.titles[0]), natural(value))
    return (0, natural(value), ())


def _table_rank(decoder: str) -> int:
    """Return where a decoder stands in tables; one that is not installed comes last."""
    rank: int = getattr(members("decoder").get(decoder, Decoder), "table_rank")  # noqa: B009
    return rank
