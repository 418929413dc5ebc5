"""Measure how many texts a decision between two systems needs, by the way in which their difference is estimated.

    python scripts/power.py RUNS [--n 300] [--human 1158] [--worlds 60] [--equal 60] [--metrics mauve,kid] [--mix 0.15]
                            [--write docs/resolution.md]

RUNS are finished runs of two systems on the same prompts whose embeddings are in the store. With `--mix`, the second
system is the first, with this share of its texts replaced by texts of the other. A world draws n of the prompts, and
human texts of as many prompts as `--human` says. Three ways are compared:

- usual: each system has prompts, human texts and a clustering of its own;
- printed: both have the same prompts, and the values that a run prints;
- joint: one space of both systems and all human texts.

A world of equal systems has the two seeds of the first system, exchanged at random by prompt, or texts of other prompts
if it has one seed; it counts tests at 5 % that call the two different, which is always wrong.
"""

from __future__ import annotations

import argparse
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from openended.harness.core import F64, HUMAN, I64, Features, Need, Plan, Side, combine_replicates, load_members
from openended.harness.results import group_systems, read_results
from openended.harness.results.joint import read_human_vectors, read_vectors
from openended.metrics.families import Quantized, TwoSample

WAYS = ("usual", "printed", "joint")
VALUES = {
    "mauve": ("mauve", "js"), "precision_recall_curve": ("f8", "f1_8"), "frechet": ("frechet",), "kid": ("kid",),
    "knn_precision_recall": ("precision", "recall", "density", "coverage"),
}  # fmt: skip
NEED = Need("embeddings", by="embedder", scope="prompt_and_continuation")
END = "<!-- end -->"


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """Embeddings of human texts and of the texts of systems, a row per prompt."""

    human: F64
    first: list[F64]
    """Of each seed."""
    second: F64


def load_pool(paths: list[Path]) -> Pool:
    """Read the embeddings of two systems and of the human texts from the store."""
    results = read_results(paths)
    systems = group_systems(results.values)
    if len(systems) != 2:
        raise SystemExit(f"expected runs of two systems, got {', '.join(s.name for s in systems)}")
    runs = [[results.runs[at] for at, _ in system.items[0].sources] for system in systems]
    sides = [[read_vectors(results, run, NEED, "model").side for run in part] for part in runs]
    human = read_human_vectors(results, runs[0], NEED)[1]
    ids = sorted(set(human.ids).intersection(*(side.ids for part in sides for side in part)))

    def align(side: Side) -> F64:
        row_of = {name: row for row, name in enumerate(side.ids)}
        return np.asarray(side.embeddings(NEED)[[row_of[name] for name in ids]], dtype=np.float64)

    return Pool(align(human), [align(side) for side in sides[0]], align(sides[1][0]))


def make_side(name: str, rows: F64, prompts: I64) -> Side:
    """Return a side whose ids are numbers of prompts."""
    order = np.argsort(prompts)
    return Side(name, [f"{p:06d}" for p in prompts[order]], {NEED: rows[order]})


def estimate(metric: TwoSample, human: Side, model: Side) -> Mapping[str, float]:
    """Return the values of one system by the metric's protocol."""
    features = Features(human, model)
    return metric.compute(features, metric.prepare(features)).values


def compare_ways(
    metric: TwoSample, pool: Pool, n: int, num_human: int, mix: float, rng: np.random.Generator
) -> Iterator[tuple[str, str, float]]:
    """Yield way, name of a value and difference of the two systems in one world."""
    prompts = rng.permutation(len(pool.human))
    here, elsewhere, everywhere = prompts[:n], prompts[n : 2 * n], prompts[:num_human]

    def draw(chosen: I64) -> tuple[Side, Side, Side]:
        first = pool.first[0][chosen]
        second = np.where(rng.random((n, 1)) < mix, pool.second[chosen], first) if mix else pool.second[chosen]
        if mix and len(pool.first) > 1:
            raise SystemExit("--mix needs a first system of one seed")
        return (make_side(HUMAN, pool.human[chosen], chosen), make_side("a", first, chosen),
                make_side("b", second, chosen))  # fmt: skip

    human, first, second = draw(here)
    other_human, _, other_second = draw(elsewhere)
    seeds = rng.integers(1 << 30, size=2).tolist()
    alone = [replace(metric, clustering_seeds=1, seed=seed) if isinstance(metric, Quantized) else metric
             for seed in seeds]  # fmt: skip
    everyone = make_side(HUMAN, pool.human[everywhere], everywhere)
    pairs = {
        "usual": (estimate(alone[0], human, first), estimate(alone[1], other_human, other_second)),
        "printed": (estimate(metric, human, first), estimate(metric, human, second)),
        "joint": tuple(values for values, _ in metric.estimate_jointly(everyone, (first, second), Plan(4))),
    }
    for way, (a, b) in pairs.items():
        for key in VALUES[metric.name]:
            yield way, key, a[key] - b[key]


