"""From the features of two sides to cells; what MAUVE and the precision-recall curve count.

A quantizer is fitted once (what does not depend on the seed) and then gives one set of cells a seed. Another one joins
by a function of type `Quantizer` in `QUANTIZERS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from openended.harness.errors import UndefinedMetric
from openended.harness.types import I64, Floats
from openended.metrics._choices import check_choice
from openended.metrics._embeddings import Rows, n_rows
from openended.metrics._kmeans import Clustering, kmeans
from openended.metrics._pca import fit_pca

QuantizerName = Literal["kmeans", "kmeans_l1"]
Buckets = int | Literal["auto"]

_MOST_BUCKETS = 500  # the MAUVE paper's k, used at its n = 5,000 and above

# mauve-text seeds k-means with its seed + 2 (its PCA takes + 1, which an exact PCA has no use for).
_KMEANS_SEED = 2


@dataclass(frozen=True, slots=True)
class QuantizerSettings:
    """What every quantizer is told."""

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


QUANTIZERS: Mapping[QuantizerName, Quantizer] = {"kmeans": fit_kmeans, "kmeans_l1": fit_kmeans_l1}


def fit_quantizer(
    fit: Sequence[Floats],
    *,
    quantizer: QuantizerName,
    num_buckets: Buckets,
    explained_variance: float,
    restarts: int,
    max_iter: int,
) -> tuple[Callable[[int], Assign], int]:
    """Fit a quantizer on checked sides; the head of every metric that counts cells.

    Args:
        fit: Sides of shape (n_i, d), in the order that feeds the seeding of k-means.
        quantizer: A name in `QUANTIZERS`.
        num_buckets: Number of cells; `auto` follows the smallest side.
        explained_variance: Share of the variance that PCA keeps, in (0, 1].
        restarts: k-means starts, at least 1.
        max_iter: Most iterations of each, at least 1.

    Returns:
        The function from a seed to cells, and the number of cells.

    Raises:
        ValueError: If an option is out of range.
        UndefinedMetric: If there are fewer rows than cells.
    """
    check_choice("quantizer", quantizer, QuantizerName)
    if not (0 < explained_variance <= 1 and min(restarts, max_iter) >= 1):
        raise ValueError(
            "expected 0 < explained_variance <= 1 and restarts, max_iter >= 1, got "
            f"{explained_variance}, {restarts}, {max_iter}"
        )
    buckets = bucket_count(num_buckets, min(len(side) for side in fit))
    return QUANTIZERS[quantizer](fit, QuantizerSettings(buckets, explained_variance, restarts, max_iter)), buckets


def counts_seen_cells(quantizer: QuantizerName) -> bool:
    """Say whether smoothing leaves out the cells that hold no text: codes of which most are never used."""
    return quantizer not in ("kmeans", "kmeans_l1")


def bucket_count(num_buckets: Buckets, n: int) -> int:
    """Return the number of cells for n texts on the smaller side."""
    if num_buckets == "auto":
        return min(max(2, round(n / 10)), _MOST_BUCKETS)
    if not isinstance(num_buckets, int) or isinstance(num_buckets, bool) or num_buckets < 1:
        raise ValueError(f"num_buckets: expected 'auto' or a positive integer, got {num_buckets!r}")
    return num_buckets


def _fit(fit: Sequence[Floats], settings: QuantizerSettings, *, rows: Rows, whiten: bool) -> Callable[[int], Assign]:
    if n_rows(fit) < settings.num_buckets:
        raise UndefinedMetric(f"{settings.num_buckets} buckets need as many texts to be fitted on, got {n_rows(fit)}")
    projection = fit_pca(fit, share=settings.explained_variance, rows=rows, whiten=whiten)
    points = projection.apply(fit)

    def cluster(seed: int) -> Assign:
        found: Clustering = kmeans(
            points,
            settings.num_buckets,
            restarts=settings.restarts,
            max_iter=settings.max_iter,
            seed=seed + _KMEANS_SEED,
        )
        own = found.assign(points) if found.labels is None else found.labels

        def assign(sides: Sequence[Floats]) -> list[I64]:
            if len(sides) == len(fit) and all(a is b for a, b in zip(sides, fit, strict=True)):
                return np.split(own, np.cumsum([len(side) for side in fit])[:-1])
            return [found.assign(projection.apply([side])) for side in sides]

        return assign

    return cluster
