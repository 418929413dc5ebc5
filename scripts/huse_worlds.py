"""Measure the coverage of the intervals of HUSE on simulated studies: the table of docs/metrics/huse.md.

    python scripts/huse_worlds.py [--studies 120] [--write docs/metrics/huse.md]

A study has 100 examples with a human and a model text and 20 ratings per text, from 1 to 6. A text has a quality and a
log-probability per token, both normal; those of the model are shifted. The target is the mean value of all studies.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

from openended.harness.core import F64, Plan, estimate_interval
from openended.metrics.huse import Huse, PairRatings, huse, subsample_huse

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scripts.coverage import replace_rows

EXAMPLES, RATERS = 100, 20
IDS = [f"study/{number:03d}" for number in range(EXAMPLES)]
LAWS = {
    "equal": (0.0, 0.0), "lower quality and diversity": (1.3, 1.3), "far apart": (3.3, 3.3), "farther": (3.8, 3.8)
}  # fmt: skip
"""Shifts of quality and of the log-probability per token, in standard deviations."""
VALUES = {"huse": (0.0, 2.0), "huse_q": (0.0, 2.0), "huse_d": (-1.0, 3.0)}
SHARE = 0.3  # of the examples in a subset, as in a run


def draw_study(rng: np.random.Generator, quality: float, diversity: float) -> PairRatings:
    """Draw the ratings and log-probabilities of the human texts and of those of a model."""
    shifts = np.repeat([0.0, 1.0], EXAMPLES)
    rated = 3.5 - quality * shifts + rng.standard_normal(2 * EXAMPLES)
    ratings = np.clip(np.round(rated[:, None] + 1.5 * rng.standard_normal((2 * EXAMPLES, RATERS))), 1, 6)
    lengths = rng.integers(20, 60, 2 * EXAMPLES).astype(np.float64)
    log_probs = (-3.0 + 0.5 * (diversity * shifts + rng.standard_normal(2 * EXAMPLES))) * lengths
    return PairRatings(tuple(IDS), ratings, log_probs, lengths)


def measure(law: str, studies: int) -> str:
    """Return the row of a law: mean HUSE, coverage, and standard error over the true deviation, of each value."""
    rule, plan = Huse().rule, Plan()
    values: dict[str, list[float]] = {name: [] for name in VALUES}
    intervals: dict[str, list[tuple[float, float, float]]] = {name: [] for name in VALUES}
    for study in range(studies):
        rated = draw_study(np.random.default_rng([list(LAWS).index(law), study]), *LAWS[law])
        scores = huse(**rated.columns(), k=rule.k)
        subsets = subsample_huse(rated, rule, plan.subsets(IDS, SHARE))
        for name, bounds in VALUES.items():
            values[name].append(float(getattr(scores, name)))
            replicates = plan.build_subset_replicates(IDS, SHARE, subsets[name])
            rows = {"huse": 2 * scores.errors, "huse_q": 2 * scores.errors_q}.get(name)
            interval = estimate_interval(replicates, values[name][-1], bounds, rows, is_share=True)
            if interval is not None:
                intervals[name].append((interval.low, interval.high, interval.std_error))
    covered, ratios = [], []
    for name in VALUES:
        low, high, error = np.array(intervals[name]).T
        covered.append(f"{100 * float(np.mean((low <= np.mean(values[name])) & (np.mean(values[name]) <= high))):.1f}")
        ratios.append(f"{float(np.sqrt(np.mean(error**2)) / np.std(values[name], ddof=1)):.2f}")
    mean: F64 = np.mean(values["huse"])
    return f"| {law} | {mean:.2f} | {', '.join(covered)} % | {', '.join(ratios)} |"


def main() -> None:
    """Print or write a row for each law."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=120)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    rows = []
    for law in LAWS:
        rows.append(measure(law, options.studies))
        print(rows[-1], flush=True)
    if options.write:
        replace_rows(options.write, "measured", rows, [1])


if __name__ == "__main__":
    main()
