"""Quantizers: from the features of two sides to the cells that MAUVE and the precision-recall curve count.

A quantizer is fitted once (the projection, which does not depend on the seed) and then gives one set of cells per seed.
Another one is a function of type `Cluster` and its `Quantizer` in `QUANTIZERS`.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from openended.harness.core import I64, Floats, UndefinedMetric, make_random_stream
from openended.metrics._embeddings.blocks import Rows, check_range, fit_pca, n_rows, scale_rows
from openended.metrics._mauve.kmeans import F32, LEVELS, kmeans, nearest, residual_cells, residual_kmeans

QuantizerName = Literal["kmeans", "kmeans_l1", "residual_kmeans", "drmm", "lattice"]
Buckets = int | Literal["auto"]
UnitNorm = Literal["before_pca", "after_pca"]
Training = Literal["fast", "published"]
LATTICE_CELLS = 744  # of the lattice, of norm 50
TRAINED: tuple[QuantizerName, ...] = ("drmm", "lattice")  # what a training changes
_MOST_BUCKETS = 500  # the MAUVE paper's k, used at its n = 5,000 and above


Assign = Callable[[Sequence[Floats]], list[I64]]  # cells of the rows of each side, in [0, num_buckets)
Cluster = Callable[..., Callable[[Any], I64]]
"""Clusters points (with `cells` and the options of a fit) and returns the function from points to cells."""


def _cluster_by_kmeans(
    points: F32, *, cells: int, restarts: int, max_iter: int, seed: int, **_: str
) -> Callable[[F32], I64]:
    # mauve-text seeds k-means with its seed + 2 (its PCA takes + 1, which an exact PCA has no use for).
    centroids = kmeans(points, cells, restarts=restarts, max_iter=max_iter, seed=seed + 2)
    return lambda rows: nearest(rows, centroids)[0]


def _cluster_by_residuals(
    points: F32, *, cells: int, restarts: int, max_iter: int, seed: int, **_: str
) -> Callable[[F32], I64]:
    levels = residual_kmeans(points, _count_codes(cells), restarts=restarts, max_iter=max_iter, seed=seed)
    return lambda rows: residual_cells(rows, levels)


def _cluster_by_mixture(
    sides: Sequence[Floats], *, cells: int, restarts: int, seed: int, training: Training, **_: int
) -> Callable[[Any], I64]:
    from openended.metrics._mauve.drmm import fit_mixture

    published = training == "published"
    return fit_mixture(sides, _count_codes(cells), restarts=restarts, seed=seed, published=published).cells


def _cluster_by_lattice(points: F32, *, seed: int, training: Training, **_: int) -> Callable[[F32], I64]:
    from openended.metrics._mauve.lattice import PUBLISHED, lattice_cells, train_spreading_net

    net = train_spreading_net(points, seed=seed, **(PUBLISHED if training == "published" else {}))
    return lambda rows: lattice_cells(net.map_to_sphere(rows))


@dataclass(frozen=True, slots=True)
class Quantizer:
    """How rows are prepared and clustered."""

    cluster: Cluster
    rows: Rows | None = "l2"  # how rows are scaled before the PCA; None: they are clustered as they are
    whiten: bool = False
    auto: int | None = None  # what `auto` means where the number of cells does not follow the sample: the paper's own


QUANTIZERS: Mapping[QuantizerName, Quantizer] = {
    "kmeans": Quantizer(_cluster_by_kmeans),
    "kmeans_l1": Quantizer(_cluster_by_kmeans, rows="l1", whiten=True),  # of the MAUVE paper's experiments
    "residual_kmeans": Quantizer(_cluster_by_residuals, auto=1000),
    "drmm": Quantizer(_cluster_by_mixture, rows=None, auto=1000),  # the MAUVE paper's second quantizer
    "lattice": Quantizer(_cluster_by_lattice, auto=LATTICE_CELLS),  # the MAUVE paper's third quantizer
}


class FitOptions(NamedTuple):
    """How a quantizer is fitted."""

    quantizer: QuantizerName
    num_buckets: Buckets  # auto: by the smallest side
    explained_variance: float
    restarts: int
    max_iter: int
    unit_norm: UnitNorm = "before_pca"  # when rows are scaled to unit L2 norm, if at all
    training: Training = "fast"
    pca_max_data: int | None = None  # random rows that PCA is fitted on, if fewer


def fit_quantizer(fit: Sequence[Floats], options: FitOptions) -> tuple[Callable[[int], Assign], int]:
    """Fit a quantizer on checked sides; return the function from a seed to cells, and the number of cells.

    The order of the sides feeds the seeding of k-means.
    """
    quantizer, num_buckets, training = options.quantizer, options.num_buckets, options.training
    kind, n = QUANTIZERS[quantizer], n_rows(fit)
    if num_buckets == "auto":
        buckets = kind.auto or min(max(2, round(min(len(side) for side in fit) / 10)), _MOST_BUCKETS)
    elif accepted := describe_accepted_buckets(num_buckets, quantizer):
        raise ValueError(f"num_buckets: {quantizer} takes {accepted}, got {num_buckets}")
    else:
        buckets = num_buckets
    codes = _count_codes(buckets)
    if quantizer == "lattice" and n < 3:
        raise UndefinedMetric(f"a spreading network needs at least 3 texts, got {n}")
    if quantizer in ("kmeans", "kmeans_l1") and n < buckets:
        raise UndefinedMetric(f"{buckets} buckets need as many texts to be fitted on, got {n}")
    if quantizer in ("residual_kmeans", "drmm") and n < codes:
        raise UndefinedMetric(f"{codes} codes per level need as many texts to be fitted on, got {n}")
    points: Any
    project: Callable[[Floats], Any]
    scales_last = kind.rows == "l2" and options.unit_norm == "after_pca"
    if kind.rows is None or scales_last:
        check_range(human=fit[-1], model=fit[0])
    if kind.rows is None:
        points, project = fit, lambda side: [side]
    else:
        rows: Rows = "none" if scales_last else kind.rows
        sample = _draw_rows(fit, options.pca_max_data)
        projection = fit_pca(sample, share=options.explained_variance, rows=rows, whiten=kind.whiten)

        def project_sides(sides: Sequence[Floats]) -> F32:
            projected = projection.apply(sides)
            return scale_rows(projected).astype(np.float32) if scales_last else projected

        points, project = project_sides(fit), _cache_last(lambda side: project_sides([side]))
    ends = np.cumsum([len(side) for side in fit])[:-1]

    def cluster(seed: int) -> Assign:
        from threadpoolctl import threadpool_limits

        # Products of several threads differ in their last bits from those of one, and a training that goes on for
        # thousands of steps, or a row between two cells, turns last bits into other cells.
        with threadpool_limits(limits=1) if kind.auto else nullcontext():
            chosen = {"restarts": options.restarts, "max_iter": options.max_iter, "seed": seed, "training": training}
            find_cells = kind.cluster(points, cells=buckets, **chosen)
            parts = np.split(find_cells(points), ends)

        def assign(sides: Sequence[Floats]) -> list[I64]:
            fitted = {id(side): part for side, part in zip(fit, parts, strict=True)}
            return [fitted[id(side)] if id(side) in fitted else find_cells(project(side)) for side in sides]

        return assign

    return cluster, buckets


def _draw_rows(sides: Sequence[Floats], count: int | None) -> Sequence[Floats]:
    """Return so many random rows of all sides together; the same rows at every seed of the clusterings."""
    if count is None or count >= n_rows(sides):
        return sides
    rows = np.sort(make_random_stream(0, "pca_max_data").choice(n_rows(sides), count, replace=False))
    starts = np.cumsum([0, *map(len, sides)])
    parts = [side[rows[(rows >= a) & (rows < a + len(side))] - a] for side, a in zip(sides, starts, strict=False)]
    return [part for part in parts if len(part)]


def _cache_last(project: Callable[[Floats], F32]) -> Callable[[Floats], F32]:
    """Cache the last result of a function of a side: all clustering seeds assign texts of the same system."""
    last: list[tuple[Floats, F32]] = []

    def cached(side: Floats) -> F32:
        if not last or last[0][0] is not side:
            last[:] = [(side, project(side))]
        return last[0][1]

    return cached


def counts_seen_cells(quantizer: QuantizerName) -> bool:
    """Return whether smoothing leaves out the cells that hold no text: most codes of such quantizers are never used."""
    return QUANTIZERS[quantizer].auto is not None


def describe_accepted_buckets(num_buckets: Buckets, quantizer: QuantizerName) -> str:
    """Return which numbers of cells a quantizer accepts; empty if the given number is accepted."""
    if num_buckets == "auto" or QUANTIZERS[quantizer].auto in (None, num_buckets):
        return ""
    if quantizer == "lattice":
        return f"auto or {LATTICE_CELLS}"
    codes = _count_codes(num_buckets)
    return "" if codes >= 2 and codes**LEVELS == num_buckets else "auto (1000) or another cube of codes per level"


def count_fitted_rows(num_buckets: int, quantizer: QuantizerName) -> int:
    """Return how many texts a quantizer must be fitted on for a number of cells."""
    if quantizer == "lattice":
        return 1  # its cells are the same for all texts
    return _count_codes(num_buckets) if quantizer in ("residual_kmeans", "drmm") else num_buckets


def _count_codes(num_buckets: int) -> int:
    codes: int = round(num_buckets ** (1 / LEVELS))
    return codes
