"""MAUVE: area under the divergence curve of the human and the model text, after quantizing embeddings.

With cell histograms p (human) and q (model) and mixtures r = w p + (1 - w) q, MAUVE is the area under the curve of
(exp(-c KL(q || r)), exp(-c KL(p || r))), in [0, 1]; higher is better. Two samples of the *same* text give less than 1
(about .96 at ten texts per cell), and sides that share nothing 1 / C(2c, c), at c = 5 1/252 = .004.

The defaults are the choices of mauve-text 0.4, with human as its P: on the same rows in the same order the scores agree
to 1e-9. Row order feeds the seeding of k-means: the function takes rows as they come, the metric sorts them by example
id. `*_star` values come from histograms with half a count added to each cell (`smoothing: kt`). Without cells, from an
estimate of log p / q at each text: `mauve_ratio`.

Source: Pillutla et al. 2021, "MAUVE: Measuring the gap between neural text and human text", equations 1 to 4 and
section 3; Pillutla et al. 2023, "MAUVE scores for generative models" (smoothing, mid-point); Liu et al. 2021 (frontier
integral).
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from openended.harness.core import F64, Features, Floats, MetricResult, Scheme, check_arguments, metric, ranged
from openended.metrics._embeddings.blocks import check_sides, scale_rows
from openended.metrics._mauve import quantizers, scores as mauve_scores
from openended.metrics._mauve.quantizers import Buckets, FitOptions, QuantizerName, Training, UnitNorm
from openended.metrics._mauve.scores import DIRECTIONS, RANGES, TITLES, CellShares, Curve, CurveRule, Smoothing
from openended.metrics.families import CellCounts, Clusterings, Quantized, Values

Summary = Literal["area", "mid_point", "js", "integral"]
PRIMARY: Mapping[Summary, str] = {
    "area": "mauve",
    "mid_point": "mid_point",
    "js": "js",
    "integral": "frontier_integral",
}
_FEW_TEXTS = 1000  # below this the paper's own study of n finds scores far from their limit
CELLS, TEXTS = 10, 3  # shown of a score, and of each side of a cell


@check_arguments
def mauve(
    *, human: Floats, model: Floats, quantizer: QuantizerName = "kmeans", num_buckets: Buckets = "auto",
    explained_variance: float = 0.9, scaling_factor: float = 5.0, curve: Curve = "uniform", curve_points: int = 25,
    restarts: int = 5, max_iter: int = 500, seed: int = 25, smoothing: Smoothing = "none",
    unit_norm: UnitNorm = "before_pca", training: Training = "fast", pca_max_data: int | None = None,
) -> Values:  # fmt: skip
    """Compute MAUVE of one clustering (Pillutla et al. 2021, equations 1 to 4).

    Args:
        human: Embeddings of human texts, shape (n_human, d), finite; the order of rows feeds the seeding of k-means.
        model: Embeddings of model texts, shape (n_model, d).
        quantizer: How embeddings become cells.
        num_buckets: Number of cells; `auto` is a tenth of the smaller side, at least 2 and at most 500.
        explained_variance: Share of the variance that PCA keeps, in (0, 1].
        scaling_factor: c, positive.
        curve: How the mixture weights are spaced.
        curve_points: Number of mixture weights, at least 1.
        restarts: Number of k-means starts, of which the best is kept.
        max_iter: Greatest number of iterations of each start.
        seed: Seed of k-means, with the meaning that it has in mauve-text.
        smoothing: What is added to the counts of cells.
        unit_norm: Whether rows are scaled to unit L2 norm before or after PCA.
        training: How `drmm` and `lattice` are trained: `fast`, or `published` as Pillutla et al. 2021 describe it.
        pca_max_data: Number of random rows that PCA is fitted on; `None`: all.

    Returns:
        `mauve`, `frontier_integral`, `js` (nats) and `mid_point` (exp(-2 c js)), in [0, 1] but for `js` up to ln 2;
        `mauve_star` and `frontier_integral_star` with `kt` smoothing; `divergence_curve`, shape (curve_points + 2, 2);
        `human_hist` and `model_hist`, not smoothed, shape (`num_buckets`,).

    Raises:
        UndefinedMetric: If a side has fewer than two texts or there are fewer texts than cells.
        ValueError: If the sides differ in dimension, or a number is not finite.
    """
    human, model = check_sides(human=human, model=model)
    fixed = unit_norm, training, pca_max_data
    options = FitOptions(quantizer, num_buckets, explained_variance, restarts, max_iter, *fixed)
    cluster, buckets = quantizers.fit_quantizer([model, human], options)
    model_cells, human_cells = cluster(seed)([model, human])
    seen_only = quantizers.counts_seen_cells(quantizer)
    shares = mauve_scores.share_cells(human_cells, model_cells, buckets, seen_only=seen_only)
    rule = CurveRule(scaling_factor, curve, curve_points)
    return Values(mauve_scores.score_shares(*shares, rule, smoothing))


@metric
class Mauve(Quantized):
    """Area under the divergence curve of quantized embeddings (Pillutla et al. 2021), as in mauve-text 0.4."""

    name = "mauve"
    synonyms = ("mauve_score",)
    option_synonyms = {"mauve_scaling_factor": "scaling_factor", "divergence_curve_discretization_size": "curve_points"}
    option_synonyms |= {"kmeans_explained_var": "explained_variance", "kmeans_num_redo": "restarts"}
    option_synonyms |= {"kmeans_max_iter": "max_iter", "num_clusters": "num_buckets"}
    version = 2
    ranges = {"kl_human_model": (0.0, np.inf), "kl_model_human": (0.0, np.inf), **RANGES}
    titles = {"mauve_star": "MAUVE*", "frontier_integral_star": "FI*", "kl_human_model": "KL(human, model)"}
    titles |= {"kl_model_human": "KL(model, human)", "f8": "F8", "f1_8": "F1/8", **TITLES}
    directions = DIRECTIONS | dict.fromkeys(("frontier_integral_star", "kl_human_model", "kl_model_human"), "lower")

    scaling_factor: float = ranged(5.0, "(0, inf]", "a positive number")
    """The paper's c."""
    curve: Curve = "uniform"
    """How mixture weights are spaced: uniform: mauve-text; angular: the paper's experiment code."""
    curve_points: int = ranged(25, "[1, inf)", "at least 1")
    """Number of mixture weights; mauve-text."""
    lambdas: tuple[float, ...] = ranged((0.5,), "(0, 1)", "weights in (0, 1)", unordered=True)
    """Weights of the human side in the type I and type II errors."""
    smoothing: Smoothing = "none"
    """Smoothing of cells' counts: none (mauve-text), kt (the starred values), laplace, braess_sauer or good_turing."""
    summary: Summary = "area"
    """What tables show first: area (MAUVE), mid_point (the rectangle exp(-2 c JS) under the curve's mid-point), js (the
    divergence there, nats) or integral (frontier integral, in [0, 1])."""

    def bounds_of(self, key: str, result: MetricResult) -> tuple[float, float]:
        return mauve_scores.find_error_bounds(key) or super().bounds_of(key, result)

    def find_scheme(self, key: str, prepared: Clusterings) -> Scheme:
        """The other rules of smoothing read whole counts."""
        return "near_halves" if self.smoothing in ("none", "kt") else "halves"

    def evaluate(self, features: Features, prepared: Clusterings) -> MetricResult:
        """Average the scores over the clusterings; the cells that tell the sides apart are those of the first."""
        (human, model), cells, notes = self.pair(features), prepared[0], list[str]()
        n = min(len(human), len(model))
        if n < _FEW_TEXTS or n / cells.count < 10:
            notes.append(
                f"small sample: n={n}, k={cells.count}, n/k={n / cells.count:.3g}; "
                "two samples of the same text score below 1 here: compare only values of equal n"
            )
        if len(human) != len(model):
            notes.append(f"the sides differ in size (human {len(human)}, model {len(model)}); k follows the smaller")
        result = super().evaluate(features, prepared)
        distinguishing = find_distinguishing_cells(human, model, cells)
        arrays = {**result.arrays, "human_cells": np.asarray(cells.human, dtype=np.int64), **distinguishing}
        primary, rows = PRIMARY[self.summary], result.per_example["mauve"]
        return replace(result, primary=primary, per_example={primary: rows}, arrays=arrays, notes=tuple(notes))

    def score_cells(self, cells: CellCounts) -> tuple[dict[str, float], dict[str, NDArray[Any]]]:
        seen_only = quantizers.counts_seen_cells(self.quantizer)
        shares = mauve_scores.share_cells(cells.human, cells.model, cells.count, seen_only=seen_only)
        scores = mauve_scores.score_shares(*shares, self._curve_rule, self.smoothing)
        names = ["mauve", "mauve_star", "frontier_integral", "frontier_integral_star"]
        names += ["mid_point"] * (self.summary == "mid_point")
        values = {name: float(scores[name]) for name in names}
        values |= mauve_scores.summarize_shares(*shares, scores["js"], self.lambdas, self.smoothing)
        return values, {f"{name}s": scores[name] for name in ("divergence_curve", "human_hist", "model_hist")}

    def score_histograms(self, p: F64, q: F64, sizes: tuple[int, int], parts: tuple[F64, F64]) -> dict[str, F64]:
        human, model = (CellShares(*side) for side in zip((p, q), sizes, parts, strict=True))
        return mauve_scores.resample_mauve(human, model, self.lambdas, self._curve_rule, self.smoothing)

    @property
    def _curve_rule(self) -> CurveRule:
        return CurveRule(self.scaling_factor, self.curve, self.curve_points)


