"""How many texts a decision between two systems needs, by the way in which their difference is estimated.

`--runs` are finished runs of two systems on the same prompts whose embeddings are in the store; for worlds of equal
systems alone (`looks --worlds 0`), two seeds of one system. A world draws n of the prompts, and human texts of as many
prompts as `--human` says. A world of equal systems has the two seeds of the first system, exchanged at random by
prompt, or texts of other prompts if it has one seed.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import numpy as np

from openended.harness import core
from openended.harness.report.analysis.group_sequential import (
    OPEN,
    DecisionPlan,
    Look,
    PlannedComparison,
    compute_statistic,
    find_outcome,
)
from openended.harness.results import System, group_systems, read_results, read_rows_of_run
from openended.harness.results.joint import read_human_vectors, read_vectors
from openended.metrics.families import Quantized, TwoSample
from scripts.studies.study import Study

WAYS = ("usual", "printed", "joint")
VALUES = {"mauve": ("mauve", "js"), "frechet": ("frechet",), "kid": ("kid",)}
VALUES["knn_precision_recall"] = ("precision", "recall", "density", "coverage")
NEED = core.Need("embeddings", by="embedder", scope="prompt_and_continuation")
TEXT_VALUES = ("gen_ppl", "entropy")  # decided from three numbers of each text
Test = tuple[float, float, float]  # difference, its standard error and its p-value
Estimate = tuple[float, float, float]  # difference, its standard error and the degrees of freedom of Student's test
Estimator = Callable[[core.Side, Sequence[core.Side]], Estimate]
"""Of human texts and the texts of two systems."""


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """Embeddings (or three numbers) of human texts and of the texts of systems, a row per prompt."""

    human: core.F64
    first: Sequence[core.F64]  # of each seed
    second: core.F64


@cache
def load_pool(paths: Sequence[str], *, of_texts: bool = False) -> Pool:
    """Read the embeddings of two systems and of the human texts from the store.

    With `of_texts`, tokens, mean loss in nats and entropy of each text of the systems are in place of its embedding.
    """
    results = read_results([Path(path) for path in paths])
    systems = sorted(group_systems(results.values), key=lambda system: -len(system.items[0].sources))
    if len(systems) not in (1, 2):
        raise SystemExit(f"expected runs of one or two systems, got {', '.join(s.name for s in systems)}")
    runs = [[run for run, _ in system.items[0].sources] for system in systems]
    sides = [[read_vectors(results, run, NEED, "model") for run in part] for part in runs]
    human = read_human_vectors(results, runs[0], NEED)[1]
    ids = sorted(set(human.ids).intersection(*(side.ids for part in sides for side in part)))

    def align(side: core.Side) -> core.F64:
        row_of = {name: row for row, name in enumerate(side.ids)}
        return np.asarray(side[NEED][[row_of[name] for name in ids]], dtype=np.float64)

    def count(system: System, part: Sequence[core.Side]) -> Iterator[core.Side]:
        (item,) = (item for item in system.items if item.pair == ("gen_ppl", "gen_ppl"))
        for (run, artifact), side in zip(item.sources, part, strict=True):
            arrays = results.arrays(run, artifact)
            rows = read_rows_of_run(results, run, "model")
            columns = [rows.token_ids.lengths, *(arrays[f"per_example/{name}"] for name in TEXT_VALUES)]
            columns[1] = np.log(columns[1])
            yield core.Side(side.system, sorted(side.ids), {NEED: np.stack(columns, axis=1)})

    if of_texts:
        sides = [list(count(system, part)) for system, part in zip(systems, sides, strict=True)]
    return Pool(align(human), [align(side) for side in sides[0]], align(sides[-1][0]))


def make_side(name: str, rows: core.F64, prompts: core.I64) -> core.Side:
    """Return a side whose ids are numbers of prompts."""
    order = np.argsort(prompts)
    return core.Side(name, [f"{p:06d}" for p in prompts[order]], {NEED: rows[order]})


def score(metric: TwoSample, human: core.Side, model: core.Side) -> Mapping[str, float]:
    """Return the values of one system by the metric's protocol."""
    features = core.Features(human, model)
    return metric.compute(features, metric.prepare(features)).values


