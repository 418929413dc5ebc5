"""MAUVE: area under the divergence curve of the human and the model text, after quantizing embeddings.

With cell histograms p (human) and q (model) and mixtures r = w p + (1 - w) q, MAUVE is the area under the curve of
(exp(-c KL(q || r)), exp(-c KL(p || r))). It is in [0, 1], dimensionless, higher is better; two samples of the *same*
text give less than 1 (about .96 at ten texts per cell), so compare it with the human ceiling. Sides that share nothing
give 1 / C(2c, c), at c = 5 1/252 = .004.

Protocol: rows to unit L2 norm, joint PCA to 0.9 of the variance, k-means with 5 restarts on [model; human], k = n / 10
and 500 at most, c = 5, 25 evenly spaced weights and both end points. These are the choices of mauve-text 0.4, with
human as its P; on the same rows in the same order the scores agree to 1e-9. Row order feeds the seeding of k-means:
the function takes rows as they come, the metric sorts them by example id.

Variants in use: weights on an angular grid (`curve: angular`, differs by at most .0005), rows scaled after PCA
(`unit_norm: after_pca`); other packages leave out the normalization or take k = 500 at any n. `*_star` values come from
histograms with half a count added to each cell (`smoothing: kt`).

Summaries of one frontier: `area` (MAUVE), `mid_point` (the rectangle exp(-2 c JS) under the curve's mid-point), `js`
(the divergence there, nats), `integral` (frontier integral, in [0, 1]).

Without cells, from an estimate of log p / q at each text: `mauve_ratio`.

Source: Pillutla et al. 2021, "MAUVE: Measuring the gap between neural text and human text", equations 1 to 4 and
section 3; Pillutla et al. 2023, "MAUVE scores for generative models" (smoothing, mid-point); Liu et al. 2021 (frontier
integral).
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from openended.harness.core import F64, Features, Floats, MetricResult, Scheme, Scope, Weights, metric, ranged
from openended.metrics._common import Values, check_choice
from openended.metrics._embeddings.blocks import blocks, check_sides
from openended.metrics._mauve import quantizers, scores as mauve_scores
from openended.metrics._mauve.quantizers import Buckets, QuantizerName, Training, UnitNorm
from openended.metrics._mauve.scores import DIRECTIONS, RANGES, TITLES, Curve, Smoothing, mauve_of_cells
from openended.metrics.families import CellCounts, ClusterFit, Clusterings, Quantized

Summary = Literal["area", "mid_point", "js", "integral"]
PRIMARY: Mapping[Summary, str] = {
    "area": "mauve",
    "mid_point": "mid_point",
    "js": "js",
    "integral": "frontier_integral",
}
_CHOICES = {"quantizer": QuantizerName, "curve": Curve, "smoothing": Smoothing}
_FEW_TEXTS = 1000  # below this the paper's own study of n finds scores far from their limit
CELLS, TEXTS = 10, 3  # shown of a score, and of each side of a cell


def mauve(
    *, human: Floats, model: Floats, quantizer: QuantizerName = "kmeans", num_buckets: Buckets = "auto",
    explained_variance: float = 0.9, scaling_factor: float = 5.0, curve: Curve = "uniform", curve_points: int = 25,
    restarts: int = 5, max_iter: int = 500, seed: int = 25, smoothing: Smoothing = "none",
    unit_norm: UnitNorm = "before_pca", training: Training = "fast", pca_max_data: int | None = None,
) -> Values:  # fmt: skip
    """Compute MAUVE of one clustering.

    Args:
        human: Embeddings of human texts, shape (n_human, d); the order of rows feeds the seeding of k-means.
        model: Embeddings of model texts, shape (n_model, d).
        quantizer: How embeddings become cells.
        num_buckets: Number of cells; `auto` is a tenth of the smaller side, at least 2 and at most 500.
        explained_variance: Share of the variance that PCA keeps, in (0, 1].
        scaling_factor: c, positive.
        curve: How the mixture weights are spaced.
        curve_points: Number of mixture weights.
        restarts: k-means starts; the best is kept.
        max_iter: Most iterations of each.
        seed: As the seed of mauve-text.
        smoothing: What is added to the counts of cells.
        unit_norm: Whether rows are scaled to unit L2 norm before or after PCA.
        training: Of `drmm` and `lattice`: ours, or as Pillutla et al. 2021 describe it.
        pca_max_data: How many random rows PCA is fitted on; none: all.

    Returns:
        `mauve`, `frontier_integral`, `js` (nats) and `mid_point` (exp(-2 c js)), in [0, 1] but for `js` up to ln 2;
        `mauve_star` and `frontier_integral_star` with `kt` smoothing; `divergence_curve`, shape (curve_points + 2, 2);
        `human_hist` and `model_hist`, not smoothed, shape (`num_buckets`,) (Pillutla et al. 2021, equations 1 to 4).

    Raises:
        UndefinedMetric: If a side has fewer than two texts or there are fewer texts than cells.
    """
    for name, word in {"quantizer": quantizer, "curve": curve, "smoothing": smoothing}.items():
        check_choice(name, word, _CHOICES[name])
    mauve_scores.check_curve(scaling_factor, curve_points)
    human, model = check_sides(human=human, model=model)
    options: dict[str, Any] = {"scaling_factor": scaling_factor, "curve": curve, "curve_points": curve_points}
    cluster, buckets = quantizers.fit_quantizer(
        [model, human], quantizer=quantizer, num_buckets=num_buckets, explained_variance=explained_variance,
        restarts=restarts, max_iter=max_iter, unit_norm=unit_norm, training=training, pca_max_data=pca_max_data,
    )  # fmt: skip
    model_cells, human_cells = cluster(seed)([model, human])
    return mauve_of_cells(
        human=human_cells, model=model_cells, num_buckets=buckets, smoothing=smoothing,
        seen_only=quantizers.counts_seen_cells(quantizer), **options,
    )  # fmt: skip


@metric
class Mauve(Quantized):
    """Area under the divergence curve of quantized embeddings (Pillutla et al. 2021), as in mauve-text 0.4."""

    name = "mauve"
    synonyms = ("mauve_score",)
    version = 2
    ranges = {"kl_human_model": (0.0, np.inf), "kl_model_human": (0.0, np.inf), **RANGES}
    titles = {
        "mauve_star": "MAUVE*", "frontier_integral_star": "FI*", "kl_human_model": "KL(human, model)",
        "kl_model_human": "KL(model, human)", "f8": "F8", "f1_8": "F1/8", **TITLES,
    }  # fmt: skip
    directions = {
        **DIRECTIONS,
        **dict.fromkeys(("frontier_integral_star", "kl_human_model", "kl_model_human"), "lower"),
    }

    quantizer: QuantizerName = "kmeans"
    """or kmeans_l1 (L1 rows, whitened), residual_kmeans, drmm, lattice; Pillutla et al. 2021, section 4."""
    num_buckets: Buckets = ranged("auto", "[2, inf)", "auto or at least 2")
    """A tenth of the smaller side, 500 at most; 1000 of residual_kmeans and drmm, 744 of lattice; or a number."""
    explained_variance: float = ranged(0.9, "(0, 1]", "a share in (0, 1]")
    """Share of variance that PCA keeps; mauve-text and the paper."""
    scaling_factor: float = ranged(5.0, "(0, inf]", "a positive number")
    """The paper's c."""
    curve: Curve = "uniform"
    """or angular: the paper's experiment code; mauve-text."""
    curve_points: int = ranged(25, "[1, inf)", "at least 1")
    """mauve-text."""
    restarts: int = ranged(5, "[1, inf)", "at least 1")
    """Of every level or layer, but of lattice and of training=published; mauve-text."""
    max_iter: int = ranged(500, "[1, inf)", "at least 1")
    """Of kmeans and residual_kmeans; mauve-text."""
    seed: int = ranged(25, "[0, inf)", "at least 0")
    """mauve-text."""
    clustering_seeds: int = ranged(5, "[1, inf)", "at least 1")
    """The score is the mean over this many clusterings; their spread is shown; the paper averages 5 runs; seeds are
    seed, seed + 1, …"""
    cluster_fit: ClusterFit = "pair"
    """joint: one clustering for a whole grid, its scores may be compared; reference: human text alone."""
    lambdas: tuple[float, ...] = ranged((0.5,), "(0, 1)", "weights in (0, 1)", unordered=True)
    """Weights of the human side in the type I and type II errors."""
    scope: Scope = "prompt_and_continuation"
    """The paper's features see the prompt too."""
    smoothing: Smoothing = "none"
    """Of the cells' counts: kt (the starred values), laplace, braess_sauer, good_turing; mauve-text."""
    summary: Summary = "area"
    """What tables show first; or mid_point, js, integral; MAUVE."""
    unit_norm: UnitNorm = "before_pca"
    """Rows to unit norm, of kmeans, residual_kmeans and lattice; after_pca: Pillutla et al. 2021, C.3.3."""
    training: Training = "fast"
    """Of drmm and lattice; published: schedule and sizes of Pillutla et al. 2021, C.3.3, minutes per clustering."""
    pca_max_data: int | None = ranged(None, "[2, inf)", "at least 2, or null for all texts")
    """Texts that PCA is fitted on, drawn at random; null: all; mauve-text."""

    def check(self) -> None:
        super().check()
        self.require(
            self.training == "fast" or self.quantizer in quantizers.TRAINED, "quantizer",
            f"{' or '.join(quantizers.TRAINED)} where training is set (the others are not trained)",
        )  # fmt: skip
        self.require(
            self.pca_max_data is None or self.quantizer != "drmm", "quantizer",
            "one with a PCA (not drmm) where pca_max_data is set",
        )  # fmt: skip

    def bounds_of(self, key: str, result: MetricResult) -> tuple[float, float]:
        return mauve_scores.find_error_bounds(key) or super().bounds_of(key, result)

    @property
    def reads_grid(self) -> bool:  # type: ignore[override] # an option decides
        """One clustering over all systems needs all systems."""
        return self.cluster_fit == "joint"

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
        result = self.average_cells(features, prepared, self._score_cells)
        distinguishing = find_distinguishing_cells(human, model, cells)
        arrays = {**result.arrays, "human_cells": np.asarray(cells.human, dtype=np.int64), **distinguishing}
        return replace(result, primary=PRIMARY[self.summary], arrays=arrays, notes=tuple(notes))

    def _score_cells(self, cells: CellCounts) -> tuple[dict[str, float], dict[str, NDArray[Any]]]:
        scores = mauve_of_cells(
            human=cells.human, model=cells.model, num_buckets=cells.count, smoothing=self.smoothing,
            seen_only=quantizers.counts_seen_cells(self.quantizer), **self._curve_options,
        )  # fmt: skip
        names = ["mauve", "mauve_star", "frontier_integral", "frontier_integral_star"]
        names += ["mid_point"] * (self.summary == "mid_point")
        values = {name: float(scores[name]) for name in names}
        sizes = len(cells.human), len(cells.model)
        values |= mauve_scores.histogram_values(scores, *sizes, self.lambdas, self.smoothing)
        return values, {f"{name}s": scores[name] for name in ("divergence_curve", "human_hist", "model_hist")}

    def score(self, prepared: Clusterings, human: Weights, model: Weights, /) -> dict[str, F64]:
        return self.weigh_cells(prepared, human, model, self._score_histograms)

    def _score_histograms(self, p: F64, q: F64, sizes: tuple[int, int], parts: tuple[F64, F64]) -> dict[str, F64]:
        return mauve_scores.resample_mauve(
            p, q, *sizes, lambdas=self.lambdas, smoothing=self.smoothing, parts=parts, **self._curve_options
        )

    @property
    def _curve_options(self) -> dict[str, Any]:
        return {"scaling_factor": self.scaling_factor, "curve": self.curve, "curve_points": self.curve_points}


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
        parts = [blocks(side[inside], "l2") for side, inside in zip((human, model), members, strict=True)]
        units = [np.vstack([np.zeros((0, human.shape[1])), *(block for _, block in part)]) for part in parts]
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
