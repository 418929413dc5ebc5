"""Statistics of an n-gram index that more than one metric uses."""

from __future__ import annotations

import math

import numpy as np

from openended.harness.core import F64
from openended.metrics._ngrams.index import NgramIndex


def mean_without_nan(values: F64) -> float:
    """Return the mean without NaN values; NaN if no value is left."""
    finite = values[~np.isnan(values)]
    return float(finite.mean()) if len(finite) else float("nan")


def distinct_share_by_text(index: NgramIndex, order: int) -> F64:
    """Return the share of distinct n-grams in each text, shape (n,); NaN for texts shorter than `order`."""
    sizes = index.sizes(order).astype(np.float64)
    sizes[sizes == 0] = np.nan
    return 1.0 - index.repeats(order) / sizes


def compute_pooled_repeats(index: NgramIndex, order: int) -> float:
    """Return the share of n-grams already seen in the same text, over all texts together; NaN without n-grams."""
    total = int(index.sizes(order).sum())
    return int(index.repeats(order).sum()) / total if total else float("nan")


def simctg_percent(index: NgramIndex, order: int) -> float:
    """Return rep-n in percent, rounded as in SimCTG; `index` must hold the texts without their last token."""
    share = 1.0 - compute_pooled_repeats(index, order)
    return round(100.0 * (1.0 - share), 2)


def corpus_entropy(index: NgramIndex, order: int) -> float:
    """Return the entropy of all n-grams together, in nats; NaN without n-grams."""
    level = index.level(order)
    if not level.total:
        return float("nan")
    counts = level.counts.astype(np.float64)  # n-grams seen once add log 1 = 0
    return max(0.0, math.log(level.total) - float(np.sum(counts * np.log(counts))) / level.total)


def entropy_by_text(index: NgramIndex, order: int) -> F64:
    """Entropy of the n-grams of each text, shape (n,), nats; NaN for texts shorter than `order`."""
    weighted = np.zeros(len(index))
    for runs in index.run_blocks(order):
        count = runs.count.astype(np.float64)
        np.add.at(weighted, runs.text, count * np.log(count))  # in order: splitting the texts changes no bit
    size = index.sizes(order).astype(np.float64)
    size[size == 0] = np.nan
    return np.maximum(np.log(size) - weighted / size, 0.0)


def self_repetition_by_text(index: NgramIndex, order: int) -> F64:
    """Self-repetition of each text, shape (n,), nats."""
    shared = np.zeros(len(index))
    for runs in index.run_blocks(order):
        holders = np.diff(runs.first, append=len(runs.text))
        shared += np.bincount(runs.text, weights=holders[runs.group] - 1, minlength=len(index))
    return np.log1p(shared)
