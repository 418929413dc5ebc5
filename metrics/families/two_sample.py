"""Base classes of metrics that compare model texts with human texts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from openended.harness import core
from openended.harness.core import F64, I64, Features, Floats, MetricResult, Need, Plan, Side
from openended.metrics._embeddings.blocks import Rows, check_sides, project_together
from openended.metrics.families.common import ReplicatesByName

Prepared = Any  # what `prepare` of a metric returns
Space = Literal["surface", "embeddings"]
Estimates = tuple[Mapping[str, float], ReplicatesByName]  # values of a system and their replicates


def sort_order(side: Side) -> I64:
    """Return the order of a side's rows by example id, so that no score depends on the order of a file."""
    return np.argsort(np.asarray(side.ids, dtype=np.str_), kind="stable")


def sort_ids(side: Side) -> NDArray[np.str_]:
    """Return the example ids in the order of `sort_order`; samples of one prompt share an id."""
    return np.sort(np.asarray(side.ids, dtype=np.str_), kind="stable")


class ComparisonMetric(core.Metric):
    """A metric that compares the texts of the model with the human ones; a human row holds two sets of human texts.

    `prepare` reads `pair` (vectors of both sides) or `sort_texts` of each side; the rows that `score` weighs are those,
    sorted by example id. Without another `needs` it reads the texts of `scope`.
    """

    resampling: ClassVar[core.Scheme] = "subsample"  # a text drawn twice has distance zero to its copy
    subset_share: ClassVar[float] = 0.6
    """Removing few texts spreads counts of distinct n-grams and balls of nearest neighbors too far; halves miss what
    pairs of texts add to the variance. `docs/statistics.md` has the measured coverage."""
    sides: ClassVar[Literal["one", "two", "human"]] = "two"
    ceiling: ClassVar[bool] = True

    scope: core.Scope

    def needs(self) -> tuple[Need, ...]:
        return (Need("texts", scope=self.scope),)

    def list_rows(self, features: Features, prepared: Prepared) -> tuple[NDArray[np.str_], NDArray[np.str_]]:
        return sort_ids(features.human), sort_ids(features.model)

    def sort_texts(self, side: Side) -> list[str]:
        return [side[self.needs()[0]][row] for row in sort_order(side)]

    def sort_rows(self, side: Side) -> NDArray[Any]:
        """Return the vectors of a side, or features of its texts, sorted by example id; ordered rows are not copied."""
        need, order = self.needs()[0], sort_order(side)
        rows: NDArray[Any] = side.derive(_compute_surface, need) if need.kind == "texts" else side[need]
        return rows if (order == np.arange(len(order))).all() else rows[order]

    def pair(self, features: Features, *, multiplied: bool = False) -> tuple[Floats, Floats]:
        """Return the human and the model rows after `check_sides`; features of texts are standardized."""
        human, model = (self.sort_rows(side) for side in (features.human, features.model))
        human, model = check_sides(human=human, model=model, multiplied=multiplied)
        return standardize(human=human, model=model) if self.needs()[0].kind == "texts" else (human, model)


def align_values(side: Side, values: NDArray[Any]) -> F64:
    """Return numbers of the sorted rows of a side in the side's own order, shape (n,)."""
    out = np.empty(len(values))
    out[sort_order(side)] = values
    return out


def mark_sides(num_human: int, num_model: int) -> tuple[F64, F64]:
    """Return indicators of the human and of the model rows among the rows of both, shapes (1, rows)."""
    is_human = np.repeat([[1.0, 0.0]], [num_human, num_model], axis=1)
    return is_human, 1.0 - is_human


@dataclass(frozen=True, kw_only=True)
class PermutationMetric(ComparisonMetric):
    """A distance of two sets of texts, with the interval of halves and the p-value of a permutation test.

    `prepare` returns something of the rows of both sides, human rows first, each sorted by example id. `score` gets
    weights of two sets of these rows, shape (draws, rows of both sides), because a relabeled text is on the other side.
    """

    resampling: ClassVar[core.Scheme] = "halves"
    direction: ClassVar[core.Direction] = "lower"
    bounds: ClassVar[tuple[float, float]] = (0.0, np.inf)
    directions: ClassVar[Mapping[str, core.Direction | Literal["none"]]] = {"p_value": "none"}
    tails: ClassVar[Literal[1, 2]] = 1
    """Whether only larger values than that of the texts count in the test, or those that are as far on either side."""

    permutations: int = core.ranged(1000, "[0, inf)", "0 (no p-value) or more")
    """Relabelings for the p-value; 0: no p-value."""

    def _score_sides(self, prepared: Prepared, human: core.Weights, model: core.Weights) -> Any:  # noqa: ANN401 - of `score`
        first, second = (np.zeros((len(human), human.shape[1] + model.shape[1])) for _ in "12")
        first[:, : human.shape[1]], second[:, human.shape[1] :] = human, model
        return self.score(prepared, first, second)

    def evaluate(self, features: Features, prepared: Prepared) -> MetricResult:
        return self.test(features, prepared)

    def test(self, features: Features, prepared: Prepared, rows: F64 | None = None) -> MetricResult:
        """Return the value and the p-value; `rows` are what each of the sorted model texts adds."""
        values = dict(super().evaluate(features, prepared).values)
        ids = self.list_rows(features, prepared)
        if self.permutations and (labels := core.relabel_rows(*ids, self.permutations)) is not None:
            marks, name = labels.astype(np.float64), self.name
            permuted = np.asarray(self.score(prepared, marks, 1.0 - marks)[name])
            values["p_value"] = core.permutation_p_value(values[name], permuted, self.tails)
        per_example = {} if rows is None else {self.name: align_values(features.model, rows)}
        return self.result(features, self.name, values, per_example=per_example)


