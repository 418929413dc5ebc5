"""Self-BLEU: how much each text is like the other texts of the same system.

    self_bleu_n = mean over texts h of BLEU-n(h; references = all other texts)
    BLEU-n(h)   = min(1, exp(1 - r / |h|)) * (product over m = 1..n of p_m)^(1/n)

p_m is the share of h's n-grams of order m that are found in the references, each counted at most as often as in the
reference that has it most often; r is the reference length closest to |h| (the shorter of two equally close). In [0,
1], compared with the human value. Linear in the number of tokens: for each n-gram the largest and second largest count
over texts and the holder of the largest give the clipping count without any one text at once.

Source: Zhu et al. 2018, "Texygen: A benchmarking platform for text generation models"; BLEU: Papineni et al. 2002;
smoothing method1 of Chen and Cherry 2014 (0.1 in place of a count of zero; 0 if no token is found at all), exactly as
NLTK's `sentence_bleu`.
"""

from collections.abc import Sequence

import numpy as np

from openended.harness import core
from openended.harness.core import F64, I64, Features, MetricResult, UndefinedMetric, check_arguments, ranged
from openended.metrics.families import Corpus, Mask, TextMetric, declare_orders
from openended.metrics.families.ngram_statistics import build_table
from openended.metrics.families.ngrams import NgramIndex, Sequences, index_of

_SHOWN = 4  # the order that tables show: Pillutla et al. 2021
_EPSILON = 0.1  # smoothing method1: Chen and Cherry 2014, as in NLTK


@check_arguments
def self_bleu(
    sequences: Sequences, *, orders: Sequence[int] = (1, 2, 3, 4, 5), num_hypotheses: int | None = None, seed: int = 0,
    num_references: int | None = None,
) -> dict[int, float]:  # fmt: skip
    """Compute the mean BLEU of texts against the other texts (Zhu et al. 2018).

    Args:
        sequences: Texts as lists of token ids, or as strings that are split at white space.
        orders: The largest n-gram lengths n; BLEU-n weighs the orders 1 to n equally.
        num_hypotheses: Number of drawn texts that are scored, the same for every order; `None`: all.
        seed: Seed of the draws of hypotheses and references.
        num_references: Number of drawn texts that each is scored against; `None`: all others.

    Returns:
        Order → value in [0, 1], as NLTK's `sentence_bleu` with smoothing method1; higher means more alike.

    Raises:
        UndefinedMetric: If there are fewer than two texts.
        ValueError: If there are fewer other texts than `num_references`.
    """
    index = index_of(sequences)
    chosen = choose_hypotheses(len(index), num_hypotheses, seed)
    table = bleu_by_text(index, max(orders), num_references=num_references, seed=seed)
    return {order: float(table[order - 1][chosen].mean()) for order in orders}


def choose_hypotheses(n: int, num_hypotheses: int | None, seed: int) -> I64:
    """Return the indices of the scored texts, rising; all if there are no more than `num_hypotheses`."""
    if num_hypotheses is None or num_hypotheses >= n:
        return np.arange(n)
    return np.sort(core.make_random_stream(seed, "self_bleu", "hypotheses").choice(n, num_hypotheses, replace=False))


def bleu_by_text(index: NgramIndex, highest: int, *, num_references: int | None = None, seed: int = 0) -> F64:
    """BLEU of every text against the others, shape (highest, n): row m - 1 has BLEU-m."""
    n = len(index)
    if n < 2:
        raise UndefinedMetric(f"Self-BLEU needs at least two texts, got {n}")
    if num_references is None or num_references == n - 1:
        return _compute_bleu(index, highest, np.ones(n, dtype=np.bool_))
    if not 1 <= num_references < n:
        raise ValueError(f"expected num_references from 1 to {n - 1}, got {num_references}")
    # every text has exactly k references: the first k of the pool or, for one of these, the others of the first k + 1
    pool = _draw_pool(n, num_references, seed)
    first, both = np.isin(np.arange(n), pool[:-1]), np.isin(np.arange(n), pool)
    return np.where(first, _compute_bleu(index, highest, both), _compute_bleu(index, highest, first))


def _draw_pool(n: int, num_references: int, seed: int) -> I64:
    return core.make_random_stream(seed, "self_bleu", "references").permutation(n)[: num_references + 1]


def _compute_bleu(index: NgramIndex, highest: int, is_reference: Mask) -> F64:
    """Return BLEU of every text against the references without itself, shape (highest, n)."""
    matches = np.stack([_count_matches(index, order, is_reference) for order in range(1, highest + 1)])
    sizes = np.stack([np.maximum(index.sizes(order), 1) for order in range(1, highest + 1)])
    precision = np.where(matches > 0, matches, _EPSILON) / sizes
    steps = np.arange(1, highest + 1)[:, None]
    mean_log = np.cumsum(np.log(precision), axis=0) / steps
    return np.where(matches[0] > 0, np.exp(mean_log) * _compute_brevity(index.lengths, is_reference), 0.0)


def _count_matches(index: NgramIndex, order: int, is_reference: Mask) -> I64:
    """Count n-grams of each text found in the other references, clipped, shape (n,)."""
    out = np.zeros(len(index), dtype=np.int64)
    for runs in index.run_blocks(order):
        if not len(runs.text):
            continue
        count = np.where(is_reference[runs.text], runs.count, 0)
        limit = np.maximum.reduceat(count, runs.first)[runs.group]
        # the first text with the largest count holds it; without that text the limit is the second largest
        position = np.where(count == limit, np.arange(len(count)), len(count))
        holder = np.minimum.reduceat(position, runs.first)
        count[holder] = 0
        limit[holder] = np.maximum.reduceat(count, runs.first)
        clipped = np.minimum(runs.count, limit)
        out += np.bincount(runs.text, weights=clipped, minlength=len(index)).astype(np.int64)
    return out


