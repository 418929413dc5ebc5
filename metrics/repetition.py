"""Repetition inside texts: the share that end in a loop, and the share of n-grams already seen.

    seq-rep-n(text) = 1 - |different n-grams| / |n-grams|
    diversity       = product over n = 2, 3, 4 of (1 - rep-n)
    loop rate       = share of texts that end in a phrase repeated to the end

Measures degeneration by repetition; all values are fractions in [0, 1] (`self_repetition`: nats, from 0 up), compared
with the human value.

Source: loop rate: Holtzman et al. 2020, "The curious case of neural text degeneration"; seq-rep-n: Welleck et al. 2020,
"Neural text generation with unlikelihood training"; diversity: Su et al. 2022, "A contrastive framework for neural text
generation"; self-repetition: Salkar et al. 2022, as computed by Shaib et al. 2024.

Variants, and which is computed:

- Loop: of all phrase lengths n up to `max_phrase`, the one with the most contiguous repeats at the end (the shortest
  of equals) counts if it stands there more than once and n >= 3, or more than 50 times. 500 (default) is the limit of
  Pillutla et al. 2021, 90 that of Holtzman et al. 2020; long loops need 500.
- `seq_rep_<n>` is the mean over texts (Welleck et al.), texts shorter than n left out. `rep_<n>` pools: repeats summed
  over texts over all n-grams. `diversity` multiplies the pooled values. `simctg: true` reproduces the published tables
  instead: the last n-gram of each text is not counted, and rep-n is rounded to hundredths of a percent.
- `self_repetition`: mean over texts of log(1 + sum over the different n-grams (n = 4) of a text of the number of other
  texts that contain it).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from openended.harness.core import (
    SHARE,
    Features,
    MetricResult,
    Plan,
    Replicates,
    Resampling,
    UndefinedMetric,
    register,
)
from openended.metrics._common.choices import check_choice
from openended.metrics._ngrams.index import NgramIndex, Sequences, index_of
from openended.metrics._ngrams.loops import ends_in_loop
from openended.metrics._ngrams.resampled_counts import compute_half_repeats, compute_subset_sharing
from openended.metrics._ngrams.statistics import (
    compute_pooled_repeats,
    distinct_share_by_text,
    mean_without_nan,
    self_repetition_by_text,
    simctg_percent,
)
from openended.metrics.families import TextMetric, check_orders, describe_missing, variant_of

Average = Literal["texts", "pooled", "simctg"]
_DIVERSITY_ORDERS = (2, 3, 4)  # Su et al. 2022


def loop_rate(sequences: Sequences, *, max_phrase: int = 500) -> float:
    """Share of texts that end in a repeated phrase.

    Args:
        sequences: Texts as lists of token ids or strings, end token stripped.
        max_phrase: Longest phrase looked for, in tokens (500: Pillutla et al. 2021; 90: Holtzman et al. 2020).

    Returns:
        A fraction in [0, 1]; an empty text is no loop.

    Raises:
        UndefinedMetric: If there are no texts.
        ValueError: If `max_phrase` is below 1.

    Source: Holtzman et al. 2020, released code; as a fraction: Pillutla et al. 2021.

    >>> loop_rate([[1, 2, 3, 7, 8, 9, 7, 8, 9], [1, 2, 3, 4]])
    0.5
    """
    index = index_of(sequences)
    if not len(index):
        raise UndefinedMetric("there are no texts")
    return float(ends_in_loop(index, max_phrase).mean())


def seq_rep_n(
    sequences: Sequences, *, orders: Sequence[int] = (2, 3, 4), average: Average = "texts"
) -> dict[int, float]:
    """Share of n-grams that were already seen in the same text.

    Args:
        sequences: Texts as lists of token ids or strings.
        orders: The n-gram lengths n.
        average: `texts`: mean over texts that have an n-gram; `pooled`: repeats summed over texts over all n-grams;
            `simctg`: pooled without the last n-gram of each text, rounded to 4 decimals.

    Returns:
        Order → fraction in [0, 1]; NaN for an order that is longer than every text.

    Raises:
        UndefinedMetric: If no text is as long as the smallest order.
        ValueError: If `average` is unknown.

    Source: Welleck et al. 2020, section 5; `simctg`: Su et al. 2022, released code.

    >>> seq_rep_n([[1, 1, 1, 1], [1, 2, 3, 4]], orders=(2,))
    {2: 0.3333333333333333}
    """
    check_choice("average", average, Average)
    index = variant_of(sequences, "without_last") if average == "simctg" else index_of(sequences)
    values = {order: _compute_rep(index, order, average) for order in orders}
    if all(np.isnan(value) for value in values.values()):
        raise UndefinedMetric(f"no text has an n-gram of order {min(orders)}")
    return values


def diversity(sequences: Sequences, *, simctg: bool = False) -> float:
    """Product over n = 2, 3, 4 of one minus the pooled share of repeated n-grams.

    Args:
        sequences: Texts as lists of token ids or strings.
        simctg: Drop the last n-gram of each text and round each share as the published tables do.

    Returns:
        A fraction in [0, 1]; 1 means that no text repeats an n-gram.

    Raises:
        UndefinedMetric: If every text is shorter than 4 tokens (`simctg`: 5).

    Source: Su et al. 2022, section 4.1.

    >>> diversity([[1, 2, 3, 4, 5]])
    1.0
    """
    rep = seq_rep_n(sequences, orders=_DIVERSITY_ORDERS, average="simctg" if simctg else "pooled")
    value = float(np.prod([1.0 - rep[order] for order in _DIVERSITY_ORDERS]))
    if np.isnan(value):
        raise UndefinedMetric("every text is shorter than the largest order of diversity, 4")
    return value


def self_repetition(sequences: Sequences, *, order: int = 4) -> float:
    """Mean over texts of log(1 + number of (n-gram, other text) pairs that share an n-gram of the text).

    Args:
        sequences: Texts as lists of token ids or strings.
        order: The n-gram length.

    Returns:
        A value from 0 up, in nats; 0 means that no two texts share an n-gram.

    Raises:
        UndefinedMetric: If there are no texts.

    Source: Salkar et al. 2022; Shaib et al. 2024, released code.

    >>> round(self_repetition([[1, 2, 3, 4], [1, 2, 3, 4]]), 6)
    0.693147
    """
    index = index_of(sequences)
    if not len(index):
        raise UndefinedMetric("there are no texts")
    return float(self_repetition_by_text(index, order).mean())


def _compute_rep(index: NgramIndex, order: int, average: str) -> float:
    if average == "texts":
        return mean_without_nan(1.0 - distinct_share_by_text(index, order))
    return simctg_percent(index, order) / 100.0 if average == "simctg" else compute_pooled_repeats(index, order)


@register("metric")
@dataclass(frozen=True, kw_only=True)
class Repetition(TextMetric):
    """Loops, repeated n-grams and n-grams shared between texts."""

    name: ClassVar[str] = "repetition"
    version: ClassVar[int] = 1
    bounds: ClassVar[tuple[float, float]] = (0.0, float("inf"))  # self_repetition is in nats
    resampling: ClassVar[Resampling] = "bootstrap"  # the primary value is a mean over texts
    titles: ClassVar[dict[str, str]] = {
        "loop_rate": "Rep.",
        "diversity": "Diversity",
        "self_repetition": "Self-rep.",
        **{f"seq_rep_{n}": f"Seq-rep-{n}" for n in (1, 2, 3, 4)},
        **{f"rep_{n}": f"Rep-{n}" for n in (1, 2, 3, 4)},
    }

    max_phrase: int = 500  # Pillutla et al. 2021, released code; 90: Holtzman et al. 2020
    orders: tuple[int, ...] = (2, 3, 4)  # Su et al. 2022
    simctg: bool = False  # rep_n and diversity as the SimCTG tables print them
    self_repetition_order: int = 4  # Salkar et al. 2022

    def check(self) -> None:
        """Check the options."""
        super().check()
        self.require(self.max_phrase > 0, "max_phrase", "a positive integer")
        self.require(self.self_repetition_order > 0, "self_repetition_order", "a positive integer")
        check_orders(self, self.orders)

    def compute(self, features: Features) -> MetricResult:
        """Compute all values."""
        corpus = self.corpus(features)
        index = corpus.index
        by_text = {"loop_rate": ends_in_loop(index, self.max_phrase).astype(np.float64)}
        by_text |= {f"seq_rep_{order}": 1.0 - distinct_share_by_text(index, order) for order in self.orders}
        by_text["self_repetition"] = self_repetition_by_text(index, self.self_repetition_order)
        values = {name: mean_without_nan(column) for name, column in by_text.items()}
        pooled = self.variant_index(features, "without_last") if self.simctg else index
        average = "simctg" if self.simctg else "pooled"
        rep = {order: _compute_rep(pooled, order, average) for order in {*self.orders, *_DIVERSITY_ORDERS}}
        values |= {f"rep_{order}": rep[order] for order in self.orders}
        values["diversity"] = float(np.prod([1.0 - rep[order] for order in _DIVERSITY_ORDERS]))
        return self.result(
            features,
            "loop_rate",
            values,
            notes=corpus.notes + describe_missing(values, "all texts are shorter"),
            per_example={name: corpus.align_values(column) for name, column in by_text.items()},
        )

    def replicates(self, features: Features, result: MetricResult, plan: Plan) -> Mapping[str, Replicates]:
        """Resample texts for means over texts; take halves or subsets where texts are compared."""
        out = dict(super().replicates(features, result, plan))
        out.pop("self_repetition", None)
        corpus, halves = self.split_texts(features, plan)
        ids = np.asarray(features.model.ids, dtype=np.str_)[corpus.is_included]
        subsets = plan.subsets(ids, SHARE)
        sharing = compute_subset_sharing(corpus.index, self.self_repetition_order, subsets, np.log1p)
        out["self_repetition"] = plan.build_subset_replicates(ids, SHARE, sharing)
        pooled = self.variant_index(features, "without_last") if self.simctg else corpus.index
        rep = {n: compute_half_repeats(pooled, n, halves) for n in {*self.orders, *_DIVERSITY_ORDERS}}
        out |= {f"rep_{n}": Replicates(rep[n]) for n in self.orders}
        out["diversity"] = Replicates(np.prod([1.0 - rep[n] for n in _DIVERSITY_ORDERS], axis=0))
        return out
