"""Generative frontier: log Gen-PPL of a system as a function of the entropy of its texts, and `--layout frontier`.

The operating points of a system (temperatures, p, numbers of steps) are made monotone by isotonic regression (Barlow et
al. 1972) and interpolated by a monotone cubic (Fritsch and Carlson 1980), so that systems can be compared at equal
entropy (Pynadath, Shi and Zhang 2026, arXiv 2604.02718), never outside the entropies that were measured. Replicates
draw prompts, the same for all operating points of all systems, and interpolate anew.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.interpolate import PchipInterpolator
from scipy.optimize import isotonic_regression

from openended.harness import results as measured
from openended.harness.core import F64, DataError, Interval, Replicates, UndefinedMetric
from openended.harness.report.tables.fair_comparison import MIN_SETTINGS, DecoderSweep, group_sweeps
from openended.harness.report.tables.frame import Cell, Frame, Quantity, build_frame, make_cell, make_quantity
from openended.harness.report.tables.selection import TablePart, check_signatures
from openended.harness.report.tables.values import build_value_frames
from openended.harness.results import Layout, Results, System, SystemValue, load_replicates

GEN_PPL, ENTROPY, KL = ("gen_ppl", "gen_ppl"), ("gen_ppl", "entropy"), ("kl_to_scorer", "kl_per_token")
STEPS = "decoder.steps"
GRID = 41  # entropies at which an area is summed
_TOLERANCE = 1e-9  # entropies nearer than this are one point
_REMARKS = (
    "Log Gen-PPL as a function of entropy: isotonic regression on the operating points, then a monotone cubic.",
    "No value outside the measured entropies.",
    "Gap: log Gen-PPL at the human entropy less that of the first system; below 0: more predictable at equal entropy.",
    "Area: the same difference over all entropies that both reach, in nats squared.",
    "Intervals: bootstrap over prompts, the same draws at all operating points of all systems.",
)


@dataclass(frozen=True, slots=True, eq=False)
class Frontier:
    """The operating points of one system; row 0 of the arrays holds the values, the others their replicates."""

    name: str
    entropy: F64  # shape (1 + replicates, points), nats
    log_ppl: F64  # the same shape, nats
    prompts: int  # number of prompts
    points: tuple[tuple[SystemValue, SystemValue], ...] = ()  # entropy and Gen-PPL of each operating point
    systems: tuple[System, ...] = ()  # the settings of its sweep
    sampler: str = ""  # name of the decoder without its number of steps
    steps: int | None = None  # number of steps, where the frontiers of a sampler are separate for each number

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


def find_frontiers(results: Results, items: Sequence[SystemValue]) -> list[Frontier]:
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
        prompts = min(measured.count_prompts(h) for h, _ in points)
        frontiers.append(Frontier(sweep.name, entropy, log_ppl, prompts, tuple(points), sweep.systems, sampler, steps))
    return frontiers


def _separate_steps(sweeps: Sequence[DecoderSweep]) -> Iterator[tuple[DecoderSweep, str, int | None]]:
    """Yield each sweep, or one for each of its numbers of steps; with the sampler's name and the number of steps."""
    several_models = len({sweep.systems[0].items[0].axes.get("model") for sweep in sweeps}) > 1
    for sweep in sorted(sweeps, key=lambda sweep: bool(sweep.systems[0].items[0].axes.get(STEPS))):
        model = sweep.systems[0].items[0].titles[0]
        name = f"{model} {sweep.name}" if several_models and "model=" not in sweep.name else sweep.name
        by_steps = measured.group_by(sweep.systems, lambda system: system.items[0].axes.get(STEPS, ""))
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
    human = measured.find_human_value(items, like)
    if human is None or not math.isfinite(human.mean):
        return None
    return _load_values(results, human)


def estimate_at(frontier: Frontier, entropy: F64 | None) -> F64:
    """Return a frontier's log Gen-PPL at an entropy (None: the human one, unknown), both with replicates."""
    if entropy is None:
        raise UndefinedMetric("the entropy of human text was not measured")
    low, high = frontier.reach
    if not low <= entropy[0] <= high:
        raise UndefinedMetric(
            f"entropy {entropy[0]:.3f} is outside the operating points of {frontier.name}, {frontier.reach_text}: "
            "measure it at further temperatures"
        )
    return frontier.evaluate(entropy[:, None])[:, 0]


def estimate_gap(first: Frontier, second: Frontier, entropy: F64 | None) -> F64:
    """Return the difference of two frontiers at an entropy, first less second, in nats, with its replicates."""
    return estimate_at(first, entropy) - estimate_at(second, entropy)


def estimate_area(first: Frontier, second: Frontier) -> F64:
    """Return the area between two frontiers over their common entropies, first less second, nats², with replicates."""
    low, high = max(first.reach[0], second.reach[0]), min(first.reach[1], second.reach[1])
    if not high - low > _TOLERANCE:
        raise UndefinedMetric(
            f"{first.name} reaches entropies {first.reach_text}, {second.name} {second.reach_text}: no overlap"
        )
    grid = np.linspace(low, high, GRID)
    return np.asarray(np.trapezoid(first.evaluate(grid) - second.evaluate(grid), grid, axis=1))


