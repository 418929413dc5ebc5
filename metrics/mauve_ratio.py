"""MAUVE by density ratios: the area under the divergence curve from an estimate of p / q at each text, without cells.

With the density ratio r = p / q and a mixture R = λ P + (1 - λ) Q, both divergences are means of bounded terms:

    KL(P || R) = E_P ln(r / (λ r + 1 - λ))  in [0, -ln λ]
    KL(Q || R) = E_Q ln(1 / (λ r + 1 - λ))  in [0, -ln(1 - λ)]

so an estimate of r that is wrong at a few texts spoils none of them; a mean outside its range is set to the nearer end,
and a remark says so. The frontier integral is E_P g(r) + E_Q g(1 / r) with g(r) = 1/2 - 1 / (r - 1) + ln r / (r - 1)^2,
each mean in [0, 1/2]. MAUVE is in [0, 1], higher is better, on a scale of each estimator's own: docs/mauve.md.

Source: Pillutla et al. 2023, "MAUVE scores for generative models" (four kinds of estimators); Pillutla et al. 2021,
"MAUVE", equations 1 to 4. The closed form of g is ours.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openended.harness import core
from openended.harness.core import F64, Features, Floats, MetricResult, check_arguments, ranged
from openended.metrics._embeddings.blocks import check_sides
from openended.metrics._mauve import scores as mauve_scores
from openended.metrics._mauve.density_ratio import EstimatorName, OwnPoint, RatioSettings, log_ratios
from openended.metrics._mauve.scores import Curve, CurveRule
from openended.metrics.families import TwoSample, Values, align_values
from openended.metrics.mauve import PRIMARY, Summary

MISSED = 20  # texts of each side that a ratio singles out
_NEAR = 1e-3  # where |ln r| is below, g is taken from its series: the closed form cancels


@check_arguments
def mauve_ratio(
    *, human: Floats, model: Floats, estimator: EstimatorName = "classifier", explained_variance: float = 0.9,
    scaling_factor: float = 5.0, curve: Curve = "uniform", curve_points: int = 25, neighbors: int = 50,
    own_point: OwnPoint = "counted", seed: int = 25, groups: tuple[NDArray[Any], NDArray[Any]] | None = None,
) -> Values:  # fmt: skip
    """Compute MAUVE from one estimate of density ratios (Pillutla et al. 2023).

    Args:
        human: Embeddings of human texts, shape (n_human, d), finite.
        model: Embeddings of model texts, shape (n_model, d).
        estimator: How log p / q is estimated at each text.
        explained_variance: Share of the variance that PCA keeps for `knn` and `gaussian`, in (0, 1].
        scaling_factor: c, positive.
        curve: How the mixture weights are spaced.
        curve_points: Number of mixture weights, at least 1.
        neighbors: Number of neighbors of `knn`, at least 1.
        own_point: Whether `knn` counts a text among its own neighbors.
        seed: Seed of the folds of `classifier` and `gaussian`.
        groups: The prompt of each human and of each model row: a text is judged by those of other prompts.

    Returns:
        `mauve`, `frontier_integral`, `js` and `mid_point` as of `mauve`; `divergence_curve`, shape (curve_points + 2,
        2); `clipped`, the share of the means that fell outside their range.

    Raises:
        UndefinedMetric: If a side has fewer than two texts, or the estimator needs more.
        ValueError: If the sides differ in dimension, or a number is not finite.
    """
    human, model = check_sides(human=human, model=model)
    settings = RatioSettings(neighbors, own_point, explained_variance, seed, groups)
    ratios = log_ratios(human=human, model=model, estimator=estimator, settings=settings)
    return score_ratios(ratios, scaling_factor=scaling_factor, curve=curve, curve_points=curve_points)


@check_arguments
def score_ratios(
    ratios: "Ratios", *, scaling_factor: float = 5.0, curve: Curve = "uniform", curve_points: int = 25
) -> Values:
    """Compute MAUVE from estimates of density ratios.

    Args:
        ratios: Estimates of log p / q in nats at each human and at each model text, shapes (n_human,) and (n_model,).
        scaling_factor: c, positive.
        curve: How the mixture weights are spaced.
        curve_points: Number of mixture weights, at least 1.

    Returns:
        As `mauve_ratio`.
    """
    rule = CurveRule(scaling_factor, curve, curve_points)
    values, points, clipped = _score(ratios, _weigh_all(ratios), rule, cut=True)
    scores = {name: float(draws[0]) for name, draws in values.items()}
    return Values(**scores, divergence_curve=points[0], clipped=clipped)


Ratios = tuple[F64, F64]
"""Estimates of log p / q in nats at the human and at the model texts, infinite where one side has no density."""


def _weigh_all(ratios: Ratios) -> tuple[F64, F64]:
    return np.ones((1, len(ratios[0]))), np.ones((1, len(ratios[1])))


def _score(
    ratios: Ratios, weights: Sequence[core.Weights], rule: CurveRule, lambdas: tuple[float, ...] = (), *, cut: bool
) -> tuple[dict[str, F64], F64, float]:
    """Return values, shape (draws,), curves, shape (draws, points, 2), and the share of means outside their range."""
    mixtures = mauve_scores.mixture_weights(rule.curve_points, rule.curve)
    (human, model), at, clipped = ratios, np.array([*mixtures, 0.5, *lambdas])[:, None], []
    # r / (λ r + 1 - λ) = 1 / (λ + (1 - λ) / r)
    of_human = -np.logaddexp(np.log(at), np.log1p(-at) - human), _compute_half_integral(human)
    of_model = -np.logaddexp(np.log1p(-at), np.log(at) + model), _compute_half_integral(-model)
    mosts = np.append(-np.log(at), 0.5), np.append(-np.log1p(-at), 0.5)
    means = []
    for terms, most, rows in zip((of_human, of_model), mosts, weights, strict=True):
        columns = np.column_stack([*terms[0], terms[1]])
        mean = core.weigh(rows, columns) / core.weigh(rows, np.ones(len(columns)))[:, None]
        clipped.append((mean < -1e-12) | (mean > most + 1e-12))  # not by rounding, of equal sides
        means.append(np.clip(mean, 0.0, most) if cut else mean)
    p, q = means
    count = len(mixtures)
    points = mauve_scores.curve_through(list(zip(q[:, :count].T, p[:, :count].T, strict=True)), rule.scaling_factor)
    js = (p[:, count] + q[:, count]) / 2
    values = {"mauve": mauve_scores.curve_area(points), "frontier_integral": p[:, -1] + q[:, -1], "js": js}
    values["mid_point"] = np.exp(-2 * rule.scaling_factor * js)
    for number, weight in enumerate(lambdas):
        values[f"type_1@{weight:g}"], values[f"type_2@{weight:g}"] = q[:, count + 1 + number], p[:, count + 1 + number]
    return values, points, float(np.mean(clipped))


def _compute_half_integral(log_ratio: F64) -> F64:
    """Compute the function g of the module docstring at ln r; at most 1/2."""
    near = np.abs(log_ratio) < _NEAR
    safe = np.where(near, 1.0, np.clip(log_ratio, -700, 700))
    gap = np.expm1(safe)
    # From r = 1 + a: ln(1 + a) / a^2 = 1 / a - 1/2 + a / 3 - a^2 / 4 + …
    small = np.expm1(np.where(near, log_ratio, 0.0))
    return np.where(near, small / 3 - small**2 / 4, 0.5 - 1 / gap + safe / gap / gap)


@core.metric
class MauveRatio(TwoSample):
    """MAUVE of the model's texts from density ratios."""

    name = "mauve_ratio"
    direction = "higher"
    bounds = (0.0, 1.0)
    ranges = mauve_scores.RANGES
    resampling = "halves"
    schemes = {"*@*": "none"}  # estimates at the texts of one side hold the noise of the other side
    titles = {name: f"{title} (ratios)" for name, title in mauve_scores.TITLES.items()}
    directions = mauve_scores.DIRECTIONS

    estimator: EstimatorName = "classifier"
    """How ratios are estimated: classifier, knn, kde or gaussian, each on a scale of its own; Pillutla et al. 2023."""
    explained_variance: float = ranged(0.9, "(0, 1]", "a share in (0, 1]")
    """Share of variance that PCA keeps, of knn and gaussian; as MAUVE."""
    scaling_factor: float = ranged(5.0, "(0, inf]", "a positive number")
    """The paper's c."""
    curve: Curve = "uniform"
    """How mixture weights are spaced: uniform or angular; as MAUVE."""
    curve_points: int = ranged(25, "[1, inf)", "at least 1")
    """Number of mixture weights; as MAUVE."""
    neighbors: int = ranged(50, "[1, inf)", "at least 1")
    """Number of neighbors of knn; not from the paper."""
    own_point: OwnPoint = "counted"
    """Whether knn counts a text among its own neighbors; counted errs downwards, left_out upwards."""
    lambdas: tuple[float, ...] = ranged((0.5,), "(0, 1)", "weights in (0, 1)", unordered=True)
    """Weights of the human side in the type I and type II errors."""
    summary: Summary = "area"
    """What tables show first; or mid_point, js, integral."""
    seed: int = ranged(25, "[0, inf)", "at least 0")
    """Seed of the folds of classifier and gaussian."""

    def bounds_of(self, key: str, result: MetricResult) -> tuple[float, float]:
        return mauve_scores.find_error_bounds(key) or super().bounds_of(key, result)

    def explain_too_few(self, num_human: int, num_model: int) -> str:
        total = num_human + num_model
        if self.estimator != "knn" or self.neighbors <= total - (self.own_point != "counted"):
            return ""
        return f"neighbors={self.neighbors}: both sides have {total} texts; set fewer, or raise num_examples"

    def prepare(self, features: Features) -> Ratios:
        human, model = self.pair(features)
        ids = self.list_rows(features, None)
        settings = RatioSettings(self.neighbors, self.own_point, self.explained_variance, self.seed, ids)
        return log_ratios(human=human, model=model, estimator=self.estimator, settings=settings)

    def _score(
        self, prepared: Ratios, human: core.Weights, model: core.Weights, *, cut: bool
    ) -> tuple[dict[str, F64], F64, float]:
        rule = CurveRule(self.scaling_factor, self.curve, self.curve_points)
        values, points, clipped = _score(prepared, (human, model), rule, self.lambdas, cut=cut)
        if self.summary != "mid_point":
            del values["mid_point"]
        return values, points, clipped

    def score(self, prepared: Ratios, human: core.Weights, model: core.Weights, /) -> Mapping[str, F64]:
        """Return the values without a cut of the means: a spread that ends at a limit would be too narrow."""
        return self._score(prepared, human, model, cut=False)[0]

    def evaluate(self, features: Features, prepared: Ratios) -> MetricResult:
        """Score all texts; the arrays hold the curve and the texts with the most extreme estimates of log p / q."""
        values, points, clipped = self._score(prepared, *_weigh_all(prepared), cut=True)
        notes = list[str]()
        if clipped:
            notes.append(
                f"clipped: {'most' if clipped >= 0.5 else 'some'} means of {self.estimator} fell outside "
                "their range: it sees no difference between the sides; read js as well as the area"
            )
        if self.estimator == "knn" and self.own_point == "counted":
            top = float(np.exp(-self.scaling_factor / self.neighbors))
            notes.append(f"knn counts each text among its neighbors: identical sides have a mid-point of {top:.3f}")
        elif self.estimator == "knn":
            notes.append("knn leaves each text out of its neighbors and adds half a count: small differences are lost")
        human, model = prepared
        rows = np.argsort(-human, kind="stable")[:MISSED], np.argsort(model, kind="stable")[:MISSED]
        arrays: dict[str, NDArray[Any]] = {"divergence_curves": points}
        for side, ratios, at in (("human", human, rows[0]), ("model", model, rows[1])):
            arrays |= {f"ratio_{side}_rows": at.astype(np.int64), f"ratio_{side}": np.clip(ratios[at], -700, 700)}
        primary = PRIMARY[self.summary]
        by_text = {primary: align_values(features.model, np.clip(-model, -700, 700))}
        scores = {name: float(draws[0]) for name, draws in values.items()}
        return self.result(features, primary, scores, notes=notes, arrays=arrays, per_example=by_text)