def compare_ways(
    metric: TwoSample, pool: Pool, n: int, num_human: int, mix: float, rng: np.random.Generator
) -> Iterator[tuple[str, str, float]]:
    """Yield way, name of a value and difference of the two systems in one world."""
    prompts = rng.permutation(len(pool.human))

    def draw(chosen: core.I64) -> tuple[core.Side, core.Side, core.Side]:
        rows = pool.first[0][chosen]
        others = np.where(rng.random((n, 1)) < mix, pool.second[chosen], rows) if mix else pool.second[chosen]
        return (
            make_side(core.HUMAN, pool.human[chosen], chosen),
            make_side("a", rows, chosen),
            make_side("b", others, chosen),
        )

    human, first, second = draw(prompts[:n])
    other_human, _, other_second = draw(prompts[n : 2 * n])
    alone = [metric, metric]
    if isinstance(metric, Quantized):
        alone = [replace(metric, clustering_seeds=1, seed=int(seed)) for seed in rng.integers(1 << 30, size=2)]
    everyone = make_side(core.HUMAN, pool.human[prompts[:num_human]], prompts[:num_human])
    pairs = {
        "usual": (score(alone[0], human, first), score(alone[1], other_human, other_second)),
        "printed": (score(metric, human, first), score(metric, human, second)),
        "joint": [values for values, _ in metric.estimate_jointly(everyone, (first, second), core.Plan(4))],
    }
    for way, (a, b) in pairs.items():
        yield from ((way, key, a[key] - b[key]) for key in VALUES[metric.name])


def draw_equal_systems(pool: Pool, prompts: core.I64, n: int, rng: np.random.Generator) -> tuple[core.F64, core.F64]:
    """Return the texts of two equal systems for the first n prompts."""
    others = pool.first[1][prompts[:n]] if len(pool.first) > 1 else pool.first[0][prompts[n : 2 * n]]
    texts, swaps = (pool.first[0][prompts[:n]], others), rng.random((n, 1)) < 0.5
    return np.where(swaps, *texts), np.where(swaps, *texts[::-1])


def combine_estimates(n: int, values: Sequence[float], replicates: Sequence[core.Replicates]) -> Estimate:
    """Return the difference of two values from n prompts, its standard error and degrees of freedom."""
    both = core.combine_replicates((1.0, -1.0), [replace(part, prompts=n) for part in replicates])
    return values[0] - values[1], *((both.std_error(), both.dof) if both is not None else (math.nan, math.nan))


def estimate_in_space(human: core.Side, sides: Sequence[core.Side], metric: TwoSample, key: str) -> Estimate:
    """Estimate the difference of two systems in one space."""
    estimates = metric.estimate_jointly(human, sides, core.Plan())
    return combine_estimates(len(sides[0]), [of[key] for of, _ in estimates], [draws[key] for _, draws in estimates])


def estimate_of_texts(human: core.Side, sides: Sequence[core.Side], key: str) -> Estimate:  # noqa: ARG001 - an Estimator
    """Estimate the difference of perplexities, or of mean entropies, from three numbers of each text."""
    if key == "entropy":
        apart = sides[0][NEED][:, 2] - sides[1][NEED][:, 2]
        return float(apart.mean()), float(apart.std(ddof=1)) / math.sqrt(len(apart)), len(apart) - 1
    values, replicates = [], []
    for side in sides:
        tokens, losses, _ = np.asarray(side[NEED], dtype=np.float64).T
        values.append(math.exp(tokens @ losses / tokens.sum()))
        replicates.append(core.Plan().mean(side.ids, losses, tokens).map(np.exp))
    return combine_estimates(len(sides[0]), values, replicates)


def follow_looks(
    estimate: Estimator, pool: Pool, plans: Sequence[DecisionPlan], equal: bool, rng: np.random.Generator
) -> list[tuple[bool, float]]:
    """Decide by each plan in one world; return whether a system is called better, and the share of the texts."""
    prompts, largest = rng.permutation(len(pool.human)), plans[0].looks[-1]
    texts = pool.first[0][prompts[:largest]], pool.second[prompts[:largest]]
    texts = draw_equal_systems(pool, prompts, largest, rng) if equal else texts

    @cache
    def look(n: int) -> Look:
        human = make_side(core.HUMAN, pool.human[prompts[: 2 * n]], prompts[: 2 * n])
        sides = [make_side(name, part[:n], prompts[:n]) for name, part in zip("ab", texts, strict=True)]
        difference = estimate(human, sides)
        return Look(n, *difference, compute_statistic(*difference))

    decided = []
    for plan in plans:
        for number in range(1, len(plan.looks) + 1):
            looks = [look(n) for n in plan.looks[:number]]
            if (outcome := find_outcome(plan, plan.comparisons[0], looks)) != OPEN:
                break
        decided.append((outcome in ("a", "b"), looks[-1].n / largest))
    return decided


