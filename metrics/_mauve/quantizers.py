"""Quantizers: from the features of two sides to the cells that MAUVE and the precision-recall curve count.

A quantizer is fitted once (what does not depend on the seed) and then gives one set of cells a seed. Another one joins
by a function of type `Quantizer` in `QUANTIZERS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from openended.harness.core import I64, Floats, UndefinedMetric
from openended.metrics._common.choices import check_choice
from openended.metrics._embeddings.blocks import Rows, check_range, n_rows
from openended.metrics._embeddings.pca import Projection, fit_pca
from openended.metrics._mauve.drmm import fit_mixture
from openended.metrics._mauve.kmeans import KMeansFit, kmeans
from openended.metrics._mauve.lattice import CELLS, lattice_cells, train_spreading_net
from openended.metrics._mauve.residual_kmeans import LEVELS, residual_kmeans
from openended.metrics._mauve.single_thread import limit_to_one_thread

QuantizerName = Literal["kmeans", "kmeans_l1", "residual_kmeans", "drmm", "lattice"]
Buckets = int | Literal["auto"]

# What `auto` means where the number of cells does not follow the sample: the paper's own.
_CODES: Mapping[QuantizerName, int] = {"residual_kmeans": 1000, "drmm": 1000, "lattice": CELLS}
_MOST_BUCKETS = 500  # the MAUVE paper's k, used at its n = 5,000 and above

# mauve-text seeds k-means with its seed + 2 (its PCA takes + 1, which an exact PCA has no use for).
_KMEANS_SEED = 2


@dataclass(frozen=True, slots=True)
class QuantizerSettings:
    """Settings that every quantizer receives."""

    num_buckets: int
    explained_variance: float
    restarts: int
    max_iter: int


Assign = Callable[[Sequence[Floats]], list[I64]]
"""Cells of the rows of each side, in [0, num_buckets)."""


class Quantizer(Protocol):
    """Fits what depends on no seed; the returned function clusters with a seed and returns how to assign rows."""

    def __call__(self, fit: Sequence[Floats], settings: QuantizerSettings) -> Callable[[int], Assign]:
        """Fit on the rows of the sides in `fit`, in their order."""
        ...


def fit_kmeans(fit: Sequence[Floats], settings: QuantizerSettings) -> Callable[[int], Assign]:
    """L2 rows, PCA without whitening, k-means."""
    return _fit(fit, settings, rows="l2", whiten=False)


def fit_kmeans_l1(fit: Sequence[Floats], settings: QuantizerSettings) -> Callable[[int], Assign]:
    """L1 rows, whitened PCA, k-means (`kmeans_l1` of the MAUVE paper's experiments)."""
    return _fit(fit, settings, rows="l1", whiten=True)


def fit_residual_kmeans(fit: Sequence[Floats], settings: QuantizerSettings) -> Callable[[int], Assign]:
    """L2 rows, PCA without whitening, k-means of what each level leaves over."""
    codes = _choose_code_count(fit, settings)
    projection = fit_pca(fit, share=settings.explained_variance)
    points, project = projection.apply(fit), _make_projector(projection)

    def cluster(seed: int) -> Assign:
        with limit_to_one_thread():
            clustering = residual_kmeans(
                points, codes, restarts=settings.restarts, max_iter=settings.max_iter, seed=seed
            )
            fit_cells = clustering.cells(points)
        return _make_assigner(fit, fit_cells, lambda side: clustering.cells(project(side)))

    return cluster


def fit_drmm(fit: Sequence[Floats], settings: QuantizerSettings) -> Callable[[int], Assign]:
    """Train a deep residual mixture model on raw rows (the MAUVE paper's second quantizer)."""
    codes = _choose_code_count(fit, settings)
    check_range(human=fit[-1], model=fit[0])

    def cluster(seed: int) -> Assign:
        with limit_to_one_thread():
            clustering = fit_mixture(fit, codes, restarts=settings.restarts, seed=seed)
            fit_cells = clustering.cells(fit)
        return _make_assigner(fit, fit_cells, lambda side: clustering.cells([side]))

    return cluster


def fit_lattice(fit: Sequence[Floats], settings: QuantizerSettings) -> Callable[[int], Assign]:
    """L2 rows, PCA, a spreading network, the points of a lattice (the MAUVE paper's third quantizer)."""
    if n_rows(fit) < 3:
        raise UndefinedMetric(f"a spreading network needs at least 3 texts, got {n_rows(fit)}")
    projection = fit_pca(fit, share=settings.explained_variance)
    points, project = projection.apply(fit), _make_projector(projection)

    def cluster(seed: int) -> Assign:
        with limit_to_one_thread():
            net = train_spreading_net(points, seed=seed)
            fit_cells = lattice_cells(net.images(points))
        return _make_assigner(fit, fit_cells, lambda side: lattice_cells(net.images(project(side))))

    return cluster


QUANTIZERS: Mapping[QuantizerName, Quantizer] = {
    "kmeans": fit_kmeans,
    "kmeans_l1": fit_kmeans_l1,
    "residual_kmeans": fit_residual_kmeans,
    "drmm": fit_drmm,
    "lattice": fit_lattice,
}


def fit_quantizer(
    fit: Sequence[Floats],
    *,
    quantizer: QuantizerName,
    num_buckets: Buckets,
    explained_variance: float,
    restarts: int,
    max_iter: int,
) -> tuple[Callable[[int], Assign], int]:
    """Fit a quantizer on checked sides; the head of every metric that counts cells."""
    check_choice("quantizer", quantizer, QuantizerName)
    if not (0 < explained_variance <= 1 and min(restarts, max_iter) >= 1):
        raise ValueError(
            "expected 0 < explained_variance <= 1 and restarts, max_iter >= 1, got "
            f"{explained_variance}, {restarts}, {max_iter}"
        )
    buckets = choose_bucket_count(num_buckets, min(len(side) for side in fit), quantizer)
    return QUANTIZERS[quantizer](fit, QuantizerSettings(buckets, explained_variance, restarts, max_iter)), buckets


def counts_seen_cells(quantizer: QuantizerName) -> bool:
    """Say whether smoothing leaves out the cells that hold no text: codes of which most are never used."""
    return quantizer in _CODES


def choose_bucket_count(num_buckets: Buckets, n: int, quantizer: QuantizerName = "kmeans") -> int:
    """Return the number of cells for n texts on the smaller side."""
    if num_buckets == "auto":
        return _CODES[quantizer] if quantizer in _CODES else min(max(2, round(n / 10)), _MOST_BUCKETS)
    if not isinstance(num_buckets, int) or isinstance(num_buckets, bool) or num_buckets < 1:
        raise ValueError(f"num_buckets: expected 'auto' or a positive integer, got {num_buckets!r}")
    if accepted := describe_accepted_buckets(num_buckets, quantizer):
        raise ValueError(f"num_buckets: {quantizer} takes {accepted}, got {num_buckets}")
    return num_buckets


def describe_accepted_buckets(num_buckets: Buckets, quantizer: QuantizerName) -> str:
    """Return which numbers of cells a quantizer accepts; empty if the given number is accepted."""
    if num_buckets == "auto" or quantizer not in _CODES or num_buckets == _CODES[quantizer]:
        return ""
    if quantizer == "lattice":
        return f"auto or {CELLS}"
    codes = _count_codes(num_buckets)
    return "" if codes >= 2 and codes**LEVELS == num_buckets else "auto (1000) or another cube of codes a level"


def count_fitted_rows(num_buckets: int, quantizer: QuantizerName) -> int:
    """Return how many texts a quantizer must be fitted on for a number of cells."""
    return _count_codes(num_buckets) if quantizer in ("residual_kmeans", "drmm") else num_buckets


def _count_codes(num_buckets: int) -> int:
    codes: int = round(num_buckets ** (1 / LEVELS))
    return codes


def _choose_code_count(fit: Sequence[Floats], settings: QuantizerSettings) -> int:
    """Return the number of codes per level."""
    codes = _count_codes(settings.num_buckets)
    if n_rows(fit) < codes:
        raise UndefinedMetric(f"{codes} codes a level need as many texts to be fitted on, got {n_rows(fit)}")
    return codes


def _fit(fit: Sequence[Floats], settings: QuantizerSettings, *, rows: Rows, whiten: bool) -> Callable[[int], Assign]:
    if n_rows(fit) < settings.num_buckets:
        raise UndefinedMetric(f"{settings.num_buckets} buckets need as many texts to be fitted on, got {n_rows(fit)}")
    projection = fit_pca(fit, share=settings.explained_variance, rows=rows, whiten=whiten)
    points, project = projection.apply(fit), _make_projector(projection)

    def cluster(seed: int) -> Assign:
        clustering: KMeansFit = kmeans(
            points,
            settings.num_buckets,
            restarts=settings.restarts,
            max_iter=settings.max_iter,
            seed=seed + _KMEANS_SEED,
        )
        return _make_assigner(fit, clustering.assign(points), lambda side: clustering.assign(project(side)))

    return cluster


def _make_assigner(fit: Sequence[Floats], fit_cells: I64, cells: Callable[[Floats], I64]) -> Assign:
    """Return a function that looks up the cells of fitted rows and computes those of others."""
    parts = np.split(fit_cells, np.cumsum([len(side) for side in fit])[:-1])

    def assign(sides: Sequence[Floats]) -> list[I64]:
        if len(sides) == len(fit) and all(a is b for a, b in zip(sides, fit, strict=True)):
            return parts
        cells_by_side = {id(side): part for side, part in zip(fit, parts, strict=True)}
        return [cells_by_side[id(side)] if id(side) in cells_by_side else cells(side) for side in sides]

    return assign


def _make_projector(projection: Projection) -> Callable[[Floats], NDArray[np.float32]]:
    """Return a function that projects a side and keeps the last result: all clustering seeds assign the same system."""
    last: list[tuple[Floats, NDArray[np.float32]]] = []

    def project(side: Floats) -> NDArray[np.float32]:
        if not last or last[0][0] is not side:
            last[:] = [(side, projection.apply([side]))]
        return last[0][1]

    return project
