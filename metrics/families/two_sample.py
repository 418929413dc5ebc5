"""Base classes of metrics that compare model texts with human texts.

Options have no defaults here: each metric defines its own with their source, in the order of its signature.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from openended.harness.core import (
    F64,
    Direction,
    Family,
    Features,
    Floats,
    Metric,
    MetricResult,
    Need,
    Plan,
    Replicates,
    Resampling,
    Scope,
    Side,
    make_random_stream,
    permutation_p_value,
    relabel_rows,
)
from openended.metrics._common import SUBSET_SHARE, ReplicatesByName
from openended.metrics._embeddings.blocks import check_sides

Space = Literal["surface", "embeddings"]


def sort_order(side: Side) -> NDArray[np.int64]:
    """Return the order of a side's rows by example id, so that no score depends on the order of a file."""
    return np.argsort(np.asarray(side.ids, dtype=np.str_), kind="stable")


class ComparisonMetric(Metric):
    """A metric that compares the texts of the model with the human ones; a human row holds two sets of human texts."""

    resampling: ClassVar[Resampling] = "subsample"  # a text drawn twice has distance zero to its copy
    sides: ClassVar[Literal["one", "two", "human"]] = "two"
    ceiling: ClassVar[bool] = True

    scope: Scope

    def needs(self) -> tuple[Need, ...]:
        return (Need("texts", scope=self.scope),)

    def sort_ids(self, side: Side) -> NDArray[np.str_]:
        """Return the example ids in the order of `sort_order`; samples of one prompt share an id."""
        return np.sort(np.asarray(side.ids, dtype=np.str_), kind="stable")

    def sort_both_ids(self, features: Features) -> tuple[NDArray[np.str_], NDArray[np.str_]]:
        return self.sort_ids(features.human), self.sort_ids(features.model)

    def halves(self, features: Features, plan: Plan) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return masks of the sorted human and model rows in the first half of each split."""
        human_ids, model_ids = self.sort_both_ids(features)
        return plan.halves(human_ids), plan.halves(model_ids)

    def relabel(self, features: Features, count: int) -> NDArray[np.bool_] | None:
        """Return which sorted rows stand on the human side in each relabeling; None without a permutation test."""
        return relabel_rows(*self.sort_both_ids(features), count) if count else None

    def subsample(
        self,
        features: Features,
        plan: Plan,
        compute: Callable[[NDArray[np.bool_], NDArray[np.bool_]], Mapping[str, F64]],
        share: float = SUBSET_SHARE,
    ) -> ReplicatesByName:
        """Return replicates of values computed from masks of the sorted rows in each subset, shape (draws, rows)."""
        human_ids, model_ids = self.sort_both_ids(features)
        values = compute(plan.subsets(human_ids, share), plan.subsets(model_ids, share))
        return {name: plan.build_subset_replicates(model_ids, share, draws) for name, draws in values.items()}


class PermutationMetric(ComparisonMetric):
    """A distance of two sets of texts, with the interval of halves and the p-value of a permutation test.

    Both call `compare` with what `prepare` returns of the rows of both sides, human rows first, each sorted by id.
    """

    direction: ClassVar[Direction] = "lower"
    bounds: ClassVar[tuple[float, float]] = (0.0, np.inf)
    directions: ClassVar[Mapping[str, Direction | Literal["none"]]] = {"p_value": "none"}

    permutations: int

    def compare(self, prepared: Any, first: F64, second: F64) -> F64:  # noqa: ANN401
        """Return the value of each pair of sets of rows, given by indicators of shape (draws, rows)."""
        raise TypeError(f"{type(self).__name__} does not compare {first.shape} and {second.shape} rows")

    def compute(self, features: Features, prepared: Any = None) -> MetricResult:  # noqa: ANN401
        prepared = self.prepare(features) if prepared is None else prepared
        is_human = np.repeat([[1.0, 0.0]], [len(features.human), len(features.model)], axis=1)
        values = {self.name: float(self.compare(prepared, is_human, 1.0 - is_human)[0])}
        labels = self.relabel(features, self.permutations)
        if labels is not None:
            marks = labels.astype(np.float64)
            values["p_value"] = permutation_p_value(values[self.name], self.compare(prepared, marks, 1.0 - marks))
        return self.result(features, self.name, values)

    def replicates(
        self,
        features: Features,
        result: MetricResult,
        plan: Plan,
        prepared: Any = None,  # noqa: ANN401
    ) -> ReplicatesByName:
        prepared = self.prepare(features) if prepared is None else prepared
        human, model = self.halves(features, plan)
        none = np.zeros_like(human), np.zeros_like(model)
        draws = [
            self.compare(prepared, *(np.hstack(rows).astype(np.float64) for rows in ((a, none[1]), (none[0], b))))
            for a, b in ((human, model), (~human, ~model))
        ]
        return {self.name: Replicates(np.stack(draws))}


class TwoSample(ComparisonMetric):
    """A metric that compares the embeddings of the model's texts with those of the human ones."""

    family: ClassVar[Family] = "two_sample"
    most: ClassVar[int | None] = None
    """Maximum number of texts per side, for metrics whose cost grows faster than linearly; None: no limit."""

    def needs(self) -> tuple[Need, ...]:
        return (Need("embeddings", by="embedder", scope=self.scope),)

    def sort_rows(self, side: Side) -> NDArray[Any]:
        """Return a side's vectors sorted by example id; a memory map that is in order is not copied."""
        rows = side.embeddings(self.needs()[0])
        order = sort_order(side)
        return rows if (order == np.arange(len(order))).all() else rows[order]

    def limit_texts(self, features: Features) -> tuple[Features, list[str]]:
        """Limit each side to `most` texts; return the features and a note if texts were dropped.

        Texts are sampled by their example ids, so that both sides keep the same prompts. The numbers of texts become
        part of the signature.
        """
        sides = (features.human, features.model)
        if self.most is None or max(map(len, sides)) <= self.most:
            return features, []
        need = self.needs()[0]
        names, prompt = np.unique(
            np.concatenate([np.asarray(s.ids, dtype=np.str_) for s in sides]), return_inverse=True
        )
        rank = make_random_stream(0, "within_reach").permutation(len(names))[prompt]
        limited = []
        for side, side_rank in zip(sides, np.split(rank, [len(sides[0])]), strict=True):
            chosen = np.sort(np.argsort(side_rank, kind="stable")[: self.most])
            rows = side.data[need]
            selected = [rows[i] for i in chosen] if isinstance(rows, list) else rows[chosen]
            limited.append(Side(side.system, [side.ids[i] for i in chosen], {need: selected}))
        counts = [f"{len(new)}of{len(old)}" for new, old in zip(limited, sides, strict=True)]
        note = (
            f"{len(limited[0]):,} of {len(sides[0]):,} human and {len(limited[1]):,} of {len(sides[1]):,} other "
            f"texts were compared, drawn by their ids: {self.name} takes too long for more than {self.most:,} a side"
        )
        facts = {**features.facts, "n": "/".join(counts)}
        return replace(features, human=limited[0], model=limited[1], facts=facts), [note]

    def prompts(self, features: Features) -> tuple[NDArray[np.str_], NDArray[np.str_]] | None:
        """Return the ids of both sides if rows of one prompt must be resampled together, None if that changes nothing.

        It changes nothing if ids are unique within each side, and the sides have the same ids or none in common.
        """
        human, model = self.sort_both_ids(features)
        unique = len(np.unique(human)) == len(human) and len(np.unique(model)) == len(model)
        if unique and (np.array_equal(human, model) or not np.isin(human, model).any()):
            return None
        return human, model

    def pair(self, features: Features) -> tuple[Floats, Floats]:
        """Return the human and the model rows after `check_sides`."""
        return check_sides(human=self.sort_rows(features.human), model=self.sort_rows(features.model))


