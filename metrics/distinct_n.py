"""Distinct-n: the share of n-grams that are different.

    distinct-n = |set of n-grams of all texts| / |n-grams of all texts|

Measures lexical variety of a whole corpus; range (0, 1], dimensionless, compared with the human value. It falls as the
corpus grows: compare equal numbers of texts of equal length (`fixed_tokens`).

Source: Li et al. 2016, "A diversity-promoting objective function for neural conversation models". The name hides six
statistics; `variant` says which is computed:

- `corpus` (default): types over n-grams, pooled over texts; n-grams do not cross texts (Pillutla et al. 2021).
- `li`: types over *tokens*, as Li et al. define it.
- `hapax`: n-grams that occur exactly once over n-grams; what the public script of Holtzman et al. 2020 prints.
- `per_doc`: types over n-grams inside each text, mean over texts (texts shorter than n are left out).
- `simctg`: types inside each text, summed over texts, over the summed n-grams; the last n-gram of each text is not
  counted and the share of repeats is rounded to hundredths of a percent, as in the SimCTG tables (Su et al. 2022).
- `ngd`: types over n-grams of all texts joined to one, so that n-grams cross texts; the sum over orders is the n-gram
  diversity score of Shaib et al. 2024 (there orders 1 to 4).
"""

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

import openended.metrics.families.ngram_statistics as statistics
from openended.harness.core import F64, Features, MetricResult, Scheme, Weights, average, check_arguments, metric, weigh
from openended.metrics import families
from openended.metrics.families import NgramIndex, Sequences, index_of

Variant = Literal["corpus", "li", "hapax", "per_doc", "simctg", "ngd"]


@check_arguments
def distinct_n(
    sequences: Sequences, *, orders: Sequence[int] = (1, 2, 3, 4, 5, 6), variant: Variant = "corpus"
) -> dict[int, float]:
    """Compute the share of different n-grams for each order (Li et al. 2016; the module describes the variants).

    Args:
        sequences: Texts as lists of token ids, or as strings that are split at white space.
        orders: The n-gram lengths n, each at least 1.
        variant: Which of the statistics that bear this name is computed.

    Returns:
        Order → share in [0, 1], dimensionless; NaN for an order that is longer than every text.

    Raises:
        UndefinedMetric: If all orders are longer than every text.
    """
    index = _reshape(index_of(sequences), variant)
    values = {order: _compute_share(index, order, variant) for order in orders}
    return families.require_defined(values, f"no text has an n-gram of order {min(orders)}")


def _reshape(index: NgramIndex, variant: Variant) -> NgramIndex:
    if variant == "simctg":
        return index.without_last
    return index.as_one_text if variant == "ngd" else index


def _compute_share(index: NgramIndex, order: int, variant: Variant) -> float:
    level = index.level(order)
    if not level.total:
        return float("nan")
    if variant == "hapax":
        return level.hapaxes / level.total
    if variant == "li":
        return level.types / int(index.lengths.sum())
    if variant == "per_doc":
        return statistics.average_without_nan(statistics.compute_distinct_shares(index, order))
    if variant == "simctg":
        return 1.0 - statistics.compute_simctg_percent(index, order) / 100.0
    return level.types / level.total


def _compute_unshared_shares(index: NgramIndex, order: int) -> F64:
    """Return the share of n-grams of each text that are new there and in no other text, shape (n,)."""
    unshared = statistics.count_singles(index, order)
    runs = index.runs(order)
    holders = np.diff(runs.first, append=len(runs.text))
    unshared += np.bincount(runs.text[holders[runs.group] == 1], minlength=len(index))
    return families.divide_known(unshared, index.sizes(order))


