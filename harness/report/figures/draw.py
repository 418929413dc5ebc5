"""Draw all figures of a report for which there is data."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openended.harness.core import HarnessError, digest_bytes, digest_file, parse_json, write_text
from openended.harness.report.figures.best_of_n_curves import best_of_n
from openended.harness.report.figures.curves import divergence_curves, rank_frequency
from openended.harness.report.figures.drawing import SystemStyles, apply_style, save
from openended.harness.report.figures.generative_frontier import generative_frontier, steps_at_equal_entropy
from openended.harness.report.figures.heat_maps import damage_heat_map, metric_agreement, system_similarity
from openended.harness.report.figures.panels import metric_panels
from openended.harness.report.figures.people import huse_figures
from openended.harness.report.figures.precision_recall_curves import f_scores, pr_curves
from openended.harness.report.figures.scatter import precision_recall, quality_diversity
from openended.harness.report.figures.sweep_curves import DEFAULT, size_curves, sweeps
from openended.harness.report.figures.trace import trace_figure
from openended.harness.results import Layout, Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Draw = Callable[[Results, SystemStyles], Mapping[str, "Figure"]]
FIGURES: list[Draw] = [
    divergence_curves,
    metric_panels,
    precision_recall,
    pr_curves,
    quality_diversity,
    rank_frequency,
    system_similarity,
    huse_figures,
    metric_agreement,
]
FIGURES_OF_KIND: dict[str, list[Draw]] = {
    "frontier": [generative_frontier, steps_at_equal_entropy],
    "stress": [damage_heat_map],
    "pr_curves": [f_scores],
}
"""Kind of a layout → its own figures."""


DRAWN = ".drawn.json"
"""In the folder of figures: what they were drawn from, their digests and their content as plain data."""


def draw_or_keep(
    results: Results,
    folder: Path,
    *,
    earlier: Path,
    traces: dict[str, Any],
    fair: Layout | None = None,
    kinds: Collection[str] = (),
    layout: Layout = DEFAULT,
) -> list[Path]:
    """Draw every figure as `draw_all`, or copy those of `earlier` if they were drawn from the same values by this code.

    Figures that were changed or removed since are drawn again.
    """
    code = [digest_file(path) for path in sorted(Path(__file__).parents[1].rglob("*.py"))]
    drawn_from = [(r.axes, r.titles, r.inputs, r.results) for r in results.runs]
    key = digest_bytes(repr((code, drawn_from, results.values, fair, sorted(kinds), layout)).encode())
    try:
        cached = parse_json((earlier / DRAWN).read_bytes(), DRAWN)
        if cached["key"] == key and all(digest_file(earlier / name) == d for name, d in cached["files"].items()):
            shutil.copytree(earlier, folder)
            traces.update(cached["traces"])
            return [folder / name for name in cached["files"]]
    except (OSError, HarnessError, ValueError, KeyError, TypeError):
        pass  # there are none, or they are not what they were
    paths = draw_all(results, folder, traces=traces, fair=fair, kinds=kinds, layout=layout)
    if paths and not results.damaged:
        files = {path.name: digest_file(path) for path in paths}
        write_text(folder / DRAWN, json.dumps({"key": key, "files": files, "traces": traces}))
    return paths


def draw_all(
    results: Results,
    folder: Path,
    *,
    traces: dict[str, Any] | None = None,
    fair: Layout | None = None,
    kinds: Collection[str] = (),
    layout: Layout = DEFAULT,
) -> list[Path]:
    """Draw every figure that the runs have data for; returns the files.

    `traces` is filled with name → content of the figure as plain data, where that is possible. With a layout `fair`,
    its curves come first; they stay pictures. `layout` chooses what the curves over a swept setting show.
    """
    styles = SystemStyles(results.values)
    paths: list[Path] = []
    with apply_style():
        if fair is not None:
            for name, figure in best_of_n(results, styles, fair.metrics).items():
                paths += save(figure, folder, name)
        extra = [draw for kind, functions in FIGURES_OF_KIND.items() if kind in kinds for draw in functions]
        chosen: list[Draw] = [partial(sweeps, layout=layout), partial(size_curves, layout=layout)]
        for draw in FIGURES[:2] + chosen + FIGURES[2:] + extra:
            for name, figure in draw(results, styles).items():
                paths += save(figure, folder, name)
                if traces is not None and (trace := trace_figure(figure)) is not None:
                    traces[name] = trace
    return paths
