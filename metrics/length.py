"""Length of the texts, and the share of texts cut at the length limit.

    length = mean number of tokens;  hit_limit = texts that reached the length limit / texts

Lengths are in tokens under the scorer's tokenizer (or words), from 0 up; the shares are fractions in [0, 1]; all are
compared with the human value.

Source: lengths as in Su et al. 2022 (mean words); non-termination: Welleck et al. 2020, "Consistency of a recurrent
language model with respect to incomplete decoding". The released code of Pillutla et al. 2021 reports the complement,
the share of texts that ended. `length_sd` is the standard deviation over texts with divisor n.
"""

import numpy as np

from openended.harness import core
from openended.harness.core import Features, MetricResult, Need, Plan, Replicates, UndefinedMetric
from openended.metrics._ngrams.index import pack_rows
from openended.metrics.families import ReplicatesByName, need_tokens


def length_statistics(sequences: object) -> dict[str, float]:
    """Mean (Su et al. 2022), standard deviation (divisor n) and median of the number of tokens.

    Args:
        sequences: Texts as lists of token ids or strings; without any it raises `UndefinedMetric`.

    Returns:
        `length`, `length_sd`, `length_median`, in tokens.
    """
    lengths = pack_rows(sequences).lengths  # type: ignore[arg-type]
    if not len(lengths):
        raise UndefinedMetric("there are no texts")
    statistics = {"length": lengths.mean(), "length_sd": lengths.std(), "length_median": np.median(lengths)}
    return {name: float(value) for name, value in statistics.items()}


@core.metric
class Length(core.Metric):
    """Number of tokens a text, and the share that ran into the length limit."""

    name = "length"
    family = "text"
    direction = "match_human"
    bounds = (0.0, np.inf)
    ranges = {"hit_limit": (0.0, 1.0)}
    shares = ("hit_limit",)
    resampling = "bootstrap"
    sides = "one"
    titles = {
        "length": "Length", "length_sd": "Length SD", "length_median": "Median length", "hit_limit": "Hit limit",
    }  # fmt: skip

    unit: core.Unit = "auto"
    """As of `TextMetric`; `words`: Su et al. 2022."""
    scope: core.Scope = "continuation"
    """or prompt_and_continuation."""

    def needs(self) -> tuple[Need, ...]:
        return need_tokens(self.unit, self.scope), Need("stops")

    def compute(self, features: Features) -> MetricResult:
        tokens, stops = self.needs()
        rows, hit = features.model.tokens(tokens), features.model.stops(stops).astype(np.float64)
        values = {**length_statistics(rows), "hit_limit": float(hit.mean())}
        per_example = {"length": rows.lengths.astype(np.float64), "hit_limit": hit}
        return self.result(features, "length", values, per_example=per_example)

    def replicates(self, features: Features, result: MetricResult, plan: Plan) -> ReplicatesByName:
        """Draw texts: for the deviation the sums of squares, for the median the weights in the order of the lengths."""
        ids, lengths = features.model.ids, result.per_example["length"]
        centered = lengths - lengths.mean()
        sums = plan.sums(ids, np.stack([np.ones(len(lengths)), centered, centered**2], axis=1))
        count = sums[:, 0]
        square = np.maximum(sums[:, 2] / count - (sums[:, 1] / count) ** 2, 0.0)
        order = np.argsort(lengths, kind="stable")
        below = np.cumsum(plan.weights(ids)[:, order], axis=1, dtype=np.int64)
        half = below[:, -1:] / 2
        lower, upper = (below < half).sum(axis=1), (below <= half).sum(axis=1)
        middle = lengths[order][np.stack([lower, np.minimum(upper, len(lengths) - 1)])].mean(axis=0)
        return {
            **super().replicates(features, result, plan),
            "length_sd": Replicates(np.sqrt(square)[None, :]),
            "length_median": Replicates(middle[None, :]),
        }
