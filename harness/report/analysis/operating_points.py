"""Frontiers of the systems of a report: operating points from Gen-PPL, entropy and their replicates."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from openended.harness.core import F64, DataError, UndefinedMetric
from openended.harness.report.analysis.decoder_sweeps import MIN_SETTINGS, DecoderSweep, group_sweeps
from openended.harness.report.analysis.frontier import Estimate, Frontier, estimate_at, stack_replicates
from openended.harness.results import Results, System, SystemValue, find_human_value, load_replicates

GEN_PPL, ENTROPY = ("gen_ppl", "gen_ppl"), ("gen_ppl", "entropy")
STEPS = "decoder.steps"


@dataclass(frozen=True, slots=True, eq=False)
class SystemFrontier:
    """A decoder's sweep and its frontier."""

    sweep: DecoderSweep
    frontier: Frontier
    points: tuple[tuple[SystemValue, SystemValue], ...]
    """Entropy and Gen-PPL of each operating point."""
    sampler: str
    """Name of the decoder without its number of steps."""
    steps: int | None = None
    """Number of steps, where the frontiers of a sampler are separate for each number."""


def find_frontiers(results: Results, items: Sequence[SystemValue]) -> list[SystemFrontier]:
    """Return the frontier of every decoder that was run at two settings or more.

    A sampler with several settings at each of several numbers of steps has a frontier for each number. Systems without
    steps come first.
    """
    frontiers = []
    for sweep, sampler, steps in _separate_steps(group_sweeps(items)):
        pairs = [(s.value(*ENTROPY), s.value(*GEN_PPL)) for s in sweep.systems]
        points = [(h, g) for h, g in pairs if h and g and math.isfinite(h.mean + math.log(g.mean))]
        if len(points) < MIN_SETTINGS:
            continue
        entropy = stack_replicates([h.mean for h, _ in points], [_load(results, h) for h, _ in points])
        log_ppl = stack_replicates([g.mean for _, g in points], [_load(results, g) for _, g in points])
        frontiers.append(
            SystemFrontier(sweep, Frontier(sweep.name, entropy, np.log(log_ppl)), tuple(points), sampler, steps)
        )
    return frontiers


def _separate_steps(sweeps: Sequence[DecoderSweep]) -> Iterator[tuple[DecoderSweep, str, int | None]]:
    """Yield each sweep, or one for each of its numbers of steps; with the sampler's name and the number of steps."""
    rows = {id(sweep): sweep.systems[0].items[0] for sweep in sweeps}
    several_models = len({row.axes.get("model") for row in rows.values()}) > 1
    for sweep in sorted(sweeps, key=lambda sweep: bool(rows[id(sweep)].axes.get(STEPS))):
        model = rows[id(sweep)].titles[0]
        name = f"{model} {sweep.name}" if several_models and "model=" not in sweep.name else sweep.name
        by_steps: dict[str, list[System]] = {}
        for system in sweep.systems:
            by_steps.setdefault(system.items[0].axes.get(STEPS, ""), []).append(system)
        if "" in by_steps or len(by_steps) == 1 or min(map(len, by_steps.values())) < MIN_SETTINGS:
            yield DecoderSweep(name, sweep.systems), name, None
            continue
        for steps in sorted(by_steps, key=int):
            yield DecoderSweep(f"{name}, steps={steps}", tuple(by_steps[steps])), name, int(steps)


def load_human_entropy(results: Results, items: Sequence[SystemValue], like: SystemValue) -> F64 | None:
    """Return the entropy of the human texts and its replicates, shape (1 + replicates,); None if not measured."""
    human = find_human_value(items, like)
    if human is None or not math.isfinite(human.mean):
        return None
    return np.concatenate([[human.mean], _load(results, human)])


def estimate_at_human(entry: SystemFrontier, human: F64 | None) -> Estimate:
    """Return a frontier's log Gen-PPL at the entropy of human text."""
    if human is None:
        raise UndefinedMetric("the entropy of human text was not measured")
    return estimate_at(entry.frontier, human)


def _load(results: Results, item: SystemValue) -> F64:
    replicates = load_replicates(results, item)
    if replicates is None or replicates.method != "bootstrap":
        raise DataError(
            f"layout frontier: no replicates of {item.metric}.{item.key} in the store; run with intervals=200"
        )
    draws: F64 = replicates.draws[0]
    return draws
