"""MAUVE and its kin from histograms over cells; all logs are natural.

Smoothing adds something for cells that a finite sample missed. With n texts over k cells and c_a of them in cell a, the
share of a is proportional to

| rule | share |
| --- | --- |
| `none` | c_a |
| `kt` | c_a + 1/2 (Krichevsky and Trofimov) |
| `laplace` | c_a + 1 |
| `braess_sauer` | c_a + 1/2 where c_a = 0, c_a + 1 where c_a = 1, c_a + 3/4 elsewhere |
| `good_turing` | c_a / n where c_a > φ(c_a + 1), else (φ(c_a + 1) + 1)(c_a + 1) / (n φ(c_a)); φ(t): cells of t texts |

The frontier integral is 2 ∫ λ KL(P || R) + (1 - λ) KL(Q || R) dλ, in [0, 1]; 0 where both are equal, 1 where they share
no cell. Over cells it is the sum of (p + q) / 2 - p q (ln p - ln q) / (p - q).

Source: Liu et al. 2021, "Divergence frontiers for generative models", Definitions 1 and 2, Proposition 1 and its use of
smoothing; Krichevsky and Trofimov 1981; Braess and Sauer 2004; Orlitsky and Suresh 2015, section 1.3.
"""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from openended.harness.core import F64, I64

Curve = Literal["uniform", "angular"]
Smoothing = Literal["none", "kt", "laplace", "braess_sauer", "good_turing"]

_EDGE = 1e-6  # mauve-text: the mixture weights stay this far from 0 and 1
_ANGLE_EDGE = 1e-10  # Sajjadi et al. 2018: the angles stay this far from 0 and pi / 2
ANGLES = 1001  # of the precision-recall curve behind F8 and F1/8, as in openended.metrics.precision_recall_curve
HALF_ANGLES = 101  # of that curve of halves: a tenth of the value's, enough for a standard error
_CELLS_AT_ONCE = 1 << 15  # of histograms at several angles: they fit into the processor's cache
Value = Any  # a number, or one a row
RANGES = {"js": (0.0, float(np.log(2.0)))}
TITLES = {"mauve": "MAUVE", "mid_point": "Mid-point", "frontier_integral": "FI", "js": "JS"}
TITLES |= {"type_1@0.5": "Type I", "type_2@0.5": "Type II"}
DIRECTIONS: dict[str, Literal["lower"]] = dict.fromkeys(("frontier_integral", "js", "type_*"), "lower")


def find_error_bounds(key: str) -> tuple[float, float] | None:
    """Return the least and the greatest type I or type II error at a weight; None for other values."""
    error, _, weight = key.partition("@")
    return (0.0, -float(np.log(float(weight) if error == "type_2" else 1.0 - float(weight)))) if weight else None


# Cells. Histograms have shape (cells,), or (rows, cells) for one value a row: the halves of the texts of both sides.


def histogram(labels: I64, num_buckets: int) -> F64:
    return np.bincount(labels, minlength=num_buckets) / len(labels)


def weigh_histograms(cells: I64, weights: NDArray[Any], num_buckets: int) -> F64:
    """Return the share of each cell in weighted sets of texts, shape (draws, num_buckets)."""
    bins = np.arange(len(weights))[:, None] * num_buckets + cells
    counts = np.bincount(bins.ravel(), weights.ravel(), len(weights) * num_buckets).reshape(-1, num_buckets)
    shares: F64 = counts / counts.sum(axis=1, keepdims=True)
    return shares


def renumber_cells(p: I64, q: I64) -> tuple[I64, I64, int]:
    """Return the cells of both sides numbered so that each holds a text, and how many there are."""
    seen, cells = np.unique(np.concatenate([p, q]), return_inverse=True)
    return cells[: len(p)], cells[len(p) :], len(seen)


def smooth(hist: F64, n: float, rule: Smoothing = "kt", part: Value = 1.0) -> F64:
    """Return smoothed shares of a part of n texts: what `kt` and `laplace` add is the share of all n."""
    if rule == "none":
        return hist
    if rule == "kt":
        return np.asarray((hist * n + 0.5) / (n + 0.5 * hist.shape[-1]))
    if hist.ndim == 2:
        parts = np.broadcast_to(part, len(hist))
        return np.stack([smooth(row, n, rule, of_row) for row, of_row in zip(hist, parts, strict=True)])
    counts = np.rint(hist * (n if rule == "laplace" else round(n * part)))
    if rule == "laplace":
        weights = counts + 1
    elif rule == "braess_sauer":
        weights = counts + np.select([counts == 0, counts == 1], [0.5, 1.0], 0.75)
    else:
        texts = counts.astype(np.int64)
        cells = np.bincount(texts, minlength=int(texts.max()) + 2)  # φ
        here, above = cells[texts], cells[texts + 1]
        weights = np.where(texts > above, texts, (above + 1) * (texts + 1) / here) / texts.sum()
    return np.asarray(weights / weights.sum())


