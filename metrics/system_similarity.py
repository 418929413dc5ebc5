"""Similarity of systems: mean cosine of the texts that two systems gave for the same prompt.

For two systems and a prompt the mean over all pairs of one text of each; then the mean over their common prompts. The
value of a system is its mean over all other sets of texts in the grid (other seeds of the same decoder are other sets);
the array `between` has one number for each. From -1 to 1; lower means that the systems differ. `human` is the same with
the human texts. Only a grid has other systems: elsewhere it is undefined. Embeddings of one model crowd into a cone, so
compare with `other_prompts` of `prompt_similarity`.

Source: Jiang et al. 2025, "Artificial Hivemind" (arXiv 2510.22954): similarity between models on the same prompt.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openended.harness import core
from openended.harness.core import F64, Features, Floats, MetricResult, Need, Side, UndefinedMetric, Weights
from openended.metrics._embeddings.blocks import check_side
from openended.metrics.families import unit_rows

Compared = tuple[Mapping[str, float], Mapping[str, F64], Mapping[str, NDArray[Any]]]  # values, their rows, and arrays


@dataclass(frozen=True, slots=True, eq=False)
class _Means:
    """Mean unit vector of each prompt; the mean cosine of all pairs of two systems is the product of two of them."""

    names: NDArray[np.str_]  # sorted, shape (p,)
    vectors: F64


def system_similarity(first: Floats, second: Floats, *, first_ids: Sequence[str], second_ids: Sequence[str]) -> float:
    """Compute the mean cosine of two systems' texts for the same prompt (Jiang et al. 2025).

    Args:
        first: Embeddings of the first system's texts, shape (n, d), finite, no row all zero.
        second: The same of the second system, shape (m, d).
        first_ids: The prompt of each row of `first`, shape (n,).
        second_ids: The prompt of each row of `second`, shape (m,).

    Returns:
        The mean over common prompts, in [-1, 1]; lower means that the systems differ.

    Raises:
        UndefinedMetric: If the systems have no common prompt, or a row is all zero.
        ValueError: If the systems differ in dimension, or a number is not finite.
    """
    values = _compute_by_prompt(_compute_means(first, first_ids), _compute_means(second, second_ids))[1]
    if not len(values):
        raise UndefinedMetric("no prompt has texts of both systems")
    return float(values.mean())


def _compute_means(rows: Floats, ids: Sequence[str]) -> _Means:
    names, prompt, sizes = np.unique(np.asarray(ids, dtype=np.str_), return_inverse=True, return_counts=True)
    sums = np.zeros((len(names), rows.shape[1]))
    np.add.at(sums, prompt, unit_rows(check_side(rows, "embeddings")))
    return _Means(names, sums / sizes[:, None])


def _compute_by_prompt(first: _Means, other: _Means) -> tuple[NDArray[np.intp], F64]:
    """Return the prompts of `first` that `other` has too, and the mean cosine of each, shape (c,)."""
    if (size := first.vectors.shape[1]) != (other_size := other.vectors.shape[1]):
        raise ValueError(f"expected one dimension for both systems, got {size} and {other_size}")
    _, at, in_other = np.intersect1d(first.names, other.names, assume_unique=True, return_indices=True)
    return at, np.clip(np.einsum("ij,ij->i", first.vectors[at], other.vectors[in_other]), -1.0, 1.0)


@core.metric
class SystemSimilarity(core.Metric):
    """Mean cosine of the texts that two systems gave for one prompt (Jiang et al. 2025); in a grid."""

    name = "system_similarity"
    family = "two_sample"
    direction = "lower"
    directions = {"human": "none"}
    bounds = (-1.0, 1.0)
    resampling = "bootstrap"  # over prompts, whose texts stay together
    sides = "two"
    needs_prompts = True
    reads_grid = True
    titles = {"system_similarity": "System sim.", "human": "Sim. to human"}

    scope: core.Scope = "continuation"
    """All systems share the prompt."""

    def needs(self) -> tuple[Need, ...]:
        return (Need("embeddings", by="embedder", scope=self.scope),)

    def prepare(self, features: Features) -> Compared:
        """Compare with every system of the grid."""
        if not features.others:
            raise UndefinedMetric("needs other systems on the same prompts: a grid (openended -m …)")
        need = self.needs()[0]
        mine, human, *others = (
            side.derive(_average_by_prompt, need) for side in (features.model, features.human, *features.others)
        )
        pairs = [[(mine.names, other.names), (mine.vectors, other.vectors)] for other in others]
        same = np.array([all(np.array_equal(*pair) for pair in both) for both in pairs])
        compared = [_compute_by_prompt(mine, other) for other in others]
        between = np.array([v.mean() if len(v) else np.nan for _, v in compared])
        different = np.flatnonzero(~same & np.isfinite(between))
        if not len(different):
            raise UndefinedMetric("no other system of the grid has texts for the same prompts")
        by_prompt = np.zeros(len(mine.names))
        for i in different:
            at, cosine = compared[i]
            by_prompt[at] += cosine * (len(mine.names) / len(cosine) / len(different))
        cosines = _compute_by_prompt(mine, human)[1]
        to_human = float(cosines.mean()) if len(cosines) else np.nan
        values = {"system_similarity": float(between[different].mean()), "human": to_human}
        arrays = {"between": between, "own": np.array([int(np.argmax(same)) if same.any() else -1])}
        ids = np.asarray(features.model.ids, dtype=np.str_)
        _, row, sizes = np.unique(ids, return_inverse=True, return_counts=True)
        # Weighted so that each prompt counts once, and the mean is the value.
        return values, {"system_similarity": (by_prompt * (len(ids) / (len(sizes) * sizes)))[row]}, arrays

    def evaluate(self, features: Features, prepared: Compared) -> MetricResult:
        """Return the values; the array `own` is the system's own index in `between`."""
        values, rows, arrays = prepared
        return self.result(features, "system_similarity", values, arrays=arrays, per_example=rows)

    def score(self, prepared: Compared, human: Weights, model: Weights, /) -> dict[str, F64]:
        return {name: core.average(column, model) for name, column in prepared[1].items()}


def _average_by_prompt(side: Side, need: Need) -> _Means:
    return _compute_means(side[need], side.ids)
