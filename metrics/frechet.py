"""Fréchet distance between Gaussians fitted to the embeddings of both sides.

|m1 - m2|^2 + tr(S1) + tr(S2) - 2 tr((S1^1/2 S2 S1^1/2)^1/2), with covariances of divisor n - 1. Not negative, in
squared units of the features, lower is better. The estimate is biased upwards by small n. With n <= d a covariance is
singular: the value is defined, and a note says so; `shrinkage` and `pca_share` avoid it. FD-infinity (`extrapolate`) is
the value that the distances of growing subsets point to, without that bias.

Source: Dowson and Landau 1982 (the distance); Heusel et al. 2017, "GANs trained by a two time-scale update rule",
section 3; Ledoit and Wolf 2004 (shrinkage); Chong and Forsyth 2020, "Effectively unbiased FID and
Inception score" (extrapolation).
"""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from openended.harness import core
from openended.harness.core import F64, Features, Floats, MetricResult, Plan, Replicates, metric, option, ranged
from openended.metrics._embeddings.blocks import blocks, check_sides, moments, project_pair
from openended.metrics.families import ReplicatesByName, TwoSample, Values, align_values

Shrinkage = Literal["none", "ledoit_wolf"]

_FEWEST = 20  # texts per side for an extrapolation: a tenth of them must have a variance
# Allowed error of the shortcut, as a share of both traces: 1e-8 of a distance that is a thousandth of them.
_MOST_LOST = 1e-11
# Texts times dimensions times rank of a distance up to which halves are scored, which takes up to ten seconds.
_MOST_WORK = 1e9


@core.check_arguments
def frechet_distance(
    *, human: Floats, model: Floats, shrinkage: Shrinkage = "none", pca_share: float | None = None
) -> float:
    """Compute the Fréchet distance (Heusel et al. 2017, section 3).

    Args:
        human: Embeddings of human texts, shape (n_human, d), n_human >= 2, finite.
        model: Embeddings of model texts, shape (n_model, d), n_model >= 2.
        shrinkage: `ledoit_wolf` draws each covariance towards a multiple of the identity.
        pca_share: Share of the variance that joint PCA keeps first, in (0, 1]; `None`: no PCA.

    Returns:
        The distance, at least 0, in squared units of the features; lower is better.

    Raises:
        UndefinedMetric: If a side has fewer than two texts.
        ValueError: If the sides differ in dimension, or a number is not finite or too large to be multiplied.
    """
    human, model = _prepare_sides(human, model, pca_share)
    return _compute_distance(human, model, shrinkage)


@core.check_arguments
def frechet_infinity(
    *, human: Floats, model: Floats, sizes: int = 15, draws: int = 5, shrinkage: Shrinkage = "none",
    pca_share: float | None = None, seed: int = 25,
) -> Values:  # fmt: skip
    """Extrapolate the Fréchet distance to infinitely many texts on both sides (Chong and Forsyth 2020, section 4).

    The bias falls as 1 / n, so the distances of random subsets of growing size lie on a line over 1 / n, and its value
    at 0 is free of that bias. Both sides are thinned to the same share, as neither is large (the paper thins the
    model's side only); the shares go up to 1 in even steps from a tenth (as in the paper), or from 2 d texts where that
    is more, but from a half at most: the law does not hold below d texts.

    Args:
        human: Embeddings of human texts, shape (n_human, d), n_human >= 20, finite.
        model: Embeddings of model texts, shape (n_model, d), n_model >= 20.
        sizes: Number of shares, at least 2.
        draws: Number of subsets per size, at least 1; each draw has a line of its own.
        shrinkage: As in `frechet_distance`.
        pca_share: As in `frechet_distance`; PCA is fitted once, on all texts.
        seed: Seed of the subsets.

    Returns:
        `frechet_infinity`, the mean over the lines of their values at 1 / n = 0 (`at_zero`), which may be a little
        below 0 where the sides are alike; `spread`, their standard deviation, over subsets of one set of texts.

    Raises:
        UndefinedMetric: If a side has fewer than 20 texts.
        ValueError: As `frechet_distance`, or if `sizes` or `draws` is too small.
    """
    if sizes < 2:
        raise ValueError(f"sizes: expected at least 2, got {sizes}")
    human, model = _prepare_sides(human, model, pca_share, least=_FEWEST)
    return _extrapolate(human, model, _compute_distance(human, model, shrinkage), sizes, draws, shrinkage, seed)


