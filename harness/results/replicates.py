"""Bootstrap and subsampling replicates of metric values, averaged over seeds, and the intervals they give."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from openended.harness.core import F64, I64, Interval, Replicates, combine_replicates, estimate_interval
from openended.harness.results.fold import SystemValue
from openended.harness.results.frame import Results
from openended.harness.storage import ResultRow


def load_replicates(results: Results, item: SystemValue) -> Replicates | None:
    """Load the replicates of a value, averaged over its seeds; None if a seed has none or the store is missing."""
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
    return combine_replicates([1 / len(parts)] * len(parts), parts) if parts else None


def find_interval(results: Results, item: SystemValue) -> Interval | None:
    """Return the interval of a value over examples: the recorded one for one seed, else that of the mean over seeds."""
    rows = [row for at, artefact in item.sources for row in _find_rows(results.runs[at].results, item, artefact)]
    if len(rows) == 1:
        interval = rows[0].intervals.get(item.key)
        return Interval(**interval) if interval else None
    replicates = load_replicates(results, item)
    if replicates is None or not rows:
        return None
    arrays = [results.arrays(*source) for source in item.sources]
    per_example = [np.asarray(a.get(f"per_example/{item.key}", ()), dtype=np.float64) for a in arrays]
    return estimate_interval(
        replicates, item.mean, rows[0].bounds, np.concatenate(per_example), _number_prompts(arrays, per_example)
    )


def _number_prompts(arrays: Sequence[Mapping[str, Any]], rows: Sequence[F64]) -> I64:
    """Return the prompt of each row of all seeds; seeds share their prompts."""
    prompts = [a.get("arrays/prompts", np.arange(len(part))) for a, part in zip(arrays, rows, strict=True)]
    return np.concatenate(prompts).astype(np.int64)


def _find_rows(rows: Sequence[ResultRow], item: SystemValue, artefact: str | None) -> list[ResultRow]:
    """Return the record row that holds a value; empty if there is none."""
    identity = (item.system, item.metric, item.signature, artefact)
    return [row for row in rows if (row.system, row.metric, row.signature, row.artefact) == identity][:1]
