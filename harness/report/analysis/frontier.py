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

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from openended.harness.core import F64, Interval, Replicates, UndefinedMetric

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

    def evaluate(self, at: F64) -> F64:
        """Return the interpolated log Gen-PPL of the values and of each replicate."""
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


def fit_isotonic(values: F64) -> F64:
    """Return the non-decreasing sequence that is nearest in squares to `values`, shape (n,).

    >>> fit_isotonic(np.array([1.0, 3.0, 2.0])).tolist()
    [1.0, 2.5, 2.5]
    """
    means: list[float] = []
    sizes: list[int] = []
    for value in values.tolist():
        means.append(value)
        sizes.append(1)
        while len(means) > 1 and means[-2] > means[-1]:
            size = sizes[-2] + sizes[-1]
            means[-2:] = [(means[-2] * sizes[-2] + means[-1] * sizes[-1]) / size]
            sizes[-2:] = [size]
    return np.repeat(means, sizes)


def interpolate(entropy: F64, log_ppl: F64, at: F64) -> F64:
    """Return the monotone interpolation of one set of points; beyond its ends a straight line."""
    from scipy.interpolate import PchipInterpolator

    order = np.argsort(entropy, kind="stable")
    h, g = entropy[order], log_ppl[order]
    starts = np.flatnonzero(np.diff(h, prepend=-np.inf) > _SAME)
    if len(starts) < 2:
        raise UndefinedMetric("a frontier needs operating points of at least two different entropies")
    sizes = np.diff(np.append(starts, len(h)))
    h, g = np.add.reduceat(h, starts) / sizes, np.add.reduceat(g, starts) / sizes
    curve = PchipInterpolator(h, fit_isotonic(g))
    inside = np.clip(at, h[0], h[-1])
    values: F64 = curve(inside) + curve.derivative()(inside) * (at - inside)
    return values


def estimate_at(frontier: Frontier, entropy: F64) -> Estimate:
    """Return a frontier's log Gen-PPL at an entropy."""
    _check_reach(float(entropy[0]), frontier)
    values = frontier.evaluate(entropy[:, None])[:, 0]
    return Estimate(float(values[0]), values[1:])


def estimate_gap(first: Frontier, second: Frontier, entropy: F64) -> Estimate:
    """Return the difference of two frontiers at an entropy, first less second, in nats."""
    a, b = estimate_at(first, entropy), estimate_at(second, entropy)
    return Estimate(a.value - b.value, a.draws - b.draws)


def estimate_area(first: Frontier, second: Frontier) -> Estimate:
    """Return the area between two frontiers over their common entropies, first less second, in nats squared."""
    low, high = (f((first.reach[i], second.reach[i])) for i, f in ((0, max), (1, min)))
    if not high - low > _SAME:
        raise UndefinedMetric(
            f"{first.name} reaches entropies {_format_reach(first)}, {second.name} {_format_reach(second)}: no overlap"
        )
    grid = np.linspace(low, high, GRID)
    areas = np.asarray(np.trapezoid(first.evaluate(grid) - second.evaluate(grid), grid, axis=1))
    return Estimate(float(areas[0]), areas[1:])


def compute_bands(frontier: Frontier, grid: F64, level: float = 0.95) -> tuple[F64, F64, F64]:
    """Return the interpolated values on a grid and the percentiles of the replicates around them, shapes (k,)."""
    values = frontier.evaluate(grid)
    tail = 100 * (1 - level) / 2
    low, high = np.percentile(values[1:], [tail, 100 - tail], axis=0) if len(values) > 1 else (values[0], values[0])
    return values[0], low, high


def _check_reach(entropy: float, *frontiers: Frontier) -> None:
    for frontier in frontiers:
        low, high = frontier.reach
        if not low <= entropy <= high:
            raise UndefinedMetric(
                f"entropy {entropy:.3f} is outside the operating points of {frontier.name}, {_format_reach(frontier)}: "
                "measure it at further temperatures"
            )


def _format_reach(frontier: Frontier) -> str:
    low, high = frontier.reach
    return f"{low:.3f} to {high:.3f}"


def stack_replicates(values: Sequence[float], draws: Sequence[F64]) -> F64:
    """Return values and replicates of operating points as rows, shape (1 + replicates, points)."""
    return np.concatenate([np.array(values)[None, :], np.stack(draws, axis=1)])
