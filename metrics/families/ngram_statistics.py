"""Statistics of an n-gram index that more than one metric uses, of the whole corpus and of many subsets of it.

The n-grams of a text do not depend on the other texts. So the counts of an n-gram in all subsets are one product of the
sparse table (n-gram × text) with the table (text × subset).
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openended.harness.core import F64, Weights, weigh
from openended.metrics.families.ngrams import NgramIndex

Subsets = NDArray[np.bool_]  # whether each text is in each subset, shape (subsets, texts)

_CELLS = 1 << 22  # size of a table (n-grams × subsets) that is computed at a time


def mean_without_nan(values: F64) -> float:
    """Return the mean of the numbers that are not NaN; NaN if none is left."""
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
    """Return log(1 + number of (n-gram, other text) pairs that share it) of each text, shape (n,), nats."""
    shared = np.zeros(len(index))
    for runs in index.run_blocks(order):
        holders = np.diff(runs.first, append=len(runs.text))
        shared += np.bincount(runs.text, weights=holders[runs.group] - 1, minlength=len(index))
    return np.log1p(shared)


def unshared_share_by_text(index: NgramIndex, order: int) -> F64:
    """Return the share of n-grams of each text that are new there and in no other text, shape (n,)."""
    unshared = _count_singles(index, order)
    runs = index.runs(order)
    holders = np.diff(runs.first, append=len(runs.text))
    unshared += np.bincount(runs.text[holders[runs.group] == 1], minlength=len(index))
    sizes = index.sizes(order).astype(np.float64)
    sizes[sizes == 0] = np.nan
    return unshared / sizes


def weigh_repeats(index: NgramIndex, order: int, weights: Weights) -> F64:
    """Return the share of n-grams already seen in the same text in sets of texts, shape (draws,)."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return weigh(weights, index.repeats(order)) / weigh(weights, index.sizes(order))


def count_types(index: NgramIndex, order: int, subsets: Subsets) -> tuple[F64, F64, F64]:
    """Count the n-grams, the distinct ones and those that occur once in each subset, each of shape (subsets,)."""
    single = weigh(subsets, _count_singles(index, order))
    types, once = single.copy(), single.copy()
    for counts in _iterate_counts(index, order, subsets):
        types += (counts > 0).sum(axis=0)
        once += (counts == 1).sum(axis=0)
    return weigh(subsets, index.sizes(order)), types, once


def compute_subset_entropies(index: NgramIndex, order: int, subsets: Subsets) -> F64:
    """Compute the entropy of all n-grams of each subset, nats, shape (subsets,)."""
    total = weigh(subsets, index.sizes(order))
    weighted = np.zeros_like(total)
    for counts in _iterate_counts(index, order, subsets):
        terms = np.arange(counts.max(initial=0) + 1, dtype=np.float64)  # c log c of every count c
        terms[1:] *= np.log(terms[1:])
        weighted += terms[counts].sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.maximum(np.log(total) - weighted / total, 0.0)


def compute_subset_slopes(index: NgramIndex, subsets: Subsets, of: Callable[[NDArray[np.int32]], float]) -> F64:
    """Return what a function makes of the frequencies of the tokens in each subset, shape (subsets,)."""
    single = subsets @ _count_singles(index, 1)
    parts = list(_iterate_counts(index, 1, subsets))
    seen = [[part[:, number] for part in parts] for number in range(len(subsets))]
    return np.array([of(np.concatenate([*s, np.ones(n, dtype=np.int32)])) for s, n in zip(seen, single, strict=True)])


def compute_subset_sharing(index: NgramIndex, order: int, subsets: Subsets, of: Callable[[F64], F64]) -> F64:
    """Return the mean over the texts of a subset of a function of how often its n-grams are in its other texts."""
    table = _build_table(index, order)
    inside = np.ascontiguousarray(subsets.T, dtype=np.float64)
    shared = table.T @ np.maximum(table @ inside - 1.0, 0.0)
    return np.asarray((of(shared) * inside).sum(axis=0) / inside.sum(axis=0), dtype=np.float64)


