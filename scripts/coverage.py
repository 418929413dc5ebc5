"""Do the intervals hold what they promise? Coverage and false positives of every metric, on made-up texts.

    python scripts/coverage.py [--draws 400] [--n 200] [--metrics mauve,zipf] [--write docs/statistics.md]

In each of many worlds two systems of one law write on the same prompts, beside one human side. Counted are the 95 %
intervals that hold the value that the systems have on average at this n, and the tests at 5 % that call the two systems
different, which they are not. A share of 400 has a standard error of 1.1 points.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from openended.harness.core.errors import UndefinedMetric
from openended.harness.core.metric import Metric
from openended.harness.core.registry import members
from openended.harness.core.resampling import Plan, Replicates, combined

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scripts.worlds import MODEL, Writer, draw

END = "<!-- end -->"
# Values that are no estimate from texts, or that say how sure another is.
ASIDE = ("std_error", "inverse_penalty", "n_test")
SIZES: Mapping[str, int] = {}  # metric → another n


@dataclass(frozen=True, slots=True)
class Shares:
    """What was counted for one value."""

    metric: str
    key: str
    method: str
    n: int
    coverage: float
    false_positives: float
    error_ratio: float
    """Mean standard error over the true standard deviation."""
    intervals: int


def simulate(
    metric: Metric, n: int, worlds: int, seed: int = 0, writers: Sequence[Writer] = (MODEL, MODEL)
) -> list[Shares]:
    """Draw worlds and count."""
    samples = samples_of(metric)
    if not samples:
        return []
    values: dict[str, list[float]] = defaultdict(list)
    errors: dict[str, list[float]] = defaultdict(list)
    ends: dict[str, list[tuple[float, float]]] = defaultdict(list)
    tests: dict[str, list[float]] = defaultdict(list)
    methods: dict[str, str] = {}
    for world in range(worlds):
        rng = np.random.default_rng([seed, world])
        plan = Plan()
        made: list[dict[str, tuple[float, Replicates]]] = []
        for features in draw(rng, n, metric, *writers, samples=samples):
            result = metric.compute(features)
            found = metric.replicates(features, result, plan)
            made.append(
                {
                    k: (result.values[k], r)
                    for k, r in found.items()
                    if k in result.values and np.isfinite(r.draws).all()
                }
            )
            for key, (value, drawn) in made[-1].items():
                interval = drawn.interval(value, metric.bounds)
                values[key].append(value)
                errors[key].append(interval.std_error)
                ends[key].append((interval.low, interval.high))
                methods[key] = drawn.method
        for key in set(made[0]) & set(made[1]):
            (a, left), (b, right) = made[0][key], made[1][key]
            both = combined((1.0, -1.0), (left, right))
            if both is not None:
                tests[key].append(both.p_value(a - b))
    out = []
    for key, own in values.items():
        target, low_high = float(np.mean(own)), np.array(ends[key])
        holds = (low_high[:, 0] <= target) & (target <= low_high[:, 1])
        ratio = float(np.sqrt(np.mean(np.square(errors[key]))) / np.std(own, ddof=1))
        wrong = float(np.mean(np.array(tests[key]) < 0.05))
        out.append(Shares(metric.name, key, methods[key], n, float(holds.mean()), wrong, ratio, len(own)))
    return out


def samples_of(metric: Metric) -> int:
    """Return how many texts a prompt the metric needs; 0 if it has no value on one system."""
    for samples in (1, 3):
        (features,) = draw(np.random.default_rng(0), 60, metric, MODEL, samples=samples)
        with contextlib.suppress(UndefinedMetric):
            metric.compute(features)
            return samples
    return 0


def near_human(worlds: int = 2000, n: int = 200) -> str:
    """Return how often two systems are called different, the first at the human value, the second some way above."""
    lines = [
        "| second system above the first by (standard errors) | values differ | one is nearer to the human value |",
        "| ---: | ---: | ---: |",
    ]
    rng = np.random.default_rng(0)
    for away in (0.0, 1.0, 2.0, 3.0, 4.0):
        drawn = rng.standard_normal((worlds, 3, n))
        drawn[:, 1] += away * np.sqrt(2 / n)
        a, b, human = drawn[:, 0], drawn[:, 1], drawn[:, 2]
        differ, middle = (_t_test(x) for x in (a - b, a + b - 2 * human))
        shares = (np.mean(p < 0.05) for p in (differ, np.maximum(differ, middle)))
        lines.append(f"| {away:g} | " + " | ".join(f"{100 * s:.1f} %" for s in shares) + " |")
    return "\n".join(lines)


def _t_test(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    from scipy.special import stdtr

    n = rows.shape[1]
    t = rows.mean(axis=1) / (rows.std(axis=1, ddof=1) / np.sqrt(n))
    made: NDArray[np.float64] = 2 * stdtr(n - 1, -np.abs(t))
    return made


def table(rows: Sequence[Shares]) -> str:
    """Return the shares as Markdown; those outside the bands are set bold."""
    lines = [
        "| metric | value | draws | n | coverage of 95 % | false positives at 5 % | s.e. / true s.d. |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for r in rows:
        inside, fair = 0.92 <= r.coverage <= 0.98, 0.04 <= r.false_positives <= 0.06
        covered, wrong = (f"{100 * v:.1f}" for v in (r.coverage, r.false_positives))
        lines.append(
            f"| {r.metric} | {r.key} | {r.method} | {r.n} | {covered if inside else f'**{covered}**'} | "
            f"{wrong if fair else f'**{wrong}**'} | {r.error_ratio:.2f} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Run the simulations and print or write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--n", type=int, default=200)
    parser.add_argument("--metrics", default="")
    parser.add_argument("--write", type=Path, default=None)
    asked = parser.parse_args()
    wanted = [m for m in asked.metrics.split(",") if m]
    rows: list[Shares] = []
    for name, cls in sorted(members("metric").items()):
        if (wanted and name not in wanted) or cls.family == "human":  # type: ignore[attr-defined]
            continue
        start = time.process_time()
        own = simulate(cls(), SIZES.get(name, asked.n), asked.draws)  # type: ignore[arg-type]
        rows += [row for row in own if row.key not in ASIDE]
        print(f"{name}: {time.process_time() - start:.1f} s", flush=True)
        print("\n".join(table([row]).splitlines()[-1] for row in own), flush=True)
    if asked.write:
        text = asked.write.read_text(encoding="utf-8")
        for mark, made in (("measured", table(rows)), ("near", near_human())):
            text = re.sub(f"<!-- {mark} -->.*?{END}", f"<!-- {mark} -->\n{made}\n{END}", text, flags=re.DOTALL)
        asked.write.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
