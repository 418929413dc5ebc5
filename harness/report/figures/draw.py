"""Draw all figures of a report for which there is data."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openended.harness.report.figures.drawing import apply_style, save
from openended.harness.report.figures.trace import trace_figure
from openended.harness.results import Layout, Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

log = logging.getLogger(__name__)

Draw = Callable[[Results], "Mapping[str, Figure]"]


def draw_all(
    results: Results,
    folder: Path,
    *,
    traces: dict[str, Any] | None = None,
    fair: Layout | None = None,
    kinds: Collection[str] = (),
) -> list[Path]:
    """Draw every figure that the runs have data for; returns the files."""
    from openended.harness.report.figures.best_of_n_curves import best_of_n
    from openended.harness.report.figures.damage_heat_map import damage_heat_map
    from openended.harness.report.figures.generative_frontier import generative_frontier
    from openended.harness.report.figures.steps_at_equal_entropy import steps_at_equal_entropy

    items = results.values
    paths: list[Path] = []
    with apply_style():
        if fair is not None:
            for name, figure in best_of_n(results, items, fair.metrics).items():
                paths += save(figure, folder, name)
        by_kind = {"frontier": [generative_frontier, steps_at_equal_entropy], "stress": [damage_heat_map]}
        extra = [draw for kind, makers in by_kind.items() if kind in kinds for draw in makers]
        for draw in [*_list_drawing_functions(), *extra]:
            for name, figure in draw(results, items).items():
                paths += save(figure, folder, name)
                if traces is not None and (trace := trace_figure(figure)) is not None:
                    traces[name] = trace
    return paths


def _list_drawing_functions() -> list[Callable[..., Mapping[str, Figure]]]:
    from openended.harness.report.figures import (
        curves,
        frontiers,
        panels,
        people as people_figures,
        similarity,
        sweep_curves,
    )

    return [
        curves.divergence_curves,
        panels.metric_panels,
        sweep_curves.sweeps,
        frontiers.precision_recall,
        frontiers.quality_diversity,
        curves.rank_frequency,
        similarity.system_similarity,
        people_figures.people_figures,
    ]