def _compute_brevity(lengths: I64, is_reference: Mask) -> F64:
    """Return each text's brevity penalty from the closest length of a reference other than itself, shape (n,)."""
    lengths_seen, times = np.unique(lengths[is_reference], return_counts=True)
    at = np.searchsorted(lengths_seen, lengths)
    at_known = np.minimum(at, len(lengths_seen) - 1)
    same = lengths_seen[at_known] == lengths
    others = np.where(same, times[at_known], 0) - is_reference
    far = np.iinfo(np.int64).max // 4
    padded = np.concatenate([[-far], lengths_seen, [far]])
    below = padded[at]  # the largest length that is smaller
    above = padded[at + 1 + same]
    closest = np.where(lengths - below <= above - lengths, below, above)
    closest = np.where(same & (others > 0), lengths, closest)
    penalty = np.exp(np.minimum(1.0 - closest / np.maximum(lengths, 1), 0.0))
    return np.where(lengths == 0, 0.0, penalty)


def _count_subset_matches(index: NgramIndex, order: int, first: F64, is_reference: Mask) -> F64:
    """Return the n-grams of each text that the other references of a subset have, clipped, shape (texts, splits).

    min(c, largest count in another text) is the sum over t = 1, 2, … of [c >= t and another text has t of them]; all
    but a few n-grams end with t = 1. Texts outside the subset get numbers too, which mean nothing.
    """
    matches = np.zeros_like(first)
    runs = index.runs(order)
    keep, least = np.ones(len(runs.text), dtype=np.bool_), 1
    while keep.any():
        table = build_table(index, order, keep)
        holders = table @ (first * is_reference[:, None])
        matches += np.where(is_reference[:, None], table.T @ (holders >= 2), table.T @ (holders >= 1))
        least += 1
        keep = runs.count >= least
    return matches


@core.metric
class SelfBleu(TextMetric):
    """BLEU of each text against all others of its system, exact over all texts; high where texts are alike."""

    name = "self_bleu"
    option_synonyms = {"n": "orders"}
    synonyms = ("self_bleu_4",)
    version = 2
    bounds = (0.0, 1.0)
    resampling = "subsample"  # a repeated text would be its own perfect reference
    titles = {f"self_bleu_{n}": f"Self-BLEU-{n}" for n in range(1, 6)}

    orders: tuple[int, ...] = declare_orders(1, 2, 3, 4, 5)
    """Tables show 4, Pillutla et al. 2021."""
    num_hypotheses: int | None = ranged(None, "[1, inf)", "null or a positive integer")
    """Score all; 1000: Holtzman et al. 2020, 500: Pillutla et al. 2021."""
    num_references: int | None = ranged(None, "[1, inf)", "null or a positive integer")
    """Against all others; the value grows with the pool."""
    seed: int = 0
    """Seed of the draws, if any."""

    def evaluate(self, features: Features, prepared: Corpus) -> MetricResult:
        index = prepared.index
        n, notes, references = len(index), [], self.num_references
        if references is not None and references > n - 1:
            notes.append(f"num_references is {references}, but there are only {n - 1} other texts: all were used")
            references = None
        table = bleu_by_text(index, max(self.orders), num_references=references, seed=self.seed)
        chosen = choose_hypotheses(n, self.num_hypotheses, self.seed)
        values = {f"self_bleu_{order}": float(table[order - 1][chosen].mean()) for order in self.orders}
        is_scored = np.isin(np.arange(n), chosen)
        by_text = {f"self_bleu_{order}": np.where(is_scored, table[order - 1], np.nan) for order in self.orders}
        primary = f"self_bleu_{_SHOWN if _SHOWN in self.orders else max(self.orders)}"
        return self.report(features, prepared, primary, values, by_text, notes=notes)

    def score(self, prepared: Corpus, human: core.Weights, model: core.Weights, /) -> dict[str, F64]:
        """Score the texts of subsets against each other; the brevity penalty is that of all texts."""
        index, n = prepared.index, len(prepared.index)
        pool = np.ones(n, dtype=np.bool_)
        if self.num_references is not None and self.num_references < n - 1:
            pool = np.isin(np.arange(n), _draw_pool(n, self.num_references, self.seed))
        scored = np.zeros(n)
        scored[choose_hypotheses(n, self.num_hypotheses, self.seed)] = 1.0
        first = np.ascontiguousarray(model.T, dtype=np.float64)
        brevity = _compute_brevity(index.lengths, pool)[:, None]
        weight = first * scored[:, None]
        weight /= np.maximum(weight.sum(axis=0), 1.0)
        mean_log, any_match = np.zeros_like(first), np.zeros(first.shape, dtype=np.bool_)
        means = {}
        for order in range(1, max(self.orders) + 1):
            matches = _count_subset_matches(index, order, first, pool)
            any_match = matches > 0 if order == 1 else any_match
            sizes = np.maximum(index.sizes(order), 1)[:, None]
            mean_log += np.log(np.where(matches > 0, matches, _EPSILON) / sizes)
            bleu = np.where(any_match, np.exp(mean_log / order) * brevity, 0.0)
            means[order] = (bleu * weight).sum(axis=0)
        return {f"self_bleu_{order}": means[order] for order in self.orders}