def count_subset_matches(index: NgramIndex, order: int, first: F64, is_reference: NDArray[np.bool_]) -> F64:
    """Return the n-grams of each text that the other references of a subset have, clipped, shape (texts, splits).

    min(c, largest count in another text) is the sum over t = 1, 2, … of [c >= t and another text has t of them]; all
    but a few n-grams end with t = 1. Texts outside the subset get numbers too, which mean nothing.
    """
    matches = np.zeros_like(first)
    runs = index.runs(order)
    keep, least = np.ones(len(runs.text), dtype=np.bool_), 1
    while keep.any():
        table = _build_table(index, order, keep)
        holders = table @ (first * is_reference[:, None])
        matches += np.where(is_reference[:, None], table.T @ (holders >= 2), table.T @ (holders >= 1))
        least += 1
        keep = runs.count >= least
    return matches


def count_subset_copies(index: NgramIndex, order: int, texts: Subsets, corpus: Subsets) -> F64:
    """Count the n-grams of the texts of each subset that a text of a subset of the corpus has, shape (subsets,).

    The index has the texts first, then the corpus.
    """
    runs = index.runs(order)
    is_text = runs.text < texts.shape[1]
    holders = _build_table(index, order, ~is_text)[:, texts.shape[1] :]
    shared = np.flatnonzero(np.diff(holders.indptr))  # n-grams that the corpus has
    counts = _build_table(index, order, is_text, runs.count)[:, : texts.shape[1]]
    copies = np.zeros(len(texts))
    step = max(1, _CELLS // max(len(texts), 1))
    for low in range(0, len(shared), step):
        part = shared[low : low + step]
        copies += ((counts[part] @ texts.T.astype(np.float64)) * (holders[part] @ corpus.T.astype(np.float64) > 0)).sum(
            0
        )
    return copies


def _count_singles(index: NgramIndex, order: int) -> NDArray[np.int64]:
    """Return how many n-grams of each text occur nowhere else and once in it, shape (texts,)."""
    runs = index.runs(order)
    seen = np.bincount(runs.text, weights=runs.count, minlength=len(index)).astype(np.int64)
    return index.sizes(order) - seen


def _build_table(
    index: NgramIndex, order: int, keep: NDArray[np.bool_] | None = None, values: NDArray[Any] | None = None
) -> Any:  # noqa: ANN401 - a CSR matrix
    """Return which texts have which n-grams, 1 or a value each, shape (n-grams, texts); only the runs to keep."""
    from scipy.sparse import csr_matrix

    runs = index.runs(order)
    text, first = runs.text, np.append(runs.first, len(runs.text))
    values = np.ones(len(text)) if values is None else values.astype(np.float64)
    if keep is not None and not keep.all():
        first = np.concatenate([[0], np.cumsum(keep)])[first]
        text, values = text[keep], values[keep]
    return csr_matrix((values, text, first), shape=(len(first) - 1, len(index)))


def _iterate_counts(index: NgramIndex, order: int, subsets: Subsets) -> Iterator[NDArray[np.int32]]:
    """Yield the counts of the n-grams that occur more than once, shape (some n-grams, subsets)."""
    from scipy.sparse import csr_matrix

    runs = index.runs(order)
    first = np.append(runs.first, len(runs.text))
    columns = np.ascontiguousarray(subsets.T, dtype=np.int32)
    step = max(1, _CELLS // max(subsets.shape[0], 1))
    for low in range(0, len(first) - 1, step):
        ends = first[low : low + step + 1]
        part = slice(int(ends[0]), int(ends[-1]))
        counts = runs.count[part].astype(np.int32)
        table = csr_matrix((counts, runs.text[part], ends - ends[0]), shape=(len(ends) - 1, len(index)))
        yield np.asarray(table @ columns, dtype=np.int32)
