"""Fréchet distance between Gaussians fitted to the embeddings of both sides.

|m1 - m2|^2 + tr(S1) + tr(S2) - 2 tr((S1^1/2 S2 S1^1/2)^1/2), with covariances of divisor n - 1. Not negative, in
squared units of the features, lower is better. The estimate is biased upwards by small n: read it beside the human
ceiling at the same n.

Everything is float64; the last trace comes from eigenvalues of a symmetric matrix, rounding below 0 is cut to 0. With n
<= d a covariance is singular, which this form bears and a note says; `shrinkage` and `pca_share` are the ways out.

Variants in use: features raw (default here, as in the literature on images) or after PCA; square root by Schur
decomposition (scipy's `sqrtm`, same value to 1e-8 where the covariances are regular) or eigenvalues of the product.

Source: Dowson and Landau 1982 (the distance); Heusel et al. 2017, "GANs trained by a two time-scale update rule",
section 3; Ledoit and Wolf 2004 (shrinkage).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from harness.contract import Direction, Family, Features, Metric, Need, Resampling, Scope
from harness.registry import register
from harness.types import F64, Floats, MetricResult
from metrics._embeddings import canonical_rows, check_sides
from metrics._pca import fit_pca

_BLOCK = 4096  # rows held as float64 at a time

Shrinkage = Literal["none", "ledoit_wolf"]


def frechet_distance(
    *, human: Floats, model: Floats, shrinkage: Shrinkage = "none", pca_share: float | None = None
) -> float:
    """Compute the Fréchet distance.

    Args:
        human: Embeddings of human texts, shape (n_human, d), n_human >= 2.
        model: Embeddings of model texts, shape (n_model, d), n_model >= 2.
        shrinkage: `ledoit_wolf` draws each covariance towards a multiple of the identity.
        pca_share: Share of the variance that joint PCA keeps first, in (0, 1]; `None`: no PCA.

    Returns:
        The distance, at least 0.

    Raises:
        ValueError: If shapes do not fit, a number is not finite or an option is out of range.
        UndefinedMetric: If a side has fewer than two texts.

    Source: Heusel et al. 2017, section 3.

    >>> round(frechet_distance(human=np.array([[0.0], [2.0]]), model=np.array([[3.0], [5.0]])), 9)
    9.0
    """
    human, model = check_sides(human=human, model=model)
    if shrinkage not in ("none", "ledoit_wolf"):
        raise ValueError(f"shrinkage: expected none or ledoit_wolf, got {shrinkage!r}")
    if pca_share is not None:
        if not 0 < pca_share <= 1:
            raise ValueError(f"pca_share: expected a share in (0, 1] or None, got {pca_share}")
        points = fit_pca([human, model], share=pca_share, rows="none").apply([human, model])
        human, model = points[: len(human)], points[len(human) :]
    mean_h, cov_h = _gaussian(human, shrinkage)
    mean_m, cov_m = _gaussian(model, shrinkage)
    gap = mean_h - mean_m
    spread = np.trace(cov_h) + np.trace(cov_m) - 2 * _cross_root_trace(cov_h, cov_m)
    # Rounding of equal covariances leaves about 1e-13 of the trace on either side of 0.
    return float(gap @ gap + max(spread, 0.0))


def _gaussian(rows: Floats, shrinkage: Shrinkage) -> tuple[F64, F64]:
    """Mean and covariance (divisor n - 1), float64, in two passes over blocks."""
    dim = rows.shape[1]
    mean, covariance = np.zeros(dim), np.zeros((dim, dim))
    for start in range(0, len(rows), _BLOCK):
        mean += rows[start : start + _BLOCK].sum(axis=0, dtype=np.float64)
    mean /= len(rows)
    fourth = 0.0
    for start in range(0, len(rows), _BLOCK):
        block = np.subtract(rows[start : start + _BLOCK], mean, dtype=np.float64)
        covariance += block.T @ block
        if shrinkage != "none":
            fourth += float(np.sum(np.einsum("ij,ij->i", block, block) ** 2))
    if shrinkage == "none":
        return mean, covariance / (len(rows) - 1)
    return mean, _shrunk(covariance / len(rows), fourth, len(rows))


def _shrunk(covariance: F64, fourth: float, n: int) -> F64:
    """Ledoit and Wolf's optimal mixture of a covariance (divisor n) and its mean variance times the identity.

    With d2 the squared distance of the two and b2 = (sum of |x|^4 / n - |S|^2) / n the noise of S (both Frobenius), the
    identity's weight is min(b2, d2) / d2.
    """
    target = np.trace(covariance) / len(covariance)
    squared = float(np.sum(covariance**2))
    distance = squared - len(covariance) * target**2
    noise = max((fourth / n - squared) / n, 0.0)
    weight = min(noise / distance, 1.0) if distance > 0 else 0.0
    mixed: F64 = (1 - weight) * covariance
    mixed[np.diag_indices_from(mixed)] += weight * target
    return mixed * n / (n - 1)


def _cross_root_trace(a: F64, b: F64) -> float:
    """Trace of (a^1/2 b a^1/2)^1/2: the sum of the singular values of r^T s, for any roots a = r r^T and b = s s^T."""
    product = _root(a).T @ _root(b)
    # One array on both sides: NumPy calls the symmetric product.
    return float(np.sqrt(np.maximum(np.linalg.eigvalsh(product.T @ product), 0.0)).sum())


def _root(covariance: F64) -> F64:
    """Some r with r r^T = covariance: triangular where it is regular, from eigenvalues where it is not."""
    try:
        return np.asarray(np.linalg.cholesky(covariance), dtype=np.float64)
    except np.linalg.LinAlgError:
        values, axes = np.linalg.eigh(covariance)
        return np.asarray(axes * np.sqrt(np.maximum(values, 0.0)), dtype=np.float64)


@register("metric")
@dataclass(frozen=True, kw_only=True)
class Frechet(Metric):
    """Fréchet distance of the model's embeddings from the human ones."""

    name: ClassVar[str] = "frechet"
    version: ClassVar[int] = 1
    family: ClassVar[Family] = "two_sample"
    direction: ClassVar[Direction] = "lower"
    bounds: ClassVar[tuple[float, float]] = (0.0, float("inf"))
    resampling: ClassVar[Resampling] = "subsample"
    sides: ClassVar[Literal["one", "two", "human"]] = "two"
    ceiling: ClassVar[bool] = True
    titles: ClassVar[Mapping[str, str]] = {"frechet": "Fréchet"}

    shrinkage: Shrinkage = "none"  # Heusel et al. 2017
    pca_share: float | None = None  # Heusel et al. 2017: raw features
    scope: Scope = "prompt_and_continuation"  # the same features as MAUVE

    def check(self) -> None:
        """Refuse a share out of range."""
        share = self.pca_share
        self.require(share is None or 0 < share <= 1, "pca_share", "a share in (0, 1] or null")

    def needs(self) -> tuple[Need, ...]:
        """Embeddings of both sides."""
        return (Need("embeddings", by="embedder", scope=self.scope),)

    def compute(self, features: Features) -> MetricResult:
        """Compute the distance; n and d stand in the notes where the covariance is singular."""
        (need,) = self.needs()
        human, model = canonical_rows(features.human, need), canonical_rows(features.model, need)
        distance = frechet_distance(human=human, model=model, shrinkage=self.shrinkage, pca_share=self.pca_share)
        notes, least, dim = [], min(len(human), len(model)), human.shape[1]
        if least <= dim and self.shrinkage == "none" and self.pca_share is None:
            notes.append(
                f"n={least} does not exceed d={dim}: the covariances are singular and the distance is biased upwards; "
                "use more texts, shrinkage=ledoit_wolf or pca_share"
            )
        return self.result(features, "frechet", {"frechet": distance}, notes=notes)
