"""Generative frontier: log Gen-PPL of a system as a function of the entropy of its texts.

The operating points of a system (temperatures, p, numbers of steps) give pairs (entropy H, log Gen-PPL g). g is made
monotone in H by isotonic regression and interpolated by a monotone cubic, so that systems can be compared at equal
entropy, in particular at that of human text. Outside the entropies that were measured there is no value.

Every quantity has replicates from the bootstrap of the metric's values: a replicate draws prompts, the same for all
operating points of all systems, and interpolates anew.

Source: Pynadath, Shi and Zhang 2026 (arXiv 2604.02718) for frontiers; Barlow et al. 1972 for isotonic regression;
Fritsch and Carlson 1980 for the interpolation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from openended.harness.core import F64, DataError, Interval, Replicates, UndefinedMetric
from openended.harness.report.analysis.decoder_sweeps import MIN_SETTINGS, DecoderSweep, group_sweeps
from openended.harness.results import Results, System, SystemValue, find_human_value, load_replicates

GEN_PPL, ENTROPY = ("gen_ppl", "gen_ppl"), ("gen_ppl", "entropy")
STEPS = "decoder.steps"
GRID = 41  # entropies at which an area is summed
_SAME = 1e-9  # entropies nearer than this are one point


@dataclass(frozen=True, slots=True, eq=False)
class Frontier:
    """The operating points of one system; row 0 holds the values, the others their replicates."""

    name: str
    entropy: F64
    """Shape (1 + replicates, points), nats."""
    log_ppl: F64
    """The same shape, nats."""

    @property
    def reach(self) -> tuple[float, float]:
        """Smallest and largest entropy of the points."""
        return float(self.entropy[0].min()), float(self.entropy[0].max())

    @property
    def reach_text(self) -> str:
        return "{:.3f} to {:.3f}".format(*self.reach)

    def evaluate(self, at: F64) -> F64:
        """Return the interpolated log Gen-PPL of the values and of each replicate, shape (1 + replicates, k)."""
        rows = np.broadcast_to(at, (len(self.entropy), np.shape(at)[-1]))
        return np.stack([interpolate(h, g, x) for h, g, x in zip(self.entropy, self.log_ppl, rows, strict=True)])


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """A value with its replicates."""

    value: float
    draws: F64

    def interval(self) -> Interval:
        """Return the 95 % interval over prompts."""
        return Replicates(self.draws[None, :]).interval(self.value)


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
        entropy = np.stack([_load_values(results, h) for h, _ in points], axis=1)
        log_ppl = np.log(np.stack([_load_values(results, g) for _, g in points], axis=1))
        frontier = Frontier(sweep.name, entropy, log_ppl)
        frontiers.append(SystemFrontier(sweep, frontier, tuple(points), sampler, steps))
    return frontiers


def _separate_steps(sweeps: Sequence[DecoderSweep]) -> Iterator[tuple[DecoderSweep, str, int | None]]:
    """Yield each sweep, or one for each of its numbers of steps; with the sampler's name and the number of steps."""
    several_models = len({sweep.systems[0].items[0].axes.get("model") for sweep in sweeps}) > 1
    for sweep in sorted(sweeps, key=lambda sweep: bool(sweep.systems[0].items[0].axes.get(STEPS))):
        model = sweep.systems[0].items[0].titles[0]
        name = f"{model} {sweep.name}" if several_models and "model=" not in sweep.name else sweep.name
        by_steps: dict[str, list[System]] = {}
        for system in sweep.systems:
            by_steps.setdefault(system.items[0].axes.get(STEPS, ""), []).append(system)
        if "" in by_steps or len(by_steps) == 1 or min(map(len, by_steps.values())) < MIN_SETTINGS:
            yield DecoderSweep(name, sweep.systems), name, None
            continue
        for steps in sorted(by_steps, key=int):
            yield DecoderSweep(f"{name}, steps={steps}", tuple(by_steps[steps])), name, int(steps)


