"""Copying of the human texts in an embedder's space: percent authentic, and the three-sample test C_T.

    AuthPct = 100 * share of model texts y with |y - x| > |x - x'|,  x: human text nearest to y, x': nearest to x
    C_T     = sum over cells of p(cell) z(cell) / sum of p(cell),  z: Mann-Whitney z of the distances to training texts

The human side is taken as the training texts. For C_T they are split in two by prompt: one half is the training set and
the other the test set, and then the reverse; the value is the mean of both. z compares how near model and test texts
are to the training set inside a k-means cell; p is the share of test texts in the cell. `auth_pct` is from 0 to 100;
the value of other human texts is best. `c_t` is about 0 if model texts are as near as other human texts, far below 0 if
they are copies. Cells with fewer than five model or test texts are left out.

Source: AuthPct: Alaa et al. 2022, "How faithful is your synthetic data?", as in layer6ai-labs/dgm-eval; C_T: Meehan,
Chaudhuri and Dasgupta 2020, "A non-parametric test to detect data-copying in generative models". The split of one set
into training and test halves is ours.
"""

import math
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from openended.harness import core
from openended.harness.core import F64, I64, Features, Floats, MetricResult, UndefinedMetric, check_arguments
from openended.metrics._embeddings.blocks import check_sides
from openended.metrics.families import Mask, TwoSample, align_values, sort_ids

_LEAST = 5  # model and test texts of a cell


@dataclass(frozen=True, slots=True, eq=False)
class Distances:
    """Distances to human texts, and what C_T splits them by."""

    human: F64  # between human texts, shape (n, n); infinite for a text and itself
    model: F64  # from model to human texts, shape (m, n)
    human_cells: I64
    model_cells: I64
    is_first: Mask  # whether each human text is in the first half


def auth_pct(*, human: Floats, model: Floats) -> float:
    """Compute the percentage of model texts that copy no human text (Alaa et al. 2022).

    Args:
        human: Embeddings of the training texts, shape (n_human, d), n_human >= 2, finite.
        model: Embeddings of model texts, shape (n_model, d), n_model >= 1.

    Returns:
        A percentage, 0 to 100; near that of other human texts is best.

    Raises:
        UndefinedMetric: If a side has too few texts.
        ValueError: If the sides differ in dimension, or a number is not finite or too large to be multiplied.
    """
    human, model = check_sides(human=human, model=model, least=1, multiplied=True)
    if len(human) < 2:
        raise UndefinedMetric(f"needs at least 2 human texts; there are {len(human)}")
    return 100.0 * float(_find_authentic(_measure(human, human, same_side=True), _measure(model, human)).mean())


@check_arguments
def copying_z(*, train: Floats, test: Floats, model: Floats, cells: int = 3, seed: int = 0) -> float:
    """Compute C_T: whether model texts are nearer to the training texts than test texts are (Meehan et al. 2020).

    Args:
        train: Embeddings of training texts, shape (n_train, d), finite.
        test: Embeddings of other texts of the same kind, shape (n_test, d).
        model: Embeddings of model texts, shape (n_model, d).
        cells: Number of k-means cells of the training texts, at least 1.
        seed: Seed of k-means.

    Returns:
        A weighted mean of z-scores, unbounded; far below 0 means copies. Between equal sets its standard deviation is
        about 1 / sqrt(cells), not 1.

    Raises:
        UndefinedMetric: If no cell has five model and five test texts.
        ValueError: If the sets differ in dimension, or a number is not finite or too large to be multiplied.
    """
    train, test = check_sides(human=train, model=test, least=1, multiplied=True)
    train, model = check_sides(human=train, model=model, least=1, multiplied=True)
    centers = _find_centers(train, cells, seed)
    nearest = [_measure(side, train).min(axis=1) for side in (test, model)]
    cell = [_measure(side, centers).argmin(axis=1) for side in (test, model)]
    return _weigh_cells(nearest[0], nearest[1], cell[0], cell[1], cells)


def _measure(rows: Floats, others: Floats, *, same_side: bool = False) -> F64:
    from scipy.spatial.distance import cdist

    table: F64 = cdist(np.asarray(rows, dtype=np.float64), np.asarray(others, dtype=np.float64))
    if same_side:
        np.fill_diagonal(table, np.inf)
    return table


def _find_authentic(human: F64, model: F64) -> Mask:
    """Return whether each model text is farther from its nearest human text than that one from its own neighbor."""
    nearest = model.argmin(axis=1)
    return np.asarray(model[np.arange(len(model)), nearest] > human.min(axis=1)[nearest])


