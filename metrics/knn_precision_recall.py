"""k-NN precision and recall, density and coverage of model text against human text.

Each point has a ball whose radius is the distance to its k-th neighbor on its own side (itself left out). Precision is
the share of model points inside some human ball, recall the share of human points inside some model ball, coverage the
share of human balls that hold a model point, density the mean number of human balls a model point is in, divided by k.
All but density are in [0, 1] (density may exceed 1), higher is better. Balls are closed, so identical sides give
precision and recall 1 even where texts repeat.

Source: Kynkäänniemi et al. 2019, "Improved precision and recall metric", equations 1 to 3; Naeem et al. 2020, "Reliable
fidelity and diversity metrics", equations 5 and 6 (density, coverage); Le Bronnec et al. 2024 (protocol for text).
"""

from collections.abc import Mapping
from typing import Literal

import numpy as np

from openended.harness.core import F64, I64, Features, Floats, MetricResult, Weights, check_arguments, metric, ranged
from openended.metrics._embeddings import neighbors
from openended.metrics._embeddings.blocks import Rows, check_sides, project_pair, scale_rows
from openended.metrics._embeddings.neighbors import NearestPoints, Points
from openended.metrics.families import TwoSample, Values, align_values

RowScale = Literal["with_pca", "l2", "none"]


@check_arguments
def knn_precision_recall(
    *, human: Floats, model: Floats, k: int = 4, explained_variance: float | None = 0.9, seed: int = 25,
    rows: RowScale = "with_pca", closed: bool = True,
) -> Values:  # fmt: skip
    """Compute precision, recall, density and coverage (Kynkäänniemi et al. 2019; Naeem et al. 2020).

    Args:
        human: Embeddings of human texts, shape (n_human, d), n_human > k, finite.
        model: Embeddings of model texts, shape (n_model, d), n_model > k.
        k: The neighbor whose distance is the radius of a ball, at least 1.
        explained_variance: Share of the variance that joint PCA keeps, in (0, 1]; `None`: no PCA.
        seed: Not used, because nothing here is random; every two-sample function has it.
        rows: `l2` scales rows to unit norm first, `none` takes them raw, `with_pca` is `l2` where PCA is on.
        closed: Whether a point at exactly the radius is inside.

    Returns:
        `precision`, `recall` and `coverage`, in [0, 1]; `density`, from 0 up, about 1 for equal distributions.

    Raises:
        UndefinedMetric: If a side has at most k texts.
        ValueError: If the sides differ in dimension, or a number is not finite.
    """
    del seed
    points = _project(human=human, model=model, k=k, explained_variance=explained_variance, rows=rows)
    return _compute_shares(_count_balls(points, k, closed), k)


def _project(*, human: Floats, model: Floats, k: int, explained_variance: float | None, rows: RowScale) -> Points:
    human, model = check_sides(human=human, model=model, least=k + 1)
    scale = _choose_scale(explained_variance, rows)
    if explained_variance is not None:
        human, model = project_pair(human=human, model=model, share=explained_variance, rows=scale)
    elif scale == "l2":
        human, model = scale_rows(human), scale_rows(model)
    return neighbors.center_points(human, model)


def _choose_scale(explained_variance: float | None, rows: RowScale) -> Rows:
    return "l2" if rows == "l2" or (rows == "with_pca" and explained_variance is not None) else "none"


def _count_balls(points: Points, k: int, closed: bool) -> neighbors.Counts:
    return neighbors.count_balls(*points, *(neighbors.radii(side, k) for side in points), closed=closed)


def _compute_shares(counts: neighbors.Counts, k: int) -> Values:
    all_counts = (counts.human_balls, counts.model_balls, counts.members)
    precision, recall, coverage = (float(np.mean(each > 0)) for each in all_counts)
    density = float(np.mean(counts.human_balls) / k)
    return Values(precision=precision, recall=recall, density=density, coverage=coverage)


def _count_distinct(points: I64) -> int:
    return int(np.count_nonzero(np.bincount(points)))


