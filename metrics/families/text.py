"""What the n-gram metrics share: their common options, and the index of a side, made once for a run."""

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
from openended.metrics._ngrams.sequences import joined, rows_of, selected, trimmed


@dataclass(frozen=True, slots=True, eq=False)
class Corpus:
    """The texts of one side that a metric reads."""

    rows: Ragged
    index: NgramIndex
    kept: NDArray[np.bool_]
    """True where a text of the side is in `rows`."""
    notes: tuple[str, ...]

    def spread(self, values: F64) -> F64:
        """Return one value for each text of the side, NaN for texts that were left out."""
        out = np.full(len(self.kept), np.nan)
        out[self.kept] = values
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

    def drawn_texts(self, features: Features, plan: Plan) -> tuple[Corpus, NDArray[np.bool_]]:
        """Return the corpus, and which of its texts are in the first half of each split."""
        corpus = self.corpus(features)
        return corpus, plan.halves(np.asarray(features.model.ids, dtype=np.str_)[corpus.kept])

    def variant_index(self, features: Features, variant: str) -> NgramIndex:
        """Return the index of the `joined` texts or of the texts `without_last` token; shared like `corpus`."""
        corpus = self.corpus(features)
        key: tuple[Hashable, ...] = ("ngrams", variant, self.token_need(), self.fixed_tokens)
        return features.model.derived(key, lambda: NgramIndex(reshaped(corpus.rows, variant)))


def corpus_of(side: Side, need: Need, fixed_tokens: int | None = None) -> Corpus:
    """Return the texts of a side and their n-grams; made once for all metrics that ask for the same.

    Raises:
        UndefinedMetric: If there is no text, or none as long as `fixed_tokens`.
    """
    key: tuple[Hashable, ...] = ("corpus", need, fixed_tokens)
    made = side.derived(key, lambda: _make(side.tokens(need), fixed_tokens))
    if not len(made.rows):
        raise UndefinedMetric("there are no texts" if not len(made.kept) else f"no text is left: {made.notes[0]}")
    return made


def _make(rows: Ragged, fixed_tokens: int | None) -> Corpus:
    kept = np.ones(len(rows), dtype=np.bool_)
    notes: list[str] = []
    if fixed_tokens is not None:
        kept = rows.lengths >= fixed_tokens
        rows = selected(rows, kept)
        rows = trimmed(rows, np.full(len(rows), fixed_tokens, dtype=np.int64))
        if not kept.all():
            short = int(np.count_nonzero(~kept))
            notes.append(f"{short} of {len(kept)} texts are shorter than {fixed_tokens} tokens and left out")
    empty = int(np.count_nonzero(rows.lengths == 0))
    if empty:
        notes.append(f"{empty} of {len(rows)} texts are empty")
    return Corpus(rows, NgramIndex(rows), kept, tuple(notes))


def reshaped(rows: Ragged, variant: str) -> Ragged:
    """Return the texts `joined` to one, or each `without_last` token."""
    return joined(rows) if variant == "joined" else trimmed(rows, np.maximum(rows.lengths - 1, 0))


def variant_of(sequences: object, variant: str) -> NgramIndex:
    """Return the index of texts changed as in `reshaped`; for the pure functions.

    Raises:
        TypeError: If only an index is given, which cannot be reshaped.
    """
    if isinstance(sequences, NgramIndex):
        raise TypeError(f"variant {variant!r} needs the texts themselves, got their n-gram index")
    return NgramIndex(reshaped(rows_of(sequences), variant))  # type: ignore[arg-type]


def check_orders(metric: Metric, orders: Sequence[int], option: str = "orders") -> None:
    """Check a tuple of n-gram orders: at least one, positive, no order twice."""
    good = len(orders) > 0 and all(order > 0 for order in orders) and len(set(orders)) == len(orders)
    metric.require(good, option, "different positive integers")


def defined(values: dict[str, float], why: str) -> dict[str, float]:
    """Return `values` unless all are NaN.

    Raises:
        UndefinedMetric: If no value is a number.
    """
    if all(np.isnan(value) for value in values.values()):
        raise UndefinedMetric(why)
    return values


def missing_note(values: dict[str, float], what: str) -> tuple[str, ...]:
    """Return a note that names the values that are NaN."""
    names = [name for name, value in values.items() if np.isnan(value)]
    return (f"no value for {', '.join(names)}: {what}",) if names else ()
