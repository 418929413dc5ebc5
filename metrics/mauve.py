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

Estimators: `cells`, or one of density ratios, whose scale is not that of cells: docs/mauve.md says what each can see. A
remark says where a mean had to be clipped into its range.

Source: Pillutla et al. 2021, "MAUVE: Measuring the gap between neural text and human text", equations 1 to 4 and
section 3; Pillutla et al. 2023, "MAUVE scores for generative models" (smoothing, estimators, mid-point); Liu et al.
2021 (frontier integral).
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from openended.harness import core
from openended.harness.core import F64, I64, Features, Floats, MetricResult, Plan, Replicates, Scope, metric, ranged
from openended.metrics._common import ReplicatesByName, check_choice
from openended.metrics._embeddings.blocks import blocks, check_sides
from openended.metrics._mauve import scores as mauve_scores
from openended.metrics._mauve.quantizers import (
    TRAINED,
    Buckets,
    QuantizerName,
    Training,
    UnitNorm,
    counts_seen_cells,
    fit_quantizer,
)
from openended.metrics._mauve.scores import (
    Curve,
    EstimatorName,
    MauveResult,
    OwnPoint,
    Ratios,
    RatioSettings,
    Smoothing,
    mauve_of_cells,
    mauve_of_ratios,
)
from openended.metrics.families import CellCounts, ClusterFit, ClusteringRun, Estimates, Quantized, TwoSample

Summary = Literal["area", "mid_point", "js", "integral"]
_VALUE: Mapping[Summary, str] = {"area": "mauve", "mid_point": "mid_point", "js": "js", "integral": "frontier_integral"}
_CHOICES = {
    "quantizer": QuantizerName, "curve": Curve, "estimator": EstimatorName, "smoothing": Smoothing, "self": OwnPoint
}  # fmt: skip
_FEW_TEXTS = 1000  # below this the paper's own study of n finds scores far from their limit
CELLS, TEXTS = 10, 3  # shown of a score, and of each side of a cell
Prepared = tuple[ClusteringRun, ...] | Ratios
MISSED = 20  # texts of each side that a ball or a ratio singles out


def mauve(
    *, human: Floats, model: Floats, quantizer: QuantizerName = "kmeans", num_buckets: Buckets = "auto",
    explained_variance: float = 0.9, scaling_factor: float = 5.0, curve: Curve = "uniform", curve_points: int = 25,
    restarts: int = 5, max_iter: int = 500, seed: int = 25, estimator: EstimatorName = "cells",
    smoothing: Smoothing = "none", neighbors: int = 50, self: OwnPoint = "counted",
    groups: tuple[NDArray[Any], NDArray[Any]] | None = None, unit_norm: UnitNorm = "before_pca",
    training: Training = "fast", pca_max_data: int | None = None,
) -> MauveResult:  # fmt: skip
    """Compute MAUVE of one clustering, or of one estimate of density ratios.

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
        seed: As the seed of mauve-text; of the folds of `classifier` and `gaussian`.
        estimator: `cells`, or how log p / q is estimated at each text; quantizer and smoothing then do nothing.
        smoothing: What is added to the counts of cells.
        neighbors: Of `knn`, at least 1.
        self: Of `knn`: whether a text counts among its own neighbors.
        groups: The prompt of each human and of each model row: an estimator judges a text by those of other prompts.
        unit_norm: Whether rows are scaled to unit L2 norm before or after PCA.
        training: Of `drmm` and `lattice`: ours, or as Pillutla et al. 2021 describe it.
        pca_max_data: How many random rows PCA is fitted on; none: all.

    Returns:
        The scores, the curve and both histograms (Pillutla et al. 2021, equations 1 to 4).

    Raises:
        UndefinedMetric: If a side has fewer than two texts or there are fewer texts than cells.
    """
    words = {"quantizer": quantizer, "curve": curve, "estimator": estimator, "smoothing": smoothing, "self": self}
    for name, word in words.items():
        check_choice(name, word, _CHOICES[name])
    if not (scaling_factor > 0 and min(curve_points, neighbors) >= 1):
        got = f"{scaling_factor}, {curve_points}, {neighbors}"
        raise ValueError(f"expected scaling_factor > 0, curve_points >= 1 and neighbors >= 1, got {got}")
    human, model = check_sides(human=human, model=model)
    options: dict[str, Any] = {"scaling_factor": scaling_factor, "curve": curve, "curve_points": curve_points}
    if estimator != "cells":
        from openended.metrics._mauve.density_ratio import log_ratios

        settings = RatioSettings(neighbors, self, explained_variance, seed, groups)
        ratios = log_ratios(human=human, model=model, estimator=estimator, settings=settings)
        return mauve_of_ratios(human=ratios[0], model=ratios[1], **options)
    cluster, buckets = fit_quantizer(
        [model, human], quantizer=quantizer, num_buckets=num_buckets, explained_variance=explained_variance,
        restarts=restarts, max_iter=max_iter, unit_norm=unit_norm, training=training, pca_max_data=pca_max_data,
    )  # fmt: skip
    model_cells, human_cells = cluster(seed)([model, human])
    return mauve_of_cells(
        human=human_cells, model=model_cells, num_buckets=buckets, smoothing=smoothing,
        seen_only=counts_seen_cells(quantizer), **options,
    )  # fmt: skip


