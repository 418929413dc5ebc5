"""Estimate log p / q at the texts of both sides, for MAUVE without cells; `docs/mauve.md` says what each cannot see.

Rows are not scaled to one length, so distances are those of the embedder. Sides may differ in size: log(n_model /
n_human) is subtracted from the odds. The authors did not publish their widths, ridges and numbers of neighbors.

Source: Pillutla et al. 2023, "MAUVE scores for generative models" (the four kinds of estimators); Noshad et al. 2017,
"Direct estimation of information divergence using nearest neighbor ratios" (`knn`).
"""

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from openended.harness.core import F64, I64, Floats, UndefinedMetric, make_random_stream
from openended.metrics._embeddings.blocks import blocks, compute_squared_distances, fit_pca, limit_magnitude

EstimatorName = Literal["knn", "kde", "classifier", "gaussian"]
OwnPoint = Literal["counted", "left_out"]

_BLOCK = 512  # rows of a table of distances at a time
_TIE = 1e-10  # squared distances this near, as a share of the largest norm, are one distance
_KDE_DIMS = 50  # not from the paper
_WIDTHS = np.geomspace(0.1, 4.0, 12)  # not from the paper; times the root mean square of the components
_WIDTH_TEXTS = 1000  # texts whose left-out sides choose the width
_FOLDS = 5  # not from the paper
_PENALTY = 1.0  # C of the classifier; not from the paper
_MOST_ODDS = 20.0  # limit of the classifier's log-odds; not from the paper
_GAUSSIAN_DIMS = 10  # with more, covariance noise exceeds the difference of systems
_RIDGE = 1e-2  # added to a covariance, as a share of its mean variance


@dataclass(frozen=True, slots=True, eq=False)
class RatioSettings:
    """Settings of the density-ratio estimators."""

    neighbors: int  # option of `knn`; with `counted`, a text is one of its own neighbors
    own_point: OwnPoint  # of `knn`: whether a text counts among its neighbors
    explained_variance: float  # share of the variance that PCA keeps, for `knn` and `gaussian`
    seed: int  # of the folds
    groups: tuple[NDArray[Any], NDArray[Any]] | None
    """The prompts of all texts; a text is never compared with texts of its own prompt. None: all prompts differ."""


@dataclass(frozen=True, slots=True, eq=False)
class SidePair:
    """Rows of both sides, the human ones first."""

    rows: F64  # shape (n_human + n_model, d)
    n_human: int

    @property
    def sides(self) -> tuple[slice, slice]:
        return slice(0, self.n_human), slice(self.n_human, len(self.rows))


def log_ratios(*, human: Floats, model: Floats, estimator: EstimatorName, settings: RatioSettings) -> tuple[F64, F64]:
    """Estimate log p / q at each text."""
    human, model = limit_magnitude(human=human, model=model)
    ratios = ESTIMATORS[estimator](human, model, settings)
    return ratios[: len(human)], ratios[len(human) :]


def knn_ratios(human: Floats, model: Floats, settings: RatioSettings) -> F64:
    """Compare the counts of both sides among the nearest neighbors.

    With its own point counted the odds of a human text are never 0, and identical sides score a little below 1: the
    mid-point is about exp(-c / neighbors). Left out, half a count is added to both sides, which errs upwards as much.
    """
    both = _project(human, model, settings.explained_variance, most=None)
    total, has_own = len(both.rows), settings.own_point == "counted"
    others = settings.neighbors - has_own
    if total - 1 < others:
        raise UndefinedMetric(f"neighbors={settings.neighbors} need more texts than the {total} of both sides")
    counts = np.empty((total, 2))
    # Left out with its own prompt: the other side's text for that prompt is no independent neighbor either.
    for start, table in _iterate_distances(both.rows, np.arange(total) if has_own else _number_groups(both, settings)):
        if others == 0:
            counts[start : start + len(table)] = 0
            continue
        last = np.partition(table, others - 1, axis=1)[:, others - 1, None]
        if not np.isfinite(last).all():
            raise UndefinedMetric(f"neighbors={others} of other prompts are more than there are texts")
        tie = _TIE * max(float(np.max(last)), np.finfo(float).tiny)
        inside = table < last - tie
        tied = (table <= last + tie) ^ inside
        share = (others - inside.sum(axis=1)) / tied.sum(axis=1)  # ties for the last places share them
        for column, side in enumerate(both.sides):
            nearest = inside[:, side].sum(axis=1) + share * tied[:, side].sum(axis=1)
            counts[start : start + len(table), column] = nearest
    if has_own:
        for column, side in enumerate(both.sides):
            counts[side, column] += 1
    else:
        counts += 0.5
    with np.errstate(divide="ignore"):
        odds: F64 = np.log(counts[:, 0]) - np.log(counts[:, 1])
    return np.asarray(odds + np.log(len(model) / len(human)))