def _choose_least_share(n: int, dim: int) -> float:
    """Return the share of the texts that the extrapolation starts from."""
    return max(0.1, min(0.5, 2 * dim / n))


def _extrapolate(
    human: Floats, model: Floats, distance: float, sizes: int, draws: int, shrinkage: Shrinkage, seed: int
) -> Values:
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
    return Values(frechet_infinity=float(at_zero.mean()), spread=spread, at_zero=tuple(at_zero.tolist()))


def _prepare_sides(human: Floats, model: Floats, pca_share: float | None, least: int = 2) -> tuple[Floats, Floats]:
    """Check sides; project where a share is given."""
    human, model = check_sides(human=human, model=model, least=least, multiplied=True)
    if pca_share is None:
        return human, model
    return project_pair(human=human, model=model, share=pca_share, rows="none")


def _compute_distance(human: Floats, model: Floats, shrinkage: Shrinkage) -> float:
    a, b = _fit_gaussian(human, shrinkage), _fit_gaussian(model, shrinkage)
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
    extrapolated: Values | None  # FD-infinity if requested


@dataclass(frozen=True, slots=True, eq=False)
class Gaussian:
    """Mean and covariance of one side; of the covariance its lower triangle or, where n <= d, a root r with r r^T."""

    mean: F64
    trace: float
    lower: F64 | None  # shape (d, d); entries above the diagonal are undefined
    root: F64 | None  # shape (d, n)
    shrunk: float = 0.0  # weight of the identity in the covariance


def _fit_gaussian(rows: Floats, shrinkage: Shrinkage) -> Gaussian:
    """Fit a Gaussian with divisor n - 1, float64."""
    n, dim = rows.shape
    if shrinkage == "none" and n <= dim:
        # The centered rows themselves are an exact root of a singular covariance.
        centered = np.array(rows, dtype=np.float64)
        mean = centered.mean(axis=0)
        centered -= mean
        centered /= np.sqrt(n - 1)
        return Gaussian(mean, float(np.sum(centered**2)), None, centered.T)
    (mean, lower), weight = moments([rows], "none"), 0.0
    if shrinkage != "none":
        fourth = 0.0
        for _, block in blocks(rows, "none"):
            block -= mean
            fourth += float(np.sum(np.einsum("ij,ij->i", block, block) ** 2))
        # With S the covariance of divisor n, d2 its squared distance from its mean variance times the identity and b2 =
        # (sum of |x|^4 / n - |S|^2) / n its noise (all Frobenius), the identity's weight is min(b2, d2) / d2.
        lower = lower * ((n - 1) / n)
        target = np.trace(lower) / dim
        squared = float(2 * np.sum(np.tril(lower, -1) ** 2) + np.sum(np.diagonal(lower) ** 2))
        distance = squared - dim * target**2
        noise = max((fourth / n - squared) / n, 0.0)
        weight = min(noise / distance, 1.0) if distance > 0 else 0.0
        lower = (1 - weight) * lower
        lower[np.diag_indices(dim)] += weight * target
        lower = lower * n / (n - 1)
    return Gaussian(mean, float(np.trace(lower)), lower, None, weight)


def cross_root_trace(a: Gaussian, b: Gaussian) -> float:
    """Return the trace of (A^1/2 B A^1/2)^1/2: sum of singular values of r^T s, for roots A = r r^T, B = s s^T.

    With a triangular r it is also the sum of the roots of the eigenvalues of r^T B r, which costs less but is as exact
    only where no eigenvalue is so small that its root is lost in the rounding of the largest.
    """
    if a.lower is not None and b.lower is not None:
        from scipy.linalg import lapack

        with contextlib.suppress(np.linalg.LinAlgError):
            root = np.linalg.cholesky(a.lower)
            both, _ = lapack.dsygst(b.lower, root, itype=2, lower=1)
            values = np.linalg.eigvalsh(both, UPLO="L")
            # Above 0 even where all vectors are equal.
            rounding = max(np.finfo(np.float64).eps * float(values[-1]), np.finfo(np.float64).tiny)
            lost = float(np.sum(rounding / (2 * np.sqrt(np.maximum(values, rounding)))))
            if lost <= _MOST_LOST * (a.trace + b.trace):
                return float(np.sqrt(np.maximum(values, 0.0)).sum())
    return float(np.linalg.svd(_compute_root(a).T @ _compute_root(b), compute_uv=False).sum())