@metric
class Mauve(Quantized):
    """Area under the divergence curve of quantized embeddings (Pillutla et al. 2021), as in mauve-text 0.4."""

    name = "mauve"
    version = 2
    ranges = {"kl_human_model": (0.0, np.inf), "kl_model_human": (0.0, np.inf), "js": (0.0, float(np.log(2.0)))}
    titles = {
        "mauve": "MAUVE", "mauve_star": "MAUVE*", "mid_point": "Mid-point", "frontier_integral": "FI",
        "frontier_integral_star": "FI*", "kl_human_model": "KL(human, model)", "kl_model_human": "KL(model, human)",
        "js": "JS", "f8": "F8", "f1_8": "F1/8", "type_1@0.5": "Type I", "type_2@0.5": "Type II",
    }  # fmt: skip
    directions = dict.fromkeys(
        (
            "frontier_integral", "frontier_integral_star", "kl_human_model", "kl_model_human", "js", "type_1@0.5",
            "type_2@0.5",
        ),
        "lower",
    )  # fmt: skip

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
    estimator: EstimatorName = "cells"
    """or by density ratios: knn, kde, classifier, gaussian; each on a scale of its own; Pillutla et al. 2021; the
    others: Pillutla et al. 2023."""
    smoothing: Smoothing = "none"
    """Of the cells' counts: kt (the starred values), laplace, braess_sauer, good_turing; mauve-text."""
    summary: Summary = "area"
    """What tables show first; or mid_point, js, integral; MAUVE."""
    neighbors: int = ranged(50, "[1, inf)", "at least 1")
    """Of knn; not from the paper."""
    self: OwnPoint = "counted"
    """Of knn: each text is one of its own neighbors; or left_out: counted errs downwards, left_out upwards."""
    unit_norm: UnitNorm = "before_pca"
    """Rows to unit norm, of kmeans, residual_kmeans and lattice; after_pca: Pillutla et al. 2021, C.3.3."""
    training: Training = "fast"
    """Of drmm and lattice; published: schedule and sizes of Pillutla et al. 2021, C.3.3, minutes per clustering."""
    pca_max_data: int | None = ranged(None, "[2, inf)", "at least 2, or null for all texts")
    """Texts that PCA is fitted on, drawn at random; null: all; mauve-text."""

    def check(self) -> None:
        super().check()
        by_cells = self.estimator == "cells"
        self.require(
            self.training == "fast" or (by_cells and self.quantizer in TRAINED), "quantizer",
            f"{' or '.join(TRAINED)} where training is set (the others are not trained)",
        )  # fmt: skip
        self.require(
            self.pca_max_data is None or (by_cells and self.quantizer != "drmm"), "quantizer",
            "one with a PCA (not drmm), and estimator=cells, where pca_max_data is set",
        )  # fmt: skip
        uses_cells = self.estimator == "cells" or (self.smoothing == "none" and self.cluster_fit == "pair")
        self.require(uses_cells, "estimator", "cells where smoothing or cluster_fit is set (the others count nothing)")

    def bounds_of(self, key: str, result: MetricResult) -> tuple[float, float]:
        error, _, weight = key.partition("@")
        if not weight:
            return super().bounds_of(key, result)
        return 0.0, -float(np.log(float(weight) if error == "type_2" else 1.0 - float(weight)))

    @property
    def reads_grid(self) -> bool:
        """One clustering over all systems needs all systems."""
        return self.cluster_fit == "joint"

    def explain_too_few(self, num_human: int, num_model: int) -> str:
        if self.estimator == "cells":
            return super().explain_too_few(num_human, num_model)
        total = num_human + num_model
        if self.estimator != "knn" or self.neighbors <= total - (self.self != "counted"):
            return ""
        return f"neighbors={self.neighbors}: both sides have {total} texts; set fewer, or raise num_examples"

    def estimate_jointly(self, human: core.Side, systems: Sequence[core.Side], plan: Plan) -> list[Estimates]:
        if self.estimator != "cells":
            return TwoSample.estimate_jointly(self, human, systems, plan)
        return super().estimate_jointly(human, systems, plan)

    def explain_no_interval(self, num_texts: int) -> str:
        return super().explain_no_interval(num_texts) if self.estimator == "cells" else ""

    def prepare(self, features: Features) -> Prepared:
        """Cluster with each seed, or estimate density ratios."""
        if self.estimator == "cells":
            runs: tuple[ClusteringRun, ...] = super().prepare(features)
            return runs
        from openended.metrics._mauve.density_ratio import log_ratios

        human, model = self.pair(features)
        ids = self.sort_both_ids(features)
        settings = RatioSettings(self.neighbors, self.self, self.explained_variance, self.seed, ids)
        return Ratios(*log_ratios(human=human, model=model, estimator=self.estimator, settings=settings))

    def evaluate(self, features: Features, prepared: Prepared) -> MetricResult:
        """Average the scores over the clustering seeds, or score by density ratios; with curves and cells as arrays."""
        primary, notes = _VALUE[self.summary], list[str]()
        if isinstance(prepared, Ratios):
            scores, values = self._score_ratios(prepared.human, prepared.model)
            arrays = {
                "divergence_curves": scores.divergence_curve[None],
                **find_distinguishing_texts(prepared.human, prepared.model),
            }
            if scores.clipped:
                notes.append(
                    f"clipped: {'most' if scores.clipped >= 0.5 else 'some'} means of {self.estimator} fell outside "
                    "their range: it sees no difference between the sides; read js as well as the area"
                )
            if self.estimator == "knn" and self.self == "counted":
                top = float(np.exp(-self.scaling_factor / self.neighbors))
                notes.append(f"knn counts each text among its neighbors: identical sides have a mid-point of {top:.3f}")
            elif self.estimator == "knn":
                notes.append(
                    "knn leaves each text out of its neighbors and adds half a count: small differences are lost"
                )
            return self.result(features, primary, values, notes=notes, arrays=arrays)
        (human, model), cells = self.pair(features), prepared[0].cells
        stacked = {}
        for name in ("human_hist", "model_hist"):
            histograms = [run.arrays[name] for run in prepared]
            longest = max(map(len, histograms))  # some have fewer cells than others
            stacked[f"{name}s"] = np.stack([np.pad(shares, (0, longest - len(shares))) for shares in histograms])
        arrays = {
            "divergence_curves": np.stack([run.arrays["divergence_curve"] for run in prepared]),
            "human_cells": np.asarray(cells.human, dtype=np.int64),
            **stacked,
            **find_distinguishing_cells(
                human=human, model=model, human_cells=cells.human, model_cells=cells.model, num_buckets=cells.count
            ),
        }
        n = min(len(human), len(model))
        if n < _FEW_TEXTS or n / cells.count < 10:
            notes.append(
                f"small sample: n={n}, k={cells.count}, n/k={n / cells.count:.3g}; "
                "two samples of the same text score below 1 here: compare only values of equal n"
            )
        if len(human) != len(model):
            notes.append(f"the sides differ in size (human {len(human)}, model {len(model)}); k follows the smaller")
        return self.average(features, primary, prepared, notes=notes, arrays=arrays)

    def resample(self, features: Features, result: MetricResult, plan: Plan, prepared: Prepared) -> ReplicatesByName:
        """Count the cells of halves, or average the ratios of their texts."""
        if not isinstance(prepared, Ratios):
            return super().resample(features, result, plan, prepared)
        pairs = list(zip(*self.halves(features, plan), strict=True))
        halves = [*pairs, *((~human, ~model) for human, model in pairs)]
        scores = [self._score_ratios(prepared.human[human], prepared.model[model])[1] for human, model in halves]
        return {k: Replicates(np.array([values[k] for values in scores]).reshape(2, -1)) for k in scores[0]}

    def score(self, cells: CellCounts) -> ClusteringRun:
        scores = mauve_of_cells(
            human=cells.human, model=cells.model, num_buckets=cells.count, smoothing=self.smoothing,
            seen_only=counts_seen_cells(self.quantizer), **self._curve_options,
        )  # fmt: skip
        values = self._select_values(scores, "mauve", "mauve_star", "frontier_integral", "frontier_integral_star")
        sizes = len(cells.human), len(cells.model)
        values |= mauve_scores.histogram_values(scores, *sizes, self.lambdas, self.smoothing)
        arrays = {name: scores[name] for name in ("divergence_curve", "human_hist", "model_hist")}
        return ClusteringRun(cells, values, arrays)

    def score_halves(self, p: F64, q: F64, n_human: float, n_model: float) -> Mapping[str, F64]:
        return mauve_scores.resample_mauve(
            p, q, n_human, n_model, lambdas=self.lambdas, smoothing=self.smoothing, **self._curve_options
        )

    @property
    def half_scale(self) -> float:
        """The other rules of smoothing read whole counts."""
        return super().half_scale if self.smoothing in ("none", "kt") else 1.0

    def select_cells_of_halves(self, cells: CellCounts) -> CellCounts:
        """Leave out empty cells where the quantizer has far more cells than texts."""
        is_sparse = counts_seen_cells(self.quantizer)
        return CellCounts(*mauve_scores.renumber_cells(cells.human, cells.model)) if is_sparse else cells

    @property
    def _curve_options(self) -> dict[str, Any]:
        return {"scaling_factor": self.scaling_factor, "curve": self.curve, "curve_points": self.curve_points}

    def _score_ratios(self, human: F64, model: F64) -> tuple[MauveResult, dict[str, float]]:
        scores = mauve_of_ratios(human=human, model=model, **self._curve_options)
        others = mauve_scores.ratio_values(scores, human, model, self.lambdas)
        return scores, self._select_values(scores, "mauve", "frontier_integral") | others

    def _select_values(self, scores: MauveResult, *names: str) -> dict[str, float]:
        """Return the main values; the mid-point only if it is shown."""
        if self.summary == "mid_point":
            names += ("mid_point",)
        return {name: float(scores[name]) for name in names}