def kde_ratios(human: Floats, model: Floats, settings: RatioSettings) -> F64:
    """Compare kernel density estimates of both sides, with the width that separates the sides best.

    A text's density is that of the texts of other prompts: its own kernel, or that of the other side's text for the
    same prompt, would outweigh them all. Taken is the width by which left-out texts are best told apart (least log-loss
    of their sides). The width of the likeliest density sees no difference at all in many dimensions.
    """
    both = _project(human, model, 1.0, most=_KDE_DIMS)
    spread = float(np.sqrt(np.mean(np.var(both.rows, axis=0))))
    both = SidePair(both.rows / (spread if spread > 0 else 1.0), both.n_human)
    group = _number_groups(both, settings)
    order = np.argsort(np.einsum("ij,ij->i", both.rows, both.rows), kind="stable")
    judged = order[:: -(-len(order) // _WIDTH_TEXTS)]
    gaps = compute_squared_distances(both.rows[judged], both.rows)
    gaps[group[judged, None] == group] = np.inf
    if not all(np.isfinite(gaps[:, side]).any(axis=1).all() for side in both.sides):
        raise UndefinedMetric("kde needs texts of other prompts than the one that is judged")
    own_counts = [np.bincount(group[side], minlength=int(group.max()) + 1)[group] for side in both.sides]
    others = np.log([side.stop - side.start - count for side, count in zip(both.sides, own_counts, strict=True)])
    is_human = judged < both.n_human
    losses = []
    for width in _WIDTHS:
        odds = _compute_kernel_odds(gaps, both, others[:, judged], width)
        loss = np.logaddexp(0, np.where(is_human, -odds, odds))
        losses.append(sum(loss[side].mean() for side in (is_human, ~is_human) if side.any()))
    width = float(_WIDTHS[int(np.argmin(losses))])
    ratios = np.empty(len(both.rows))
    for start, table in _iterate_distances(both.rows, group):
        rows = slice(start, start + len(table))
        ratios[rows] = _compute_kernel_odds(table, both, others[:, rows], width)
    return ratios


def _compute_kernel_odds(squares: F64, both: SidePair, others: F64, width: float) -> F64:
    """Log of the mean human kernel over the mean model one; `others`: log number of other prompts' texts, (2, rows)."""
    logs = []
    for side, count in zip(both.sides, others, strict=True):
        exponents = squares[:, side] * (-0.5 / width**2)
        most = exponents.max(axis=1)
        logs.append(most + np.log(np.exp(exponents - most[:, None]).sum(axis=1)) - count)
    return np.asarray(logs[0] - logs[1])


def classifier_ratios(human: Floats, model: Floats, settings: RatioSettings) -> F64:
    """Take the log-odds of a logistic regression at texts that it was not fitted to."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    rows = np.vstack([human, model]).astype(np.float64)
    center, spread = rows.mean(axis=0), rows.std(axis=0)
    spread[spread <= 1e-12 * np.maximum(np.abs(center), np.finfo(float).tiny)] = np.inf  # constant: ignored
    both = SidePair((rows - center) / spread, len(human))
    is_human = np.arange(len(rows)) < len(human)
    odds = np.empty(len(rows))
    for train, test in _iterate_folds(both, _FOLDS, settings):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # separable sides: the odds are cut below
            fitted = LogisticRegression(C=_PENALTY, solver="lbfgs", max_iter=200).fit(both.rows[train], is_human[train])
        prior = np.log(np.sum(is_human[train]) / np.sum(~is_human[train]))
        odds[test] = np.clip(fitted.decision_function(both.rows[test]), -_MOST_ODDS, _MOST_ODDS) - prior
    return odds


def gaussian_ratios(human: Floats, model: Floats, settings: RatioSettings) -> F64:
    """Compare the densities of two Gaussians, each text by those of the half that it is not in."""
    both = _project(human, model, settings.explained_variance, most=_GAUSSIAN_DIMS)
    ratios = np.empty(len(both.rows))
    is_human = np.arange(len(ratios)) < both.n_human
    for train, test in _iterate_folds(both, 2, settings):
        p, q = (_compute_log_density(both.rows[train & side], both.rows[test]) for side in (is_human, ~is_human))
        ratios[test] = p - q
    return ratios


def _compute_log_density(fit: F64, at: F64) -> F64:
    """Log-density, less a constant, of the Gaussian fitted to some rows, at others."""
    from scipy.linalg import cho_factor, solve_triangular

    dim, centered = fit.shape[1], fit - fit.mean(axis=0)
    covariance = centered.T @ centered / len(fit)
    ridge = _RIDGE * float(np.trace(covariance)) / dim
    covariance[np.diag_indices(dim)] += ridge if ridge > 0 else 1.0
    factor, lower = cho_factor(covariance, lower=True)
    apart = solve_triangular(factor, (at - fit.mean(axis=0)).T, lower=lower)
    return np.asarray(-0.5 * np.sum(apart**2, axis=0) - np.sum(np.log(np.diag(factor))))


def _project(human: Floats, model: Floats, share: float, *, most: int | None) -> SidePair:
    """Project unscaled rows by a joint PCA, in float64."""
    projection = fit_pca([human, model], share=share, rows="none")
    axes = projection.axes[:, :most]
    rows = [(block - projection.mean) @ axes for side in (human, model) for _, block in blocks(side, "none", _BLOCK)]
    return SidePair(np.vstack(rows), len(human))


def _iterate_distances(rows: F64, group: I64) -> Iterator[tuple[int, F64]]:
    """Yield (first row, squared distances of a block of rows to all), infinite within a group."""
    for start in range(0, len(rows), _BLOCK):
        table = compute_squared_distances(rows[start : start + _BLOCK], rows)
        table[group[start : start + _BLOCK, None] == group] = np.inf
        yield start, table


def _number_groups(both: SidePair, settings: RatioSettings) -> I64:
    """Number the prompt of each row; every row is its own where prompts are not known."""
    if settings.groups is None:
        return np.arange(len(both.rows))
    return np.asarray(np.unique(np.concatenate(settings.groups), return_inverse=True)[1], dtype=np.int64)


def _iterate_folds(
    both: SidePair, folds: int, settings: RatioSettings
) -> Iterator[tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
    """Yield (training rows, test rows); independent of the order of rows and of sides."""
    if settings.groups is not None:
        group = _number_groups(both, settings)
        stream = make_random_stream(settings.seed, "mauve folds")
        fold = (stream.permutation(int(group.max()) + 1) % folds)[group]
    else:
        fold = np.empty(len(both.rows), dtype=np.int64)
        center = both.rows.mean(axis=0)
        for side in both.sides:
            away = np.sum((both.rows[side] - center) ** 2, axis=1)
            shuffled = make_random_stream(settings.seed, "mauve folds").permutation(len(away)) % folds
            # By the distance from the center, which no rotation or order changes.
            fold[np.arange(side.start, side.stop)[np.argsort(away, kind="stable")]] = shuffled
    is_human = np.arange(len(fold)) < both.n_human
    for i in range(folds):
        test = fold == i
        if not test.any():  # fewer prompts than folds
            continue
        if min(np.sum(is_human & ~test), np.sum(~is_human & ~test)) < 2:
            raise UndefinedMetric(f"{folds} folds need more texts (or prompts) on each side")
        yield ~test, test


ESTIMATORS: Mapping[str, Callable[[Floats, Floats, RatioSettings], F64]] = {
    "knn": knn_ratios,
    "kde": kde_ratios,
    "classifier": classifier_ratios,
    "gaussian": gaussian_ratios,
}
