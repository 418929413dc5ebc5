"""Measure a judge's agreement with people: κ on outcomes, Spearman's ρ on levels, with intervals."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from openended.harness.core import F64, I64, DataError, make_random_stream
from openended.metrics.correlation import correlate
from openended.metrics.judgments import (
    JUDGE,
    SIMULATED,
    UNCALIBRATED,
    read_comparisons,
    read_judgments,
    read_rows,
    select_kind,
)

LEAST = 20
"""Minimum of shared judgments; with fewer, an interval of κ would cover nearly everything."""
_DRAWS = 1000
Unit = tuple[str, ...]


def calibrate(rows: Iterable[Mapping[str, Any]], people: Path, kind: str, levels: Sequence[float]) -> str:
    """Compare a judge's rows with a file of people's judgments; return the text of the `calibration` column."""
    judge_rows = list(rows)
    judge_levels = {unit: level for _, unit, level in _iterate_units(judge_rows, kind)}
    human_levels, who = _read_people(people, kind, str(judge_rows[0]["criterion"]) if judge_rows else "")
    shared = sorted(set(judge_levels) & set(human_levels))
    judge = np.array([judge_levels[unit] for unit in shared], dtype=np.float64)
    mean = np.array([float(np.mean(human_levels[unit])) for unit in shared], dtype=np.float64)
    if len(shared) < LEAST:
        return f"{UNCALIBRATED} ({len(shared)} judgments shared with {who})" if shared else UNCALIBRATED
    steps = (-1.0, 0.0, 1.0) if kind == "pairs" else tuple(sorted(levels))
    near = np.sign(mean) if kind == "pairs" else np.array(steps)[np.abs(mean[:, None] - np.array(steps)).argmin(axis=1)]

    def measure(picked: I64) -> float:
        return kappa(judge[picked], near[picked], steps, linear=kind != "pairs")

    draws = (make_random_stream(0, "kappa", i).integers(len(shared), size=len(shared)) for i in range(_DRAWS))
    values = [value for value in map(measure, draws) if not np.isnan(value)]
    low, high = np.quantile(values, [0.025, 0.975]) if values else (float("nan"), float("nan"))
    value, rho = measure(np.arange(len(shared))), correlate(judge, mean, permutations=1, draws=_DRAWS)
    if np.isnan(value) or np.isnan(rho.value):
        return f"{UNCALIBRATED} (the same answer to all {len(shared)} judgments shared with {who})"
    agreement = f"κ {value:.2f} [{low:.2f}, {high:.2f}] and ρ {rho.value:.2f} [{rho.low:.2f}, {rho.high:.2f}]"
    return f"{agreement} with {who} on {len(shared)} judgments"


def kappa(x: F64, y: F64, levels: Sequence[float], *, linear: bool = False) -> float:
    """Return Cohen's κ; NaN if chance alone gives full agreement.

    Source: Cohen 1960, 1968.

    >>> kappa(np.array([0.0, 0, 1, 1]), np.array([0.0, 0, 1, 0]), (0.0, 1.0))
    0.5
    """
    steps = list(levels)
    table = np.zeros((len(steps), len(steps)))
    np.add.at(table, ([steps.index(v) for v in x], [steps.index(v) for v in y]), 1.0)
    table /= table.sum()
    ranks = np.arange(len(steps))
    distance = np.abs(ranks[:, None] - ranks[None, :]).astype(np.float64)
    cost = distance if linear else np.minimum(distance, 1.0)
    chance = float((cost * np.outer(table.sum(axis=1), table.sum(axis=0))).sum())
    return 1.0 - float((cost * table).sum()) / chance if chance > 0 else float("nan")


def _iterate_units(rows: Iterable[Mapping[str, Any]], kind: str) -> Iterator[tuple[str, Unit, float]]:
    """Yield rater, what was judged, and its level; of a pair 1 where the first by name won, −1 the second, 0 a tie."""
    for row in rows:
        if kind == "pairs":
            a, b = row["system_a"], row["system_b"]
            turn = 1.0 if a < b else -1.0
            unit = (row["item"], row["criterion"], *sorted((a, b)))
            yield row["rater"], unit, turn * {"a": 1.0, "b": -1.0, "tie": 0.0}[row["outcome"]] + 0.0
        else:
            yield row["rater"], (row["example_id"], row["system"], row["criterion"]), float(row["rating"])


def _read_people(path: Path, kind: str, criterion: str) -> tuple[dict[Unit, list[float]], str]:
    """Return the levels of each item, and who gave them; ratings without a criterion get the judge's first."""
    if kind == "pairs":
        rows = [dataclasses.asdict(c) for c in read_comparisons(path).rows]
    else:
        columns, cells = read_rows(path)
        if {"rating", "system", "example_id"} <= set(columns):
            rows = [
                {
                    "example_id": row.text("example_id"), "system": row.text("system"), "rating": row.number("rating"),
                    "criterion": str(row.cells.get("criterion") or criterion),
                    "rater": str(row.cells.get("rater") or ""),
                }
                for row in select_kind(columns, cells, "system", "system_a")
            ]  # fmt: skip
        else:
            judgments = read_judgments(path)
            rows = [
                {
                    "example_id": judgments.example_ids[i], "system": judgments.systems[i],
                    "rating": judgments.ratings[i, j], "criterion": criterion, "rater": f"{j}",
                }
                for i, j in np.argwhere(~np.isnan(judgments.ratings))
            ]  # fmt: skip
    units = [rated for rated in _iterate_units(rows, kind) if not rated[0].startswith(JUDGE)]
    human_units = [rated for rated in units if not rated[0].startswith(SIMULATED)]
    if not units:
        raise DataError(f"--people {path}: all raters in it are judges; expected judgments of people")
    out: dict[Unit, list[float]] = defaultdict(list)
    for _, unit, level in human_units or units:
        out[unit].append(level)
    return out, "people" if human_units else "simulated raters"
