"""Base class of n-gram metrics: common options and a shared n-gram index."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from openended.harness import core
from openended.harness.core import F64, I64, Features, Need, Ragged, Scope, Side, UndefinedMetric, Unit
from openended.metrics.families.common import Mask
from openended.metrics.families.ngrams import NgramIndex, select_rows, trim_rows

K = TypeVar("K", int, str)


@dataclass(frozen=True, slots=True, eq=False)
class Corpus:
    """The texts of one side that a metric reads."""

    rows: Ragged
    index: NgramIndex
    is_included: Mask  # true where a text of the side is in `rows`
    ids: NDArray[np.str_]  # the prompt of each text in `rows`
    notes: tuple[str, ...]

    def align_values(self, values: F64) -> F64:
        """Return one value for each text of the side, NaN for texts that were left out."""
        out = np.full(len(self.is_included), np.nan)
        out[self.is_included] = values
        return out


@dataclass(frozen=True, kw_only=True)
class CountMetric(core.Metric):
    """A statistic of the tokens (or words) of one system, whose target is the human value."""

    family: ClassVar[core.Family] = "text"
    direction: ClassVar[core.Direction] = "match_human"
    sides: ClassVar[Literal["one", "two", "human"]] = "one"

    unit: Unit = "auto"
    """`tokens`: ids under the scorer's tokenizer, as in the papers (GPT-2 ids); words where there is none.

    `words`: split at white space; `treebank`: by NLTK's Treebank tokenizer; `chars`: characters other than white space;
    `icu`: words by ICU, which has dictionaries of scripts without spaces (the extra `words`);
    `spaces`: split at every single space, as the package `diversity`; `rouge`: letters and digits in lower case, as
    `rouge_score`. `auto`: `chars` where there is no tokenizer and most human texts are in a script without spaces, else
    `tokens`; a run decides it for both sides.
    """
    scope: Scope = "continuation"
    """What is counted: the continuation, or prompt_and_continuation."""

    def needs(self) -> tuple[Need, ...]:
        """Return the tokens that are the unit; those of the scorer become words where there is none."""
        by = "scorer" if self.unit in ("auto", "tokens") else self.unit
        return (Need("tokens", by=by, scope=self.scope),)


@dataclass(frozen=True, kw_only=True)
class TextMetric(CountMetric):
    """A statistic of the n-grams of one system.

    `prepare` returns the `Corpus` of the texts, whose `index` counts n-grams; the rows that `score` weighs are its
    texts. `evaluate` returns `report(…)`, which adds notes on texts and values that are missing.
    """

    fixed_tokens: int | None = core.ranged(None, "[1, inf)", "null or a positive integer")
    """Compare at one length: texts are cut to this many tokens, shorter ones are left out and counted in the notes."""

    def prepare(self, features: Features) -> Any:  # noqa: ANN401 - some prepare more
        """Return the texts of the system under test and their n-grams, shared by all metrics of a run."""
        return corpus_of(features.model, self.needs()[0], self.fixed_tokens)

    def list_rows(self, features: Features, prepared: Any) -> tuple[core.Ids, core.Ids]:  # noqa: ANN401
        return prepared.ids, prepared.ids

    def report(
        self, features: Features, corpus: Corpus, primary: str, values: Mapping[str, float],
        by_text: Mapping[str, F64] | None = None, *, notes: Sequence[str] = (),
        arrays: Mapping[str, NDArray[Any]] | None = None,
    ) -> core.MetricResult:  # fmt: skip
        """Return a result with a number of each text of the corpus, and notes on texts and values that are missing."""
        missing = [name for name, value in values.items() if np.isnan(value)]
        too_short = [f"no value for {', '.join(missing)}: all texts are shorter"] if missing else []
        notes = (*corpus.notes, *too_short, *notes)
        per_example = {name: corpus.align_values(column) for name, column in (by_text or {}).items()}
        return self.result(features, primary, values, notes=notes, per_example=per_example, arrays=arrays)


def corpus_of(side: Side, need: Need, fixed_tokens: int | None = None) -> Corpus:
    """Return the texts of a side and their n-grams; built once for all metrics that ask for the same."""
    corpus = side.derive(_build_corpus, need, fixed_tokens)
    if not len(corpus.is_included):
        raise UndefinedMetric("there are no texts")
    if not len(corpus.rows):
        raise UndefinedMetric(f"no text is left: {corpus.notes[0]}")
    return corpus


def _build_corpus(side: Side, need: Need, fixed_tokens: int | None) -> Corpus:
    rows: Ragged = side[need]
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
    ids = np.asarray(side.ids, dtype=np.str_)[is_long_enough]
    return Corpus(rows, NgramIndex(rows), is_long_enough, ids, tuple(notes))


def declare_orders(*orders: int) -> tuple[int, ...]:
    """Declare the option `orders` of a metric, n-gram orders with these defaults."""
    accepted = "different positive integers"
    return core.option(orders, lambda v: v and min(v) > 0 and len(set(v)) == len(v), accepted, unordered=True)


def require_defined(values: dict[K, float], why: str) -> dict[K, float]:
    """Return `values`; if all are NaN, raise `UndefinedMetric`."""
    if all(np.isnan(value) for value in values.values()):
        raise UndefinedMetric(why)
    return values


def divide_known(total: F64 | I64, count: F64 | I64) -> F64:
    """Return the quotient for each text, shape (n,); NaN where nothing was counted."""
    quotient: F64 = np.divide(total, count, out=np.full(len(total), np.nan), where=count > 0)
    return quotient
