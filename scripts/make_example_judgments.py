"""Make `tasks/data/example_ratings.csv` and `example_pairs.csv`: invented judgments to try HUSE and Bradley-Terry.

python scripts/make_example_judgments.py tasks/data
"""

import csv
import itertools
import math
import sys
from pathlib import Path

import numpy as np

ABILITIES = {"human": 0.6, "nucleus": 0.3, "ancestral": 0.0, "greedy": -0.9}
RATERS = 5


def sample_ratings(rng: np.random.Generator, examples: int = 100) -> list[list[str]]:
    """Sample the rows of the ratings, header first."""
    rows = [["example_id", "is_model", "log_prob", "length", *(f"rating_{i + 1}" for i in range(RATERS))]]
    for example in range(examples):
        for is_model, typical, logp, deviation in ((0, 4.0, -4.2, 0.9), (1, 3.4, -3.4, 0.6)):
            length = int(rng.integers(30, 70))
            seen = rng.normal(typical, 0.6) + rng.normal(0.0, 0.7, RATERS)
            levels = np.clip(np.rint(seen), 1, 5).astype(int)
            total = length * min(rng.normal(logp, deviation), -0.5)
            rows.append([f"example/{example:03d}", str(is_model), f"{total:.2f}", str(length), *map(str, levels)])
    return rows


def sample_pairs(rng: np.random.Generator, items: int = 30) -> list[list[str]]:
    """Sample the rows of the comparisons, header first."""
    rows = [["item", "system_a", "system_b", "outcome", "criterion", "rater", "seconds"]]
    for item, pair in itertools.product(range(items), itertools.combinations(ABILITIES, 2)):
        for criterion, weight in (("human_like", 1.0), ("interesting", 0.6)):
            a, b = pair if rng.random() < 0.5 else pair[::-1]
            beats = 1.0 / (1.0 + math.exp(weight * (ABILITIES[b] - ABILITIES[a])))
            outcome = "tie" if rng.random() < 0.1 else ("a" if rng.random() < beats else "b")
            rater, seconds = f"r{rng.integers(12):02d}", f"{rng.lognormal(3.8, 0.5):.0f}"
            rows.append([f"example/{item:03d}", a, b, outcome, criterion, rater, seconds])
    return rows


def write_files(folder: Path) -> None:
    """Write both files."""
    for name, rows in (
        ("example_ratings.csv", sample_ratings(np.random.default_rng(20190408))),
        ("example_pairs.csv", sample_pairs(np.random.default_rng(20211206))),
    ):
        with (folder / name).open("w", encoding="utf-8", newline="") as handle:
            csv.writer(handle, lineterminator="\n").writerows(rows)


if __name__ == "__main__":
    write_files(Path(sys.argv[1]))