def _count_types(index: NgramIndex, order: int, subsets: Weights) -> tuple[F64, F64, F64]:
    """Count the n-grams, the distinct ones and those that occur once in each subset, each of shape (subsets,)."""
    single = weigh(subsets, statistics.count_singles(index, order))
    types, once = single.copy(), single.copy()
    for counts in statistics.iterate_counts(index, order, subsets):
        types += (counts > 0).sum(axis=0)
        once += (counts == 1).sum(axis=0)
    return weigh(subsets, index.sizes(order)), types, once


@metric
class DistinctN(families.TextMetric):
    """Share of different n-grams of the corpus; falls with corpus size, so compare equal n and length."""

    name = "distinct_n"
    option_synonyms = {"n": "orders"}
    synonyms = ("distinct", "dist_n", "dist_1", "dist_2", "dist_3", "dist_4", "distinct_1", "distinct_2", "distinct_3")
    version = 2
    bounds = (0.0, 1.0)
    resampling = "subsample"  # a bootstrap repeats texts, which lowers the value
    titles = {**{f"distinct_{n}": f"Distinct-{n}" for n in range(1, 7)}, "ngram_diversity": "n-gram diversity"}

    orders: tuple[int, ...] = families.declare_orders(1, 2, 3, 4, 5, 6)
    """Pillutla et al. 2021."""
    variant: Variant = "corpus"
    """pooled types over n-grams; li, hapax, per_doc, simctg, ngd: other statistics of this name; Pillutla et
    al. 2021."""

    def bounds_of(self, key: str, result: MetricResult) -> tuple[float, float]:
        return (0.0, float(len(self.orders))) if key == "ngram_diversity" else super().bounds_of(key, result)

    def find_scheme(self, key: str, prepared: families.Corpus) -> Scheme:
        """Pooled counts need subsets; those of SimCTG are ratios of sums, and means are means."""
        schemes: Mapping[str, Scheme] = {"per_doc": "bootstrap", "simctg": "halves"}
        return schemes.get(self.variant, "subsample")

    def rows_of(self, key: str, result: MetricResult) -> F64 | None:
        return super().rows_of(key, result) if self.variant == "per_doc" else None

    def evaluate(self, features: Features, prepared: families.Corpus) -> MetricResult:
        index = _reshape(prepared.index, self.variant)
        values = {f"distinct_{order}": _compute_share(index, order, self.variant) for order in self.orders}
        families.require_defined(values, "all texts are shorter than the smallest order")
        primary = f"distinct_{2 if 2 in self.orders else self.orders[0]}"
        # Of each text alone, or of pooled texts the share of n-grams that no other text has.
        is_by_text = self.variant in ("per_doc", "simctg")
        compute_rows = statistics.compute_distinct_shares if is_by_text else _compute_unshared_shares
        rows = {f"distinct_{order}": compute_rows(prepared.index, order) for order in self.orders}
        if self.variant == "ngd":
            values["ngram_diversity"] = float(np.nansum(list(values.values())))
            rows["ngram_diversity"] = np.sum(list(rows.values()), axis=0)
            primary = "ngram_diversity"
        return self.report(features, prepared, primary, values, rows)

    def score(self, prepared: families.Corpus, human: Weights, model: Weights, /) -> dict[str, F64]:
        """Count the distinct n-grams of sets of texts; n-grams that cross joined texts are left out."""
        index, shares = prepared.index, dict[str, F64]()
        for order in self.orders:
            if self.variant == "per_doc":
                shares[f"distinct_{order}"] = average(statistics.compute_distinct_shares(index, order), model)
                continue
            if self.variant == "simctg":
                shares[f"distinct_{order}"] = 1.0 - statistics.weigh_repeats(index.without_last, order, model)
                continue
            total, types, once = _count_types(index, order, model)
            if self.variant == "li":
                total = weigh(model, index.lengths)
            with np.errstate(invalid="ignore", divide="ignore"):
                shares[f"distinct_{order}"] = (once if self.variant == "hapax" else types) / total
        if self.variant == "ngd":
            shares["ngram_diversity"] = np.nansum(list(shares.values()), axis=0)
        return shares
