"""How a judge agrees with people: Cohen's κ and Spearman's ρ on the items that both judged, with intervals."""

import dataclasses
import math
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from openended.harness.core import I64, SIMULATED, DataError, make_random_stream
from openended.metrics.correlation import correlate
from openended.metrics.judgments import JUDGE, LEAST_ITEMS, UNCALIBRATED, read_comparisons, read_criteria

Unit = tuple[str, ...]
"""What was judged: (example, system, criterion), or (item, criterion, and two systems in the order of their names)."""
_DRAWS = 1000


def list_levels(rows: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, Unit, float]]:
    """Yield rater, unit and level of judgments; of a pair 1 where the first by name won, −1 the second, 0 a tie."""
    for row in rows:
        if "system_a" in row:
            a, b = row["system_a"], row["system_b"]
            turn = 1.0 if a < b else -1.0
            unit = (row["item"], row["criterion"], *sorted((a, b)))
            yield row["rater"], unit, turn * {"a": 1.0, "b": -1.0, "tie": 0.0}[row["outcome"]] + 0.0
        else:
            yield row["rater"], (row["example_id"], row["system"], row["criterion"]), float(row["rating"])


def read_levels_of_people(path: Path, *, pairs: bool, criterion: str) -> tuple[dict[Unit, float], str]:
    """Return the mean level of each unit, and who gave it; ratings without a criterion get this one."""
    if pairs:
        rows = [dataclasses.asdict(row) for row in read_comparisons(path).rows]
    else:
        by_criterion = read_criteria(path, metric="mean_rating").criteria
        rows = []
        for name, rated in by_criterion.items():
            for i, j in np.argwhere(~np.isnan(rated.ratings)):
                text = {"example_id": rated.example_ids[i], "system": rated.systems[i], "criterion": name or criterion}
                rows.append({**text, "rating": rated.ratings[i, j], "rater": rated.raters[j] if rated.raters else ""})
    levels = [level for level in list_levels(rows) if not level[0].startswith(JUDGE)]
    of_people = [level for level in levels if not level[0].startswith(SIMULATED)]
    if not levels:
        raise DataError(f"{path}: all raters in it are judges; expected judgments of people")
    by_unit: dict[Unit, list[float]] = defaultdict(list)
    for _, unit, value in of_people or levels:
        by_unit[unit].append(value)
    means = {unit: math.fsum(values) / len(values) for unit, values in by_unit.items()}
    return means, "people" if of_people else "simulated raters"


def describe_agreement(rows: Sequence[Mapping[str, Any]], people: Path, scale: Sequence[float]) -> str:
    """Compare a judge's judgments with people's and return the text of the column `calibration`.

    Args:
        rows: The judge's judgments, as in a file of judgments: names of columns to cells.
        people: A file of people's judgments of the same kind.
        scale: The ratings that can be given; empty for pairs.

    Returns:
        Cohen's κ and Spearman's ρ with 95 % intervals, or that the judge is not calibrated and why.

    Raises:
        DataError: If the file cannot be read, or all raters in it are judges.
    """
    from sklearn.metrics import cohen_kappa_score

    pairs = not scale
    judge_levels = {unit: level for _, unit, level in list_levels(rows)}
    human_levels, who = read_levels_of_people(people, pairs=pairs, criterion=str(rows[0]["criterion"]))
    shared = sorted(set(judge_levels) & set(human_levels))
    if len(shared) < LEAST_ITEMS:
        return f"{UNCALIBRATED} ({len(shared)} judgments shared with {who})" if shared else UNCALIBRATED
    judge, mean = (np.array([levels[unit] for unit in shared]) for levels in (judge_levels, human_levels))
    steps = np.array((-1.0, 0.0, 1.0) if pairs else sorted(scale))
    near = np.sign(mean) if pairs else steps[np.abs(mean[:, None] - steps).argmin(axis=1)]
    x, y = (np.searchsorted(steps, level) for level in (judge, near))

    def measure(rows: I64) -> float:
        """Return Cohen's κ (1960, 1968); NaN if chance alone gives full agreement."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            weights = None if pairs else "linear"
            return float(cohen_kappa_score(x[rows], y[rows], labels=range(len(steps)), weights=weights))

    draws = (make_random_stream(0, "kappa", i).integers(len(shared), size=len(shared)) for i in range(_DRAWS))
    values = [value for value in map(measure, draws) if not np.isnan(value)]
    low, high = np.quantile(values, [0.025, 0.975]) if values else (math.nan, math.nan)
    value, rho = measure(np.arange(len(shared))), correlate(judge, mean, permutations=1, draws=_DRAWS)
    if np.isnan(value) or np.isnan(rho.value):
        return f"{UNCALIBRATED} (the same answer to all {len(shared)} judgments shared with {who})"
    agreement = f"κ {value:.2f} [{low:.2f}, {high:.2f}] and ρ {rho.value:.2f} [{rho.low:.2f}, {rho.high:.2f}]"
    return f"{agreement} with {who} on {len(shared)} judgments"