def _compute_root(side: Gaussian) -> F64:
    """Return some r with r r^T = covariance: triangular if it is regular, from eigenvalues otherwise."""
    if side.root is not None or side.lower is None:
        return np.empty((len(side.mean), 0)) if side.root is None else side.root
    try:
        return np.asarray(np.linalg.cholesky(side.lower), dtype=np.float64)
    except np.linalg.LinAlgError:
        values, axes = np.linalg.eigh(side.lower, UPLO="L")
        is_positive = values > len(values) * np.finfo(np.float64).eps * max(float(values[-1]), 0.0)
        return np.asarray(axes[:, is_positive] * np.sqrt(values[is_positive]), dtype=np.float64)


def _frechet_influence(human: Floats, model: Floats, shrinkage: Shrinkage = "none") -> tuple[F64, F64]:
    """Return the influence of the rows of both sides on their Fréchet distance, shapes (n_human,) and (n_model,).

    With T the map that carries one Gaussian to the other, the derivative of tr S1 + tr S2 - 2 tr (S1 S2)^1/2 by S1 is
    I - T, and by S2 I - T^-1; that of |m1 - m2|^2 is 2 (m1 - m2). Of a shrunk covariance, (1 - w) S + w tr(S) I / d,
    the rows move both parts; w stays.
    """
    x, y = (np.array(side, dtype=np.float64) for side in (human, model))
    means = x.mean(axis=0), y.mean(axis=0)
    x -= means[0]
    y -= means[1]
    gap = means[0] - means[1]
    fits = _fit_gaussian(human, shrinkage), _fit_gaussian(model, shrinkage)
    forth, back = _transport_costs(x, y, fits)
    squares = [np.einsum("ij,ij->i", rows, rows) for rows in (x, y)]
    return 2 * x @ gap + squares[0] - forth, -2 * y @ gap + squares[1] - back


def _transport_costs(x: F64, y: F64, fits: tuple[Gaussian, Gaussian]) -> tuple[F64, F64]:
    """Return what tr(T S1) and tr(T^-1 S2) gain from each centered row: x_i^T T x_i and y_i^T T^-1 y_i, not shrunk."""
    lowers = [fit.lower for fit in fits if fit.lower is not None]
    with contextlib.suppress(np.linalg.LinAlgError):  # a covariance may be singular although there are many texts
        if len(lowers) == len(fits):
            first, second = (np.tril(lower) + np.tril(lower, -1).T for lower in lowers)
            root = np.linalg.cholesky(first)
            values, axes = np.linalg.eigh(root.T @ second @ root)
            singular = np.sqrt(np.maximum(values, values[-1] * 1e-12))
            costs = []
            turns = (np.linalg.solve(root.T, axes), singular), (root @ axes, 1 / singular)
            for rows, fit, (turn, scales) in zip((x, y), fits, turns, strict=True):
                carry = (turn * scales) @ turn.T
                unshrunk = np.einsum("ij,ij->i", rows @ carry, rows)
                identity = float(np.trace(carry)) / len(carry) * np.einsum("ij,ij->i", rows, rows)
                costs.append((1 - fit.shrunk) * unshrunk + fit.shrunk * identity)
            return costs[0], costs[1]
    # The centered rows are roots: x_i^T T x_i is the i-th diagonal entry of the polar factor of their product table.
    left, values, right = np.linalg.svd(x @ y.T, full_matrices=False)
    scale = np.sqrt((len(x) - 1) / (len(y) - 1))
    return scale * (left**2 @ values), (right.T**2 @ values) / scale


