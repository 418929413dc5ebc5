"""Counts and statistics of an n-gram index that several metrics use, of the whole corpus and of many subsets of it.

The n-grams of a text do not depend on the other texts. So the counts of an n-gram in all subsets are one product of the
sparse table (n-gram × text) with the table (text × subset).
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openended.harness.core import F64, Weights, weigh
from openended.metrics.families.ngrams import NgramIndex
from openended.metrics.families.text import divide_known

CELLS = 1 << 22  # size of a table (n-grams × subsets) that is computed at a time


def average_without_nan(values: F64) -> float:
    """Return the mean of the numbers that are not NaN; NaN if none is left."""
    finite = values[~np.isnan(values)]
    return float(finite.mean()) if len(finite) else float("nan")


def compute_distinct_shares(index: NgramIndex, order: int) -> F64:
    """Return the share of distinct n-grams in each text, shape (n,); NaN for texts shorter than `order`."""
    return 1.0 - divide_known(index.repeats(order), index.sizes(order))


def compute_pooled_repeats(index: NgramIndex, order: int) -> float:
    """Return the share of n-grams already seen in the same text, over all texts together; NaN without n-grams."""
    total = int(index.sizes(order).sum())
    return int(index.repeats(order).sum()) / total if total else float("nan")


def compute_simctg_percent(index: NgramIndex, order: int) -> float:
    """Return rep-n in percent, rounded as in SimCTG; `index` must hold the texts without their last token."""
    share = 1.0 - compute_pooled_repeats(index, order)
    return round(100.0 * (1.0 - share), 2)


def compute_text_entropies(index: NgramIndex, order: int) -> F64:
    """Entropy of the n-grams of each text, shape (n,), nats; NaN for texts shorter than `order`."""
    weighted = np.zeros(len(index))
    for runs in index.run_blocks(order):
        count = runs.count.astype(np.float64)
        np.add.at(weighted, runs.text, count * np.log(count))  # in order: splitting the texts changes no bit
    size = index.sizes(order).astype(np.float64)
    size[size == 0] = np.nan
    return np.maximum(np.log(size) - weighted / size, 0.0)


def weigh_repeats(index: NgramIndex, order: int, weights: Weights) -> F64:
    """Return the share of n-grams already seen in the same text in sets of texts, shape (draws,)."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return weigh(weights, index.repeats(order)) / weigh(weights, index.sizes(order))


def count_singles(index: NgramIndex, order: int) -> NDArray[np.int64]:
    """Return how many n-grams of each text occur nowhere else and once in it, shape (texts,)."""
    runs = index.runs(order)
    seen = np.bincount(runs.text, weights=runs.count, minlength=len(index)).astype(np.int64)
    return index.sizes(order) - seen


def build_table(
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


def iterate_counts(index: NgramIndex, order: int, subsets: Weights) -> Iterator[NDArray[np.int32]]:
    """Yield the counts of the n-grams that occur more than once, shape (some n-grams, subsets)."""
    from scipy.sparse import csr_matrix

    runs = index.runs(order)
    first = np.append(runs.first, len(runs.text))
    columns = np.ascontiguousarray(subsets.T, dtype=np.int32)
    step = max(1, CELLS // max(subsets.shape[0], 1))
    for low in range(0, len(first) - 1, step):
        ends = first[low : low + step + 1]
        part = slice(int(ends[0]), int(ends[-1]))
        counts = runs.count[part].astype(np.int32)
        table = csr_matrix((counts, runs.text[part], ends - ends[0]), shape=(len(ends) - 1, len(index)))
        yield np.asarray(table @ columns, dtype=np.int32)