def test_equal_systems(
    metric: TwoSample, pool: Pool, n: int, num_human: int, rng: np.random.Generator
) -> Iterator[tuple[str, float, float, float]]:
    """Yield value, difference, its standard error and p-value of two equal systems in one world."""
    prompts = rng.permutation(len(pool.human))
    here, everywhere = prompts[:n], prompts[:num_human]
    texts = pool.first[0][here], (pool.first[1][here] if len(pool.first) > 1 else pool.first[0][prompts[n : 2 * n]])
    swaps = rng.random((n, 1)) < 0.5
    sides = [make_side(name, np.where(swaps == flipped, *texts), here) for name, flipped in (("a", 0), ("b", 1))]
    human = make_side(HUMAN, pool.human[everywhere], everywhere)
    (a, first), (b, second) = metric.estimate_jointly(human, sides, Plan())
    for key in VALUES[metric.name]:
        both = combine_replicates((1.0, -1.0), (first[key], second[key]))
        if both is not None:
            yield key, a[key] - b[key], both.std_error(), both.p_value(a[key] - b[key])


def main() -> None:
    """Run the worlds; print a table, or write it into a page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--n", type=int, default=300)
    parser.add_argument("--human", type=int, default=1158)
    parser.add_argument("--worlds", type=int, default=60)
    parser.add_argument("--equal", type=int, default=60, help="worlds of equal systems")
    parser.add_argument("--metrics", default=",".join(VALUES))
    parser.add_argument("--mix", type=float, default=0.0)
    parser.add_argument("--name", default="docs", help="of the texts, in the page")
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    pool = load_pool(options.runs)
    lines = [
        "| metric | difference | s.d. usual | printed | joint | texts needed | false positives | s.e. / true s.d. |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name in options.metrics.split(","):
        metric = load_members("metric")[name]()
        differences: dict[tuple[str, str], list[float]] = defaultdict(list)
        for world in range(options.worlds):
            rng = np.random.default_rng([0, world])
            for way, key, value in compare_ways(metric, pool, options.n, options.human, options.mix, rng):
                differences[way, key].append(value)
        tests: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
        for world in range(options.equal):
            rng = np.random.default_rng([1, world])
            for key, *test in test_equal_systems(metric, pool, options.n, options.human, rng):
                tests[key].append(tuple(test))
        for key in VALUES[name]:
            lines.append(format_line(name, key, {way: differences[way, key] for way in WAYS}, tests[key]))
            print(lines[-1], flush=True)
    if options.write:
        page = options.write.read_text(encoding="utf-8")
        mark = f"<!-- measured on {options.name} -->"
        table = "\n".join(lines)
        page = re.sub(f"{mark}.*?{END}", lambda _: f"{mark}\n{table}\n{END}", page, flags=re.DOTALL)
        options.write.write_text(page, encoding="utf-8")


def format_line(
    name: str, key: str, differences: Mapping[str, list[float]], tests: list[tuple[float, float, float]]
) -> str:
    """Return a line of the table; the texts needed are those of the joint way as a share of the usual one's."""
    means, deviations = (
        {w: float(f(d)) for w, d in differences.items()} for f in (np.mean, lambda d: np.std(d, ddof=1))
    )
    needed = (deviations["joint"] / deviations["usual"]) ** 2
    apart, errors, p_values = (np.array(column) for column in zip(*tests, strict=True))
    wrong, ratio = np.mean(p_values < 0.05), np.sqrt(np.mean(errors**2)) / np.std(apart, ddof=1)
    title = name if key == name else f"{name} {key}"
    numbers = (f"{means['joint']:.3g} (printed {means['printed']:.3g})", *(f"{deviations[w]:.3g}" for w in WAYS))
    return f"| {title} | {' | '.join(numbers)} | 1 / {1 / needed:.1f} | {100 * wrong:.1f} % | {ratio:.2f} |"


if __name__ == "__main__":
    main()
