"""Energy distance of model texts from human texts, on surface features or embeddings.

    D = 2 E|X - Y| - E|X - X'| - E|Y - Y'|,  means over all pairs, a text with itself included

Measures whether two sets of vectors have one distribution; 0 only if they do, unbounded above, lower is better. Surface
features (34, without a model: lengths, cohesion, capitals, pronouns, discourse markers, punctuation) are standardized
by the human mean and standard deviation; embeddings are taken as they are. `p_value` is that of the permutation test:
the share of random relabelings of the texts with a distance at least as large.

Source: Székely and Rizzo 2013, "Energy statistics: a class of statistics based on distances"; the surface features
and the use for language models: dLMbench. Variants: the square root of D; the unbiased estimate without pairs of a text
with itself, which can be negative. Here D itself over all pairs (a V-statistic), as in dLMbench.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from openended.harness.core import (
    F64,
    Direction,
    Features,
    Floats,
    MetricResult,
    Plan,
    Replicates,
    Scope,
    permutation_p_value,
    register,
    relabel_rows,
)
from openended.metrics._embeddings.blocks import check_sides
from openended.metrics.families import FeatureSpaceMetric, Space


def energy_distance(*, human: Floats, model: Floats) -> float:
    """Compute the energy distance of two sets of vectors.

    Args:
        human: Vectors of human texts, shape (n_human, d).
        model: Vectors of model texts, shape (n_model, d).

    Returns:
        The distance, from 0 up.

    Raises:
        ValueError: If shapes do not fit or a number is not finite.
        UndefinedMetric: If a side has no text.

    Source: Székely and Rizzo 2013.

    >>> energy_distance(human=np.array([[0.0], [2.0]]), model=np.array([[1.0], [1.0]]))
    1.0
    """
    human, model = check_sides(human=human, model=model, least=1)
    table, first = _compute_distances(human, model), np.zeros((1, len(human) + len(model)))
    first[:, : len(human)] = 1.0
    return float(_compute_energies(table, first, 1.0 - first)[0])


def _compute_distances(human: Floats, model: Floats) -> F64:
    """Return Euclidean distances of all rows of both sides, human rows first."""
    from scipy.spatial.distance import cdist

    rows = np.concatenate([human, model]).astype(np.float64)
    table: F64 = cdist(rows, rows)
    return table


def _compute_energies(distances: F64, first: F64, second: F64) -> F64:
    """Return the energy distance for each row of indicators of two sets of texts, shapes (draws, texts)."""
    n, m = first.sum(axis=1), second.sum(axis=1)
    to_first, to_second = first @ distances, second @ distances
    cross = (to_first * second).sum(axis=1) / (n * m)
    within = (to_first * first).sum(axis=1) / n**2 + (to_second * second).sum(axis=1) / m**2
    energies: F64 = np.maximum(2 * cross - within, 0.0)
    return energies


@register("metric")
@dataclass(frozen=True, kw_only=True)
class EnergyDistance(FeatureSpaceMetric):
    """Energy distance of the model's texts from the human ones, and its permutation p-value."""

    name: ClassVar[str] = "energy_distance"
    version: ClassVar[int] = 1
    direction: ClassVar[Direction] = "lower"
    bounds: ClassVar[tuple[float, float]] = (0.0, float("inf"))
    titles: ClassVar[Mapping[str, str]] = {"energy_distance": "Energy", "p_value": "Energy p"}
    directions: ClassVar[Mapping[str, Direction | Literal["none"]]] = {"p_value": "none"}

    space: Space = "surface"  # dLMbench
    permutations: int = 1000  # dLMbench
    scope: Scope = "continuation"

    def check(self) -> None:
        """Refuse a negative number of permutations."""
        self.require(self.permutations >= 0, "permutations", "0 (no p-value) or more")

    def prepare(self, features: Features) -> F64:
        """Return the distances of all pairs of texts."""
        return _compute_distances(*self.pair(features))

    def compute(self, features: Features, prepared: F64 | None = None) -> MetricResult:
        """Compute the distance and its p-value."""
        distances = self.prepare(features) if prepared is None else prepared
        is_human = np.arange(len(distances)) < len(features.human)
        value = float(_compute_energies(distances, *_make_indicators(is_human[None]))[0])
        values = {"energy_distance": value}
        ids = self.sort_ids(features.human), self.sort_ids(features.model)
        labels = relabel_rows(*ids, self.permutations) if self.permutations else None
        if labels is not None:
            values["p_value"] = permutation_p_value(value, _compute_energies(distances, *_make_indicators(labels)))
        return self.result(features, "energy_distance", values)

    def replicates(
        self,
        features: Features,
        result: MetricResult,  # noqa: ARG002
        plan: Plan,
        prepared: F64 | None = None,
    ) -> Mapping[str, Replicates]:
        """Compute the distance of halves from the same pairs."""
        distances = self.prepare(features) if prepared is None else prepared
        human, model = self.halves(features, plan)
        draws = []
        for first, second in ((human, model), (~human, ~model)):
            none_human, none_model = np.zeros(first.shape), np.zeros(second.shape)
            sides = np.concatenate([first, none_model], axis=1), np.concatenate([none_human, second], axis=1)
            draws.append(_compute_energies(distances, *(side.astype(np.float64) for side in sides)))
        return {"energy_distance": Replicates(np.stack(draws))}


def _make_indicators(is_human: NDArray[np.bool_]) -> tuple[F64, F64]:
    return is_human.astype(np.float64), (~is_human).astype(np.float64)
