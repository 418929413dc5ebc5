"""Repetition inside texts: the share that end in a loop, and the share of n-grams already seen.

    seq-rep-n(text) = 1 - |different n-grams| / |n-grams|
    diversity       = product over n = 2, 3, 4 of (1 - rep-n)
    loop rate       = share of texts that end in a phrase repeated to the end

All values are fractions in [0, 1] (`self_repetition`: nats, from 0 up), compared with the human value.

- Loop: of all phrase lengths n up to `max_phrase`, the one with the most contiguous repeats at the end (the shortest
  of equals) counts if it stands there more than once and n >= 3, or more than 50 times; `loop: two_copies`: two copies
  of a phrase of any length are enough.
- `seq_rep_<n>` is the mean over texts, texts shorter than n left out. `rep_<n>` pools: repeats summed over texts over
  all n-grams. `diversity` multiplies the pooled values. `simctg: true` reproduces the published tables instead: the
  last n-gram of each text is not counted, and rep-n is rounded to hundredths of a percent.
- `self_repetition`: mean over texts of log(1 + sum over the different n-grams (n = 4) of a text of the number of other
  texts that contain it).

Source: loop rate: Holtzman et al. 2020, "The curious case of neural text degeneration"; seq-rep-n: Welleck et al. 2020,
"Neural text generation with unlikelihood training"; diversity: Su et al. 2022, "A contrastive framework for neural text
generation"; self-repetition: Salkar et al. 2022, as computed by Shaib et al. 2024.
"""

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

import openended.metrics.families.ngram_statistics as statistics
from openended.harness import core
from openended.harness.core import F64, I64, Features, MetricResult, UndefinedMetric, Weights, metric, ranged
from openended.metrics.families import Corpus, Mask, TextMetric, declare_orders, require_defined
from openended.metrics.families.ngrams import NgramIndex, Sequences, index_of

Average = Literal["texts", "pooled", "simctg"]
Loop = Literal["released", "two_copies"]
_DIVERSITY_ORDERS = (2, 3, 4)  # Su et al. 2022
_FEW_REPEATS = 50  # a phrase of one or two tokens counts only above this: Holtzman et al. 2020, released code
_LONG_PHRASE = 3


@core.check_arguments
def loop_rate(sequences: Sequences, *, max_phrase: int = 500, loop: Loop = "released") -> float:
    """Compute the share of texts that end in a repeated phrase (Holtzman et al. 2020, released code).

    Args:
        sequences: Texts as lists of token ids, or as strings that are split at white space; without end tokens.
        max_phrase: The longest phrase, in tokens (500: Pillutla et al. 2021; 90: Holtzman et al. 2020).
        loop: `released`: a phrase of one or two tokens needs more than 50 copies; `two_copies`: two of any phrase.

    Returns:
        A share in [0, 1]; an empty text is no loop.

    Raises:
        UndefinedMetric: If there are no texts.
    """
    index = index_of(sequences)
    if not len(index):
        raise UndefinedMetric("there are no texts")
    return float(_ends_in_loop(index, max_phrase, loop).mean())


@core.check_arguments
def seq_rep_n(
    sequences: Sequences, *, orders: Sequence[int] = (2, 3, 4), average: Average = "texts"
) -> dict[int, float]:
    """Compute the share of n-grams that were already seen in the same text (Welleck et al. 2020, section 5).

    Args:
        sequences: Texts as lists of token ids, or as strings that are split at white space.
        orders: The n-gram lengths n, each at least 1.
        average: `texts`: mean over texts that have an n-gram; `pooled`: repeats summed over texts over all n-grams;
            `simctg`: pooled without the last n-gram of each text, rounded to 4 decimals (Su et al. 2022).

    Returns:
        Order → share in [0, 1]; NaN for an order that is longer than every text.

    Raises:
        UndefinedMetric: If all orders are longer than every text.
    """
    index = index_of(sequences)
    index = index.without_last if average == "simctg" else index
    values = {order: _compute_rep(index, order, average) for order in orders}
    return require_defined(values, f"no text has an n-gram of order {min(orders)}")


def diversity(sequences: Sequences, *, simctg: bool = False) -> float:
    """Compute the product over n = 2, 3, 4 of one minus the pooled share of repeated n-grams (Su et al. 2022).

    Args:
        sequences: Texts as lists of token ids, or as strings that are split at white space.
        simctg: Whether the last n-gram of each text is dropped and each share rounded, as in the published tables.

    Returns:
        A number in [0, 1]; 1 means that no text repeats an n-gram.

    Raises:
        UndefinedMetric: If every text is shorter than 4 tokens (with `simctg` 5).
    """
    rep = seq_rep_n(sequences, orders=_DIVERSITY_ORDERS, average="simctg" if simctg else "pooled")
    value = float(np.prod([1.0 - rep[order] for order in _DIVERSITY_ORDERS]))
    if np.isnan(value):
        raise UndefinedMetric("every text is shorter than the largest order of diversity, 4")
    return value


