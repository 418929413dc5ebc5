"""Curves over tokens: frequency against rank, and the entropy of Q along a text."""

import math
from typing import Any

import numpy as np

from openended.harness.core import F64
from openended.harness.report.analysis.paired import Z
from openended.harness.report.figures.curves import read_arrays
from openended.harness.report.figures.plot import Panel, Part, Plot, Series
from openended.harness.report.tables.pictures import HUMAN_COLOR
from openended.harness.results import SystemValue, find_human_value, group_systems


def show_rank_frequency(part: Part) -> Plot | None:
    """Show token rank against frequency of the human text and of each system, on logarithmic axes (Zipf)."""

    def read_points(value: SystemValue | None) -> F64 | None:
        arrays = next(read_arrays(part.results, value, "log_rank", "log_frequency"), None)
        return np.exp(np.stack(arrays)) if arrays is not None else None

    values = [(s.name, value) for s in group_systems(part.values) if (value := s.value("zipf", "zipf"))]
    lines = [(name, value, points) for name, value in values if (points := read_points(value)) is not None]
    sides = {human.sources[0]: human for _, value, _ in lines if (human := find_human_value(part.values, value))}
    humans = [points for human in sides.values() if (points := read_points(human)) is not None]
    series = [
        Series(mark="curve", x=x, y=y, label=name, like=value, look={"linewidth": 1.0}) for name, value, (x, y) in lines
    ]
    for number, (x, y) in enumerate(humans):  # systems of several lengths have several human sides
        look: dict[str, Any] = {"color": HUMAN_COLOR, "linewidth": 1.4, "linestyle": "-", "marker": ""}
        series.append(Series(x=x, y=y, label="" if number else "human", look=look))
    return Plot([Panel(series)]) if lines else None


def show_entropy(part: Part) -> Plot | None:
    """Show the mean entropy of Q at each token of a text, with intervals of 95 % over prompts, averaged over seeds."""
    series = []
    for system in group_systems(part.values):
        value = system.value("q_entropy", "q_entropy")
        stored = list(read_arrays(part.results, value, "mean", "std_error", "texts"))
        size = min((len(mean) for mean, _, _ in stored), default=0)
        if value is None or not size:
            continue
        mean, error = (np.mean([arrays[i][:size] for arrays in stored], axis=0) for i in (0, 1))
        far = Z * np.nan_to_num(error) / math.sqrt(len(stored))
        common: dict[str, Any] = {"like": value, "axes": value.axes, "label": system.name, "look": {"alpha": 0.15}}
        band = {"below": np.minimum(far, mean), "above": far}
        series.append(Series(mark="curve", x=np.arange(1, size + 1), y=mean, **common, **band))
    return Plot([Panel(series)]) if series else None
