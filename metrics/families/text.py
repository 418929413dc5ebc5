"""Base class of n-gram metrics: common options and a shared n-gram index."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from openended.harness.core import (
    F64,
    Direction,
    Family,
    Features,
    Metric,
    Need,
    Plan,
    Ragged,
    Scope,
    Side,
    UndefinedMetric,
    Unit,
)
from openended.metrics._ngrams.index import NgramIndex
from openended.metrics._ngrams.sequences import join_rows, pack_rows, select_rows, trim_rows


@dataclass(frozen=True, slots=True, eq=False)
class Corpus:
    """The texts of one side that a metric reads."""

    rows: Ragged
    index: NgramIndex
    is_included: NDArray[np.bool_]
    """True where a text of the side is in `rows`."""
    notes: tuple[str, ...]

    def align_values(self, values: F64) -> F64:
        """Return one value for each text of the side, NaN for texts that were left out."""
        out = np.full(len(self.is_included), np.nan)
        out[self.is_included] = values
        return out


@dataclass(frozen=True, kw_only=True)
class TextMetric(Metric):
    """Options of every metric of token sequences; a statistic of one system, whose target is the human value."""

    family: ClassVar[Family] = "text"
    direction: ClassVar[Direction] = "match_human"
    sides: ClassVar[Literal["one", "two", "human"]] = "one"

    unit: Unit = "tokens"
    """`tokens`: ids under the scorer's tokenizer, as in the papers (GPT-2 ids); `words`: split at white space."""
    scope: Scope = "continuation"
    fixed_tokens: int | None = None
    """Compare at one length: texts are cut to this many tokens, shorter ones are left out and counted in the notes."""

    def check(self) -> None:
        """Check the common options."""
        self.require(self.fixed_tokens is None or self.fixed_tokens > 0, "fixed_tokens", "null or a positive integer")

    def token_need(self) -> Need:
        """Return the token feature that the options ask for."""
        return Need("tokens", by="scorer" if self.unit == "tokens" else "words", scope=self.scope)

    def needs(self) -> tuple[Need, ...]:
        """Return the token feature."""
        return (self.token_need(),)

    def corpus(self, features: Features) -> Corpus:
        """Return the texts of the system under test and their n-grams, shared by all metrics of a run.

        Raises:
            UndefinedMetric: If there is no text, or none as long as `fixed_tokens`.
        """
        return corpus_of(features.model, self.token_need(), self.fixed_tokens)

    def split_texts(self, features: Features, plan: Plan) -> tuple[Corpus, NDArray[np.bool_]]:
        """Return the corpus, and which of its texts are in the first half of each split."""
        corpus, ids = self.corpus_and_prompts(features)
        return corpus, plan.halves(ids)

    def corpus_and_prompts(self, features: Features) -> tuple[Corpus, NDArray[np.str_]]:
        """Return the corpus and the prompt of each of its texts."""
        corpus = self.corpus(features)
        return corpus, np.asarray(features.model.ids, dtype=np.str_)[corpus.is_included]

    def variant_index(self, features: Features, variant: str) -> NgramIndex:
        """Return the index of the `joined` texts or of the texts `without_last` token; shared like `corpus`."""
        corpus = self.corpus(features)
        key: tuple[Hashable, ...] = ("ngrams", variant, self.token_need(), self.fixed_tokens)
        return features.model.compute_once(key, lambda: NgramIndex(reshape_rows(corpus.rows, variant)))


def corpus_of(side: Side, need: Need, fixed_tokens: int | None = None) -> Corpus:
    """Return the texts of a side and their n-grams; made once for all metrics that ask for the same.

    Raises:
        UndefinedMetric: If there is no text, or none as long as `fixed_tokens`.
    """
    key: tuple[Hashable, ...] = ("corpus", need, fixed_tokens)
    corpus = side.compute_once(key, lambda: _make(side.tokens(need), fixed_tokens))
    if not len(corpus.rows):
        raise UndefinedMetric(
            "there are no texts" if not len(corpus.is_included) else f"no text is left: {corpus.notes[0]}"
        )
    return corpus


def _make(rows: Ragged, fixed_tokens: int | None) -> Corpus:
    is_long_enough = np.ones(len(rows), dtype=np.bool_)
    notes: list[str] = []
    if fixed_tokens is not None:
        is_long_enough = rows.lengths >= fixed_tokens
        rows = select_rows(rows, is_long_enough)
        rows = trim_rows(rows, np.full(len(rows), fixed_tokens, dtype=np.int64))
        if not is_long_enough.all():
            short = int(np.count_nonzero(~is_long_enough))
            notes.append(f"{short} of {len(is_long_enough)} texts are shorter than {fixed_tokens} tokens and left out")
    empty = int(np.count_nonzero(rows.lengths == 0))
    if empty:
        notes.append(f"{empty} of {len(rows)} texts are empty")
    return Corpus(rows, NgramIndex(rows), is_long_enough, tuple(notes))


def reshape_rows(rows: Ragged, variant: str) -> Ragged:
    """Return the texts `joined` to one, or each `without_last` token."""
    return join_rows(rows) if variant == "joined" else trim_rows(rows, np.maximum(rows.lengths - 1, 0))


def variant_of(sequences: object, variant: str) -> NgramIndex:
    """Return the index of texts changed as in `reshape_rows`; for the pure functions.

    Raises:
        TypeError: If only an index is given, which cannot be reshaped.
    """
    if isinstance(sequences, NgramIndex):
        raise TypeError(f"variant {variant!r} needs the texts themselves, got their n-gram index")
    return NgramIndex(reshape_rows(pack_rows(sequences), variant))  # type: ignore[arg-type]


def check_orders(metric: Metric, orders: Sequence[int], option: str = "orders") -> None:
    """Check a tuple of n-gram orders: at least one, positive, no order twice."""
    good = len(orders) > 0 and all(order > 0 for order in orders) and len(set(orders)) == len(orders)
    metric.require(good, option, "different positive integers")


def require_defined(values: dict[str, float], why: str) -> dict[str, float]:
    """Return `values` unless all are NaN.

    Raises:
        UndefinedMetric: If no value is a number.
    """
    if all(np.isnan(value) for value in values.values()):
        raise UndefinedMetric(why)
    return values


def describe_missing(values: dict[str, float], what: str) -> tuple[str, ...]:
    """Return a note that names the values that are NaN."""
    names = [name for name, value in values.items() if np.isnan(value)]
    return (f"no value for {', '.join(names)}: {what}",) if names else ()