@dataclass(frozen=True, kw_only=True)
class TwoSample(ComparisonMetric):
    """A metric that compares the embeddings of the model's texts with those of the human ones.

    `pair` returns both sides, shapes (n_human, d) and (n_model, d), finite and sorted by example id.
    """

    family: ClassVar[core.Family] = "two_sample"
    most: ClassVar[int | None] = None
    """Maximum number of texts per side, for metrics whose cost grows faster than linearly; None: no limit."""
    shares_space: ClassVar[bool] = False  # whether differences of systems are estimated by `estimate_jointly`
    without_pca: ClassVar[Mapping[str, Any]] = {}
    """Options of the metric after a PCA of all sides; the share of the variance that it keeps is the first of them."""
    human_subsets: ClassVar[int] = 1
    """Sets of human texts that they are averaged over, where a value depends on the number of human texts."""

    scope: core.Scope = "prompt_and_continuation"
    """What is embedded: the continuation alone, or the prompt too, as Pillutla et al. 2021 do."""

    def needs(self) -> tuple[Need, ...]:
        return (Need("embeddings", by="embedder", scope=self.scope),)

    @property
    def scale_before_pca(self) -> Rows:
        """How rows are scaled before the PCA of `without_pca`."""
        return "none"

    def limit_texts(self, features: Features) -> tuple[Features, list[str]]:
        """Limit each side to `most` texts; return the features and a note if texts were dropped.

        Texts are sampled by their example ids, so that both sides keep the same prompts. The numbers of texts become
        part of the signature.
        """
        sides = (features.human, features.model)
        if self.most is None or max(map(len, sides)) <= self.most:
            return features, []
        need = self.needs()[0]
        ids = np.concatenate([np.asarray(side.ids, dtype=np.str_) for side in sides])
        names, prompt = np.unique(ids, return_inverse=True)
        rank = core.make_random_stream(0, "within_reach").permutation(len(names))[prompt]
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

    def estimate_jointly(self, human: Side, systems: Sequence[Side], plan: Plan) -> list[Estimates]:
        """Return values of each system against all human texts, in one space, with replicates: for their differences.

        What is fitted is fitted once on all sides, so that its noise is the same for all systems and cancels.
        """
        estimates: list[Estimates] = []
        for of_system in self._prepare_jointly(human, systems):
            parts: list[Estimates] = []
            for features, prepared in of_system:
                result = self.evaluate(features, prepared)
                parts.append((result.values, self.replicates(features, result, plan, prepared)))
            weights = [1 / len(parts)] * len(parts)
            combined = {key: core.combine_replicates(weights, [of[key] for _, of in parts]) for key in parts[0][1]}
            values = {key: float(np.mean([of[key] for of, _ in parts])) for key in combined}
            estimates.append((values, {key: part for key, part in combined.items() if part is not None}))
        return estimates

    def _prepare_jointly(self, human: Side, systems: Sequence[Side]) -> Iterator[list[tuple[Features, Prepared]]]:
        """Yield for each system the features that its value is a mean over, and what is prepared of them."""
        metric, need, sides = self, self.needs()[0], [human, *systems]
        if (share := getattr(self, next(iter(self.without_pca), ""), None)) is not None:
            metric = replace(self, **self.without_pca)
            projected = project_together([self.sort_rows(side) for side in sides], share, self.scale_before_pca)
            both = zip(sides, projected, strict=True)
            sides = [Side(side.system, sort_ids(side).tolist(), {need: rows}) for side, rows in both]
        humans = self.draw_subsets(sides[0], len(set(systems[0].ids)))
        for system in sides[1:]:
            yield [(pair := Features(each, system), metric.prepare(pair)) for each in humans]

    def draw_subsets(self, human: Side, size: int) -> list[Side]:
        """Return random sets of so many human texts, which hold each about equally often; or the one set of all."""
        if self.human_subsets == 1 or len(human) <= size:
            return [human]
        need, rng = self.needs()[0], core.make_random_stream(0, "human_subsets")
        order = sort_order(human)
        rows: list[I64] = []
        while len(rows) < self.human_subsets:
            shuffled = order[rng.permutation(len(order))]
            rows += [np.sort(shuffled[at : at + size]) for at in range(0, len(order) - size + 1, size)]
        vectors = human[need]
        return [Side(human.system, [human.ids[i] for i in r], {need: vectors[r]}) for r in rows[: self.human_subsets]]


@dataclass(frozen=True, kw_only=True)
class FeatureSpaceMetric(TwoSample):
    """A metric of 34 surface features of texts, standardized by both sides together, or of embeddings.

    `pair` returns the rows of both sides, shapes (n_human, d) and (n_model, d).
    """

    most: ClassVar[int | None] = 2_000

    space: Space = "surface"
    """34 features without a model, as in dLMbench; or embeddings."""
    scope: core.Scope = "continuation"
    """What is compared: the continuation, or prompt_and_continuation."""

    def needs(self) -> tuple[Need, ...]:
        return super().needs() if self.space == "embeddings" else ComparisonMetric.needs(self)


def _compute_surface(side: Side, need: Need) -> F64:
    from openended.metrics._surface import surface_features

    return surface_features(side[need])


def standardize(*, human: Floats, model: Floats) -> tuple[F64, F64]:
    """Subtract the mean of every column and divide by its standard deviation; constant columns by 1.

    Both are of all rows: moments of the human rows alone would change if texts were relabeled, and no permutation test
    would be valid.
    """
    rows = np.concatenate([human, model])
    center, scale = rows.mean(axis=0), rows.std(axis=0)
    scale = np.where(scale > 1e-12 * np.abs(center), scale, 1.0)
    return (human - center) / scale, (model - center) / scale
