"""Base class of metrics of cell histograms, averaged over clusterings."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from openended.harness import core
from openended.harness.core import F64, I64, Features, Floats, MetricResult, Side
from openended.metrics._embeddings.blocks import check_side
from openended.metrics._mauve import kmeans, quantizers
from openended.metrics._mauve.scores import histogram, renumber_cells, weigh_histograms
from openended.metrics.families.two_sample import TwoSample, align_values

LEAST_TEXTS = 200  # for an interval of a value of cells; docs/statistics.md
_WHY_NO_INTERVAL = f"below {LEAST_TEXTS} texts it would cover 67 to 100 %, by the kind of text; differences are tested"
# Clusterings of one space, of one start each, that differences are averaged over; iterations of k-means.
JOINT_CLUSTERINGS, JOINT_ITERATIONS = 30, 50
ClusterFit = Literal["pair", "joint", "reference"]
Clusterer = tuple[Callable[[int], quantizers.Assign], int]
"""What clusters both sides with a seed, and the number of cells."""


@dataclass(frozen=True, slots=True, eq=False)
class CellCounts:
    """The cell of every text in one clustering."""

    human: I64  # shape (n_human,)
    model: I64  # shape (n_model,)
    count: int  # number of cells


Clusterings = tuple[CellCounts, ...]


@dataclass(frozen=True, kw_only=True)
class Quantized(TwoSample):
    """A metric of the cells that both sides' embeddings fall into, averaged over consecutive clustering seeds.

    `prepare` returns the cell of every text in each clustering. A metric has `score_cells` for its value and
    `score_histograms` for weighted sets of texts.
    """

    resampling: ClassVar[core.Scheme] = "near_halves"
    no_interval_below = (LEAST_TEXTS, _WHY_NO_INTERVAL)
    libraries = staticmethod(kmeans.describe_library)
    direction: ClassVar[core.Direction] = "higher"
    bounds = (0.0, 1.0)
    shares_space = True

    quantizer: quantizers.QuantizerName = "kmeans"
    """kmeans, kmeans_l1 (L1 rows, whitened), residual_kmeans, drmm or lattice; Pillutla et al. 2021, section 4."""
    num_buckets: quantizers.Buckets = core.ranged("auto", "[2, inf)", "auto or at least 2")
    """A tenth of the smaller side, 500 at most; 1000 of residual_kmeans and drmm, 744 of lattice; or a number."""
    explained_variance: float = core.ranged(0.9, "(0, 1]", "a share in (0, 1]")
    """Share of variance that PCA keeps; mauve-text and the paper."""
    restarts: int = core.ranged(5, "[1, inf)", "at least 1")
    """Starts of every level or layer (not of lattice and of training=published); mauve-text."""
    max_iter: int = core.ranged(500, "[1, inf)", "at least 1")
    """Greatest number of iterations of kmeans and residual_kmeans; mauve-text."""
    seed: int = core.ranged(25, "[0, inf)", "at least 0")
    """Seed of the first clustering; mauve-text."""
    clustering_seeds: int = core.ranged(5, "[1, inf)", "at least 1")
    """The score is the mean over this many clusterings; their spread is shown; the paper averages 5 runs; seeds are
    seed, seed + 1, …"""
    cluster_fit: ClusterFit = "pair"
    """pair: cells of both sides; joint: of a whole grid, whose scores may be compared; reference: of human text."""
    unit_norm: quantizers.UnitNorm = "before_pca"
    """Rows to unit norm, of kmeans, residual_kmeans and lattice; after_pca: Pillutla et al. 2021, C.3.3."""
    training: quantizers.Training = "fast"
    """How drmm and lattice are trained; published: schedule and sizes of Pillutla et al. 2021, C.3.3, minutes per
    clustering."""
    pca_max_data: int | None = core.ranged(None, "[2, inf)", "at least 2, or null for all texts")
    """Texts that PCA is fitted on, drawn at random; null: all; mauve-text."""

    def check(self) -> None:
        accepted = quantizers.describe_accepted_buckets(self.num_buckets, self.quantizer)
        self.require(not accepted, "num_buckets", f"{accepted} for quantizer={self.quantizer}")
        trained = f"{' or '.join(quantizers.TRAINED)} where training is set (the others are not trained)"
        self.require(self.training == "fast" or self.quantizer in quantizers.TRAINED, "quantizer", trained)
        has_pca = self.pca_max_data is None or self.quantizer != "drmm"
        self.require(has_pca, "quantizer", "one with a PCA (not drmm) where pca_max_data is set")

    @property
    def reads_grid(self) -> bool:  # type: ignore[override] # an option decides
        """One clustering over all systems needs all systems."""
        return self.cluster_fit == "joint"

    def explain_too_few(self, num_human: int, num_model: int) -> str:
        fitted = {"pair": num_human + num_model, "reference": num_human}.get(self.cluster_fit)
        if fitted is None or self.num_buckets == "auto":
            return ""
        needed = quantizers.count_fitted_rows(self.num_buckets, self.quantizer)
        if needed <= fitted:
            return ""
        return (
            f"num_buckets={self.num_buckets}: needs {needed:,} texts to be fitted on, this run has {fitted:,}; "
            f"type metric.{self.name}.num_buckets=auto, or raise num_examples"
        )

    def prepare(self, features: Features) -> Clusterings:
        """Cluster both sides with each seed.

        What is fitted on the grid or on the human side does not depend on the system under test, so it is derived from
        the human side, which a whole grid shares.
        """
        human, model = self.pair(features)
        systems: list[Side] = []
        if self.cluster_fit == "joint":
            # Sorted, so that nothing depends on how the systems are listed.
            systems = sorted((s for s in features.others if s.system != core.HUMAN), key=lambda side: side.system)
            if not systems:
                why = "cluster_fit=joint needs all systems of a grid (openended -m …); this run has one"
                raise core.UndefinedMetric(why)
        is_pair = self.cluster_fit == "pair"
        cluster, count = self.fit([model, human]) if is_pair else features.human.derive(_fit_grid, self, *systems)
        return self._cluster(cluster, count, [model, human], self.clustering_seeds)[0]

    def _cluster(
        self, cluster: Callable[[int], quantizers.Assign], count: int, rows: Sequence[Floats], seeds: int
    ) -> list[Clusterings]:
        """Return the clusterings of each side with the last, the human one."""
        parts = [cluster(seed)(rows) for seed in range(self.seed, self.seed + seeds)]
        return [tuple(CellCounts(cells[-1], cells[at], count) for cells in parts) for at in range(len(rows) - 1)]

    @abstractmethod
    def score_cells(self, cells: CellCounts) -> tuple[Mapping[str, float], Mapping[str, NDArray[Any]]]:
        """Return the values of one clustering, with all digits, and arrays for the figures."""

    @abstractmethod
    def score_histograms(self, p: F64, q: F64, sizes: tuple[int, int], parts: tuple[F64, F64]) -> Mapping[str, F64]:
        """Return the values of each pair of rows of human and model histograms, shape (draws, cells).

        A row is of a part, shape (draws,), of the texts of its side, whose numbers are `sizes`.
        """

    def evaluate(self, features: Features, prepared: Clusterings) -> MetricResult:
        """Average the values over the clusterings; a text's number is how much fuller of model texts its cell is."""
        scored = [self.score_cells(cells) for cells in prepared]
        values = {name: np.array([of[name] for of, _ in scored]) for name in scored[0][0]}
        arrays = {name: _stack([of[name] for _, of in scored]) for name in scored[0][1]}
        primary = next(iter(values))
        rows = {primary: align_values(features.model, np.mean([_compare_cells(cells) for cells in prepared], axis=0))}
        return self.result(features, primary, values, arrays=arrays, per_example=rows)

    def score(self, prepared: Clusterings, human: core.Weights, model: core.Weights, /) -> dict[str, F64]:
        """Return the mean values of the clusterings with weighted texts."""
        sums: dict[str, F64] = {}
        sizes = human.shape[1], model.shape[1]
        parts = human.sum(axis=1) / sizes[0], model.sum(axis=1) / sizes[1]
        for cells in prepared:
            if quantizers.counts_seen_cells(self.quantizer):  # far more cells than texts
                cells = CellCounts(*renumber_cells(cells.human, cells.model))
            sides = ((cells.human, human), (cells.model, model))
            p, q = (weigh_histograms(labels, weights, cells.count) for labels, weights in sides)
            for name, draws in self.score_histograms(p, q, sizes, parts).items():
                sums[name] = sums.get(name, 0.0) + draws / len(prepared)
        return sums

    def _prepare_jointly(self, human: Side, systems: Sequence[Side]) -> Iterator[list[tuple[Features, Clusterings]]]:
        """Cluster all systems and human texts together.

        Many clusterings of one start cost less than a few of the best of several starts, and their mean has less noise.
        """
        rows = [check_side(self.sort_rows(side), "a system") for side in (*systems, human)]
        cluster, count = self.fit(rows, restarts=1, max_iter=min(self.max_iter, JOINT_ITERATIONS))
        for system, cells in zip(systems, self._cluster(cluster, count, rows, JOINT_CLUSTERINGS), strict=True):
            yield [(Features(human, system), cells)]

    def fit(self, sides: Sequence[Floats], **others: int) -> Clusterer:
        options = (others.get(name, getattr(self, name)) for name in quantizers.FitOptions._fields)
        return quantizers.fit_quantizer(sides, quantizers.FitOptions(*options))


def _fit_grid(human: Side, metric: Quantized, *systems: Side) -> Clusterer:
    """Fit on the systems and the human side; return the clusterer, which clusters once per seed, and the cells."""
    rows = [*(metric.sort_rows(side) for side in systems), check_side(metric.sort_rows(human), "human")]
    for row in rows:
        check_side(row, "a system of the grid")
    cluster, count = metric.fit(rows)
    return cache(cluster), count


def _stack(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Stack arrays of each clustering; some have fewer cells than others."""
    longest = max(map(len, parts))
    return np.stack([np.pad(part, [(0, longest - len(part)), *[(0, 0)] * (part.ndim - 1)]) for part in parts])


def _compare_cells(cells: CellCounts) -> F64:
    """Return for each model text how much fuller of model texts its cell is: log of the ratio of the shares, nats."""
    p, q = (histogram(labels, cells.count) * len(labels) + 0.5 for labels in (cells.human, cells.model))
    ratio: F64 = np.log(q / q.sum()) - np.log(p / p.sum())
    return ratio[cells.model]
