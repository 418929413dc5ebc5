"""Base class of the metrics of cell histograms: clusterings of both sides, averages over them and their replicates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from openended.harness.core import (
    F64,
    HUMAN,
    I64,
    Direction,
    Features,
    Floats,
    MetricResult,
    Plan,
    Replicates,
    Side,
    UndefinedMetric,
)
from openended.metrics._embeddings.blocks import check_side
from openended.metrics._mauve.kmeans import describe_library
from openended.metrics._mauve.quantizers import (
    Assign,
    Buckets,
    QuantizerName,
    UnitNorm,
    count_fitted_rows,
    describe_accepted_buckets,
    fit_quantizer,
)
from openended.metrics._mauve.scores import count_half_histograms
from openended.metrics.families.two_sample import TwoSample

ClusterFit = Literal["pair", "joint", "reference"]


@dataclass(frozen=True, slots=True, eq=False)
class CellCounts:
    """The cell of every text in one clustering."""

    human: I64
    """Shape (n_human,)."""
    model: I64
    """Shape (n_model,)."""
    count: int
    """Number of cells."""


@dataclass(frozen=True, slots=True, eq=False)
class ClusteringRun:
    """One clustering and the values of the metric for it."""

    cells: CellCounts
    values: Mapping[str, float]
    arrays: Mapping[str, NDArray[Any]]
    """For the figures."""


class Quantized(TwoSample):
    """A metric of cell histograms, averaged over consecutive clustering seeds.

    A subclass scores one clustering in `score` and many halves at once in `score_halves`.
    """

    direction: ClassVar[Direction] = "higher"
    bounds = (0.0, 1.0)
    cluster_fit: ClusterFit = "pair"  # not an option unless a subclass declares it
    unit_norm: UnitNorm = "before_pca"  # likewise

    quantizer: QuantizerName
    num_buckets: Buckets
    explained_variance: float
    restarts: int
    max_iter: int
    seed: int
    clustering_seeds: int

    def check(self) -> None:
        accepted = describe_accepted_buckets(self.num_buckets, self.quantizer)
        self.require(not accepted, "num_buckets", f"{accepted} for quantizer={self.quantizer}")

    def describe_libraries(self) -> Mapping[str, str]:
        return describe_library()

    def explain_too_few(self, num_human: int, num_model: int) -> str:
        """Return why the texts are too few for a number of cells that was set."""
        fitted = {"pair": num_human + num_model, "reference": num_human}.get(self.cluster_fit)
        if fitted is None or self.num_buckets == "auto":
            return ""
        needed = count_fitted_rows(self.num_buckets, self.quantizer)
        if needed <= fitted:
            return ""
        return (
            f"num_buckets={self.num_buckets}: needs {needed:,} texts to be fitted on, this run has {fitted:,}; "
            f"type metric.{self.name}.num_buckets=auto, or raise num_examples"
        )

    def score(self, cells: CellCounts) -> ClusteringRun:
        """Return the values of one clustering."""
        raise TypeError(f"{type(self).__name__} does not score {cells.count} cells")

    def score_halves(self, p: F64, q: F64, n_human: float, n_model: float) -> Mapping[str, F64]:
        """Return the values of each pair of rows of human and model histograms, shape (rows, cells).

        The sides have n_human and n_model texts: what is added to a cell stays the same share of a half.
        """
        raise TypeError(f"{type(self).__name__} has no values for {p.shape}, {q.shape}, {n_human:g}, {n_model:g}")

    def select_cells_of_halves(self, cells: CellCounts) -> CellCounts:
        """Return the cells whose histograms `score_halves` reads."""
        return cells

    def prepare(self, features: Features) -> Any:  # noqa: ANN401 - a subclass may return something else
        """Cluster both sides with each seed and score the cells."""
        human, model = self.pair(features)
        cluster, count = self._fit_clusters(features, human, model)
        runs = []
        for seed in range(self.seed, self.seed + self.clustering_seeds):
            model_cells, human_cells = cluster(seed)([model, human])
            runs.append(self.score(CellCounts(human_cells, model_cells, count)))
        return tuple(runs)

    def average(
        self,
        features: Features,
        primary: str,
        runs: Sequence[ClusteringRun],
        *,
        notes: Sequence[str] = (),
        arrays: Mapping[str, NDArray[Any]] | None = None,
    ) -> MetricResult:
        """Return means over the clusterings, with their standard deviation where there are several."""
        values = _collect_values(runs)
        means = {name: float(v.mean()) for name, v in values.items()}
        sd = {name: float(v.std(ddof=1)) for name, v in values.items()} if len(runs) > 1 else None
        return self.result(features, primary, means, sd=sd, notes=notes, arrays=arrays)

    def replicates(
        self,
        features: Features,
        result: MetricResult,
        plan: Plan,
        prepared: Any = None,  # noqa: ANN401
    ) -> Mapping[str, Replicates]:
        """Score halves of the texts with the clusterings of all texts; each clustering's own values are the repeats."""
        runs: Sequence[ClusteringRun] = prepared or self.prepare(features)
        human_halves, model_halves = self.halves(features, plan)
        sums: dict[str, F64] = {}
        for run in runs:
            cells = self.select_cells_of_halves(run.cells)
            p = count_half_histograms(cells.human, human_halves, cells.count)
            q = count_half_histograms(cells.model, model_halves, cells.count)
            for name, draws in self.score_halves(p, q, len(cells.human), len(cells.model)).items():
                sums[name] = sums.get(name, 0.0) + draws / len(runs)
        values = _collect_values(runs)
        return {n: Replicates(draws.reshape(2, -1), values[n]) for n, draws in sums.items() if n in result.values}

    def _fit_clusters(self, features: Features, human: Floats, model: Floats) -> tuple[Callable[[int], Assign], int]:
        """Fit on the pair, on all systems of the grid or on the human side; return clusterer and number of cells.

        What is fitted on the grid or on the human side does not depend on the system under test, so it is derived
        from the human side, which a whole grid shares.
        """
        if self.cluster_fit == "pair":
            return self.fit([model, human])
        systems = []
        if self.cluster_fit == "joint":
            # Sorted, so that nothing depends on how the systems are listed.
            systems = sorted((s for s in features.others if s.system != HUMAN), key=lambda side: side.system)
            if not systems:
                raise UndefinedMetric(
                    "cluster_fit=joint needs all systems of a grid (openended -m …); this run has one"
                )
        return features.human.derive(_fit_grid, self, *systems)

    def fit(self, sides: Sequence[Floats]) -> tuple[Callable[[int], Assign], int]:
        return fit_quantizer(
            sides,
            quantizer=self.quantizer,
            num_buckets=self.num_buckets,
            explained_variance=self.explained_variance,
            restarts=self.restarts,
            max_iter=self.max_iter,
            unit_norm=self.unit_norm,
        )


def _fit_grid(human: Side, metric: Quantized, *systems: Side) -> tuple[Callable[[int], Assign], int]:
    """Fit on the systems and the human side; return the clusterer, which clusters once per seed, and the cells."""
    rows = [*(metric.sort_rows(side) for side in systems), check_side(metric.sort_rows(human), "human")]
    for row in rows:
        check_side(row, "a system of the grid")
    cluster, count = metric.fit(rows)
    return cache(cluster), count


def _collect_values(runs: Sequence[ClusteringRun]) -> dict[str, F64]:
    """Return each value in every clustering, shape (clusterings,)."""
    return {name: np.array([run.values[name] for run in runs]) for name in runs[0].values}
