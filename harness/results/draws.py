"""The draws that a metric left of its values, over the seeds of a system, and the intervals that they give."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from openended.harness.core import Interval, Replicates, combined
from openended.harness.results.fold import Folded
from openended.harness.results.frame import Results
from openended.harness.storage import ResultRow


def draws_of(results: Results, item: Folded) -> Replicates | None:
    """Return the draws of a value, averaged over its seeds; None where a seed has none, or the store is not at hand."""

    def make() -> Replicates | None:
        parts = []
        for (at, artefact), value in zip(item.sources, item.values.values(), strict=True):
            if not math.isfinite(value):
                continue
            arrays = results.arrays(at, artefact)
            if f"draws/{item.key}" not in arrays:
                return None
            repeats = np.asarray(arrays.get(f"draws/repeats/{item.key}", ()), dtype=np.float64)
            share = float(arrays.get(f"draws/share/{item.key}", np.ones(1))[0])
            values = np.asarray(arrays[f"draws/{item.key}"], dtype=np.float64)
            parts.append(Replicates(values, repeats, share))
        return combined([1 / len(parts)] * len(parts), parts) if parts else None

    # Where the values come from says which seeds they are of: some of a system's have other draws than all of them.
    places = [f"{at}/{artefact}" for at, artefact in item.sources]
    return results.memo("\x1f".join(("draws", item.system, item.metric, item.key, item.signature, *places)), make)


def interval_of(results: Results, item: Folded) -> Interval | None:
    """Return the interval of a value over the examples: the recorded one of one seed, else of the mean over seeds."""
    rows = [row for at, artefact in item.sources for row in _rows(results.runs[at].results, item, artefact)]
    if len(rows) == 1:
        told = rows[0].intervals.get(item.key)
        return Interval(**told) if told else None
    found = draws_of(results, item)
    return found.interval(item.mean, rows[0].bounds) if found is not None and rows else None


def _rows(rows: Sequence[ResultRow], item: Folded, artefact: str | None) -> list[ResultRow]:
    """Return the line of a record that a value comes from."""
    own = (item.system, item.metric, item.signature, artefact)
    return [row for row in rows if (row.system, row.metric, row.signature, row.artefact) == own][:1]
