"""How often each test calls equal systems different: the share of p-values below 5 % and below 50 %.

In each world, all systems follow one law. Values of systems go through the report as records in memory; metrics with a
p-value of their own compare disjoint draws of docstring passages. Tests that print a decision instead of a p-value
(bold cells, verdicts, intervals) count as p = 0 where they call equal systems different, else as p = 1.

`resolution`: systems differ by the minimum detectable difference; how often is the best separated from its rival?
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.random import Generator

from openended.harness import core
from openended.harness.core import F64, Plan, Ragged, Replicates
from openended.harness.report.analysis.paired import compare_values, compute_equality_p_value
from openended.harness.report.analysis.power import compute_resolution
from openended.harness.report.analysis.uncertainty import (
    Errors,
    Outcome,
    Sample,
    check_with_uncertainty,
    join_components,
)
from openended.harness.report.tables.compare import LAST_GOOD, build_significance_frames
from openended.harness.report.tables.detected_perturbations import PerturbedValue, detect_perturbation
from openended.harness.report.tables.frame import Cell, fill_column, make_cell, make_quantity, mark_best, rank_cells
from openended.harness.report.tables.frontier_gaps import Frontier, estimate_area, estimate_gap, estimate_interval
from openended.harness.results import STEP, TRAINING, Results, Run, SystemValue
from openended.metrics.correlation import correlate
from openended.metrics.families import NgramIndex
from openended.metrics.families.ngram_statistics import compute_text_entropies
from scripts.studies.study import Study
from scripts.studies.worlds import draw_passages

Law = Literal["normal", "skewed", "share"]
Method = Literal["examples", "bootstrap", "halves", "subsample", "seeds"]  # what the error of a value is estimated from
STORE = Path("memory")
LOGITS = -1.1 * np.log(np.arange(1, 401)) + 0.7 * np.random.default_rng(7).standard_normal((8, 400))
"""Of the words of each topic, for frontiers."""


def draw_values(rng: Generator, law: Law, *shape: int) -> F64:
    """Draw the values of texts; systems share the difficulty of the prompts, which are the last axis."""
    prompt = rng.standard_normal(shape[-1])
    values = 0.7 * prompt + rng.standard_normal(shape)
    if law == "share":
        return (values > 0.8).astype(np.float64)
    return np.exp(values) if law == "skewed" else values


def build_results(texts: F64, method: Method = "examples", human: F64 | None = None) -> Results:
    """Return results of systems from the values of their texts, shape (systems, seeds, prompts), and of human texts."""
    runs, arrays, values = [], {}, []
    plan, ids = Plan(), [f"{texts[0, 0, 0]}/{i:04d}" for i in range(texts.shape[-1])]
    direction = "higher" if human is None else "match_human"
    rows = [*texts, human[None]] if human is not None else list(texts)
    for number, system in enumerate(rows):
        role = "human" if number == len(texts) else "model"
        facts = {"system": role, "metric": "m", "signature": f"m|v:1|n:{len(ids)}/{len(ids)}|task:t@0"}
        axes, sources = {"task": "t", "decoder": f"d{number}"} if role == "model" else {"task": "t"}, []
        for seed in system:
            artifact = f"measure/a/{len(runs)}"
            intervals = {}
            if method != "seeds":
                replicates = resample(plan, ids, seed, method)
                interval = core.estimate_interval(replicates, float(seed.mean()))
                intervals = {"m": asdict(interval)} if interval is not None else {}
                stored = {"draws/m": replicates.draws, "draws/share/m": np.array([replicates.share])}
                arrays[f"{STORE}/{artifact}"] = stored | ({"per_example/m": seed} if method == "examples" else {})
            numbers: dict[str, Any] = {"values": {"m": float(seed.mean())}, "intervals": intervals, "status": "ok"}
            numbers |= {"bounds": {"m": (-math.inf, math.inf)}, "n_human": len(ids), "n_model": len(ids)}
            row = core.MetricResult(**facts, **numbers, primary="m", direction=direction, artifact=artifact)
            runs.append(Run(STORE, "", "", "", axes, {}, STORE, {}, [row], ()))
            sources.append((runs[-1], artifact))
        means = {str(at): float(seed.mean()) for at, seed in enumerate(system)}
        ends = (intervals["m"]["low"], intervals["m"]["high"]) if intervals and len(means) == 1 else None
        sd = float(np.std(list(means.values()), ddof=1)) if len(means) > 1 else math.nan
        about: dict[str, Any] = {"title": "M", "titles": ("", ""), "reason": "", "note": "", "primary": True}
        about |= {"family": "text", "direction": direction, "axes": axes, "sources": tuple(sources)}
        mean, seeds = float(np.mean(list(means.values()))), len(means)
        numbers = {"mean": mean, "sd": sd, "seeds": seeds, "values": means, "interval": ends}
        values.append(SystemValue(**facts, **about, **numbers, key="m"))
    results = Results((), tuple(runs), {"task": str, "decoder": str}, 0, _arrays=arrays)
    vars(results)["values"] = values  # where its cached property looks
    return results


def resample(plan: Plan, ids: Sequence[str], texts: F64, method: Method) -> Replicates:
    """Return replicates of a mean by one of the methods."""
    if method == "halves":
        halves = plan.mask_halves(ids)
        return Replicates(np.stack([side @ texts / side.sum(axis=1) for side in (halves, ~halves)]))
    if method == "subsample":
        subsets = plan.subsets(ids, 0.6)
        return plan.build_subset_replicates(ids, 0.6, subsets @ texts / subsets.sum(axis=1))
    return plan.mean(ids, texts)


def compare_two(rng: Generator, n: int, law: Law = "normal", method: Method = "examples", seeds: int = 1) -> float:
    """Return the p-value of two systems."""
    results = build_results(draw_values(rng, law, 2, seeds, n), method)
    test = compare_values(results, results.values, *results.values)
    return math.nan if test is None else test.p_value


def compare_distances(rng: Generator, n: int, apart: float) -> float:
    """Return the p-value of the distances of two systems to a human value halfway between them."""
    texts = draw_values(rng, "normal", 3, 1, n) + np.array([0.0, apart, apart / 2])[:, None, None]
    results = build_results(texts[:2], human=texts[2, 0])
    test = compare_values(results, results.values, *results.values[:2])
    return math.nan if test is None else test.nearer


def build_column(results: Results) -> list[Cell]:
    """Return the cells of all systems in a column of a table."""
    human = next((item for item in results.values if item.system == "human"), None)
    models = [item for item in results.values if item is not human]
    cells = [make_cell(i.mean, n=i.seeds, source=i, interval=i.interval, human=human) for i in models]
    quantity = make_quantity("m", "m", "M", models[0].direction, 9, aim=human.mean if human is not None else None)
    return fill_column(quantity, cells, ["model"] * len(cells))


def mark_bold(results: Results, *, tests: bool = True) -> list[bool]:
    """Return which systems are bold, with or without paired tests."""

    def test(cell: Cell, best: Cell) -> float:
        if not tests or cell.source is None or best.source is None:
            return math.nan
        return compute_equality_p_value(results, results.values, cell.source, best.source)

    return [cell.best for cell in mark_best(build_column(results), test)]


def lose_bold(
    rng: Generator, n: int, systems: int, method: Method | Literal["intervals"] = "seeds", seeds: int = 1
) -> float:
    """Return 0 if some of the systems are bold in their column, and others are not."""
    texts = draw_values(rng, "normal", systems, seeds, n)
    results = build_results(texts, "examples" if method == "intervals" else method)
    return float(len(set(mark_bold(results, tests=method != "intervals"))) == 1)


@dataclass(frozen=True, slots=True)
class Contest:
    """A column in which a best system is nearer to the human value, or has a higher value, than all others."""

    method: Method = "examples"
    human: bool = False  # whether the human value is best
    distance: float = 0.0  # of the best system to the human value
    sides: bool = False  # whether its rivals are on the other side of the human value
    n: int = 100

    def draw(self, rng: Generator, systems: int, difference: float, behind: float) -> Results:
        """Return results of the best system, its rival, and others that are so many differences behind the rival."""
        shifts = -difference * np.array([0.0, 1.0, *[1.0 + behind] * (systems - 2), 0.0])[: systems + self.human]
        if self.human:
            shifts[:systems] -= self.distance
            shifts[1:systems] *= -1 if self.sides else 1
        values = draw_values(rng, "normal", systems + self.human, 1, self.n) + shifts[:, None, None]
        return build_results(values[:systems], self.method, values[systems, 0] if self.human else None)

    def resolve(self, rng: Generator, systems: int, difference: float, behind: float) -> float:
        """Return the difference that the report says is resolved in such a world."""
        results = self.draw(rng, systems, difference, behind)
        ranked = rank_cells(build_column(results))
        first, second, *_ = (results.values[at] for at in ranked)
        return compute_resolution(results, results.values, first, second, systems)

    def measure_power(self, systems: int, behind: float, worlds: int) -> float:
        """Return how often the best is separated from its rival that is behind by the minimum detectable difference."""
        title, difference = f"{self}, {systems}, {behind}", 0.5
        for step in range(4):  # until the difference is the one that its worlds resolve
            streams = (core.make_random_stream(step, title, world) for world in range(50))
            difference = float(np.median([self.resolve(rng, systems, difference, behind) for rng in streams]))
        separated = 0
        for world in range(worlds):
            rng = core.make_random_stream(9, title, world)
            resolved = self.resolve(rng, systems, difference, behind)
            best, rival, *_ = mark_bold(self.draw(rng, systems, resolved, behind))
            separated += best and not rival
        return separated / worlds


def worsen(rng: Generator, n: int, checkpoints: int, drop: float = 0.0) -> float:
    """Return 0 if a checkpoint is called worse; all follow one law, but the last is worse by `drop` standard errors."""
    texts = draw_values(rng, "normal", checkpoints, 1, n)
    texts[-1] -= drop * math.sqrt(2 / n)
    results = build_results(texts, "bootstrap")
    for step, item in enumerate(results.values):
        item.axes.update({"decoder": "d", STEP: f"{step}", TRAINING: "t"})
    frame, *_ = build_significance_frames(results, LAST_GOOD)
    return float(not any("worse at" in note.text for note in frame.notes))


def reach_verdict(rng: Generator, n: int, systems: int) -> float:
    """Return 0 if the claim that the first system is better than each of the others is sure."""
    results = build_results(draw_values(rng, "normal", systems, 1, n), "bootstrap")

    def check(sample: Sample) -> Outcome | None:
        first, *others = [sample.orient(item) for item in sample.items]
        return join_components("", [first > other for other in others])

    verdict = check_with_uncertainty(check, results.values, Errors(results))
    return float(verdict is None or not verdict.sure)


def detect_no_perturbation(rng: Generator, n: int, strengths: int) -> float:
    """Return 0 if some strength of a perturbation that changes nothing is detected."""
    results = build_results(draw_values(rng, "normal", strengths + 1, 1, n), "bootstrap")
    errors = [run.results[0].intervals["m"]["std_error"] for run in results.runs]
    none, *points = (PerturbedValue(i, v.mean, errors[i], None, None) for i, v in enumerate(results.values))
    return float(not any(point.detected for point in detect_perturbation(points, none)))


def correlate_noise(rng: Generator, systems: int, method: Literal["spearman", "kendall"] = "spearman") -> float:
    """Return the p-value of the rank correlation of two independent rows."""
    return correlate(*rng.standard_normal((2, systems)), method=method, permutations=2000, draws=0).p_value


def compare_passages(rng: Generator, n: int, metric: str) -> float:
    """Return the p-value that a metric prints for passages against other passages."""
    spec = core.load_members("metric")[metric]()
    features, _ = draw_passages(rng, n, spec)
    return spec.compute(features).values["p_value"]


def leave_frontier(rng: Generator, n: int, kind: Literal["gap", "area"]) -> float:
    """Return 0 if the interval of the gap or the area between two frontiers does not contain 0.

    Both systems draw words of one family of laws, at temperatures of their own, so that their points lie on one curve;
    the scorer is the law at temperature 1.
    """
    topic, plan = rng.integers(0, len(LOGITS), n), Plan()
    ids = [f"{rng.integers(1 << 30)}/{i:05d}" for i in range(n)]

    def draw_point(temperature: float) -> F64:
        """Return entropy and log perplexity of texts, each with its replicates, shape (2, 1 + replicates)."""
        words, losses = np.empty((n, 60), dtype=np.int64), np.empty((n, 60))
        for number, logits in enumerate(LOGITS):
            rows, law = np.flatnonzero(topic == number), np.exp(logits / temperature)
            words[rows] = np.searchsorted(np.cumsum(law), rng.random((len(rows), 60)) * law.sum())
            losses[rows] = (np.log(np.exp(logits).sum()) - logits)[words[rows]]
        entropy = compute_text_entropies(NgramIndex(Ragged(words.ravel(), np.arange(n + 1) * 60)), 1)
        return np.stack([np.append(x.mean(), plan.mean(ids, x).draws[0]) for x in (entropy, losses.mean(axis=1))])

    first, second = (
        Frontier(name, *np.stack([draw_point(temperature) for temperature in temperatures], axis=2), n)
        for name, temperatures in (("a", (0.6, 0.8, 1.0, 1.2)), ("b", (0.7, 0.9, 1.1, 1.3)))
    )
    estimate = estimate_gap(first, second, draw_point(0.95)[0]) if kind == "gap" else estimate_area(first, second)
    interval = estimate_interval(estimate, first, second)
    return float(interval.low <= 0 <= interval.high)


Test = Callable[..., float]
LAWS: tuple[Law, ...] = ("normal", "skewed", "share")
METHODS: tuple[Method, ...] = ("bootstrap", "halves", "subsample")
PERMUTED = "energy_distance", "gradient_moment", "rank_histogram"
TESTS: dict[str, Test] = {
    **{f"sign flips, means over 40 examples ({law})": partial(compare_two, n=40, law=law) for law in LAWS},
    **{f"t test, 40 prompts ({method})": partial(compare_two, n=40, method=method) for method in METHODS},
    "sign flips, 10 seeds": partial(compare_two, n=20, method="seeds", seeds=10),
    "distances to the human value, which lies between two systems": partial(compare_distances, n=40, apart=1.0),
    "distances to the human value, which both systems have": partial(compare_distances, n=40, apart=0.0),
    **{
        f"permutations, {metric}, {n} texts": partial(compare_passages, n=n, metric=metric)
        for n, metrics in ((30, (*PERMUTED, "typicality")), (100, PERMUTED))
        for metric in metrics
    },
    **{f"Spearman's correlation, {n} systems": partial(correlate_noise, systems=n) for n in (8, 20)},
    "Kendall's correlation, 8 systems": partial(correlate_noise, systems=8, method="kendall"),
    **{
        f"bold cells, {rule}, {k} systems": partial(lose_bold, n=60, systems=k, method=method)
        for rule, method in (("sign flips", "examples"), ("t tests", "bootstrap"), ("intervals", "intervals"))
        for k in (2, 5, 10, 20)
    },
    **{f"bold cells, {seeds} seeds, 5 systems": partial(lose_bold, n=60, systems=5, seeds=seeds) for seeds in (2, 5)},
    **{f"last good of {k} checkpoints": partial(worsen, n=60, checkpoints=k) for k in (3, 5, 10, 20)},
    **{f"finding about {k} systems": partial(reach_verdict, n=60, systems=k) for k in (2, 10)},
    **{
        f"perturbation without effect, strengths: {k}": partial(detect_no_perturbation, n=60, strengths=k)
        for k in (1, 3)
    },
    **{f"frontier {kind}, 100 texts": partial(leave_frontier, n=100, kind=kind) for kind in ("gap", "area")},
}
CONTESTS = {
    "↑, means over examples": Contest(),
    **{f"↑, replicates ({method})": Contest(method) for method in METHODS},
    "≈, both far from the human value": Contest(human=True, distance=2.0),
    "≈, the best at the human value": Contest(human=True),
    "≈, the best 0.2 from it": Contest(human=True, distance=0.2),
    "≈, on its two sides": Contest(human=True, distance=0.2, sides=True),
    "≈, replicates (halves), the best at the human value": Contest("halves", human=True),
}
FIELDS = [(2, 0.0), *((k, behind) for k in (5, 10) for behind in (0.0, 2.0))]
"""Numbers of systems, and how far the others are behind the rival."""


def measure(title: str, worlds: int, seed: int = 0, **options: float) -> F64:
    """Return the finite p-values of a test in many worlds."""
    streams = (core.make_random_stream(seed, title, world) for world in range(worlds))
    p_values = np.array([TESTS[title](rng, **options) for rng in streams])
    finite: F64 = p_values[np.isfinite(p_values)]
    return finite


def compute_false_positives(title: str, worlds: int = 1000, drop: float = 0.0) -> Iterator[list[str]]:
    """Yield the row of a test: the percentages of p-values below 5 % and below 50 %.

    With `drop`, the last checkpoint of `last good` is worse by this many standard errors of a difference.
    """
    p_values = measure(title, worlds, **({"drop": drop} if drop and title.startswith("last good") else {}))
    low, half = (f"{100 * np.mean(p_values < level):.1f}" for level in (0.05, 0.5))
    yield [title, f"{len(p_values):,}", low, "–" if set(p_values) <= {0.0, 1.0} else half]


def compute_powers(title: str, worlds: int = 300) -> Iterator[list[str]]:
    """Yield the row of a kind of column: the percentage of worlds in which the best is separated from its rival."""
    shares = [100 * CONTESTS[title].measure_power(*field, worlds) for field in FIELDS]
    yield [title, *(f"{share:.0f}" for share in shares)]


EQUAL = Study(titles=lambda: TESTS, compute=compute_false_positives, page="docs/statistics.md", heading="p-values")
RESOLUTION = Study(titles=lambda: CONTESTS, compute=compute_powers, page="docs/resolution.md", heading="resolution")
