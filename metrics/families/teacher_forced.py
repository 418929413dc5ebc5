"""Base class of the teacher-forced metrics: statistics of Q on human text, checks, and means over positions."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from openended.harness import core
from openended.harness.core import F64, I64, Features, MetricResult, Need, NextToken, UndefinedMetric, Weights

NEXT_TOKEN = Need("next_token", by="decoder")
PositionValues = tuple[I64, Mapping[str, NDArray[Any]]]


class TeacherForced(core.Metric):
    """A metric of the decoder's next-token distribution Q on human text.

    `prepare` returns where texts begin, and name → the number of each position whose mean is the value.
    """

    family: ClassVar[core.Family] = "teacher_forced"
    resampling: ClassVar[core.Scheme] = "bootstrap"
    sides: ClassVar[Literal["one", "two", "human"]] = "human"
    exponential: ClassVar[bool] = False  # whether the value is exp of a mean over positions

    def needs(self) -> tuple[Need, ...]:
        return (NEXT_TOKEN,)

    def list_rows(self, features: Features, prepared: PositionValues) -> tuple[core.Ids, core.Ids]:
        return features.human.ids, features.human.ids

    def evaluate(self, features: Features, prepared: PositionValues) -> MetricResult:
        offsets, positions = prepared
        with np.errstate(over="ignore"):
            values = {name: float(self._transform(v.mean())) for name, v in positions.items()}
            rows = {name: self._transform(mean_by_row(v, offsets)) for name, v in positions.items()}
        return self.result(features, self.name, values, per_example=rows)

    def score(self, prepared: PositionValues, human: Weights, model: Weights, /) -> dict[str, F64]:
        """Each value is a mean over all positions of the texts, or the exponential of one."""
        offsets, positions = prepared
        means = {k: core.average(mean_by_row(v, offsets), human, np.diff(offsets)) for k, v in positions.items()}
        return {name: self._transform(mean) for name, mean in means.items()}

    def _transform(self, mean: Any) -> Any:  # noqa: ANN401 - a number or an array
        return np.exp(mean) if self.exponential else mean


def read_next_token(features: Features) -> NextToken:
    """Return the statistics of Q at all positions of the human texts."""
    stats: NextToken = features.human[NEXT_TOKEN]
    if not len(stats.gold_prob):
        raise UndefinedMetric("no human token to score")
    return stats


def probabilities(values: ArrayLike, name: str) -> F64:
    """Check an array of probabilities, shape (n,), and clip rounding above 1."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1:
        raise ValueError(f"{name}: expected shape (n,), got {array.shape}")
    if not array.size:
        raise UndefinedMetric("no token to score")
    if not np.isfinite(array).all() or array.min() < 0 or array.max() > 1 + 1e-6:
        raise ValueError(f"{name}: expected probabilities in [0, 1]")
    return np.minimum(array, 1.0)


def mean_by_row(values: NDArray[Any], offsets: I64) -> F64:
    """Mean over each row's positions, shape (n,); NaN for rows without any."""
    lengths = np.diff(offsets)
    row = np.repeat(np.arange(len(lengths)), lengths)
    total = np.bincount(row, weights=values[offsets[0] : offsets[-1]], minlength=len(lengths))
    out: F64 = np.full(len(lengths), np.nan)
    return np.divide(total, lengths, out=out, where=lengths > 0)
