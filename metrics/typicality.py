"""Tail typicality: how far out model texts lie in the distribution of human texts (FMTyp).

    p(x) = share of human texts whose squared Mahalanobis distance is at least that of x;  typicality = mean of p(x)

The distance is from the human mean, with the Ledoit-Wolf covariance of the human vectors. Measures whether model texts
are as usual as human ones: 1/2 if they are exchangeable with them, near 0 if they lie in the tails, above 1/2 if they
are more usual than people write. From 0 to 1; nearest to 1/2 is best. Vectors: 34 surface features (standardized by the
human side) or embeddings. `p_value` is that of the two-sided permutation test; each relabeling estimates the covariance
again.

Source: FMTyp-p of dLMbench; Ledoit and Wolf 2004, "A well-conditioned estimator for large-dimensional covariance
matrices". The covariance is estimated from the human texts themselves, which makes the value of a second human sample a
little lower than 1/2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from openended.harness.core import (
    F64,
    Direction,
    Features,
    Floats,
    MetricResult,
    Plan,
    Replicates,
    Resampling,
    Scope,
    register,
    relabel_rows,
)
from openended.metrics._embeddings.blocks import check_sides
from openended.metrics.families import FeatureSpaceMetric, Space


def typicality(*, human: Floats, model: Floats) -> float:
    """Compute the mean tail probability of model vectors among human ones.

    Args:
        human: Vectors of human texts, shape (n_human, d), n_human >= 2.
        model: Vectors of model texts, shape (n_model, d).

    Returns:
        The mean, in [0, 1]; about 1/2 for exchangeable sides.

    Raises:
        ValueError: If shapes do not fit or a number is not finite.
        UndefinedMetric: If a side has fewer than two texts.

    Source: dLMbench (FMTyp-p).

    >>> typicality(human=np.array([[-2.0], [-1.0], [1.0], [2.0]]), model=np.array([[0.0], [3.0]]))
    0.5
    """
    human, model = check_sides(human=human, model=model)
    return float(
        _compute_tail_probabilities(
            *_compute_distances(np.asarray(human, np.float64), np.asarray(model, np.float64))
        ).mean()
    )


def _compute_distances(human: F64, model: F64) -> tuple[F64, F64]:
    """Return the squared Mahalanobis distances of human and of model rows from the human mean."""
    center = human.mean(axis=0)
    values, axes = np.linalg.eigh(ledoit_wolf(human))
    scale = np.where(values > 1e-12 * max(float(values[-1]), 1e-300), values, np.inf)  # no variance: no distance
    first, second = (((side - center) @ axes) ** 2 @ (1 / scale) for side in (human, model))
    return first, second


def ledoit_wolf(rows: F64) -> F64:
    """Return the covariance of rows, shrunk toward a multiple of the identity; shape (d, d).

    Args:
        rows: Shape (n, d).

    Source: Ledoit and Wolf 2004, section 3.
    """
    n, d = rows.shape
    centered = rows - rows.mean(axis=0)
    sample = centered.T @ centered / n
    level = float(np.trace(sample)) / d
    spread = float((sample**2).sum()) / d - level**2
    squares = centered**2
    error = (float((squares.T @ squares).sum()) / n - float((sample**2).sum())) / (d * n)
    share = min(max(error, 0.0) / spread, 1.0) if spread > 0 else 0.0
    shrunk: F64 = (1 - share) * sample + share * level * np.eye(d)
    return shrunk


def _compute_tail_probabilities(human: F64, model: F64) -> F64:
    """Return the share of human distances that are at least as large as each model distance."""
    return 1.0 - np.searchsorted(np.sort(human), model, side="left") / len(human)


@register("metric")
@dataclass(frozen=True, kw_only=True)
class Typicality(FeatureSpaceMetric):
    """Mean tail probability of the model's texts among human texts, and its permutation p-value."""

    name: ClassVar[str] = "typicality"
    version: ClassVar[int] = 1
    direction: ClassVar[Direction] = "higher"
    bounds: ClassVar[tuple[float, float]] = (0.0, 1.0)
    resampling: ClassVar[Resampling] = "bootstrap"
    titles: ClassVar[Mapping[str, str]] = {"typicality": "Typicality", "p_value": "Typ. p"}
    directions: ClassVar[Mapping[str, Direction | Literal["none"]]] = {"p_value": "none"}
    targets: ClassVar[Mapping[str, float]] = {"typicality": 0.5}

    space: Space = "surface"  # dLMbench
    permutations: int = 200  # each estimates a covariance
    scope: Scope = "continuation"

    def check(self) -> None:
        """Refuse a negative number of permutations."""
        self.require(self.permutations >= 0, "permutations", "0 (no p-value) or more")

    def compute(self, features: Features) -> MetricResult:
        """Compute the mean and its p-value."""
        human, model = self.pair(features)
        p = _compute_tail_probabilities(*_compute_distances(human, model))
        values = {"typicality": float(p.mean())}
        ids = self.sort_ids(features.human), self.sort_ids(features.model)
        labels = relabel_rows(*ids, self.permutations) if self.permutations else None
        if labels is not None:
            rows = np.concatenate([human, model])
            permuted = np.array(
                [_compute_tail_probabilities(*_compute_distances(rows[mark], rows[~mark])).mean() for mark in labels]
            )
            values["p_value"] = _compute_two_sided_p_value(values["typicality"], permuted)
        in_order = np.empty(len(p))
        in_order[np.argsort(np.asarray(features.model.ids, dtype=np.str_), kind="stable")] = p
        return self.result(features, "typicality", values, per_example={"typicality": in_order})

    def replicates(self, features: Features, result: MetricResult, plan: Plan) -> Mapping[str, Replicates]:
        """Resample the texts of both sides, for the covariance as it is."""
        human, model = _compute_distances(*self.pair(features))
        above = np.searchsorted(np.sort(model), human, side="right") / len(model)
        sides = (self.sort_ids(features.human), above), (
            self.sort_ids(features.model), _compute_tail_probabilities(human, model)
        )  # fmt: skip
        return {"typicality": plan.linear(result.values["typicality"], *sides)}


def _compute_two_sided_p_value(value: float, permuted: F64) -> float:
    """Return twice the smaller tail of the relabelings, the observed value included; at most 1."""
    tails = np.count_nonzero(permuted <= value), np.count_nonzero(permuted >= value)
    return float(min(1.0, 2 * (1 + min(tails)) / (1 + len(permuted))))