def parse_looks(word: str, n: int) -> tuple[int, ...]:
    """Return the sizes of `8` equal looks, the last at n, or typed sizes, `20,100,400`."""
    sizes = tuple(map(int, word.split(",")))
    return sizes if len(sizes) > 1 else tuple(n * part // sizes[0] for part in range(1, sizes[0] + 1))


def compare_equal_systems(
    metric: TwoSample, pool: Pool, n: int, num_human: int, rng: np.random.Generator
) -> Iterator[tuple[str, Test]]:
    """Yield value and test of two equal systems in one world."""
    prompts = rng.permutation(len(pool.human))
    here, everywhere = prompts[:n], prompts[:num_human]
    texts = draw_equal_systems(pool, prompts, n, rng)
    sides = [make_side(name, part, here) for name, part in zip("ab", texts, strict=True)]
    human = make_side(core.HUMAN, pool.human[everywhere], everywhere)
    (a, first), (b, second) = metric.estimate_jointly(human, sides, core.Plan())
    for key in VALUES[metric.name]:
        both = core.combine_replicates((1.0, -1.0), (first[key], second[key]))
        if both is not None:
            yield key, (a[key] - b[key], both.std_error(), both.p_value(a[key] - b[key]))


def compute_ways(
    title: str, runs: tuple[str, ...] = (), n: int = 300, human: int = 1158, worlds: int = 60, equal: int = 60,
    mix: float = 0.0, name: str = "docs",
) -> Iterator[list[str]]:  # fmt: skip
    """Yield the rows of a metric: differences and standard deviations of three ways, false positives, and errors.

    With `--mix`, the second system is the first, with this share of its texts replaced by texts of the other; `--name`
    is that of the texts, in the page.
    """
    del name
    metric: TwoSample = core.load_members("metric")[title]()
    pool, differences, tests = load_pool(runs), defaultdict(list), defaultdict(list)
    for world in range(worlds):
        rng = np.random.default_rng([0, world])
        for way, key, value in compare_ways(metric, pool, n, human, mix, rng):
            differences[key, way].append(value)
    for world in range(equal):
        rng = np.random.default_rng([1, world])
        for key, test in compare_equal_systems(metric, pool, n, human, rng):
            tests[key].append(test)
    for key in VALUES[title]:
        means = [f"{np.mean(differences[key, way]):.3g}" for way in WAYS[1:]]
        deviations = [float(np.std(differences[key, way], ddof=1)) for way in WAYS]
        gaps, errors, p_values = (np.array(column) for column in zip(*tests[key], strict=True))
        ratio = np.sqrt(np.mean(errors**2)) / np.std(gaps, ddof=1)
        label = f"{title} {key}" if key != title else key
        gain, level = f"1 / {(deviations[0] / deviations[2]) ** 2:.1f}", f"{np.mean(p_values < 0.05):.1%}"
        yield [label, *means, *(f"{sd:.3g}" for sd in deviations), gain, level, f"{ratio:.2f}"]


def compute_decisions(
    key: str, runs: tuple[str, ...] = (), looks: tuple[str, ...] = ("8",), n: int = 400, worlds: int = 60,
    equal: int = 60, start: int = 0, name: str = "docs",
) -> Iterator[list[str]]:  # fmt: skip
    """Yield the rows of a value: how often it is decided, and after which share of the texts, by each plan of looks.

    A world is a decision at so many equal looks, the last with n texts, or at looks of typed sizes, `20,100,400`,
    against the human texts that runs of these sizes have (prompts and ceiling). All plans see the same worlds, numbered
    from `--start`. `gen_ppl`, a ratio, and `entropy`, a mean over texts, are decided by the
    difference alone; a run also tests the distances to the human value, and decides less often.
    """
    plans = [DecisionPlan((PlannedComparison("a", "b", key),), parse_looks(word, n)) for word in looks]
    pool, estimate = load_pool(runs, of_texts=key in TEXT_VALUES), partial(estimate_of_texts, key=key)
    if key not in TEXT_VALUES:
        estimate = partial(estimate_in_space, metric=core.load_members("metric")[key](), key=VALUES[key][0])
    rows = [[name, key, ", ".join(map(str, plan.looks))] for plan in plans]
    for are_equal, count in ((False, worlds), (True, equal)):
        streams = (np.random.default_rng([2, are_equal, world]) for world in range(start, start + count))
        decided = [follow_looks(estimate, pool, plans, are_equal, rng) for rng in streams]
        for number, row in enumerate(rows):
            calls, shares = zip(*(world[number] for world in decided), strict=True) if decided else ((), ())
            row += [f"{sum(calls)} of {count:,}", f"{np.mean(shares):.0%}"] if decided else ["", ""]
    yield from rows


_PAGE = {"page": "docs/resolution.md", "heading": lambda options: f"measured on {options['name']}"}
JOINT = Study(titles=lambda: VALUES, compute=compute_ways, **_PAGE)
LOOKS = Study(
    titles=lambda: (*VALUES, *TEXT_VALUES), compute=compute_decisions, page="docs/resolution.md", heading="decisions"
)
