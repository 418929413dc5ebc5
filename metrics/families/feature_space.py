"""Base class of two-sample metrics that read surface features of texts or embeddings."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from openended.harness.core import F64, Features, Need, Side
from openended.metrics.families.two_sample import TwoSample

Space = Literal["surface", "embeddings"]


class FeatureSpaceMetric(TwoSample):
    """A metric of two sets of feature vectors; surface features are standardized by the human side."""

    most: ClassVar[int | None] = 2_000

    space: Space

    def needs(self) -> tuple[Need, ...]:
        """Return the texts or the embeddings."""
        if self.space == "embeddings":
            return super().needs()
        return (Need("texts", scope=self.scope),)

    def sort_rows(self, side: Side) -> NDArray[Any]:
        """Return a side's vectors sorted by example id."""
        if self.space == "embeddings":
            return super().sort_rows(side)
        from openended.metrics._surface.features import surface_features

        need = self.needs()[0]
        rows = side.compute_once(("surface features", need), lambda: surface_features(side.texts(need)))
        return rows[np.argsort(np.asarray(side.ids, dtype=np.str_), kind="stable")]

    def pair(self, features: Features) -> tuple[F64, F64]:
        """Return the vectors of the human and of the model side, checked, in float64."""
        human, model = (np.asarray(side, dtype=np.float64) for side in super().pair(features))
        return standardize(human=human, model=model) if self.space == "surface" else (human, model)


def standardize(*, human: F64, model: F64) -> tuple[F64, F64]:
    """Subtract the human mean of every column and divide by the human standard deviation; constant columns by 1."""
    center, scale = human.mean(axis=0), human.std(axis=0)
    scale = np.where(scale > 1e-12 * np.abs(center), scale, 1.0)
    return (human - center) / scale, (model - center) / scale