class CellShares(NamedTuple):
    """The histogram of one side."""

    shares: F64
    texts: float  # number of texts of the side
    part: Value = 1.0  # share of them that the histogram is of

    def smooth(self, rule: Smoothing = "kt") -> F64:
        return smooth(self.shares, self.texts, rule, self.part)


class CurveRule(NamedTuple):
    """How a divergence curve is drawn: c, the spacing of the mixture weights, and how many there are."""

    scaling_factor: float = 5.0
    curve: Curve = "uniform"
    curve_points: int = 25


def kl_divergence(p: F64, q: F64) -> Value:
    """Return KL(p || q) in nats; infinite where q is 0 and p is not."""
    if p.ndim == 1:
        p, q = p[p > 0], q[p > 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(p > 0, p * np.log(p / q), 0.0)
    return np.maximum(terms.sum(axis=-1), 0.0)  # rounding may leave -1e-17 where the two are equal


def js_divergence(p: F64, q: F64) -> Value:
    """Return the Jensen-Shannon divergence in nats, in [0, ln 2]."""
    middle = (p + q) / 2
    return (kl_divergence(p, middle) + kl_divergence(q, middle)) / 2


def frontier_integral(p: F64, q: F64) -> Value:
    """Return the frontier integral, in [0, 1]."""
    mean = (p + q).sum(axis=-1) / 2
    both = (p > 0) & (q > 0)
    if p.ndim == 1:
        p, q, both = p[both], q[both], both[both]
    # p q (ln p - ln q) / (p - q) = q log1p(gap) / gap, which tends to q as the two meet.
    with np.errstate(divide="ignore", invalid="ignore"):
        gap = np.where(both, (q - p) / p, 0.0)
    near = np.abs(gap) < 1e-12
    ratio = np.where(near, 1.0, np.log1p(np.where(near, 1.0, gap)) / np.where(near, 1.0, gap))
    return np.maximum(mean - np.where(both, q * ratio, 0.0).sum(axis=-1), 0.0)


def mixture_weights(points: int, curve: Curve) -> F64:
    """Return the weights of p in the mixtures: evenly spaced, or cosines of evenly spaced angles."""
    if curve == "uniform":
        return np.linspace(_EDGE, 1 - _EDGE, points)
    return np.cos(np.linspace(_EDGE, np.pi / 2 - _EDGE, points))[::-1]


def divergence_curve(p: F64, q: F64, rule: CurveRule) -> F64:
    """Return the divergence curve from (1, 0) to (0, 1), shape (curve_points + 2, 2), or one a row.

    With r = w p + (1 - w) q, a point is (exp(-c KL(q || r)), exp(-c KL(p || r))).
    """
    weights, scaling_factor = mixture_weights(rule.curve_points, rule.curve), rule.scaling_factor
    if p.ndim == 1:  # the value itself, with all its digits: a difference of sums loses some near 0
        mixtures = (w * p + (1 - w) * q for w in weights)
        return curve_through([(kl_divergence(q, r), kl_divergence(p, r)) for r in mixtures], scaling_factor)
    # KL(p || r) = sum p ln p - sum p ln r, so that each mixture needs one logarithm; a cell without texts has ln 1.
    empty = (p == 0) & (q == 0)
    filled, divergences = (p + empty, q + empty), []
    entropies = [_sum_products(side, np.log(side + (side == 0))) for side in (q, p)]
    for w in weights:
        logs = np.log(w * filled[0] + (1 - w) * filled[1])
        both = zip(entropies, (q, p), strict=True)
        divergences.append([np.maximum(entropy - _sum_products(side, logs), 0.0) for entropy, side in both])
    return curve_through(divergences, scaling_factor)


def _sum_products(a: F64, b: F64) -> F64:
    return np.asarray(np.einsum("rc,rc->r", a, b))


def curve_through(divergences: Sequence[Sequence[Any]], scaling_factor: float) -> F64:
    """Return the curve of exp(-c KL(q || r)) and exp(-c KL(p || r)), with both end points."""
    inner = np.exp(-scaling_factor * np.array(divergences))
    ends = np.zeros((2, *inner.shape[1:]))
    ends[0, 0] = ends[1, 1] = 1.0
    return np.moveaxis(np.concatenate([ends[:1], inner, ends[1:]]), (0, 1), (-2, -1))


def curve_area(curve: F64) -> Value:
    """Return the area under a curve by the trapezoid rule along each axis, averaged; in [0, 1]."""
    areas: Any = 0.0
    for x, y in ((curve[..., 0], curve[..., 1]), (curve[..., 1], curve[..., 0])):
        order = np.lexsort((-y, x), axis=-1)
        areas = areas + np.trapezoid(np.take_along_axis(y, order, -1), np.take_along_axis(x, order, -1), axis=-1)
    return np.clip(areas / 2, 0.0, 1.0)


def precision_recall(p: F64, q: F64, num_angles: int) -> tuple[F64, F64]:
    """Return precision and recall of q against p along the angles, each of shape (…, num_angles), in [0, 1].

    At slope t = tan(angle): precision = sum of min(t p, q), recall = sum of min(p, q / t) = precision / t.
    """
    slopes = np.tan(np.linspace(_ANGLE_EDGE, np.pi / 2 - _ANGLE_EDGE, num_angles)).reshape(-1, *[1] * p.ndim)
    precision = np.empty((num_angles, *p.shape[:-1]))
    step = max(1, _CELLS_AT_ONCE // max(1, p.size))
    for start in range(0, num_angles, step):
        part = slice(start, start + step)
        np.minimum(slopes[part] * p, q).sum(axis=-1, out=precision[part])
    both = precision, precision / slopes[..., 0]
    first, second = (np.clip(np.moveaxis(values, 0, -1), 0.0, 1.0) for values in both)
    return first, second


def best_f(precision: F64, recall: F64, beta: float) -> Value:
    """Return the largest F-beta on a curve; beta > 1 weighs recall, beta < 1 precision; 0 where both are 0."""
    weighed = beta**2 * precision + recall
    both = (1 + beta**2) * precision * recall
    return np.divide(both, weighed, out=np.zeros_like(both), where=weighed > 0).max(axis=-1)


def share_cells(human: I64, model: I64, count: int, *, seen_only: bool = False) -> tuple[CellShares, CellShares]:
    """Return the histograms of all texts over the cells; `seen_only` leaves out cells without a text of either side."""
    p, q = histogram(human, count), histogram(model, count)
    if seen_only:
        seen = (p > 0) | (q > 0)
        p, q = p[seen], q[seen]
    return CellShares(p, len(human)), CellShares(q, len(model))


def score_shares(human: CellShares, model: CellShares, rule: CurveRule, smoothing: Smoothing) -> dict[str, Any]:
    """Compute MAUVE from the histograms of both sides; every field has one value a row if they have rows."""
    starred, smoothed = (human.smooth(), model.smooth()), (human.smooth(smoothing), model.smooth(smoothing))
    points, star = divergence_curve(*smoothed, rule), divergence_curve(*starred, rule)
    js = js_divergence(*smoothed)
    scores = {
        "mauve": curve_area(points),
        "mauve_star": curve_area(star),
        "frontier_integral": frontier_integral(*smoothed),
        "frontier_integral_star": frontier_integral(*starred),
        "js": js,
        "mid_point": np.exp(-2 * rule.scaling_factor * js),
    }
    p, q = human.shares, model.shares
    arrays = {"divergence_curve": points, "human_hist": p, "model_hist": q, "num_buckets": p.shape[-1]}
    return {name: float(value) if p.ndim == 1 else value for name, value in scores.items()} | arrays


def summarize_shares(
    human: CellShares, model: CellShares, js: Value, lambdas: Sequence[float], rule: Smoothing, angles: int = ANGLES
) -> dict[str, Any]:
    """Return every other summary of the same histograms.

    The KL divergences need smoothed histograms to be finite: `kt` where the rule is `none`. The errors at λ are KL
    to λ p + (1 - λ) q: type I from the model (text that humans would not write), type II from the human side (text the
    model misses).
    """
    finite: Smoothing = "kt" if rule == "none" else rule
    p_star, q_star, p, q = (side.smooth(r) for r in (finite, rule) for side in (human, model))
    precision, recall = precision_recall(p, q, angles)
    values = {
        "kl_human_model": kl_divergence(p_star, q_star),
        "kl_model_human": kl_divergence(q_star, p_star),
        "js": js,
        "f8": best_f(precision, recall, 8),
        "f1_8": best_f(precision, recall, 1 / 8),
    }
    for weight in lambdas:
        mixture = weight * p + (1 - weight) * q
        values[f"type_1@{weight:g}"] = kl_divergence(q, mixture)
        values[f"type_2@{weight:g}"] = kl_divergence(p, mixture)
    return values


def resample_mauve(
    human: CellShares, model: CellShares, lambdas: Sequence[float], rule: CurveRule, smoothing: Smoothing
) -> dict[str, F64]:
    """Return every value of the two functions above for each pair of rows of histograms, of parts of the texts."""
    scores = score_shares(human, model, rule, smoothing)
    names = ("mauve", "mauve_star", "frontier_integral", "frontier_integral_star", "mid_point")
    others = summarize_shares(human, model, scores["js"], lambdas, smoothing, HALF_ANGLES)
    return {name: scores[name] for name in names} | others