def _find_centers(rows: Floats, cells: int, seed: int) -> F64:
    from scipy.cluster.vq import kmeans2

    count = min(cells, len(rows))
    centers = kmeans2(np.asarray(rows, dtype=np.float64), count, minit="++", seed=seed, missing="warn")[0]
    return np.asarray(centers, dtype=np.float64)


def _weigh_cells(test: F64, model: F64, test_cells: I64, model_cells: I64, cells: int) -> float:
    """Return the mean Mann-Whitney z over cells, weighted by their test texts; below 0: model distances are smaller."""
    total, weight = 0.0, 0
    for cell in range(cells):
        a, b = np.sort(test[test_cells == cell]), model[model_cells == cell]
        n, m = len(a), len(b)
        if min(n, m) >= _LEAST:
            below = np.searchsorted(a, b, side="left") + np.searchsorted(a, b, side="right")
            total += n * float((below.sum() / 2 - n * m / 2) / math.sqrt(n * m * (n + m + 1) / 12))
            weight += n
    if not weight:
        raise UndefinedMetric(f"no cell has {_LEAST} model and {_LEAST} test texts")
    return total / weight


@core.metric
class Copying(TwoSample):
    """Copying of the human texts in an embedder's space: percent authentic, and the three-sample test C_T."""

    name = "copying"
    direction = "match_human"
    bounds = (0.0, 100.0)
    ranges = {"c_t": (-np.inf, np.inf)}
    titles = {"auth_pct": "AuthPct", "c_t": "C_T"}
    targets = {"c_t": 0.0}

    most = 4_000  # all pairs are kept
    cells: int = core.ranged(3, "[1, inf)", "at least 1")
    """Number of k-means cells inside which distances are compared."""
    seed: int = 0
    """Seed of k-means."""
    scope: core.Scope = "continuation"
    """What is embedded: the continuation, or prompt_and_continuation; both sides share the prompts."""

    def prepare(self, features: Features) -> Distances:
        human, model = self.pair(features, multiplied=True)
        prompts = np.unique(sort_ids(features.human), return_inverse=True)[1]
        centers = _find_centers(human, self.cells, self.seed)
        cells = [_measure(side, centers).argmin(axis=1) for side in (human, model)]
        between, to_human = _measure(human, human, same_side=True), _measure(model, human)
        return Distances(between, to_human, cells[0], cells[1], prompts % 2 == 0)

    def evaluate(self, features: Features, prepared: Distances) -> MetricResult:
        is_authentic, notes = _find_authentic(prepared.human, prepared.model), list[str]()
        values = {"auth_pct": 100.0 * float(is_authentic.mean())}
        try:
            values["c_t"] = self._average_directions(prepared)
        except UndefinedMetric as err:
            notes.append(f"no value for c_t: {err}")
        rows = {"auth_pct": align_values(features.model, 100.0 * is_authentic)}
        return self.result(features, "auth_pct", values, notes=notes, per_example=rows)

    def _average_directions(self, distances: Distances) -> float:
        values = []
        for train in (distances.is_first, ~distances.is_first):
            if not train.any() or train.all():
                raise UndefinedMetric("all human texts have one prompt")
            nearest = distances.human[~train][:, train].min(axis=1), distances.model[:, train].min(axis=1)
            cells = distances.human_cells[~train], distances.model_cells
            values.append(_weigh_cells(*nearest, *cells, self.cells))
        return sum(values) / 2

    def score(self, prepared: Distances, human: core.Weights, model: core.Weights, /) -> dict[str, F64]:
        draws = {name: np.full(len(human), np.nan) for name in ("auth_pct", "c_t")}
        for number, (in_human, in_model) in enumerate(zip(human > 0, model > 0, strict=True)):
            human_pairs, model_pairs = np.ix_(in_human, in_human), np.ix_(in_model, in_human)
            cells = prepared.human_cells[in_human], prepared.model_cells[in_model]
            table = prepared.human[human_pairs], prepared.model[model_pairs]
            part = Distances(*table, *cells, prepared.is_first[in_human])
            if len(part.human) < 2 or not len(part.model):
                continue
            draws["auth_pct"][number] = 100.0 * float(_find_authentic(part.human, part.model).mean())
            with suppress(UndefinedMetric):  # a z-score grows with the root of the number of texts
                draws["c_t"][number] = self._average_directions(part) / math.sqrt(len(part.model) / len(prepared.model))
        return draws