def find_distinguishing_cells(human: Floats, model: Floats, cells: CellCounts) -> Mapping[str, NDArray[Any]]:
    """Return the cells with the largest |p - q|, and the texts of each side that are nearest to their centers."""
    labels = cells.human, cells.model
    shares = np.stack([mauve_scores.histogram(of_side, cells.count) for of_side in labels], axis=1)
    gaps = np.abs(shares[:, 0] - shares[:, 1])
    order = np.argsort(-gaps, kind="stable")[:CELLS]
    order = order[gaps[order] > 0]
    rows = np.full((2, len(order), TEXTS), -1, dtype=np.int64)
    for rank, cell in enumerate(order):
        members = [np.flatnonzero(of_side == cell) for of_side in labels]
        units = [scale_rows(side[inside]) for side, inside in zip((human, model), members, strict=True)]
        center = np.vstack(units).mean(axis=0)
        for number, (inside, unit) in enumerate(zip(members, units, strict=True)):
            near = np.argsort(np.sum((unit - center) ** 2, axis=1), kind="stable")[:TEXTS]
            rows[number, rank, : len(near)] = inside[near]
    return {
        "cell": order.astype(np.int64),
        "cell_shares": shares[order],
        "cell_human_rows": rows[0],
        "cell_model_rows": rows[1],
    }
