"""Fréchet distance between Gaussians fitted to the embeddings of both sides.

|m1 - m2|^2 + tr(S1) + tr(S2) - 2 tr((S1^1/2 S2 S1^1/2)^1/2), with covariances of divisor n - 1. Not negative, in
squared units of the features, lower is better. The estimate is biased upwards by small n: read it beside the human
ceiling at the same n.

Everything is float64; the last trace comes from eigenvalues of a symmetric matrix, rounding below 0 is cut to 0. With n
<= d a covariance is singular, which this form bears and a note says; `shrinkage` and `pca_share` are the ways out.

Variants in use: features raw (default here, as in the literature on images) or after PCA; square root by Schur
decomposition (scipy's `sqrtm`, same value to 1e-8 where the covariances are regular) or eigenvalues of the product.

FD-infinity (`extrapolate`) is the value that the distances of growing subsets point to, without that bias.

Source: Dowson and Landau 1982 (the distance); Heusel et al. 2017, "GANs trained by a two time-scale update rule",
section 3; Ledoit and Wolf 2004 (shrinkage); Chong and Forsyth 2020, "Effectively unbiased FID and
Inception score" (extrapolation).
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from openended.harness.contract import Direction, Features, Scope
from openended.harness.registry import register
from openended.harness.types import F64, Floats, MetricResult
from openended.metrics._choices import check_choice
from openended.metrics._embeddings import blocks, check_range, check_sides
from openended.metrics._pca import moments, project_pair
from openended.metrics._result import Values
from openended.metrics._two_sample import TwoSample

# Error that the short way may make, as a share of both traces: 1e-8 of a distance that is a thousandth of them.
_MOST_LOST = 1e-11
_FEWEST = 20  # texts a side for an extrapolation: a tenth of them must have a variance

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
    human, model = _prepared(human, model, shrinkage, pca_share)
    return _distance(human, model, shrinkage)


@dataclass(frozen=True, slots=True)
class Extrapolated(Values):
    """What `frechet_infinity` returns; fields by attribute or by key."""

    frechet_infinity: float
    """Mean over draws."""
    spread: float
    """Standard deviation over draws, NaN for one; of one set of texts: it says nothing of another set."""


def frechet_infinity(
    *,
    human: Floats,
    model: Floats,
    sizes: int = 15,
    draws: int = 5,
    shrinkage: Shrinkage = "none",
    pca_share: float | None = None,
    seed: int = 25,
) -> Extrapolated:
    """Extrapolate the Fréchet distance to infinitely many texts on both sides.

    The bias falls as 1 / n, so the distances of random subsets of growing size lie on a line over 1 / n, and its value
    at 0 is free of that bias. Both sides are thinned to the same share, as neither is large; the shares go up to 1 in
    even steps from a tenth (as in the paper), or from 2 d texts where that is more, but from a half at most: the law
    does not hold below d texts.

    Args:
        human: Embeddings of human texts, shape (n_human, d), n_human >= 20.
        model: Embeddings of model texts, shape (n_model, d), n_model >= 20.
        sizes: Number of shares, at least 2.
        draws: Subsets of each size, at least 1; each has a line of its own.
        shrinkage: As in `frechet_distance`.
        pca_share: As in `frechet_distance`; PCA is fitted once, on all texts.
        seed: Draws the subsets.

    Returns:
        The mean over the lines of their values at 1 / n = 0, which may be a little below 0 where the sides are alike,
        and their spread.

    Raises:
        ValueError: As `frechet_distance`, or if there are fewer than two sizes or no draw.
        UndefinedMetric: If a side has fewer than 20 texts.

    Source: Chong and Forsyth 2020, "Effectively unbiased FID and Inception score", section 4 (there the model's side
        alone is thinned, against a large human side).
    """
    if sizes < 2 or draws < 1:
        raise ValueError(f"expected sizes of at least 2 and draws of at least 1, got {sizes} and {draws}")
    human, model = _prepared(human, model, shrinkage, pca_share, least=_FEWEST)
    rng = np.random.default_rng(seed)
    shares = np.linspace(_least_share(min(len(human), len(model)), human.shape[1]), 1.0, sizes)
    whole = _distance(human, model, shrinkage)
    at_zero = np.empty(draws)
    for i in range(draws):
        parts = [(_thinned(human, share, rng), _thinned(model, share, rng)) for share in shares[:-1]]
        distances = [*(_distance(*part, shrinkage) for part in parts), whole]
        at_zero[i] = np.polyfit(1 / shares, distances, 1)[1]
    return Extrapolated(float(at_zero.mean()), float(at_zero.std(ddof=1)) if draws > 1 else float("nan"))


def _least_share(n: int, dim: int) -> float:  # of the texts, that the extrapolation starts from
    return max(0.1, min(0.5, 2 * dim / n))


def _thinned(rows: Floats, share: float, rng: np.random.Generator) -> Floats:
    """Return some of the rows, drawn without replacement, in their order."""
    return rows[np.sort(rng.choice(len(rows), round(share * len(rows)), replace=False))]


def _prepared(
    human: Floats, model: Floats, shrinkage: Shrinkage, pca_share: float | None, least: int = 2
) -> tuple[Floats, Floats]:
    """Check sides and options; project where a share is given."""
    check_choice("shrinkage", shrinkage, Shrinkage)
    human, model = check_sides(human=human, model=model, least=least)
    check_range(human=human, model=model)
    if pca_share is None:
        return human, model
    return project_pair(human=human, model=model, share=pca_share, rows="none", option="pca_share")


def _distance(human: Floats, model: Floats, shrinkage: Shrinkage) -> float:
    """Return the distance of prepared sides."""
    a, b = _gaussian(human, shrinkage), _gaussian(model, shrinkage)
    gap = a.mean - b.mean
    spread = a.trace + b.trace - 2 * _cross_root_trace(a, b)
    # Rounding of equal covariances leaves about 1e-13 of the trace on either side of 0.
    return float(gap @ gap + max(spread, 0.0))


@dataclass(frozen=True, slots=True, eq=False)
class _Gaussian:
    """Mean and covariance of one side; of the covariance its lower triangle or, where n <= d, a root r with r r^T."""

    mean: F64
    trace: float
    lower: F64 | None
    """Shape (d, d); nothing of use above the diagonal."""
    root: F64 | None
    """Shape (d, n)."""


def _gaussian(rows: Floats, shrinkage: Shrinkage) -> _Gaussian:
    """Fit a Gaussian with divisor n - 1, float64."""
    n, dim = rows.shape
    if shrinkage == "none" and n <= dim:
        # The centred rows themselves are a root, an exact one, of a covariance that has no regular one.
        centred = np.array(rows, dtype=np.float64)
        mean = centred.mean(axis=0)
        centred -= mean
        centred /= np.sqrt(n - 1)
        return _Gaussian(mean, float(np.sum(centred**2)), None, centred.T)
    mean, lower = moments([rows], "none")
    if shrinkage != "none":
        fourth = 0.0
        for _, block in blocks(rows, "none"):
            block -= mean
            fourth += float(np.sum(np.einsum("ij,ij->i", block, block) ** 2))
        lower = _shrunk(lower * ((n - 1) / n), fourth, n)
    return _Gaussian(mean, float(np.trace(lower)), lower, None)


def _shrunk(lower: F64, fourth: float, n: int) -> F64:
    """Ledoit and Wolf's optimal mixture of a covariance (divisor n) and its mean variance times the identity.

    With d2 the squared distance of the two and b2 = (sum of |x|^4 / n - |S|^2) / n the noise of S (both Frobenius), the
    identity's weight is min(b2, d2) / d2. Takes and gives lower triangles.
    """
    target = np.trace(lower) / len(lower)
    squared = float(2 * np.sum(np.tril(lower, -1) ** 2) + np.sum(np.diagonal(lower) ** 2))
    distance = squared - len(lower) * target**2
    noise = max((fourth / n - squared) / n, 0.0)
    weight = min(noise / distance, 1.0) if distance > 0 else 0.0
    mixed: F64 = (1 - weight) * lower
    mixed[np.diag_indices_from(mixed)] += weight * target
    return mixed * n / (n - 1)


def _cross_root_trace(a: _Gaussian, b: _Gaussian) -> float:
    """Trace of (A^1/2 B A^1/2)^1/2: the sum of the singular values of r^T s, for any roots A = r r^T and B = s s^T.

    With a triangular r it is also the sum of the roots of the eigenvalues of r^T B r, which costs less but is as exact
    only where no eigenvalue is so small that its root is lost in the rounding of the largest.
    """
    if a.lower is not None and b.lower is not None:
        from scipy.linalg import lapack

        with contextlib.suppress(np.linalg.LinAlgError):
            root = np.linalg.cholesky(a.lower)
            both, failed = lapack.dsygst(b.lower, root, itype=2, lower=1)
            if failed:
                raise ValueError(f"dsygst: illegal argument {-failed}")
            values = np.linalg.eigvalsh(both, UPLO="L")
            rounding = np.finfo(np.float64).eps * max(float(values[-1]), 0.0)
            lost = float(np.sum(rounding / (2 * np.sqrt(np.maximum(values, rounding)))))
            if lost <= _MOST_LOST * (a.trace + b.trace):
                return float(np.sqrt(np.maximum(values, 0.0)).sum())
    return float(np.linalg.svd(_root(a).T @ _root(b), compute_uv=False).sum())


def _root(side: _Gaussian) -> F64:
    """Some r with r r^T = covariance: triangular where it is regular, from eigenvalues where it is not."""
    if side.root is not None or side.lower is None:
        return np.empty((len(side.mean), 0)) if side.root is None else side.root
    try:
        return np.asarray(np.linalg.cholesky(side.lower), dtype=np.float64)
    except np.linalg.LinAlgError:
        values, axes = np.linalg.eigh(side.lower, UPLO="L")
        kept = values > len(values) * np.finfo(np.float64).eps * max(float(values[-1]), 0.0)
        return np.asarray(axes[:, kept] * np.sqrt(values[kept]), dtype=np.float64)


@register("metric")
@dataclass(frozen=True, kw_only=True)
class Frechet(TwoSample):
    """Fréchet distance of the model's embeddings from the human ones."""

    name: ClassVar[str] = "frechet"
    version: ClassVar[int] = 2
    direction: ClassVar[Direction] = "lower"
    bounds: ClassVar[tuple[float, float]] = (0.0, float("inf"))
    titles: ClassVar[Mapping[str, str]] = {"frechet": "Fréchet", "frechet_infinity": "Fréchet∞"}

    targets: ClassVar[Mapping[str, float]] = {"frechet_infinity": 0.0}  # may come out below

    shrinkage: Shrinkage = "none"  # Heusel et al. 2017
    pca_share: float | None = None  # Heusel et al. 2017: raw features
    extrapolate: int = 0  # number of subset sizes for FD-infinity; Chong and Forsyth 2020: 15; 0: none
    draws: int = 5  # subsets a size; their spread stands beside FD-infinity
    seed: int = 25  # draws the subsets; as MAUVE
    scope: Scope = "prompt_and_continuation"  # the same features as MAUVE

    def check(self) -> None:
        """Refuse options out of range."""
        share = self.pca_share
        self.require(share is None or 0 < share <= 1, "pca_share", "a share in (0, 1] or null")
        self.require(self.extrapolate == 0 or self.extrapolate >= 2, "extrapolate", "0 or at least 2 sizes")
        self.require(self.draws >= 1, "draws", "at least 1")
        self.require(self.seed >= 0, "seed", "at least 0")

    def compute(self, features: Features) -> MetricResult:
        """Compute the distance; n and d stand in the notes where the covariance is singular."""
        human, model = self.pair(features)
        distance = frechet_distance(human=human, model=model, shrinkage=self.shrinkage, pca_share=self.pca_share)
        notes, least, dim = [], min(len(human), len(model)), human.shape[1]
        if least <= dim and self.shrinkage == "none" and self.pca_share is None:
            notes.append(
                f"n={least} does not exceed d={dim}: the covariances are singular and the distance is biased upwards; "
                "use more texts, shrinkage=ledoit_wolf or pca_share"
            )
        values, sd = {"frechet": distance}, dict[str, float]()
        if self.extrapolate:
            found = frechet_infinity(
                human=human,
                model=model,
                sizes=self.extrapolate,
                draws=self.draws,
                shrinkage=self.shrinkage,
                pca_share=self.pca_share,
                seed=self.seed,
            )
            values["frechet_infinity"] = found.frechet_infinity
            if self.draws > 1:
                sd["frechet_infinity"] = found.spread
            smallest = round(least * _least_share(least, dim))
            if smallest <= dim and self.pca_share is None:
                notes.append(f"the extrapolation starts from {smallest} texts; up to d={dim} it still holds bias")
        return self.result(features, "frechet", values, notes=notes, sd=sd)
