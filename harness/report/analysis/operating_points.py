"""Frontiers of the systems of a report: operating points from Gen-PPL, entropy and their replicates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from openended.harness.core import F64, DataError
from openended.harness.report.analysis.decoder_sweeps import MIN_SETTINGS, DecoderSweep, group_sweeps
from openended.harness.report.analysis.frontier import Frontier, stack_replicates
from openended.harness.results import Results, SystemValue, find_human_value, load_replicates

GEN_PPL, ENTROPY = ("gen_ppl", "gen_ppl"), ("gen_ppl", "entropy")


@dataclass(frozen=True, slots=True, eq=False)
class SystemFrontier:
    """A decoder's sweep and its frontier."""

    sweep: DecoderSweep
    frontier: Frontier
    points: tuple[tuple[SystemValue, SystemValue], ...]
    """Entropy and Gen-PPL of each operating point."""


def find_frontiers(results: Results, items: Sequence[SystemValue]) -> list[SystemFrontier]:
    """Return the frontier of every decoder that was run at two settings or more.

    Raises:
        DataError: If the replicates of the values were not stored.
    """
    frontiers = []
    for sweep in group_sweeps(items):
        pairs = [(s.value(*ENTROPY), s.value(*GEN_PPL)) for s in sweep.systems]
        points = [(h, g) for h, g in pairs if h and g and math.isfinite(h.mean + math.log(g.mean))]
        if len(points) < MIN_SETTINGS:
            continue
        entropy = stack_replicates([h.mean for h, _ in points], [_load(results, h) for h, _ in points])
        log_ppl = stack_replicates([g.mean for _, g in points], [_load(results, g) for _, g in points])
        frontiers.append(SystemFrontier(sweep, Frontier(sweep.name, entropy, np.log(log_ppl)), tuple(points)))
    return frontiers


def load_human_entropy(results: Results, items: Sequence[SystemValue], like: SystemValue) -> F64 | None:
    """Return the entropy of the human texts and its replicates, shape (1 + replicates,); None if not measured."""
    human = find_human_value(items, like)
    if human is None or not math.isfinite(human.mean):
        return None
    return np.concatenate([[human.mean], _load(results, human)])


def _load(results: Results, item: SystemValue) -> F64:
    replicates = load_replicates(results, item)
    if replicates is None or replicates.method != "bootstrap":
        raise DataError(
            f"layout frontier: no replicates of {item.metric}.{item.key} in the store; run with intervals=200"
        )
    draws: F64 = replicates.draws[0]
    return draws
