"""Curves that runs stored: divergence, precision and recall with F-scores, token frequencies, entropy of Q."""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from openended.harness.core import F64
from openended.harness.report.analysis.paired import Z
from openended.harness.report.figures.plot import Panel, Part, Plot, Series, keep_first
from openended.harness.report.tables.pictures import COLORS, HUMAN_COLOR
from openended.harness.results import Results, System, SystemValue, find_human_value, group_systems

CORNER = 0.8  # several curves that turn beyond it are a knot in the corner, which is shown enlarged
KNN, PR_CURVE = "knn_precision_recall", "precision_recall_curve"
QUALITY = "quality: F1/8, precision", {"marker": "o", "linestyle": "-", "color": COLORS[0]}
DIVERSITY = "diversity: F8, recall", {"marker": "s", "linestyle": "--", "color": COLORS[1]}


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


# Precision and recall -------------------------------------------------------------------------------------------------


def show_pr_curves(part: Part) -> Plot | None:
    """Show the precision-recall curve of every system, next to its divergence curve where MAUVE was measured."""
    systems = [s for s in group_systems(part.values) if _read_pr_curve(part.results, s) is not None]
    panels = []
    for name, read in (("precision-recall", _read_pr_curve), ("divergence", _read_divergence_curve)):
        curves = [(s, points) for s in systems if (points := read(part.results, s)) is not None]
        series = [
            Series(mark="curve", x=x, y=y, label=s.name, like=s.items[0], axes=s.items[0].axes) for s, (x, y) in curves
        ]
        panels += [Panel(series, name)] if series else []
    return Plot(panels) if panels else None


def show_f_scores(part: Part) -> Plot | None:
    """Show F1/8 and F8 of both curves, and precision and recall by nearest neighbors, system by system."""
    from openended.metrics._mauve.scores import best_f

    systems, note = keep_first([s for s in group_systems(part.values) if s.value(PR_CURVE, "f8") is not None])

    def read_means(metric: str, *keys: str) -> list[list[float]]:
        return [[value.mean if (value := s.value(metric, key)) else math.nan for key in keys] for s in systems]

    def score(curve: tuple[F64, F64] | None) -> list[float]:
        return [float(best_f(curve[1], curve[0], beta)) if curve is not None else math.nan for beta in (1 / 8, 8.0)]

    families = {
        "precision-recall": read_means(PR_CURVE, "f1_8", "f8"),
        "divergence": [score(_read_divergence_curve(part.results, s)) for s in systems],
        "neighbors": read_means(KNN, "precision", "recall"),
    }
    visible = {name: np.array(pairs) for name, pairs in families.items() if np.isfinite(pairs).any()}
    if len(systems) < 2 or not visible:
        return None
    names = [system.name for system in systems]
    # Of a name that continues the one before, only what is new.
    labels = [f"… {b[len(a) :]}" if a and b.startswith(a) else b for a, b in pairwise(["", *names])]
    panels = []
    for name, pairs in visible.items():
        columns = zip(pairs.T, (QUALITY, DIVERSITY), strict=True)
        series = [Series(x=range(len(systems)), y=y, label=label, look=look) for y, (label, look) in columns]
        panels.append(Panel(series, name, {"xticklabels": labels}))
    return Plot(panels, note)


def _read_pr_curve(results: Results, system: System) -> tuple[F64, F64] | None:
    """Return recall and precision along the curve of the first seed."""
    arrays = next(read_arrays(results, system.value(PR_CURVE, "f8"), "recall", "precision"), None)
    return (arrays[0], arrays[1]) if arrays is not None else None


def _read_divergence_curve(results: Results, system: System) -> tuple[F64, F64] | None:
    """Return the side of the human text and that of the model along the mean curve."""
    stored = [curve for (curve,) in read_arrays(results, system.value("mauve", "mauve"), "divergence_curves")]
    if not stored:
        return None
    model, human, _ = average_curves(stored)
    return human, model


# Tokens ---------------------------------------------------------------------------------------------------------------


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
