"""On which texts MAUVE's cells are fitted, and what the reader of a score must know of its sample."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from openended.harness.core.errors import UndefinedMetric
from openended.harness.core.metric import Features, Side
from openended.harness.core.types import HUMAN, Floats
from openended.metrics._embeddings.blocks import check_side
from openended.metrics._mauve.quantizers import Assign
from openended.metrics.families.two_sample import Quantized

ClusterFit = Literal["pair", "joint", "reference"]

_FEW_TEXTS = 1000  # below this the paper's own study of n finds scores far from their limit


def clusterer(
    metric: Quantized, cluster_fit: ClusterFit, features: Features, human: Floats, model: Floats
) -> tuple[Callable[[int], Assign], int]:
    """Fit on the pair, on all systems of the grid or on the human side; return clusterer and number of cells."""
    if cluster_fit == "pair":
        return metric.fit([model, human])
    others: tuple[Side, ...] = ()
    if cluster_fit == "joint":
        others = _systems(features)
    fit = [metric.sorted_rows(side) for side in others] + [human]
    for rows in fit:
        check_side(rows, "a system of the grid")
    # The human side is the same object for a whole grid, so one clustering serves all its systems.
    key, no_cells = ("mauve.fit", metric, *others), dict[int, Assign]()
    (fitted, buckets), made = features.human.derived(key, lambda: (metric.fit(fit), no_cells))

    def cluster(seed: int) -> Assign:
        if seed not in made:
            made[seed] = fitted(seed)
        return made[seed]

    return cluster, buckets


def _systems(features: Features) -> tuple[Side, ...]:
    """Return the grid's model systems in an order that does not depend on how they are listed.

    Raises:
        UndefinedMetric: If there is no grid.
    """
    systems = [side for side in features.others if side.system != HUMAN]
    if not systems:
        raise UndefinedMetric("cluster_fit=joint needs all systems of a grid (openended -m …); this run has one")
    return tuple(sorted(systems, key=lambda side: side.system))


def sample_notes(n_human: int, n_model: int, buckets: int) -> list[str]:
    """Say where a score of cells is less sure than it looks."""
    n, notes = min(n_human, n_model), []
    if n < _FEW_TEXTS or n / buckets < 10:
        notes.append(
            f"small sample: n={n}, k={buckets}, n/k={n / buckets:.3g}; "
            "two samples of the same text score below 1 here, compare with the human ceiling"
        )
    if n_human != n_model:
        notes.append(f"the sides differ in size (human {n_human}, model {n_model}); k follows the smaller")
    return notes


def ratio_notes(estimator: str, clipped: float, ceiling: float, *, counted: bool) -> list[str]:
    """Say how far an estimate of density ratios can be believed.

    Args:
        estimator: Its name.
        clipped: Share of the means that fell outside their range.
        ceiling: About the mid-point of identical sides with the own point counted.
        counted: Whether it was.
    """
    notes = []
    if clipped:
        notes.append(
            f"clipped: {'most' if clipped >= 0.5 else 'some'} means of {estimator} fell outside their range; "
            "the sides look alike to it, or it cannot see how they differ; read js beside the area"
        )
    if estimator == "knn" and counted:
        notes.append(f"knn counts each text among its neighbours: identical sides have a mid-point of {ceiling:.3f}")
    if estimator == "knn" and not counted:
        notes.append("knn leaves each text out of its neighbours and adds half a count: small differences are lost")
    return notes
