"""Divergence curves of systems."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from openended.harness.core import F64
from openended.harness.report.figures.plot import Panel, Part, Plot, Series
from openended.harness.results import Results, SystemValue, group_systems

CORNER = 0.8  # several curves that turn beyond it are a knot in the corner, which is shown enlarged


def read_arrays(results: Results, value: SystemValue | None, *names: str) -> Iterator[list[F64]]:
    """Yield the named arrays of each run behind a value that stored them."""
    for arrays in results.list_arrays(value):
        if arrays.keys() >= {*names}:
            yield [np.asarray(arrays[name], dtype=np.float64) for name in names]


def show_divergence(part: Part) -> Plot | None:
    """Show the MAUVE curve of every system: missed text against implausible text (MAUVE Fig. 2).

    A line is the mean over seeds and clusterings, so that its area is the value in the legend; the band is their
    standard deviation. With the option `area`, the area is shaded.
    """
    curves: list[tuple[str, SystemValue, tuple[F64, F64, F64]]] = []
    for system in group_systems(part.values):
        for value in (i for i in system.items if i.pair == ("mauve", "mauve") and math.isfinite(i.mean)):
            stored = [curve for (curve,) in read_arrays(part.results, value, "divergence_curves")]
            if stored and len(stored) == value.seeds:
                name = part.name("label", system.name)
                curves.append((f"{name} ({value.mean:.3f})", value, average_curves(stored)))
                break
    series = []
    for label, value, (x, mean, sd) in curves:
        common: dict[str, Any] = {"axes": value.axes, "like": value, "style": label}
        if part.declaration.options.get("area"):
            series.append(Series(mark="region", x=[0, *x, x[-1]], y=[0, *mean, 0], look={"alpha": 0.12}, **common))
        band: dict[str, Any] = {"below": mean - np.clip(mean - sd, 0, 1), "above": np.clip(mean + sd, 0, 1) - mean}
        series.append(Series(mark="curve", x=x, y=mean, label=label, look={"alpha": 0.15}, **common, **band))
    corners = [float(np.minimum(x, mean).max()) for _, _, (x, mean, _) in curves]  # where a curve turns
    if part.declaration.panels or sum(corner > CORNER for corner in corners) < 2:
        return Plot([Panel(series)]) if series else None
    low = 1 - 2.5 * (1 - min(corner for corner in corners if corner > CORNER))
    zoom = {"title": "the corner, enlarged", "xlim": (low, 1 + (1 - low) / 20), "ylim": (low, 1 + (1 - low) / 20)}
    return Plot([Panel(series, "whole"), Panel(series, "corner")], changes={"panels": {"whole": {}, "corner": zoom}})


def average_curves(runs: Sequence[F64]) -> tuple[F64, F64, F64]:
    """Average divergence curves at each height, so that the area under the mean is the mean of the areas."""
    curves = [curve[np.lexsort((-curve[:, 1], curve[:, 0]))] for run in runs for curve in run]
    weights = np.concatenate([np.full(len(run), 1 / (len(run) * len(runs))) for run in runs])
    x = np.unique(np.concatenate([curve[:, 0] for curve in curves]))
    heights = np.stack([np.interp(x, *curve.T) for curve in curves])
    mean = weights @ heights
    sd = np.sqrt(weights @ (heights - mean) ** 2)
    # Each curve drops to the axes at its ends.
    return np.concatenate([[0.0], x]), np.concatenate([[1.0], mean]), np.concatenate([[0.0], sd])