def find_distinguishing_cells(
    *, human: Floats, model: Floats, human_cells: I64, model_cells: I64, num_buckets: int
) -> Mapping[str, NDArray[Any]]:
    """Return the cells with the largest |p - q|, and the texts of each side that are nearest to their centers."""
    shares = np.stack([mauve_scores.histogram(cells, num_buckets) for cells in (human_cells, model_cells)], axis=1)
    gaps = np.abs(shares[:, 0] - shares[:, 1])
    order = np.argsort(-gaps, kind="stable")[:CELLS]
    order = order[gaps[order] > 0]
    rows = np.full((2, len(order), TEXTS), -1, dtype=np.int64)
    for rank, cell in enumerate(order):
        members = [np.flatnonzero(cells == cell) for cells in (human_cells, model_cells)]
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


def find_distinguishing_texts(human: F64, model: F64) -> Mapping[str, NDArray[Any]]:
    """Return the texts with the most extreme estimates of log p / q."""
    human_rows, model_rows = np.argsort(-human, kind="stable")[:MISSED], np.argsort(model, kind="stable")[:MISSED]
    return {
        "ratio_human_rows": human_rows.astype(np.int64),
        "ratio_human": np.clip(human[human_rows], -700, 700),
        "ratio_model_rows": model_rows.astype(np.int64),
        "ratio_model": np.clip(model[model_rows], -700, 700),
    }
