"""Draw all figures of a report for which there is data."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from openended.harness.report.figures.best_of_n_curves import best_of_n
from openended.harness.report.figures.curves import divergence_curves, rank_frequency
from openended.harness.report.figures.drawing import SystemStyles, apply_style, save
from openended.harness.report.figures.generative_frontier import generative_frontier, steps_at_equal_entropy
from openended.harness.report.figures.heat_maps import damage_heat_map, metric_agreement, system_similarity
from openended.harness.report.figures.panels import metric_panels
from openended.harness.report.figures.people import huse_figures
from openended.harness.report.figures.scatter import precision_recall, quality_diversity
from openended.harness.report.figures.sweep_curves import sweeps
from openended.harness.report.figures.trace import trace_figure
from openended.harness.results import Layout, Results, fold_seeds


def draw_all(
    results: Results,
    folder: Path,
    *,
    traces: dict[str, Any] | None = None,
    fair: Layout | None = None,
    kinds: Collection[str] = (),
) -> list[Path]:
    """Draw every figure that the runs have data for; returns the files.

    Args:
        results: What is drawn.
        folder: Of the files.
        traces: Filled with name → content of the figure as plain data, where that is possible.
        fair: Draw also the curves of this layout, which stay pictures.
        kinds: Kinds of layouts that have figures of their own: `frontier`, `stress`.
    """
    items = fold_seeds(results)
    styles = SystemStyles(items)
    with apply_style():
        pictures = best_of_n(items, styles, fair.metrics) if fair is not None else {}
        figures = {
            **divergence_curves(results, items, styles),
            **metric_panels(items, styles),
            **sweeps(items, styles),
            **precision_recall(items, styles),
            **quality_diversity(items, styles),
            **rank_frequency(results, items, styles),
            **system_similarity(results, items),
            **huse_figures(results, items, styles),
            **metric_agreement(items),
        }
        if "frontier" in kinds:
            figures |= generative_frontier(results, items) | steps_at_equal_entropy(results, items)
        if "stress" in kinds:
            figures |= damage_heat_map(results, items)
        paths: list[Path] = []
        for name, figure in (pictures | figures).items():
            paths += save(figure, folder, name)
            if traces is not None and name in figures and (trace := trace_figure(figure)) is not None:
                traces[name] = trace
    return paths