def estimate_interval(values: F64, *frontiers: Frontier) -> Interval:
    """Return the interval of an estimate with replicates, shape (1 + replicates,), from some frontiers."""
    return Replicates(values[None, 1:], prompts=min(f.prompts for f in frontiers)).interval(float(values[0]))


def compute_bands(frontier: Frontier, grid: F64) -> tuple[F64, F64, F64]:
    """Return the interpolated values on a grid and the ends of the middle 95 % of the replicates, shapes (k,)."""
    values = frontier.evaluate(grid)
    low, high = np.percentile(values[1:], [2.5, 97.5], axis=0) if len(values) > 1 else (values[0], values[0])
    return values[0], low, high


def interpolate(entropy: F64, log_ppl: F64, at: F64) -> F64:
    """Return the monotone interpolation of one set of points at entropies; beyond its ends a straight line."""
    order = np.argsort(entropy, kind="stable")
    h, g = entropy[order], log_ppl[order]
    starts = np.flatnonzero(np.diff(h, prepend=-np.inf) > _TOLERANCE)
    if len(starts) < 2:
        raise UndefinedMetric("a frontier needs operating points of at least two different entropies")
    sizes = np.diff(np.append(starts, len(h)))
    h, g = np.add.reduceat(h, starts) / sizes, np.add.reduceat(g, starts) / sizes
    curve = PchipInterpolator(h, isotonic_regression(g).x)
    inside = np.clip(at, h[0], h[-1])
    return curve(inside) + curve.derivative()(inside) * (at - inside)


# Tables ---------------------------------------------------------------------------------------------------------------


def build_frontier_frames(part: TablePart, layout: Layout) -> list[Frame]:
    """Build the tables of all values, and a table of frontiers."""
    everything = replace(layout, title="All systems", differing="columns")
    values = build_value_frames(replace(part, stem=f"{part.stem}-values"), everything)
    results, items = part.results, part.items
    check_signatures(measured.select_values(items, *GEN_PPL), part.stem, layout.allow)
    frontiers = find_frontiers(results, items)
    if not frontiers:
        raise DataError(
            "layout frontier: no decoder has gen_ppl at two or more settings; sweep one: decoder.temperature=0.7,1.0"
        )
    first, (entropy, gen_ppl) = frontiers[0], frontiers[0].points[0]
    human, human_ppl = load_human_entropy(results, items, entropy), measured.find_human_value(items, gen_ppl)
    ppl = make_quantity("gen_ppl", "frontier", "Gen. PPL at human entropy", "match_human", 2, gen_ppl.signature)
    columns: list[tuple[Quantity, list[Any]]] = [
        (make_quantity("", "points", "points", decimals=0), [len(entry.points) for entry in frontiers]),
        (make_quantity("", "from", "entropy from", decimals=3), [entry.reach[0] for entry in frontiers]),
        (make_quantity("", "to", "to", decimals=3), [entry.reach[1] for entry in frontiers]),
        (ppl, [format_estimate(estimate_at, entry, human, convert=np.exp) for entry in frontiers]),
    ]
    if others := frontiers[1:]:
        gaps = [None, *(format_estimate(estimate_gap, entry, first, human) for entry in others)]
        areas = [None, *(format_estimate(estimate_area, entry, first) for entry in others)]
        gap = make_quantity("gen_ppl", "frontier_gap_at_human_entropy", f"gap to {first.name}", decimals=3)
        area = make_quantity("gen_ppl", "frontier_area", f"area to {first.name}", decimals=3)
        columns += [(gap, gaps), (area, areas)]
    if any(system.value(*KL) for entry in frontiers for system in entry.systems):
        lowest = [_find_lowest_kl(results, entry) for entry in frontiers]
        columns.append((make_quantity(*KL, "lowest KL per token", "lower", 3), lowest))
    labels, kinds = [entry.name for entry in frontiers], ["model"] * len(frontiers)
    if human is not None and layout.human:
        labels, kinds = [*labels, "human"], [*kinds, "human"]
        values_of_human = [None, human[0], human[0], human_ppl.mean if human_ppl is not None else math.nan]
        for (_, cells), value in itertools.zip_longest(columns, values_of_human):
            cells.append(value)
    return [*values, build_frame(part.stem, layout.title, labels, columns, _REMARKS, roles=kinds)]


def format_estimate(
    estimate: Callable[..., F64], *inputs: Frontier | F64 | None, convert: Callable[[float], float] = float
) -> Cell:
    """Return the cell of an estimate, or of the reason why there is none."""
    try:
        values = estimate(*inputs)
    except UndefinedMetric as err:
        return make_cell(note=str(err))
    interval = estimate_interval(values, *(part for part in inputs if isinstance(part, Frontier)))
    return make_cell(float(convert(values[0])), interval=(float(convert(interval.low)), float(convert(interval.high))))


def _find_lowest_kl(results: Results, entry: Frontier) -> Cell:
    values = [v for s in entry.systems if (v := s.value(*KL)) is not None and math.isfinite(v.mean)]
    if not values:
        return make_cell(note="the texts have no log Q, or it was not measured (metric=kl_to_scorer)")
    lowest = min(values, key=lambda v: v.mean)
    interval = measured.find_interval(results, lowest)
    return make_cell(lowest.mean, interval=(interval.low, interval.high) if interval else None)
