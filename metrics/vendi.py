"""Vendi score: the effective number of different texts of one system.

exp of the Shannon entropy of the eigenvalues of K / n, where K holds the cosine similarities of the embeddings. From
1 (all texts alike) to n (all orthogonal); the human value is the target. Order q: 1 is Shannon's entropy, others
Rényi's (q = 2 the inverse of the sum of squares). Rows are scaled to unit L2 norm, so the eigenvalues of the n × n
matrix X X^T / n are those of the d × d matrix X^T X / n; the smaller one is used.

Source: Friedman and Dieng 2023, "The Vendi score", Definition 3.1; Pasarkar and Dieng 2024 (orders).
"""

from typing import Literal

import numpy as np

from openended.harness import core
from openended.harness.core import F64, Features, Floats, MetricResult, UndefinedMetric, Weights, check_arguments, weigh
from openended.metrics._embeddings.blocks import blocks, check_side, scale_rows
from openended.metrics.families import TwoSample, align_values

_MANY = 4  # texts for each dimension, from which the score is almost linear in their weights


@check_arguments
def vendi(embeddings: Floats, *, order: float = 1.0) -> float:
    """Compute the Vendi score of one system (Friedman and Dieng 2023, Definition 3.1).

    Args:
        embeddings: Embeddings of the texts, shape (n, d), n >= 1, finite, no row all zero.
        order: q > 0 of the Rényi entropy; 1 is Shannon's, infinity uses only the largest share.

    Returns:
        The effective number of texts, in [1, n]; higher is more diverse.

    Raises:
        UndefinedMetric: If there is no text, or a row is all zero and has no cosine.
    """
    embeddings = check_side(embeddings, "embeddings")
    n, dim = embeddings.shape
    if n == 0:
        raise UndefinedMetric("needs at least one text")
    if dim <= n:
        gram = np.zeros((dim, dim))
        for _, block in blocks(embeddings, "l2"):
            gram += block.T @ block
    else:
        rows = scale_rows(embeddings)
        gram = rows @ rows.T
    if abs(np.trace(gram) - n) > 0.5:
        raise UndefinedMetric("an embedding is all zero and has no cosine similarity")
    return _score_gram(gram, n, order)


def _score_gram(gram: F64, n: int, order: float) -> float:
    """Return the score of n texts from X X^T or X^T X of their unit rows."""
    values = np.linalg.eigvalsh(gram / n)
    shares = values[values > 1e-12]  # rounding of zero eigenvalues
    shares = shares / shares.sum()
    return float(np.clip(np.exp(_compute_entropy(shares, order)), 1.0, n))


def _compute_entropy(shares: F64, order: float) -> float:
    """Rényi's entropy of positive shares, nats."""
    if order == 1:
        return -float(np.sum(shares * np.log(shares)))
    total = float(np.sum(shares**order)) if np.isfinite(order) else 0.0
    if total > np.finfo(np.float64).tiny:
        return float(np.log(total) / (1 - order))
    # The powers are too small for float64: those of shares relative to the largest are not.
    largest = float(shares.max())
    relative = float(np.sum((shares / largest) ** order))
    weight = order / (order - 1) if np.isfinite(order) else 1.0
    return -weight * float(np.log(largest)) + float(np.log(relative)) / (1 - order)


def vendi_influence(rows: Floats, order: float) -> F64:
    """Return the influence of each row on the Vendi score, shape (n,)."""
    unit = scale_rows(rows)
    n = len(unit)
    small = unit.shape[1] <= n
    values, axes = np.linalg.eigh((unit.T @ unit if small else unit @ unit.T) / n)
    is_positive = values > 1e-12
    values, axes = values[is_positive], axes[:, is_positive]
    # The share of row i in each eigenvalue.
    loads = (unit @ axes) ** 2 if small else n * axes**2 * values
    if np.isinf(order):
        return np.asarray(-loads[:, -1] / values[-1] ** 2)
    if order == 1:
        entropy = -float(np.sum(values * np.log(values)))
        return np.asarray(np.exp(entropy) * (-(loads @ np.log(values)) - entropy))
    total = float(np.sum(values**order))
    slope = order / (1 - order) * (loads @ values ** (order - 1) / total - 1)
    return np.asarray(total ** (1 / (1 - order)) * slope)


@core.metric
class Vendi(TwoSample):
    """Effective number of different texts (Friedman and Dieng 2023); the human value is the target."""

    name = "vendi"
    synonyms = ("vendi_score",)
    direction = "match_human"
    bounds = (1.0, np.inf)
    sides = "one"
    subset_share = core.SHARE
    ceiling = False
    titles = {"vendi": "Vendi"}

    order: float | Literal["inf"] = core.option(1.0, lambda q: q == "inf" or q > 0, "a positive number or inf")
    """Order of the Rényi entropy; 1 is Shannon's; inf: the largest share alone; Friedman and Dieng 2023."""
    scope: core.Scope = "continuation"
    """Diversity of what was written, not of the prompts."""

    def check(self) -> None:
        if self.order == np.inf:  # as a YAML file or the command line may write it; signatures know the word
            object.__setattr__(self, "order", "inf")

    def bounds_of(self, key: str, result: MetricResult) -> tuple[float, float]:
        return 1.0, float(result.n_model)

    def prepare(self, features: Features) -> Floats:
        return self.sort_rows(features.model)

    def evaluate(self, features: Features, prepared: Floats) -> MetricResult:
        value, moved = vendi(prepared, order=float(self.order)), vendi_influence(prepared, float(self.order))
        rows = {"vendi": align_values(features.model, moved - moved.mean())}
        return self.result(features, "vendi", {"vendi": value}, per_example=rows)

    def find_scheme(self, key: str, prepared: Floats) -> core.Scheme:
        """Subsets if the texts are few for their dimension: each has an eigenvalue almost of its own there."""
        return "subsample" if len(prepared) < _MANY * prepared.shape[1] else "bootstrap"

    def score(self, prepared: Floats, human: Weights, model: Weights, /) -> dict[str, F64]:
        """Score subsets, or weigh many texts by their influence on the score."""
        if self.find_scheme(self.name, prepared) == "bootstrap":
            influence = vendi_influence(prepared, float(self.order))
            moved = weigh(model, influence - influence.mean()) / np.maximum(weigh(model, np.ones(len(influence))), 1.0)
            return {"vendi": vendi(prepared, order=float(self.order)) + moved}
        units = scale_rows(prepared)
        n, dim = units.shape
        gram = units.T @ units if dim < n else units @ units.T
        draws = []
        for inside in model > 0:
            left_out = units[~inside]
            part = gram - left_out.T @ left_out if dim < n else gram[np.ix_(inside, inside)]
            draws.append(_score_gram(part, int(inside.sum()), float(self.order)))
        return {"vendi": np.array(draws)}