def self_repetition(sequences: Sequences, *, order: int = 4) -> float:
    """Compute the mean over texts of log(1 + number of (n-gram, other text) pairs that share it) (Salkar et al. 2022).

    Args:
        sequences: Texts as lists of token ids, or as strings that are split at white space.
        order: The n-gram length, at least 1.

    Returns:
        Nats, from 0 up; 0 means that no two texts share an n-gram.

    Raises:
        UndefinedMetric: If there are no texts.
    """
    index = index_of(sequences)
    if not len(index):
        raise UndefinedMetric("there are no texts")
    return float(compute_self_repetition(index, order).mean())


def _compute_rep(index: NgramIndex, order: int, average: str) -> float:
    if average == "texts":
        return statistics.average_without_nan(1.0 - statistics.compute_distinct_shares(index, order))
    if average == "simctg":
        return statistics.compute_simctg_percent(index, order) / 100.0
    return statistics.compute_pooled_repeats(index, order)


def _ends_in_loop(index: NgramIndex, max_phrase: int, loop: Loop = "released") -> Mask:
    repeats, phrase = final_repeats(index, max_phrase)
    return (repeats > 1) & ((phrase >= _LONG_PHRASE) | (repeats > _FEW_REPEATS) | (loop == "two_copies"))


def final_repeats(index: NgramIndex, max_phrase: int) -> tuple[I64, I64]:
    """Return how often the most repeated final phrase stands at the end, and its length (the shortest of equals).

    A phrase of n tokens stands at the end m // n + 1 times, where m is the number of last tokens that equal the token n
    positions before. The texts are worked on together, one phrase length after the other, and only where the last token
    recurs and the length could still beat the best so far. Two arrays of shape (n,): (1, 1) where nothing repeats, (0,
    0) for an empty text.
    """
    lengths, tokens = index.lengths, index.tokens
    last = np.cumsum(lengths + 1) - 1  # position of each text's last token (a separator, if it is empty)
    best = np.minimum(lengths, 1)
    phrase = best.copy()
    longest = lengths // 2  # longest phrase that can repeat more often than the best one
    alive, room = np.arange(len(lengths)), 0
    for n in range(1, max_phrase + 1):
        if n > room:
            alive = alive[longest[alive] >= n]
            if not len(alive):
                break
            room, end = int(longest[alive].min()), last[alive]
            final = tokens[end]
        rows = alive[np.flatnonzero(tokens[end - n] == final)]
        rows = rows[tokens[last[rows] - 2 * n + 1] == tokens[last[rows] - n + 1]]
        if len(rows):
            repeats = _count_matching(tokens, last[rows], n) // n + 1
            better = repeats > best[rows]
            rows, repeats = rows[better], repeats[better]
            best[rows], phrase[rows] = repeats, n
            longest[rows] = lengths[rows] // (repeats + 1)
            room = min(room, int(longest[rows].min(initial=room)))
    return best, phrase


def _count_matching(tokens: NDArray[np.int32], end: I64, n: int) -> I64:
    """Count the tokens, from place `end` backwards, that equal the token `n` places before."""
    out = np.zeros(len(end), dtype=np.int64)
    active = np.arange(len(end))
    width = 32
    while len(active):
        positions = (end[active] - out[active])[:, None] - np.arange(width)
        # place 0 is a separator; a token never equals it, so the count stops at the start of the text
        equal = tokens[np.maximum(positions, 0)] == tokens[np.maximum(positions - n, 0)]
        equal &= positions > 0
        run = np.where(equal.all(axis=1), width, np.argmin(equal, axis=1))
        out[active] += run
        active = active[run == width]
        width = min(width * 2, 4096)
    return out


def compute_self_repetition(index: NgramIndex, order: int) -> F64:
    """Return log(1 + number of (n-gram, other text) pairs that share it) of each text, shape (n,), nats."""
    shared = np.zeros(len(index))
    for runs in index.run_blocks(order):
        holders = np.diff(runs.first, append=len(runs.text))
        shared += np.bincount(runs.text, weights=holders[runs.group] - 1, minlength=len(index))
    return np.log1p(shared)


