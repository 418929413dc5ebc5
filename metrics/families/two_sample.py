"""Base class of metrics that compare two sets of embeddings: their needs, row order and size limit.

The base class declares options without defaults: each metric defines its own defaults with their source, in the order
of its signature.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from openended.harness.core import (
    Family,
    Features,
    Floats,
    Metric,
    Need,
    Plan,
    Resampling,
    Scope,
    Side,
    make_random_stream,
)
from openended.metrics._embeddings.blocks import check_sides


class TwoSample(Metric):
    """A metric that compares the embeddings of the model's texts with those of the human ones."""

    family: ClassVar[Family] = "two_sample"
    resampling: ClassVar[Resampling] = "subsample"  # a text drawn twice has distance zero to its copy
    sides: ClassVar[Literal["one", "two", "human"]] = "two"
    ceiling: ClassVar[bool] = True
    most: ClassVar[int | None] = None
    """Maximum number of texts per side, for metrics whose cost grows faster than linearly; None: no limit."""

    scope: Scope

    def needs(self) -> tuple[Need, ...]:
        """Return the embeddings."""
        return (Need("embeddings", by="embedder", scope=self.scope),)

    def sort_rows(self, side: Side) -> NDArray[np.float32]:
        """Return a side's embeddings sorted by example id, so that no score depends on the order of a file."""
        rows = side.embeddings(self.needs()[0])
        order = np.argsort(np.asarray(side.ids, dtype=np.str_), kind="stable")
        if bool((order == np.arange(len(order))).all()):
            return rows
        return rows[order]

    def limit_texts(self, features: Features) -> tuple[Features, list[str]]:
        """Limit each side to `most` texts; return the features and a note if texts were dropped.

        Texts are sampled by their example ids, so that both sides keep the same prompts. The numbers of texts become
        part of the signature.
        """
        sides = (features.human, features.model)
        if self.most is None or max(map(len, sides)) <= self.most:
            return features, []
        names, prompt = np.unique(
            np.concatenate([np.asarray(s.ids, dtype=np.str_) for s in sides]), return_inverse=True
        )
        rank = make_random_stream(0, "within_reach").permutation(len(names))[prompt]
        limited = [
            self._select_texts(s, side_rank)
            for s, side_rank in zip(sides, np.split(rank, [len(sides[0])]), strict=True)
        ]
        counts = [f"{len(new)}of{len(old)}" for new, old in zip(limited, sides, strict=True)]
        note = (
            f"{len(limited[0]):,} of {len(sides[0]):,} human and {len(limited[1]):,} of {len(sides[1]):,} other "
            f"texts were compared, drawn by their ids: {self.name} takes too long for more than {self.most:,} a side"
        )
        facts = {**features.facts, "n": "/".join(counts)}
        return replace(features, human=limited[0], model=limited[1], facts=facts), [note]

    def _select_texts(self, side: Side, rank: NDArray[np.int64]) -> Side:
        chosen = np.sort(np.argsort(rank, kind="stable")[: self.most])
        need = self.needs()[0]
        rows = side.data[need]
        selected = [rows[i] for i in chosen] if isinstance(rows, list) else rows[chosen]
        return Side(side.system, [side.ids[i] for i in chosen], {need: selected})

    def sort_ids(self, side: Side) -> NDArray[np.str_]:
        """Return the example ids in the order of `sort_rows`; samples of one prompt share an id."""
        return np.sort(np.asarray(side.ids, dtype=np.str_), kind="stable")

    def prompts(self, features: Features) -> tuple[NDArray[np.str_], NDArray[np.str_]] | None:
        """Return the ids of both sides if rows of one prompt must be resampled together, None if that changes nothing.

        It changes nothing if ids are unique within each side, and the sides have the same ids or none in common.
        """
        human, model = self.sort_ids(features.human), self.sort_ids(features.model)
        unique = len(np.unique(human)) == len(human) and len(np.unique(model)) == len(model)
        if unique and (np.array_equal(human, model) or not np.isin(human, model).any()):
            return None
        return human, model

    def halves(self, features: Features, plan: Plan) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return masks of the human and the model rows (as of `sort_rows`) in the first half of each split."""
        human_ids, model_ids = (self.sort_ids(side) for side in (features.human, features.model))
        return plan.halves(human_ids), plan.halves(model_ids)

    def pair(self, features: Features) -> tuple[Floats, Floats]:
        """Return the human and the model rows after `check_sides`."""
        return check_sides(human=self.sort_rows(features.human), model=self.sort_rows(features.model))