@metric
class KnnPrecisionRecall(TwoSample):
    """k-NN precision, recall, density and coverage (Kynkäänniemi et al. 2019; Naeem et al. 2020)."""

    name = "knn_precision_recall"
    synonyms = ("precision_recall", "prdc", "precision", "recall")
    direction = "higher"
    bounds = (0.0, 1.0)
    ranges = {"density": (0.0, np.inf)}
    titles = {"precision": "Precision", "recall": "Recall", "density": "Density", "coverage": "Coverage"}
    targets = {"density": 1.0}  # section 3 of Naeem et al. 2020
    shares_space = True
    without_pca = {"explained_variance": None, "rows": "none"}
    human_subsets = 4  # with more human texts, balls would be smaller
    most = 50_000  # all pairs: two to three minutes per core

    k: int = ranged(4, "[1, inf)", "at least 1")
    """Neighbor that sets the radius; prdc: 5; Kynkäänniemi et al.: 3."""
    explained_variance: float | None = ranged(0.9, "(0, 1]", "a share in (0, 1] or null")
    """Joint PCA; null: none; Le Bronnec et al. 2024."""
    rows: RowScale = "with_pca"
    """Unit L2 norm where PCA is on; or l2, none; Le Bronnec et al. 2024."""
    closed: bool = True
    """A point at exactly the radius is inside; prdc: false; Kynkäänniemi et al. 2019."""

    @property
    def scale_before_pca(self) -> Rows:
        return _choose_scale(self.explained_variance, self.rows)

    def explain_too_few(self, num_human: int, num_model: int) -> str:
        return neighbors.explain_few_neighbors(self.k, type(self).k, min(num_human, num_model))

    def prepare(self, features: Features) -> Points:
        human, model = self.pair(features)
        return _project(human=human, model=model, k=self.k, explained_variance=self.explained_variance, rows=self.rows)

    def evaluate(self, features: Features, prepared: Points) -> MetricResult:
        """Compute the four values; the arrays hold the rows (in the order of ids) in no ball of the other side."""
        counts = _count_balls(prepared, self.k, self.closed)
        n_human, n_model = len(features.human), len(features.model)
        notes = []
        if n_human != n_model:
            notes.append(f"the sides differ in size (human {n_human}, model {n_model}): radii shrink with n")
        missed = {
            "missed_human_rows": np.flatnonzero(counts.model_balls == 0),
            "missed_model_rows": np.flatnonzero(counts.human_balls == 0),
        }
        balls = align_values(features.model, counts.human_balls)
        rows = {"precision": (balls > 0).astype(np.float64), "density": balls / self.k}
        values = _compute_shares(counts, self.k)
        return self.result(features, "precision", values, notes=notes, arrays=missed, per_example=rows)

    def rows_of(self, key: str, result: MetricResult) -> None:
        """Return None: whether a text is in a ball depends on the other side too, so other texts vary too."""

    def score(self, prepared: Points, human: Weights, model: Weights, /) -> Mapping[str, F64]:
        """Recompute the radii in subsets of half of the texts or more; NaN where one has too few texts."""
        near = [NearestPoints(*sides, self.k) for sides in (prepared, prepared[::-1])]
        out = {name: np.full(len(human), np.nan) for name in ("precision", "recall", "density", "coverage")}
        for number, (in_human, in_model) in enumerate(zip(human > 0, model > 0, strict=True)):
            n_human, n_model = np.count_nonzero(in_human), np.count_nonzero(in_model)
            if min(n_human, n_model) <= self.k:
                continue
            holder, members = near[0].find_members(in_human, in_model, self.closed)
            out["precision"][number] = _count_distinct(members) / n_model
            out["density"][number] = len(members) / (self.k * n_model)
            out["coverage"][number] = _count_distinct(holder) / n_human
            _, members = near[1].find_members(in_model, in_human, self.closed)
            out["recall"][number] = _count_distinct(members) / n_human
        return out
