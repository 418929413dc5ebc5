"""Base classes of metrics that compare model texts with human texts.

Options have no defaults here: each metric defines its own with their source, in the order of its signature.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from openended.harness import core
from openended.harness.core import F64, I64, Features, Floats, MetricResult, Need, Plan, Replicates, Side
from openended.metrics._common import SUBSET_SHARE, Mask, ReplicatesByName
from openended.metrics._embeddings.blocks import Rows, check_side, check_sides, project_together
from openended.metrics._mauve import kmeans, quantizers
from openended.metrics._mauve.scores import count_half_histograms, histogram

Prepared = Any  # what `prepare` of a metric returns
Space = Literal["surface", "embeddings"]
Estimates = tuple[Mapping[str, float], ReplicatesByName]  # values of a system and their replicates
LEAST_TEXTS = 200  # for an interval of a value of cells; docs/statistics.md
# Clusterings of one space, of one start each, that differences are averaged over; iterations of k-means.
JOINT_CLUSTERINGS, JOINT_ITERATIONS = 30, 50
HALF_SCALE = 1 / 3  # of the halves that are scored for their errors
ClusterFit = Literal["pair", "joint", "reference"]


def sort_order(side: Side) -> I64:
    """Return the order of a side's rows by example id, so that no score depends on the order of a file."""
    return np.argsort(np.asarray(side.ids, dtype=np.str_), kind="stable")


def sort_ids(side: Side) -> NDArray[np.str_]:
    """Return the example ids in the order of `sort_order`; samples of one prompt share an id."""
    return np.sort(np.asarray(side.ids, dtype=np.str_), kind="stable")


class ComparisonMetric(core.Metric):
    """A metric that compares the texts of the model with the human ones; a human row holds two sets of human texts.

    A subclass with `prepare` defines `evaluate` and `resample`, which always have what it returned.
    """

    resampling: ClassVar[core.Resampling] = "subsample"  # a text drawn twice has distance zero to its copy
    sides: ClassVar[Literal["one", "two", "human"]] = "two"
    ceiling: ClassVar[bool] = True

    scope: core.Scope

    def needs(self) -> tuple[Need, ...]:
        return (Need("texts", scope=self.scope),)

    def compute(self, features: Features, prepared: Prepared = None) -> MetricResult:
        return self.evaluate(features, self.prepare(features) if prepared is None else prepared)

    def replicates(
        self, features: Features, result: MetricResult, plan: Plan, prepared: Prepared = None
    ) -> ReplicatesByName:
        return self.resample(features, result, plan, self.prepare(features) if prepared is None else prepared)

    def evaluate(self, features: Features, prepared: Prepared) -> MetricResult:
        """Compute the metric from what `prepare` returned."""
        raise TypeError(f"{type(self).__name__} does not define compute() of {len(features.model)} texts: {prepared}")

    def resample(self, features: Features, result: MetricResult, plan: Plan, prepared: Prepared) -> ReplicatesByName:
        """Return replicates from what `prepare` returned."""
        return super().replicates(features, result, plan)

    def sort_both_ids(self, features: Features) -> tuple[NDArray[np.str_], NDArray[np.str_]]:
        return sort_ids(features.human), sort_ids(features.model)

    def halves(self, features: Features, plan: Plan) -> tuple[Mask, Mask]:
        """Return masks of the sorted human and model rows in the first half of each split."""
        return plan.halves(sort_ids(features.human)), plan.halves(sort_ids(features.model))

    def relabel(self, features: Features, count: int) -> Mask | None:
        """Return which sorted rows stand on the human side in each relabeling; None without a permutation test."""
        return core.relabel_rows(*self.sort_both_ids(features), count) if count else None

    def subsample(
        self, features: Features, plan: Plan, compute: Callable[[Mask, Mask], Mapping[str, F64]],
        share: float = SUBSET_SHARE,
    ) -> ReplicatesByName:  # fmt: skip
        """Return replicates of values computed from masks of the sorted rows in each subset, shape (draws, rows)."""
        human_ids, model_ids = self.sort_both_ids(features)
        values = compute(plan.subsets(human_ids, share), plan.subsets(model_ids, share))
        return {name: plan.build_subset_replicates(model_ids, share, draws) for name, draws in values.items()}


def mark_sides(num_human: int, num_model: int) -> tuple[F64, F64]:
    """Return indicators of the human and of the model rows among the rows of both, shapes (1, rows)."""
    is_human = np.repeat([[1.0, 0.0]], [num_human, num_model], axis=1)
    return is_human, 1.0 - is_human


