"""Fréchet distance between Gaussians fitted to the embeddings of both sides.

|m1 - m2|^2 + tr(S1) + tr(S2) - 2 tr((S1^1/2 S2 S1^1/2)^1/2), with covariances of divisor n - 1. Not negative, in
squared units of the features, lower is better. The estimate is biased upwards by small n: compare it with the
human ceiling at the same n.

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

from dataclasses import dataclass

import numpy as np

from openended.harness.core import Features, Floats, MetricResult, Plan, Replicates, Scope, metric, option, ranged
from openended.metrics._common import Values, check_choice
from openended.metrics._embeddings.blocks import check_range, check_sides
from openended.metrics._embeddings.gaussians import Shrinkage, cross_root_trace, gaussian
from openended.metrics._embeddings.pca import project_pair
from openended.metrics._embeddings.resampled_moments import frechet_influence
from openended.metrics.families import ReplicatesByName, TwoSample

_FEWEST = 20  # texts per side for an extrapolation: a tenth of them must have a variance


def frechet_distance(
    *, human: Floats, model: Floats, shrinkage: Shrinkage = "none", pca_share: float | None = None
) -> float:
    """Compute the Fréchet distance, at least 0 (Heusel et al. 2017, section 3).

    Args:
        human: Embeddings of human texts, shape (n_human, d), n_human >= 2.
        model: Embeddings of model texts, shape (n_model, d), n_model >= 2.
        shrinkage: `ledoit_wolf` draws each covariance towards a multiple of the identity.
        pca_share: Share of the variance that joint PCA keeps first, in (0, 1]; `None`: no PCA.

    Raises:
        ValueError: If shapes do not fit, a number is not finite or an option is out of range.
        UndefinedMetric: If a side has fewer than two texts.

    >>> round(frechet_distance(human=np.array([[0.0], [2.0]]), model=np.array([[3.0], [5.0]])), 9)
    9.0
    """
    human, model = _prepare_sides(human, model, shrinkage, pca_share)
    return _compute_distance(human, model, shrinkage)


@dataclass(frozen=True, slots=True)
class Extrapolated(Values):
    """The distance extrapolated to infinitely many texts; fields by attribute or by key."""

    frechet_infinity: float
    """Mean over draws."""
    spread: float
    """Standard deviation over subsets of one set of texts (not over sets of texts); NaN for a single subset."""
    at_zero: tuple[float, ...]
    """The value of each draw."""


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
    """Extrapolate the Fréchet distance to infinitely many texts on both sides (Chong and Forsyth 2020, section 4).

    The bias falls as 1 / n, so the distances of random subsets of growing size lie on a line over 1 / n, and its value
    at 0 is free of that bias. Both sides are thinned to the same share, as neither is large (the paper thins the
    model's side only); the shares go up to 1 in even steps from a tenth (as in the paper), or from 2 d texts where that
    is more, but from a half at most: the law does not hold below d texts.

    Args:
        human: Embeddings of human texts, shape (n_human, d), n_human >= 20.
        model: Embeddings of model texts, shape (n_model, d), n_model >= 20.
        sizes: Number of shares, at least 2.
        draws: Number of subsets per size, at least 1; each draw gets its own regression line.
        shrinkage: As in `frechet_distance`.
        pca_share: As in `frechet_distance`; PCA is fitted once, on all texts.
        seed: Draws the subsets.

    Returns:
        The mean over the lines of their values at 1 / n = 0, which may be a little below 0 where the sides are alike,
        and their spread.

    Raises:
        ValueError: As `frechet_distance`, or if there are fewer than two sizes or no draw.
        UndefinedMetric: If a side has fewer than 20 texts.
    """
    if sizes < 2 or draws < 1:
        raise ValueError(f"expected sizes of at least 2 and draws of at least 1, got {sizes} and {draws}")
    human, model = _prepare_sides(human, model, shrinkage, pca_share, least=_FEWEST)
    return _extrapolate(human, model, _compute_distance(human, model, shrinkage), sizes, draws, shrinkage, seed)


def _extrapolate(
    human: Floats, model: Floats, distance: float, sizes: int, draws: int, shrinkage: Shrinkage, seed: int
) -> Extrapolated:
    """Extrapolate the distance of prepared sides."""
    rng = np.random.default_rng(seed)
    shares = np.linspace(_choose_least_share(min(len(human), len(model)), human.shape[1]), 1.0, sizes)

    def subsample(rows: Floats, share: float) -> Floats:
        return rows[np.sort(rng.choice(len(rows), round(share * len(rows)), replace=False))]

    at_zero = np.empty(draws)
    for i in range(draws):
        parts = [(subsample(human, share), subsample(model, share)) for share in shares[:-1]]
        distances = [*(_compute_distance(*part, shrinkage) for part in parts), distance]
        at_zero[i] = np.polyfit(1 / shares, distances, 1)[1]
    spread = float(at_zero.std(ddof=1)) if draws > 1 else float("nan")
    return Extrapolated(float(at_zero.mean()), spread, tuple(at_zero.tolist()))


def _choose_least_share(n: int, dim: int) -> float:
    """Return the share of the texts that the extrapolation starts from."""
    return max(0.1, min(0.5, 2 * dim / n))


def _prepare_sides(
    human: Floats, model: Floats, shrinkage: Shrinkage, pca_share: float | None, least: int = 2
) -> tuple[Floats, Floats]:
    """Check sides and options; project where a share is given."""
    check_choice("shrinkage", shrinkage, Shrinkage)
    human, model = check_sides(human=human, model=model, least=least)
    check_range(human=human, model=model)
    if pca_share is None:
        return human, model
    return project_pair(human=human, model=model, share=pca_share, rows="none", option="pca_share")


def _compute_distance(human: Floats, model: Floats, shrinkage: Shrinkage) -> float:
    """Return the distance of prepared sides."""
    a, b = gaussian(human, shrinkage), gaussian(model, shrinkage)
    gap = a.mean - b.mean
    spread = a.trace + b.trace - 2 * cross_root_trace(a, b)
    # Rounding of equal covariances leaves about 1e-13 of the trace on either side of 0.
    return float(gap @ gap + max(spread, 0.0))


@dataclass(frozen=True, slots=True, eq=False)
class FrechetSides:
    """Embeddings of both sides, checked and projected, and their distance."""

    human: Floats
    model: Floats
    distance: float
    extrapolated: Extrapolated | None
    """FD-infinity if requested."""


@metric
class Frechet(TwoSample):
    """Fréchet distance of the model's embeddings from the human ones."""

    name = "frechet"
    version = 2
    direction = "lower"
    bounds = (0.0, np.inf)
    titles = {"frechet": "Fréchet", "frechet_infinity": "Fréchet∞"}
    targets = {"frechet_infinity": 0.0}  # may come out below

    shrinkage: Shrinkage = "none"  # Heusel et al. 2017
    pca_share: float | None = ranged(None, "(0, 1]", "a share in (0, 1] or null")  # Heusel et al. 2017: raw features
    extrapolate: int = option(
        0, lambda sizes: sizes == 0 or sizes >= 2, "0 or at least 2 sizes"
    )  # number of subset sizes for FD-infinity; Chong and Forsyth 2020: 15; 0: none
    draws: int = ranged(5, "[1, inf)", "at least 1")  # subsets per size; FD-infinity has their standard deviation
    seed: int = ranged(25, "[0, inf)", "at least 0")  # draws the subsets; as MAUVE
    scope: Scope = "prompt_and_continuation"  # the same features as MAUVE

    def prepare(self, features: Features) -> FrechetSides:
        least = _FEWEST if self.extrapolate else 2
        human, model = _prepare_sides(*self.pair(features), self.shrinkage, self.pca_share, least)
        distance, extrapolated = _compute_distance(human, model, self.shrinkage), None
        if self.extrapolate:
            options = self.extrapolate, self.draws, self.shrinkage, self.seed
            extrapolated = _extrapolate(human, model, distance, *options)
        return FrechetSides(human, model, distance, extrapolated)

    def compute(self, features: Features, prepared: FrechetSides | None = None) -> MetricResult:
        human, model = self.pair(features)
        sides = prepared or self.prepare(features)
        notes, least, dim = [], min(len(human), len(model)), human.shape[1]
        if least <= dim and self.shrinkage == "none" and self.pca_share is None:
            notes.append(
                f"n={least} does not exceed d={dim}: the covariances are singular and the distance is biased upwards; "
                "use more texts, shrinkage=ledoit_wolf or pca_share"
            )
        values, sd = {"frechet": sides.distance}, dict[str, float]()
        if sides.extrapolated is not None:
            values["frechet_infinity"] = sides.extrapolated.frechet_infinity
            if self.draws > 1:
                sd["frechet_infinity"] = sides.extrapolated.spread
            smallest = round(least * _choose_least_share(least, dim))
            if smallest <= dim and self.pca_share is None:
                notes.append(f"the extrapolation starts from {smallest} texts; up to d={dim} it still holds bias")
        return self.result(features, "frechet", values, notes=notes, sd=sd)

    def replicates(
        self, features: Features, result: MetricResult, plan: Plan, prepared: FrechetSides | None = None
    ) -> ReplicatesByName:
        """Weigh the texts by their influence on the distance; PCA and the weight of a shrinkage stay as they are."""
        sides = prepared or self.prepare(features)
        influences = frechet_influence(sides.human, sides.model)
        parts = zip(self.sort_both_ids(features), influences, strict=True)
        replicates = plan.linear(result.values["frechet"], *parts)
        out = {"frechet": replicates}
        if sides.extrapolated is not None:
            # It is the same distance without the bias, so a text's influence is the same, except for the subsets drawn.
            out["frechet_infinity"] = Replicates(replicates.draws, np.array(sides.extrapolated.at_zero))
        return out
