"""The figures of a report: each a function of the results that returns nothing where the data is missing."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openended.harness.report.figures.drawing import save, styled
from openended.harness.report.figures.traced import traced
from openended.harness.results import Layout, Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

log = logging.getLogger(__name__)

Draw = Callable[[Results], "Mapping[str, Figure]"]


def draw_all(
    results: Results, folder: Path, *, traces: dict[str, Any] | None = None, fair: Layout | None = None
) -> list[Path]:
    """Draw every figure that the runs have data for; returns the files.

    Args:
        results: What is drawn.
        folder: Of the files.
        traces: Takes name → what the figure shows as plain data, for those that can be told so.
        fair: Draw also the curves of this layout.
    """
    from openended.harness.report.figures.fair import best_of_n
    from openended.harness.results import fold_seeds

    items = fold_seeds(results)
    paths: list[Path] = []
    with styled():
        if fair is not None:
            for name, figure in best_of_n(results, items, fair.metrics).items():
                paths += save(figure, folder, name)
        for draw in _makers():
            for name, figure in draw(results, items).items():
                paths += save(figure, folder, name)
                if traces is not None and (trace := traced(figure)) is not None:
                    traces[name] = trace
    return paths


def _makers() -> list[Callable[..., Mapping[str, Figure]]]:
    from openended.harness.report.figures import curves, frontiers, panels, similarity, sweeps
    from openended.harness.report.figures import people as people_figures

    return [
        curves.divergence_curves,
        panels.metric_panels,
        sweeps.sweeps,
        frontiers.precision_recall,
        frontiers.quality_diversity,
        curves.rank_frequency,
        similarity.system_similarity,
        people_figures.people_figures,
    ]