def _load_values(results: Results, item: SystemValue) -> F64:
    """Return a value followed by its replicates, shape (1 + replicates,)."""
    replicates = load_replicates(results, item)
    if replicates is None or replicates.method != "bootstrap":
        raise DataError(
            f"layout frontier: no replicates of {item.metric}.{item.key} in the store; run with intervals=200"
        )
    return np.concatenate([[item.mean], replicates.draws[0]])


def load_human_entropy(results: Results, items: Sequence[SystemValue], like: SystemValue) -> F64 | None:
    """Return the entropy of the human texts and its replicates, shape (1 + replicates,); None if not measured."""
    human = find_human_value(items, like)
    if human is None or not math.isfinite(human.mean):
        return None
    return _load_values(results, human)


def estimate_at_human(entry: SystemFrontier, human: F64 | None) -> Estimate:
    """Return a frontier's log Gen-PPL at the entropy of human text."""
    if human is None:
        raise UndefinedMetric("the entropy of human text was not measured")
    return estimate_at(entry.frontier, human)


def estimate_at(frontier: Frontier, entropy: F64) -> Estimate:
    """Return a frontier's log Gen-PPL at an entropy, which is given with its replicates."""
    low, high = frontier.reach
    if not low <= entropy[0] <= high:
        raise UndefinedMetric(
            f"entropy {entropy[0]:.3f} is outside the operating points of {frontier.name}, {frontier.reach_text}: "
            "measure it at further temperatures"
        )
    values = frontier.evaluate(entropy[:, None])[:, 0]
    return Estimate(float(values[0]), values[1:])


def estimate_gap(first: Frontier, second: Frontier, entropy: F64) -> Estimate:
    """Return the difference of two frontiers at an entropy, first less second, in nats."""
    a, b = estimate_at(first, entropy), estimate_at(second, entropy)
    return Estimate(a.value - b.value, a.draws - b.draws)


def estimate_area(first: Frontier, second: Frontier) -> Estimate:
    """Return the area between two frontiers over their common entropies, first less second, in nats squared."""
    low, high = max(first.reach[0], second.reach[0]), min(first.reach[1], second.reach[1])
    if not high - low > _SAME:
        raise UndefinedMetric(
            f"{first.name} reaches entropies {first.reach_text}, {second.name} {second.reach_text}: no overlap"
        )
    grid = np.linspace(low, high, GRID)
    areas = np.asarray(np.trapezoid(first.evaluate(grid) - second.evaluate(grid), grid, axis=1))
    return Estimate(float(areas[0]), areas[1:])


def compute_bands(frontier: Frontier, grid: F64) -> tuple[F64, F64, F64]:
    """Return the interpolated values on a grid and the ends of the middle 95 % of the replicates, shapes (k,)."""
    values = frontier.evaluate(grid)
    low, high = np.percentile(values[1:], [2.5, 97.5], axis=0) if len(values) > 1 else (values[0], values[0])
    return values[0], low, high


def interpolate(entropy: F64, log_ppl: F64, at: F64) -> F64:
    """Return the monotone interpolation of one set of points at entropies; beyond its ends a straight line."""
    from scipy.interpolate import PchipInterpolator
    from scipy.optimize import isotonic_regression

    order = np.argsort(entropy, kind="stable")
    h, g = entropy[order], log_ppl[order]
    starts = np.flatnonzero(np.diff(h, prepend=-np.inf) > _SAME)
    if len(starts) < 2:
        raise UndefinedMetric("a frontier needs operating points of at least two different entropies")
    sizes = np.diff(np.append(starts, len(h)))
    h, g = np.add.reduceat(h, starts) / sizes, np.add.reduceat(g, starts) / sizes
    curve = PchipInterpolator(h, isotonic_regression(g).x)
    inside = np.clip(at, h[0], h[-1])
    values: F64 = curve(inside) + curve.derivative()(inside) * (at - inside)
    return values
