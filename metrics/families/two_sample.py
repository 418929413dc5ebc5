"""The heads of the metrics that read embeddings: what they need, how both sides are taken, and averages of clusterings.

The bases declare their options without a default: each metric states its own, with the source, in the order in which
they stand in its signature.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from openended.harness.core.metric import Family, Features, Metric, Need, Resampling, Scope, Side
from openended.harness.core.resampling import Plan, Replicates
from openended.harness.core.rng import stream
from openended.harness.core.types import F64, I64, Floats, MetricResult
from openended.metrics._embeddings.blocks import check_sides
from openended.metrics._mauve.quantizers import Assign, Buckets, QuantizerName, fit_quantizer, unfit_buckets
from openended.metrics._mauve.resampled_cells import half_histograms


class TwoSample(Metric):
    """A metric that compares the embeddings of the model's texts with those of the human ones."""

    family: ClassVar[Family] = "two_sample"
    resampling: ClassVar[Resampling] = "subsample"  # drawn twice, a text would sit at distance zero from itself
    sides: ClassVar[Literal["one", "two", "human"]] = "two"
    ceiling: ClassVar[bool] = True
    most: ClassVar[int | None] = None
    """Texts a side that can be compared in minutes, where the cost grows faster than their number."""

    scope: Scope

    def needs(self) -> tuple[Need, ...]:
        """Return the embeddings."""
        return (Need("embeddings", by="embedder", scope=self.scope),)

    def sorted_rows(self, side: Side) -> NDArray[np.float32]:
        """Return a side's embeddings sorted by example id, so that no score depends on the order of a file."""
        rows = side.embeddings(self.needs()[0])
        order = np.argsort(np.asarray(side.ids, dtype=np.str_), kind="stable")
        if bool((order == np.arange(len(order))).all()):
            return rows
        return rows[order]

    def within_reach(self, features: Features) -> tuple[Features, list[str]]:
        """Return the features of at most `most` texts a side, and the note that says so; all of them where they fit.

        Which texts are kept is drawn by their example ids, so that both sides keep the same prompts; how many stands in
        the signature as well.
        """
        sides = (features.human, features.model)
        if self.most is None or max(map(len, sides)) <= self.most:
            return features, []
        names, place = np.unique(np.concatenate([np.asarray(s.ids, dtype=np.str_) for s in sides]), return_inverse=True)
        rank = stream(0, "within_reach").permutation(len(names))[place]
        kept = [self._kept(s, own) for s, own in zip(sides, np.split(rank, [len(sides[0])]), strict=True)]
        words = [f"{len(new)}of{len(old)}" for new, old in zip(kept, sides, strict=True)]
        note = (
            f"{len(kept[0]):,} of {len(sides[0]):,} human and {len(kept[1]):,} of {len(sides[1]):,} other texts were "
            f"compared, drawn by their ids: {self.name} takes too long for more than {self.most:,} a side"
        )
        facts = {**features.facts, "n": "/".join(words)}
        return replace(features, human=kept[0], model=kept[1], facts=facts), [note]

    def _kept(self, side: Side, rank: NDArray[np.int64]) -> Side:
        chosen = np.sort(np.argsort(rank, kind="stable")[: self.most])
        need = self.needs()[0]
        return Side(side.system, [side.ids[i] for i in chosen], {need: side.embeddings(need)[chosen]})

    def sorted_ids(self, side: Side) -> NDArray[np.str_]:
        """Return the example id of each of `sorted_rows`; samples of one prompt share theirs."""
        return np.sort(np.asarray(side.ids, dtype=np.str_), kind="stable")

    def prompts(self, features: Features) -> tuple[NDArray[np.str_], NDArray[np.str_]] | None:
        """Return the ids of both sides where rows of one prompt must be treated as one, None where that says nothing.

        It says nothing where the sides have the same ids, each once, or none in common and each once.
        """
        human, model = self.sorted_ids(features.human), self.sorted_ids(features.model)
        once = len(np.unique(human)) == len(human) and len(np.unique(model)) == len(model)
        if once and (np.array_equal(human, model) or not np.isin(human, model).any()):
            return None
        return human, model

    def halves(self, features: Features, plan: Plan) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return which of `sorted_rows` of the human and of the model side are in the first half of each split."""
        ours, theirs = (self.sorted_ids(side) for side in (features.human, features.model))
        return plan.halves(ours), plan.halves(theirs)

    def pair(self, features: Features) -> tuple[Floats, Floats]:
        """Return the rows of the human and of the model side, checked as by `check_sides`."""
        return check_sides(human=self.sorted_rows(features.human), model=self.sorted_rows(features.model))


class Quantized(TwoSample):
    """A metric of cell histograms, averaged over consecutive clustering seeds."""

    quantizer: QuantizerName
    num_buckets: Buckets
    explained_variance: float
    restarts: int
    max_iter: int
    seed: int
    clustering_seeds: int

    def check(self) -> None:
        """Refuse options of the clustering that are out of range."""
        self.require(self.num_buckets == "auto" or int(self.num_buckets) >= 2, "num_buckets", "auto or at least 2")
        accepted = unfit_buckets(self.num_buckets, self.quantizer)
        self.require(not accepted, "num_buckets", f"{accepted} for quantizer={self.quantizer}")
        self.require(0 < self.explained_variance <= 1, "explained_variance", "a share in (0, 1]")
        for option in ("restarts", "max_iter", "clustering_seeds"):
            self.require(getattr(self, option) >= 1, option, "at least 1")
        self.require(self.seed >= 0, "seed", "at least 0")

    def fit(self, sides: Sequence[Floats]) -> tuple[Callable[[int], Assign], int]:
        """Fit the quantizer on checked sides; return the function from a seed to cells, and the number of cells."""
        return fit_quantizer(
            sides,
            quantizer=self.quantizer,
            num_buckets=self.num_buckets,
            explained_variance=self.explained_variance,
            restarts=self.restarts,
            max_iter=self.max_iter,
        )

    def seeds(self) -> range:
        """Return the clustering seeds."""
        return range(self.seed, self.seed + self.clustering_seeds)

    def keep_cells(self, features: Features, cells: Sequence[tuple[I64, I64, int]]) -> None:
        """Keep the cells of the human and the model side, and their number, of each clustering for the draws."""
        features.model.memo["cells", self, features.human] = list(cells)

    def replicates(self, features: Features, result: MetricResult, plan: Plan) -> Mapping[str, Replicates]:  # noqa: ARG002
        """Count the cells of halves, with the clusterings of all texts; what each clustering gave stands beside."""
        kept: list[tuple[I64, I64, int]] = features.model.memo["cells", self, features.human]
        ours, theirs = self.halves(features, plan)
        sums: dict[str, F64] = {}
        for human, model, buckets in kept:
            p, q = half_histograms(human, ours, buckets), half_histograms(model, theirs, buckets)
            for name, draws in self.draws(p, q, len(human), len(model)).items():
                sums[name] = sums.get(name, 0.0) + draws / len(kept)
        runs: Mapping[str, F64] = features.model.memo["runs", self, features.human]
        return {name: Replicates(draws.reshape(2, -1), runs[name]) for name, draws in sums.items() if name in runs}

    def draws(self, p: F64, q: F64, n_human: float, n_model: float) -> Mapping[str, F64]:  # noqa: ARG002
        """Return the values of each pair of rows of human and model histograms.

        Args:
            p: Shape (rows, cells).
            q: Shape (rows, cells).
            n_human: Texts of the human side: what is added to a cell stays the same share of a half.
            n_model: Texts of the model side.
        """
        return {}

    def averaged(
        self,
        features: Features,
        primary: str,
        tables: Sequence[Mapping[str, float]],
        *,
        notes: Sequence[str] = (),
        arrays: Mapping[str, NDArray[Any]] | None = None,
    ) -> MetricResult:
        """Return means over the clusterings, with their spread where there are several.

        Args:
            features: Of which they are.
            primary: The value that tables show first.
            tables: The values of each clustering.
            notes: As in `result`.
            arrays: As in `result`.
        """
        stacked = {name: np.array([values[name] for values in tables]) for name in tables[0]}
        features.model.memo["runs", self, features.human] = stacked
        return self.result(
            features,
            primary,
            {name: float(v.mean()) for name, v in stacked.items()},
            sd={name: float(v.std(ddof=1)) for name, v in stacked.items()} if len(tables) > 1 else None,
            notes=notes,
            arrays=arrays,
        )
