"""MAUVE: area under the divergence curve of the human and the model text, after quantising embeddings.

With cell histograms p (human) and q (model) and mixtures r = w p + (1 - w) q, MAUVE is the area under the curve of
(exp(-c KL(q || r)), exp(-c KL(p || r))). It is in [0, 1], dimensionless, higher is better; two samples of the *same*
text give less than 1 (about .96 at ten texts a cell), so read it beside the human ceiling.

Protocol: rows to unit L2 norm, joint PCA to 0.9 of the variance, k-means with 5 restarts on [model; human], k = n / 10
and 500 at most, c = 5, 25 evenly spaced weights and both end points. These are the choices of mauve-text 0.4, with
human as its P; on the same rows in the same order the scores agree to 1e-9. Row order feeds the seeding of k-means:
the function takes rows as they come, the metric sorts them by example id.

Variants in use: the paper's experiments take the weights on an angular grid (`curve: angular`, differs by at most
.0005); other packages leave out the normalisation or take k = 500 at any n. `*_star` values come from histograms with
half a count added to each cell.

Source: Pillutla et al. 2021, "MAUVE: Measuring the gap between neural text and human text", equations 1 to 4 and
section 3; Pillutla et al. 2023, "MAUVE scores for generative models" (smoothing); Liu et al. 2021 (frontier integral).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from openended.harness.contract import Direction, Features, Scope, Side
from openended.harness.errors import UndefinedMetric
from openended.harness.registry import register
from openended.harness.types import F64, HUMAN, I64, Floats, MetricResult
from openended.metrics._choices import check_choice
from openended.metrics._embeddings import check_side, check_sides
from openended.metrics._histograms import Curve
from openended.metrics._mauve_scores import MauveResult, histogram_values, mauve_of_cells
from openended.metrics._quantizers import Assign, Buckets, QuantizerName, fit_quantizer
from openended.metrics._resampled_cells import mauve_draws
from openended.metrics._two_sample import Quantized

_FEW_TEXTS = 1000  # below this the paper's own study of n finds scores far from their limit


def mauve(
    *,
    human: Floats,
    model: Floats,
    quantizer: QuantizerName = "kmeans",
    num_buckets: Buckets = "auto",
    explained_variance: float = 0.9,
    scaling_factor: float = 5.0,
    curve: Curve = "uniform",
    curve_points: int = 25,
    restarts: int = 5,
    max_iter: int = 500,
    seed: int = 25,
) -> MauveResult:
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

    Returns:
        The scores, the curve and both histograms.

    Raises:
        ValueError: If shapes do not fit, a number is not finite or an option is out of range.
        UndefinedMetric: If a side has fewer than two texts or there are fewer texts than cells.

    Source: Pillutla et al. 2021, equations 1 to 4.

    >>> rows = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.1], [0.1, 1.0]])
    >>> mauve(human=rows, model=rows).mauve
    1.0
    """
    check_choice("quantizer", quantizer, QuantizerName)
    check_choice("curve", curve, Curve)
    if not (scaling_factor > 0 and curve_points >= 1):
        raise ValueError(f"expected scaling_factor > 0 and curve_points >= 1, got {scaling_factor}, {curve_points}")
    human, model = check_sides(human=human, model=model)
    cluster, buckets = fit_quantizer(
        [model, human],
        quantizer=quantizer,
        num_buckets=num_buckets,
        explained_variance=explained_variance,
        restarts=restarts,
        max_iter=max_iter,
    )
    cells = cluster(seed)([model, human])
    return mauve_of_cells(
        human=cells[1],
        model=cells[0],
        num_buckets=buckets,
        scaling_factor=scaling_factor,
        curve=curve,
        curve_points=curve_points,
    )