@metric
class Frechet(TwoSample):
    """Fréchet distance of Gaussians fitted to the embeddings (Heusel et al. 2017), in float64."""

    name = "frechet"
    synonyms = ("fid", "fbd", "frechet_distance", "frechet_bert_distance")
    version = 2
    direction = "lower"
    bounds = (0.0, np.inf)
    ranges = {"frechet_infinity": (-np.inf, np.inf)}
    resampling = "halves"
    shares_space = True
    without_pca = {"pca_share": None}
    titles = {"frechet": "Fréchet", "frechet_infinity": "Fréchet∞"}
    targets = {"frechet_infinity": 0.0}  # may come out below

    shrinkage: Shrinkage = "none"
    """How covariances are estimated: none as Heusel et al. 2017, ledoit_wolf for n <= d."""
    pca_share: float | None = ranged(None, "(0, 1]", "a share in (0, 1] or null")
    """Share of the variance that joint PCA keeps first; null: raw features; Heusel et al. 2017."""
    extrapolate: int = option(0, lambda sizes: sizes == 0 or sizes >= 2, "0 or at least 2 sizes")
    """Subset sizes for FD-infinity (Chong and Forsyth 2020: 15); 0: none."""
    draws: int = ranged(5, "[1, inf)", "at least 1")
    """Subsets a size; their spread is next to FD-infinity."""
    seed: int = ranged(25, "[0, inf)", "at least 0")
    """Seed of the subsets; as MAUVE."""

    def prepare(self, features: Features) -> FrechetSides:
        least = _FEWEST if self.extrapolate else 2
        human, model = _prepare_sides(*self.pair(features), self.pca_share, least)
        distance, extrapolated = _compute_distance(human, model, self.shrinkage), None
        if self.extrapolate:
            options = self.extrapolate, self.draws, self.shrinkage, self.seed
            extrapolated = _extrapolate(human, model, distance, *options)
        return FrechetSides(human, model, distance, extrapolated)

    def evaluate(self, features: Features, prepared: FrechetSides) -> MetricResult:
        human, model = self.pair(features)
        notes, least, dim = [], min(len(human), len(model)), human.shape[1]
        if least <= dim and self.shrinkage == "none" and self.pca_share is None:
            notes.append(
                f"n={least} does not exceed d={dim}: the covariances are singular and the distance is biased upwards; "
                "use more texts, shrinkage=ledoit_wolf or pca_share"
            )
        values: dict[str, float | F64] = {"frechet": prepared.distance}
        if prepared.extrapolated is not None:
            values["frechet_infinity"] = np.array(prepared.extrapolated.at_zero)
            smallest = round(least * _choose_least_share(least, dim))
            if smallest <= dim and self.pca_share is None:
                notes.append(f"the extrapolation starts from {smallest} texts; up to d={dim} it still holds bias")
        moved = _frechet_influence(prepared.human, prepared.model, self.shrinkage)[1]
        rows = {"frechet": align_values(features.model, moved)}
        return self.result(features, "frechet", values, notes=notes, per_example=rows)

    def resample(
        self, features: Features, result: MetricResult, plan: Plan, prepared: FrechetSides
    ) -> ReplicatesByName:
        """Compare the distances of halves; of very many texts, weigh the texts by their influence on the distance.

        PCA stays as it is. The distance has a bias that falls as 1 / n, and the bias depends on the texts. Halves and
        their quarters give the distance with the bias of all texts, and without any.
        """
        sides, ids = (prepared.human, prepared.model), self.list_rows(features, prepared)
        dim = sides[0].shape[1]
        if sum(map(len, sides)) * dim * min(dim, *map(len, sides)) > _MOST_WORK:
            parts = zip(ids, _frechet_influence(*sides, self.shrinkage), strict=True)
            distance = infinity = plan.linear(result.values["frechet"], *parts).draws
        else:
            halves, quarters = self._score_halves(sides, ids, plan)
            distance, infinity = 1.5 * halves - 0.5 * quarters, 2.0 * halves - quarters
        out = {"frechet": Replicates(distance), "frechet_infinity": Replicates(infinity)}
        return {name: out[name] for name in result.values}

    def _score_halves(self, sides: Sequence[Floats], ids: Sequence[NDArray[np.str_]], plan: Plan) -> tuple[F64, F64]:
        """Return the distances of both halves of each split, and the means over the two quarters of each half."""
        splits = plan.count // 2
        # The number of subsets that leave a row out is its quarter, since a subset holds all smaller ones of its split.
        shares = 0.25, 0.5, 0.75
        numbers = [np.sum([~plan.subsets(side, share)[:splits] for share in shares], axis=0) for side in ids]

        def score(*quarters: int) -> F64:
            distances = np.empty(splits)
            for split in range(splits):
                rows = (np.isin(number[split], quarters) for number in numbers)
                human, model = (side[inside] for side, inside in zip(sides, rows, strict=True))
                distances[split] = _compute_distance(human, model, self.shrinkage)
            return distances

        halves = np.stack([score(0, 1), score(2, 3)])
        return halves, np.stack([score(0) + score(1), score(2) + score(3)]) / 2