class FeatureSpaceMetric(TwoSample):
    """A metric of surface features, standardized by both sides together, or of embeddings."""

    most: ClassVar[int | None] = 2_000

    space: Space

    def needs(self) -> tuple[Need, ...]:
        return super().needs() if self.space == "embeddings" else ComparisonMetric.needs(self)

    def sort_rows(self, side: Side) -> NDArray[Any]:
        if self.space == "embeddings":
            return super().sort_rows(side)
        return side.derive(_compute_surface, self.needs()[0])[sort_order(side)]

    def pair(self, features: Features) -> tuple[F64, F64]:
        human, model = (np.asarray(side, dtype=np.float64) for side in super().pair(features))
        return standardize(human=human, model=model) if self.space == "surface" else (human, model)


def _compute_surface(side: Side, need: Need) -> F64:
    from openended.metrics._surface import surface_features

    return surface_features(side.texts(need))


def standardize(*, human: F64, model: F64) -> tuple[F64, F64]:
    """Subtract the mean of every column and divide by its standard deviation; constant columns by 1.

    Both are of all rows: moments of the human rows alone would change if texts were relabeled, and no permutation test
    would be valid.
    """
    rows = np.concatenate([human, model])
    center, scale = rows.mean(axis=0), rows.std(axis=0)
    scale = np.where(scale > 1e-12 * np.abs(center), scale, 1.0)
    return (human - center) / scale, (model - center) / scale
