"""Precision-recall curves next to divergence curves, and the F-scores of both (P&R Fig. A.3 and A.4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from openended.harness.core import F64, escape_mathtext
from openended.harness.report.figures.curves import CURVES, average_curves
from openended.harness.report.figures.drawing import (
    COLORS,
    COLUMN,
    MOST,
    PAGE,
    SystemStyles,
    create_figure,
    draw_legend_below,
    facet,
    space_markers,
)
from openended.harness.report.figures.scatter import KNN
from openended.harness.results import Results, System, SystemValue, group_by_data, group_systems

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PR_CURVE = "precision_recall_curve"
_QUALITY, _DIVERSITY = ("quality: F1/8, precision", "o-", COLORS[0]), ("diversity: F8, recall", "s--", COLORS[1])


def pr_curves(results: Results, styles: SystemStyles) -> Mapping[str, Figure]:
    """Draw the precision-recall curve of every system, next to its divergence curve where MAUVE was measured."""

    def draw(part: Sequence[SystemValue]) -> Figure | None:
        systems = [s for s in group_systems(part) if _read_pr_curve(results, s) is not None][:MOST]
        if not systems:
            return None
        readers = [_read_pr_curve, _read_divergence_curve]
        readers = readers if any(_read_divergence_curve(results, s) for s in systems) else readers[:1]
        names = [escape_mathtext(system.name) for system in systems]
        width = COLUMN if len(readers) == 1 else PAGE
        figure, panels = create_figure(width, 3.0, 1, len(readers), legend=names, most=2)
        for panel, read in zip(panels, readers, strict=True):
            for index, (system, style) in enumerate(
                zip(systems, styles.choose([s.items[0] for s in systems]), strict=True)
            ):
                if curve := read(results, system):
                    every = space_markers(len(curve[0]), index, len(systems))
                    panel.plot(*curve, label=names[index], markevery=every, **style)
            panel.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
        panels[0].set(title="precision-recall curve", xlabel="recall →", ylabel="precision →")
        if len(panels) > 1:
            labels = {"xlabel": "exp(−c KL(human, mixture)) →", "ylabel": "exp(−c KL(model, mixture)) →"}
            panels[1].set(title="divergence curve of MAUVE", **labels)
        draw_legend_below(figure, panels[0], 2)
        return figure

    return facet("pr_curves", group_by_data(results.values), draw)


def f_scores(results: Results, styles: SystemStyles) -> Mapping[str, Figure]:
    """Draw F1/8 and F8 of both curves, and precision and recall by nearest neighbors, system by system."""
    del styles

    def draw(part: Sequence[SystemValue]) -> Figure | None:
        systems = [s for s in group_systems(part) if s.value(PR_CURVE, "f8") is not None][:MOST]
        families = {
            "precision-recall curve": [(_get_mean(s, PR_CURVE, "f1_8"), _get_mean(s, PR_CURVE, "f8")) for s in systems],
            "divergence curve of MAUVE": [_score_divergence_curve(_read_divergence_curve(results, s)) for s in systems],
            "nearest neighbors": [(_get_mean(s, KNN, "precision"), _get_mean(s, KNN, "recall")) for s in systems],
        }
        visible = {title: np.array(pairs) for title, pairs in families.items() if np.isfinite(pairs).any()}
        if len(systems) < 2 or not visible:
            return None
        names = [escape_mathtext(system.name) for system in systems]
        # Of a name that continues the one before, only what is new.
        labels = [f"… {b[len(a) :]}" if a and b.startswith(a) else b for a, b in pairwise(["", *names])]
        figure, panels = create_figure(PAGE, 2.6, 1, len(visible), sharey=True, legend=["", ""], most=2)
        for panel, (title, pairs) in zip(panels, visible.items(), strict=True):
            for column, (label, line, color) in enumerate((_QUALITY, _DIVERSITY)):
                panel.plot(range(len(systems)), pairs[:, column], line, color=color, label=label)
            panel.set_xticks(range(len(systems)), labels, rotation=35, ha="right")
            panel.set(title=title, ylim=(None, 1.02))
        draw_legend_below(figure, panels[0], 2)
        return figure

    return facet("f_scores", group_by_data(results.values), draw)


def _get_mean(system: System, metric: str, key: str) -> float:
    value = system.value(metric, key)
    return float("nan") if value is None else value.mean


def _read_pr_curve(results: Results, system: System) -> tuple[F64, F64] | None:
    """Return recall and precision along the curve of the first seed."""
    value = system.value(PR_CURVE, "f8")
    arrays = results.arrays(*value.sources[0]) if value is not None else {}
    if "arrays/precision" not in arrays:
        return None
    return np.asarray(arrays["arrays/recall"]), np.asarray(arrays["arrays/precision"])


def _read_divergence_curve(results: Results, system: System) -> tuple[F64, F64] | None:
    """Return the side of the human text and that of the model along the mean curve."""
    value = system.value("mauve", "mauve")
    stored = [a[CURVES] for s in (value.sources if value else ()) if CURVES in (a := results.arrays(*s))]
    if not stored:
        return None
    model, human, _ = average_curves([np.asarray(array, dtype=np.float64) for array in stored])
    return human, model


def _score_divergence_curve(curve: tuple[F64, F64] | None) -> tuple[float, float]:
    """Return F1/8 and F8 of a divergence curve, as of a precision-recall curve."""
    if curve is None:
        return float("nan"), float("nan")
    recall, precision = curve
    scores = []
    for beta in (1 / 8, 8.0):
        below = beta**2 * precision + recall
        score = np.divide((1 + beta**2) * precision * recall, below, out=np.zeros_like(below), where=below > 0)
        scores.append(float(score.max()))
    return scores[0], scores[1]
