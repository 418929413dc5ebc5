"""Intervals of values: bootstrap and subsampling replicates, averaged over seeds, and the intervals they give."""

from __future__ import annotations

import math

import numpy as np

from openended.harness.core import Interval, Replicates, combine_replicates, estimate_interval
from openended.harness.results.frame import Results
from openended.harness.results.values import SystemValue


def load_replicates(results: Results, item: SystemValue) -> Replicates | None:
    """Load the replicates of a value, averaged over its seeds; None if a seed has none or the store is missing."""
    parts = []
    for source, value in zip(item.sources, item.values.values(), strict=True):
        if not math.isfinite(value):
            continue
        arrays = results.arrays(*source)
        if f"draws/{item.key}" not in arrays:
            return None
        repeats = np.asarray(arrays.get(f"draws/repeats/{item.key}", ()), dtype=np.float64)
        share = float(arrays.get(f"draws/share/{item.key}", np.ones(1))[0])
        parts.append(Replicates(np.asarray(arrays[f"draws/{item.key}"], dtype=np.float64), repeats, share))
    return combine_replicates([1 / len(parts)] * len(parts), parts) if parts else None


def find_interval(results: Results, item: SystemValue) -> Interval | None:
    """Return the interval of a value over examples: the recorded one for one seed, else that of the mean over seeds."""
    identity = (item.system, item.metric, item.signature)
    rows = []
    for at, artifact in item.sources:
        candidates = (row for row in results.runs[at].results if row.artifact == artifact)
        rows += [row for row in candidates if (row.system, row.metric, row.signature) == identity][:1]
    if len(rows) == 1:
        interval = rows[0].intervals.get(item.key)
        return Interval(**interval) if interval else None
    replicates = load_replicates(results, item)
    if replicates is None or not rows:
        return None
    arrays = [results.arrays(*source) for source in item.sources]
    per_example = [np.asarray(a.get(f"per_example/{item.key}", ()), dtype=np.float64) for a in arrays]
    # Seeds share their prompts.
    prompts = [a.get("arrays/prompts", np.arange(len(part))) for a, part in zip(arrays, per_example, strict=True)]
    return estimate_interval(
        replicates,
        item.mean,
        rows[0].bounds[item.key],
        np.concatenate(per_example),
        np.concatenate(prompts).astype(np.int64),
    )