@register("metric")
@dataclass(frozen=True, kw_only=True)
class Mauve(Quantized):
    """MAUVE of the model's texts against the human ones, averaged over clustering seeds."""

    name: ClassVar[str] = "mauve"
    version: ClassVar[int] = 1
    direction: ClassVar[Direction] = "higher"
    bounds: ClassVar[tuple[float, float]] = (0.0, 1.0)
    titles: ClassVar[Mapping[str, str]] = {
        "mauve": "MAUVE",
        "mauve_star": "MAUVE*",
        "frontier_integral": "FI",
        "frontier_integral_star": "FI*",
        "kl_human_model": "KL(human, model)",
        "kl_model_human": "KL(model, human)",
        "js": "JS",
        "f8": "F8",
        "f1_8": "F1/8",
        "type_1@0.5": "Type I",
        "type_2@0.5": "Type II",
    }
    directions: ClassVar[Mapping[str, Direction | Literal["none"]]] = {
        "frontier_integral": "lower",
        "frontier_integral_star": "lower",
        "kl_human_model": "lower",
        "kl_model_human": "lower",
        "js": "lower",
        "type_1@0.5": "lower",
        "type_2@0.5": "lower",
    }

    quantizer: QuantizerName = "kmeans"  # Pillutla et al. 2021, section 4
    num_buckets: Buckets = "auto"  # mauve-text: n / 10; the paper: 500 at n = 5,000
    explained_variance: float = 0.9  # mauve-text and the paper
    scaling_factor: float = 5.0  # the paper's c
    curve: Curve = "uniform"  # mauve-text; the paper's experiment code: angular
    curve_points: int = 25  # mauve-text
    restarts: int = 5  # mauve-text
    max_iter: int = 500  # mauve-text
    seed: int = 25  # mauve-text
    clustering_seeds: int = 5  # the paper averages 5 runs; seeds are seed, seed + 1, …
    cluster_fit: Literal["pair", "joint", "reference"] = (
        "pair"  # mauve-text; joint makes the scores of a grid comparable
    )
    lambdas: tuple[float, ...] = (0.5,)  # mixture weights of the type I and type II errors
    scope: Scope = "prompt_and_continuation"  # the paper's features see both

    def check(self) -> None:
        """Refuse options out of range."""
        super().check()
        self.require(self.scaling_factor > 0, "scaling_factor", "a positive number")
        self.require(self.curve_points >= 1, "curve_points", "at least 1")
        self.require(all(0 < w < 1 for w in self.lambdas), "lambdas", "weights in (0, 1)")

    @property
    def reads_grid(self) -> bool:
        """One clustering over all systems needs all systems."""
        return self.cluster_fit == "joint"

    def compute(self, features: Features) -> MetricResult:
        """Average the scores over the clustering seeds; the array holds the curve of each."""
        human, model = self.pair(features)
        cluster, buckets = self._clusterer(features, human, model)
        runs = []
        for seed in self.seeds():
            q, p = cluster(seed)([model, human])
            self.keep_cells(features, p, q, buckets)
            runs.append(self._score(p, q, buckets))
        return self.averaged(
            features,
            "mauve",
            [values for _, values in runs],
            notes=self._notes(len(human), len(model), buckets),
            arrays={"divergence_curves": np.stack([scores.divergence_curve for scores, _ in runs])},
        )

    def draws(self, p: F64, q: F64, n_human: float, n_model: float) -> Mapping[str, F64]:
        """Return all values for many pairs of histograms."""
        return mauve_draws(
            p, q, n_human, n_model, lambdas=self.lambdas,
            scaling_factor=self.scaling_factor, points=self.curve_points, curve=self.curve,
        )  # fmt: skip

    def _score(self, p: I64, q: I64, buckets: int) -> tuple[MauveResult, dict[str, float]]:
        """Scores of one clustering, of the cells of the human and the model side."""
        scores = mauve_of_cells(
            human=p,
            model=q,
            num_buckets=buckets,
            scaling_factor=self.scaling_factor,
            curve=self.curve,
            curve_points=self.curve_points,
        )
        main = ("mauve", "mauve_star", "frontier_integral", "frontier_integral_star")
        values = {name: float(scores[name]) for name in main}
        return scores, values | histogram_values(scores, len(p), len(q), self.lambdas)

    def _clusterer(self, features: Features, human: Floats, model: Floats) -> tuple[Callable[[int], Assign], int]:
        """Fit on the pair, on all systems of the grid or on the human side; return clusterer and number of cells."""
        if self.cluster_fit == "pair":
            return self.fit([model, human])
        others: tuple[Side, ...] = ()
        if self.cluster_fit == "joint":
            others = _systems(features)
        fit = [self.sorted_rows(side) for side in others] + [human]
        for rows in fit:
            check_side(rows, "a system of the grid")
        # The human side is the same object for a whole grid, so one clustering serves all its systems.
        key, no_cells = ("mauve.fit", self, *others), dict[int, Assign]()
        (fitted, buckets), made = features.human.derived(key, lambda: (self.fit(fit), no_cells))

        def cluster(seed: int) -> Assign:
            if seed not in made:
                made[seed] = fitted(seed)
            return made[seed]

        return cluster, buckets

    def _notes(self, n_human: int, n_model: int, buckets: int) -> list[str]:
        """Say where the score is less sure than it looks."""
        n, notes = min(n_human, n_model), []
        if n < _FEW_TEXTS or n / buckets < 10:
            notes.append(
                f"small sample: n={n}, k={buckets}, n/k={n / buckets:.3g}; "
                "two samples of the same text score below 1 here, compare with the human ceiling"
            )
        if n_human != n_model:
            notes.append(f"the sides differ in size (human {n_human}, model {n_model}); k follows the smaller")
        return notes


def _systems(features: Features) -> tuple[Side, ...]:
    """Return the grid's model systems in an order that does not depend on how they are listed.

    Raises:
        UndefinedMetric: If there is no grid.
    """
    systems = [side for side in features.others if side.system != HUMAN]
    if not systems:
        raise UndefinedMetric("cluster_fit=joint needs all systems of a grid (openended -m …); this run has one")
    return tuple(sorted(systems, key=lambda side: side.system))