class PermutationMetric(ComparisonMetric):
    """A distance of two sets of texts, with the interval of halves and the p-value of a permutation test.

    Both call `compare` with what `prepare` returns of the rows of both sides, human rows first, each sorted by id.
    """

    direction: ClassVar[core.Direction] = "lower"
    bounds: ClassVar[tuple[float, float]] = (0.0, np.inf)
    directions: ClassVar[Mapping[str, core.Direction | Literal["none"]]] = {"p_value": "none"}

    permutations: int

    def compare(self, prepared: Prepared, first: F64, second: F64, /) -> F64:
        """Return the value of each pair of sets of rows, given by indicators of shape (draws, rows)."""
        raise TypeError(f"{type(self).__name__} does not compare {first.shape} and {second.shape} rows")

    def evaluate(self, features: Features, prepared: Prepared) -> MetricResult:
        is_human, is_model = mark_sides(len(features.human), len(features.model))
        values = {self.name: float(self.compare(prepared, is_human, is_model)[0])}
        labels = self.relabel(features, self.permutations)
        if labels is not None:
            marks = labels.astype(np.float64)
            permuted = self.compare(prepared, marks, 1.0 - marks)
            values["p_value"] = core.permutation_p_value(values[self.name], permuted)
        return self.result(features, self.name, values)

    def resample(self, features: Features, result: MetricResult, plan: Plan, prepared: Prepared) -> ReplicatesByName:
        human, model = self.halves(features, plan)
        none = np.zeros_like(human), np.zeros_like(model)
        draws = [
            self.compare(prepared, *(np.hstack(rows).astype(np.float64) for rows in ((a, none[1]), (none[0], b))))
            for a, b in ((human, model), (~human, ~model))
        ]
        return {self.name: Replicates(np.stack(draws))}


class TwoSample(ComparisonMetric):
    """A metric that compares the embeddings of the model's texts with those of the human ones."""

    family: ClassVar[core.Family] = "two_sample"
    most: ClassVar[int | None] = None
    """Maximum number of texts per side, for metrics whose cost grows faster than linearly; None: no limit."""
    shares_space: ClassVar[bool] = False  # whether differences of systems are estimated by `estimate_jointly`
    human_subsets: ClassVar[int] = 1
    """Sets of human texts that they are averaged over, where a value depends on the number of human texts."""

    def needs(self) -> tuple[Need, ...]:
        return (Need("embeddings", by="embedder", scope=self.scope),)

    def sort_rows(self, side: Side) -> NDArray[Any]:
        """Return a side's vectors sorted by example id; a memory map that is in order is not copied."""
        rows, order = side.embeddings(self.needs()[0]), sort_order(side)
        return rows if (order == np.arange(len(order))).all() else rows[order]

    def pair(self, features: Features) -> tuple[Floats, Floats]:
        """Return the human and the model rows after `check_sides`."""
        return check_sides(human=self.sort_rows(features.human), model=self.sort_rows(features.model))

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
        metric, (human, *systems) = self.share_space((human, *systems))
        humans = self.draw_subsets(human, len(set(systems[0].ids)))
        estimates: list[Estimates] = []
        for system in systems:
            parts: list[Estimates] = []
            for side in humans:
                features = Features(side, system)
                prepared = metric.prepare(features)
                result = metric.compute(features, prepared)
                parts.append((result.values, metric.replicates(features, result, plan, prepared)))
            weights = [1 / len(parts)] * len(parts)
            combined = {key: core.combine_replicates(weights, [of[key] for _, of in parts]) for key in parts[0][1]}
            values = {key: float(np.mean([of[key] for of, _ in parts])) for key in combined}
            estimates.append((values, {key: part for key, part in combined.items() if part is not None}))
        return estimates

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
        vectors = human.embeddings(need)
        return [Side(human.system, [human.ids[i] for i in r], {need: vectors[r]}) for r in rows[: self.human_subsets]]

    def share_space(self, sides: Sequence[Side]) -> tuple[Self, list[Side]]:
        """Return the metric and the sides in the space that all of them share."""
        return self, list(sides)

    def project_sides(self, sides: Sequence[Side], share: float, scale: Rows) -> list[Side]:
        """Return the sides with their rows after a PCA of all of them."""
        projected = project_together([self.sort_rows(side) for side in sides], share, scale)
        need = self.needs()[0]
        both = zip(sides, projected, strict=True)
        return [Side(side.system, sort_ids(side).tolist(), {need: rows}) for side, rows in both]

    def prompts(self, features: Features) -> tuple[NDArray[np.str_], NDArray[np.str_]] | None:
        """Return the ids of both sides if rows of one prompt must be resampled together, None if that changes nothing.

        It changes nothing if ids are unique within each side, and the sides have the same ids or none in common.
        """
        human, model = self.sort_both_ids(features)
        unique = len(np.unique(human)) == len(human) and len(np.unique(model)) == len(model)
        if unique and (np.array_equal(human, model) or not np.isin(human, model).any()):
            return None
        return human, model


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


