"""Base class of the teacher-forced metrics: statistics of Q on human text, checks, and means over positions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from openended.harness.core import (
    F64,
    I64,
    Family,
    Features,
    Metric,
    MetricResult,
    Need,
    NextToken,
    Plan,
    Replicates,
    Resampling,
    UndefinedMetric,
)

NEXT_TOKEN = Need("next_token", by="decoder")


class TeacherForced(Metric):
    """A metric of the decoder's next-token distribution Q on human text."""

    family: ClassVar[Family] = "teacher_forced"
    resampling: ClassVar[Resampling] = "bootstrap"
    sides: ClassVar[Literal["one", "two", "human"]] = "human"
    exponential: ClassVar[bool] = False
    """Whether the value is exp of a mean over positions."""

    def needs(self) -> tuple[Need, ...]:
        """Return the statistics of Q."""
        return (NEXT_TOKEN,)

    def statistics(self, features: Features) -> NextToken:
        """Return the statistics of Q on the human side.

        Raises:
            UndefinedMetric: If there is no position.
        """
        stats = features.human.next_token(NEXT_TOKEN)
        if not len(stats.gold_prob):
            raise UndefinedMetric("no human token to score")
        return stats

    def replicates(self, features: Features, result: MetricResult, plan: Plan) -> Mapping[str, Replicates]:
        """Draw human texts: each value is a mean over all their positions, or the exponential of one."""
        offsets = self.statistics(features).offsets
        lengths = np.diff(offsets)
        return {
            name: replicates.map(np.exp) if self.exponential else replicates
            for name, rows in self.rows(features, result).items()
            if name in result.values
            for replicates in [plan.mean(features.human.ids, np.log(rows) if self.exponential else rows, lengths)]
        }

    def rows(self, features: Features, result: MetricResult) -> Mapping[str, F64]:  # noqa: ARG002
        """Return each value of each text."""
        return result.per_example


def probabilities(values: ArrayLike, name: str) -> F64:
    """Check an array of probabilities, shape (n,).

    Raises:
        UndefinedMetric: If it is empty.
        ValueError: If it is not one-dimensional, not finite or outside [0, 1] by more than rounding.
    """
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