def _compute_subset_sharing(index: NgramIndex, order: int, subsets: Weights) -> F64:
    """Return the mean over the texts of a subset of log(1 + how often its n-grams are in its other texts), nats."""
    table = statistics.build_table(index, order)
    inside = np.ascontiguousarray(subsets.T, dtype=np.float64)
    shared = table.T @ np.maximum(table @ inside - 1.0, 0.0)
    return np.asarray((np.log1p(shared) * inside).sum(axis=0) / inside.sum(axis=0), dtype=np.float64)


@metric
class Repetition(TextMetric):
    """Loops at the end of texts, n-grams repeated inside texts, n-grams shared between texts."""

    name = "repetition"
    option_synonyms = {"n": "orders"}
    synonyms = ("rep", "rep_n", "seq_rep_n", "rep_2", "rep_3", "rep_4", "seq_rep_4")
    bounds = (0.0, 1.0)
    ranges = {"self_repetition": (0.0, np.inf)}  # nats
    resampling = "bootstrap"  # the primary value is a mean over texts
    # Where texts are compared, a text may not be drawn twice; pooled shares have halves.
    schemes = {"self_repetition": "subsample", "rep_*": "halves", "diversity": "halves"}
    shares = ("loop_rate",)
    titles = {"loop_rate": "Rep.", "diversity": "Diversity", "self_repetition": "Self-rep."}
    titles |= {f"seq_rep_{n}": f"Seq-rep-{n}" for n in range(1, 5)} | {f"rep_{n}": f"Rep-{n}" for n in range(1, 5)}

    max_phrase: int = ranged(500, "[1, inf)", "a positive integer")
    """Longest loop, Pillutla et al. 2021; 90: Holtzman et al. 2020."""
    orders: tuple[int, ...] = declare_orders(2, 3, 4)
    """N-gram orders of seq_rep and rep; Su et al. 2022."""
    simctg: bool = False
    """true: rep and diversity as the SimCTG tables print them (use unit: words)."""
    self_repetition_order: int = ranged(4, "[1, inf)", "a positive integer")
    """Salkar et al. 2022."""
    loop: Loop = "released"
    """Short phrases count from 51 copies; two_copies: of any phrase, Pillutla et al. 2021, appendix C.4; Holtzman et
    al. 2020, released code."""

    def prepare(self, features: Features) -> tuple[Corpus, dict[str, F64]]:
        """Return the corpus, and what is counted in each text."""
        corpus = super().prepare(features)
        index = corpus.index
        by_text = {"loop_rate": _ends_in_loop(index, self.max_phrase, self.loop).astype(np.float64)}
        by_text |= {f"seq_rep_{n}": 1.0 - statistics.compute_distinct_shares(index, n) for n in self.orders}
        by_text["self_repetition"] = compute_self_repetition(index, self.self_repetition_order)
        return corpus, by_text

    def list_rows(self, features: Features, prepared: tuple[Corpus, dict[str, F64]]) -> tuple[core.Ids, core.Ids]:
        return super().list_rows(features, prepared[0])

    def evaluate(self, features: Features, prepared: tuple[Corpus, dict[str, F64]]) -> MetricResult:
        corpus, by_text = prepared
        values = {name: statistics.average_without_nan(column) for name, column in by_text.items()}
        average, pooled = ("simctg", corpus.index.without_last) if self.simctg else ("pooled", corpus.index)
        rep = {order: _compute_rep(pooled, order, average) for order in {*self.orders, *_DIVERSITY_ORDERS}}
        values |= {f"rep_{order}": rep[order] for order in self.orders}
        values["diversity"] = float(np.prod([1.0 - rep[order] for order in _DIVERSITY_ORDERS]))
        return self.report(features, corpus, "loop_rate", values, by_text)

    def rows_of(self, key: str, result: MetricResult) -> F64 | None:
        return super().rows_of(f"seq_{key}" if key.startswith("rep_") else key, result)

    def score(
        self, prepared: tuple[Corpus, dict[str, F64]], human: Weights, model: Weights, /
    ) -> dict[str, F64 | Callable[[], F64]]:
        (corpus, by_text), order = prepared, self.self_repetition_order
        out: dict[str, F64 | Callable[[], F64]] = {
            name: core.average(column, model) for name, column in by_text.items()
        }
        out["self_repetition"] = lambda: _compute_subset_sharing(corpus.index, order, model)
        pooled = corpus.index.without_last if self.simctg else corpus.index
        rep = {n: statistics.weigh_repeats(pooled, n, model) for n in {*self.orders, *_DIVERSITY_ORDERS}}
        out |= {f"rep_{n}": rep[n] for n in self.orders}
        return out | {"diversity": np.prod([1.0 - rep[n] for n in _DIVERSITY_ORDERS], axis=0)}