@dataclass(frozen=True, slots=True, eq=False)
class CellCounts:
    """The cell of every text in one clustering."""

    human: I64  # shape (n_human,)
    model: I64  # shape (n_model,)
    count: int  # number of cells


@dataclass(frozen=True, slots=True, eq=False)
class ClusteringRun:
    """One clustering and the values of the metric for it."""

    cells: CellCounts
    values: Mapping[str, float]
    arrays: Mapping[str, NDArray[Any]]  # for the figures


Clusterer = tuple[Callable[[int], quantizers.Assign], int]
"""What clusters both sides with a seed, and the number of cells."""


class Quantized(TwoSample):
    """A metric of cell histograms, averaged over consecutive clustering seeds.

    A subclass scores one clustering in `score` and many halves at once in `score_halves`.
    """

    direction: ClassVar[core.Direction] = "higher"
    bounds = (0.0, 1.0)
    shares_space = True
    cluster_fit: ClusterFit = "pair"  # not an option unless a subclass declares it
    unit_norm: quantizers.UnitNorm = "before_pca"  # likewise, as the next two
    training: quantizers.Training = "fast"
    pca_max_data: int | None = None

    quantizer: quantizers.QuantizerName
    num_buckets: quantizers.Buckets
    explained_variance: float
    restarts: int
    max_iter: int
    seed: int
    clustering_seeds: int

    def check(self) -> None:
        accepted = quantizers.describe_accepted_buckets(self.num_buckets, self.quantizer)
        self.require(not accepted, "num_buckets", f"{accepted} for quantizer={self.quantizer}")

    def describe_libraries(self) -> Mapping[str, str]:
        return kmeans.describe_library()

    def explain_too_few(self, num_human: int, num_model: int) -> str:
        fitted = {"pair": num_human + num_model, "reference": num_human}.get(self.cluster_fit)
        if fitted is None or self.num_buckets == "auto":
            return ""
        needed = quantizers.count_fitted_rows(self.num_buckets, self.quantizer)
        if needed <= fitted:
            return ""
        return (
            f"num_buckets={self.num_buckets}: needs {needed:,} texts to be fitted on, this run has {fitted:,}; "
            f"type metric.{self.name}.num_buckets=auto, or raise num_examples"
        )

    def explain_no_interval(self, num_texts: int) -> str:
        if num_texts >= LEAST_TEXTS:
            return ""
        return f"below {LEAST_TEXTS} texts it would cover 67 to 100 %, by the kind of text; differences are tested"

    def score(self, cells: CellCounts) -> ClusteringRun:
        """Return the values of one clustering."""
        raise TypeError(f"{type(self).__name__} does not score {cells.count} cells")

    def score_halves(self, p: F64, q: F64, n_human: float, n_model: float) -> Mapping[str, F64]:
        """Return the values of each pair of rows of human and model histograms, shape (rows, cells).

        The sides have n_human and n_model texts: what is added to a cell stays the same share of a half.
        """
        raise TypeError(f"{type(self).__name__} has no values for {p.shape}, {q.shape}, {n_human:g}, {n_model:g}")

    def select_cells_of_halves(self, cells: CellCounts) -> CellCounts:
        """Return the cells whose histograms `score_halves` reads."""
        return cells

    def prepare(self, features: Features) -> Prepared:
        """Cluster both sides with each seed and score the cells.

        What is fitted on the grid or on the human side does not depend on the system under test, so it is derived from
        the human side, which a whole grid shares.
        """
        human, model = self.pair(features)
        systems: list[Side] = []
        if self.cluster_fit == "joint":
            # Sorted, so that nothing depends on how the systems are listed.
            systems = sorted((s for s in features.others if s.system != core.HUMAN), key=lambda side: side.system)
            if not systems:
                why = "cluster_fit=joint needs all systems of a grid (openended -m …); this run has one"
                raise core.UndefinedMetric(why)
        is_pair = self.cluster_fit == "pair"
        cluster, count = self.fit([model, human]) if is_pair else features.human.derive(_fit_grid, self, *systems)
        runs = []
        for seed in range(self.seed, self.seed + self.clustering_seeds):
            model_cells, human_cells = cluster(seed)([model, human])
            runs.append(self.score(CellCounts(human_cells, model_cells, count)))
        return tuple(runs)

    def estimate_jointly(self, human: Side, systems: Sequence[Side], plan: Plan) -> list[Estimates]:
        """Cluster all systems and human texts together, and score each system in every clustering.

        Many clusterings of one start cost less than a few of the best of several starts, and their mean has less noise.
        """
        rows = [check_side(self.sort_rows(side), "a system") for side in (*systems, human)]
        cluster, count = self.fit(rows, restarts=1, max_iter=min(self.max_iter, JOINT_ITERATIONS))
        runs: list[list[ClusteringRun]] = [[] for _ in systems]
        for seed in range(self.seed, self.seed + JOINT_CLUSTERINGS):
            *cells, human_cells = cluster(seed)(rows)
            for scored, model_cells in zip(runs, cells, strict=True):
                scored.append(self.score(CellCounts(human_cells, model_cells, count)))
        estimates: list[Estimates] = []
        for system, scored in zip(systems, runs, strict=True):
            features = Features(human, system)
            values = {name: float(of_runs.mean()) for name, of_runs in _collect_values(scored).items()}
            estimates.append((values, self.score_all_halves(features, plan, scored, self.half_scale)))
        return estimates

    @property
    def half_scale(self) -> float:
        """The scale of the halves: docs/statistics.md."""
        return HALF_SCALE

    def average(
        self, features: Features, primary: str, runs: Sequence[ClusteringRun], *, notes: Sequence[str] = (),
        arrays: Mapping[str, NDArray[Any]] | None = None,
    ) -> MetricResult:  # fmt: skip
        """Return means over the clusterings, with their standard deviation where there are several."""
        values = _collect_values(runs)
        means = {name: float(v.mean()) for name, v in values.items()}
        sd = {name: float(v.std(ddof=1)) for name, v in values.items()} if len(runs) > 1 else None
        return self.result(features, primary, means, sd=sd, notes=notes, arrays=arrays)

    def resample(self, features: Features, result: MetricResult, plan: Plan, prepared: Prepared) -> ReplicatesByName:
        return self.score_all_halves(features, plan, prepared, self.half_scale)

    def score_all_halves(
        self, features: Features, plan: Plan, runs: Sequence[ClusteringRun], scale: float
    ) -> dict[str, Replicates]:
        """Score halves of the texts with the clusterings of all texts; each clustering's own values are the repeats.

        A half leaves more cells uneven, where MAUVE has another slope. A scale below 1 moves the histograms of halves
        towards those of all texts, and enlarges the differences of their values again, to the second order.
        """
        human_halves, model_halves = self.halves(features, plan)
        sums: dict[str, F64] = {}
        for run in runs:
            cells = self.select_cells_of_halves(run.cells)
            sides = []
            for labels, halves in ((cells.human, human_halves), (cells.model, model_halves)):
                shares, everyone = count_half_histograms(labels, halves, cells.count), histogram(labels, cells.count)
                sides.append(shares if scale == 1 else everyone + scale * (shares - everyone))
            p, q = sides
            for name, draws in self.score_halves(p, q, len(cells.human), len(cells.model)).items():
                sums[name] = sums.get(name, 0.0) + draws / len(runs)
        values = _collect_values(runs)
        of_values = ((name, draws.reshape(2, -1)) for name, draws in sums.items() if name in values)
        return {name: Replicates(enlarge(draws, scale), values[name]) for name, draws in of_values}

    def fit(self, sides: Sequence[Floats], **others: Any) -> Clusterer:  # noqa: ANN401
        names = ("quantizer", "num_buckets", "explained_variance", "restarts", "max_iter", "unit_norm", "training",
                 "pca_max_data")  # fmt: skip
        options: dict[str, Any] = {name: getattr(self, name) for name in names} | others
        return quantizers.fit_quantizer(sides, **options)


def _fit_grid(human: Side, metric: Quantized, *systems: Side) -> Clusterer:
    """Fit on the systems and the human side; return the clusterer, which clusters once per seed, and the cells."""
    rows = [*(metric.sort_rows(side) for side in systems), check_side(metric.sort_rows(human), "human")]
    for row in rows:
        check_side(row, "a system of the grid")
    cluster, count = metric.fit(rows)
    return cache(cluster), count


def enlarge(draws: F64, scale: float) -> F64:
    """Return the values of halves, shape (2, splits), from those of histograms at a scale."""
    if scale == 1:
        return draws
    apart, middle = (draws[0] - draws[1]) / 2 / scale, draws.mean(axis=0)
    middle = middle.mean() + (middle - middle.mean()) / scale**2
    return np.stack([middle + apart, middle - apart])


def _collect_values(runs: Sequence[ClusteringRun]) -> dict[str, F64]:
    """Return each value in every clustering, shape (clusterings,)."""
    return {name: np.array([run.values[name] for run in runs]) for name in runs[0].values}
