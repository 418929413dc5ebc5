"""Precision-recall curves of systems, and F-scores of these and of divergence curves."""

import math
from itertools import pairwise

import numpy as np

from openended.harness.core import F64
from openended.harness.report.figures.curves import average_curves, read_arrays
from openended.harness.report.figures.plot import Panel, Part, Plot, Series, keep_first
from openended.harness.report.tables.pictures import COLORS
from openended.harness.results import Results, System, group_systems

KNN, PR_CURVE = "knn_precision_recall", "precision_recall_curve"
QUALITY, DIVERSITY = ("quality: F1/8, precision", "o", "-", COLORS[0]), ("diversity: F8, recall", "s", "--", COLORS[1])


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
        series = [
            Series(
                x=range(len(systems)), y=pairs[:, column], label=label,
                look={"color": color, "marker": marker, "linestyle": line},
            )
            for column, (label, marker, line, color) in enumerate((QUALITY, DIVERSITY))
        ]  # fmt: skip
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
