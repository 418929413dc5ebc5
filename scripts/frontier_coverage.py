"""Measure the coverage of the intervals of the frontier gap, in worlds where the true gap is 0.

In each world both systems sample from one family of tempered word distributions, at different temperatures, on the same
prompts; so both sets of operating points lie on one curve. The scorer is the distribution at temperature 1.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from openended.harness.core import F64, Plan, Ragged, Replicates

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from openended.harness.report.tables.frontier_gaps import Frontier, estimate_area, estimate_gap
from openended.metrics._ngrams.statistics import entropy_by_text
from openended.metrics.families import NgramIndex
from openended.metrics.gen_ppl import gen_ppl

FIRST, SECOND = (0.6, 0.8, 1.0, 1.2), (0.7, 0.9, 1.1, 1.3)
HUMAN = 0.95  # the temperature of human text
VOCABULARY, TOPICS, LENGTH = 400, 8, 60


def simulate_world(seed: Sequence[int], n: int, replicates: int = 200) -> dict[str, bool]:
    """Return whether the intervals of gap and area contain 0 in one world."""
    rng = np.random.default_rng(list(seed))
    topic = rng.integers(0, TOPICS, n)
    ids = [f"{seed}/{i:05d}" for i in range(n)]
    plan = Plan(replicates)
    first, second = (_draw_frontier(rng, name, temperatures, topic, ids, plan)
                     for name, temperatures in (("a", FIRST), ("b", SECOND)))  # fmt: skip
    human = _draw_point(rng, HUMAN, topic, ids, plan)[0]
    entropy = np.concatenate([[human[0]], human[1].draws[0]])
    estimates = {"gap": estimate_gap(first, second, entropy), "area": estimate_area(first, second)}
    intervals = {name: estimate.interval() for name, estimate in estimates.items()}
    return {name: interval.low <= 0 <= interval.high for name, interval in intervals.items()}


def _draw_frontier(
    rng: np.random.Generator, name: str, temperatures: Sequence[float], topic: F64, ids: Sequence[str], plan: Plan
) -> Frontier:
    points = [_draw_point(rng, t, topic, ids, plan) for t in temperatures]
    entropy, ppl = (
        np.stack([np.concatenate([[point[i][0]], point[i][1].draws[0]]) for point in points], axis=1) for i in (0, 1)
    )
    return Frontier(name, entropy, np.log(ppl))


def _draw_point(
    rng: np.random.Generator, temperature: float, topic: F64, ids: Sequence[str], plan: Plan
) -> list[tuple[float, Replicates]]:
    fixed = np.random.default_rng(7).standard_normal((TOPICS, VOCABULARY))
    logits = -1.1 * np.log(np.arange(1, VOCABULARY + 1)) + 0.7 * fixed  # of words for each topic
    tokens, nll = np.empty((len(topic), LENGTH), dtype=np.int64), np.empty((len(topic), LENGTH))
    for number in range(TOPICS):
        rows = np.flatnonzero(topic == number)
        law = np.exp(logits[number] / temperature)
        tokens[rows] = np.searchsorted(np.cumsum(law), rng.random((len(rows), LENGTH)) * law.sum())
        nll[rows] = (np.log(np.exp(logits[number]).sum()) - logits[number])[tokens[rows]]
    texts = Ragged(tokens.ravel(), np.arange(len(topic) + 1) * LENGTH)
    entropy, losses = entropy_by_text(NgramIndex(texts), 1), Ragged(nll.ravel(), texts.offsets)
    by_text = plan.mean(ids, nll.mean(axis=1)).map(np.exp)
    return [(float(entropy.mean()), plan.mean(ids, entropy)), (gen_ppl(losses), by_text)]


def main(words: Sequence[str] | None = None) -> None:
    """Print the shares."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--worlds", type=int, default=500)
    parser.add_argument("--n", type=int, default=100, help="texts of each operating point")
    args = parser.parse_args(words)
    covered = [simulate_world((0, world), args.n) for world in range(args.worlds)]
    for name in ("gap", "area"):
        share = np.mean([world[name] for world in covered])
        print(f"{name:<5} {100 * share:.1f} % of {args.worlds} worlds, n = {args.n}")


if __name__ == "__main__":
    main()
