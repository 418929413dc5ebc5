"""Draw all figures of a report for which there is data."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openended.harness.core import HarnessError, SpecError, digest_bytes, digest_file, parse_json, write_text
from openended.harness.report.figures import curves, heat_maps, panels, people, trade_offs
from openended.harness.report.figures.drawing import DEFAULT, SystemStyles, apply_style, save
from openended.harness.report.figures.trace import trace_figure
from openended.harness.results import Layout, Results

if TYPE_CHECKING:
    from openended.harness.report.figures.drawing import Draw

log = logging.getLogger(__name__)

FIGURES: list[Draw] = [
    curves.divergence_curves, panels.metric_panels, panels.sweeps, panels.size_curves, trade_offs.precision_recall,
    curves.pr_curves, trade_offs.quality_diversity, curves.rank_frequency, heat_maps.system_similarity,
    people.huse_figures, heat_maps.metric_agreement,
]  # fmt: skip
FIGURES_OF_KIND: dict[str, list[Draw]] = {
    "frontier": [trade_offs.generative_frontier, trade_offs.steps_at_equal_entropy],
    "stress": [heat_maps.damage_heat_map],
    "pr_curves": [curves.f_scores],
}
"""Kind of a layout → its own figures."""
DRAWN = ".drawn.json"
"""In the folder of figures: what they were drawn from, their digests and their content as plain data."""


def draw_or_keep(
    results: Results, folder: Path, layouts: Sequence[Layout] = (DEFAULT,), *, earlier: Path, traces: dict[str, Any]
) -> list[Path]:
    """Draw every figure as `draw_all`, or copy those of `earlier` if they were drawn from the same values by this code.

    Figures that were changed or removed since are drawn again.
    """
    code = [digest_file(path) for path in sorted(Path(__file__).parents[1].rglob("*.py"))]
    drawn_from = [(r.axes, r.titles, r.inputs, r.results) for r in results.runs]
    key = digest_bytes(repr((code, drawn_from, results.values, layouts)).encode())
    try:
        cached = parse_json((earlier / DRAWN).read_bytes(), DRAWN)
        if cached["key"] == key and all(digest_file(earlier / name) == d for name, d in cached["files"].items()):
            shutil.copytree(earlier, folder)
            traces.update(cached["traces"])
            return [folder / name for name in cached["files"]]
    except (OSError, HarnessError, ValueError, KeyError, TypeError):
        pass  # there are none, or they are not what they were
    paths = draw_all(results, folder, layouts, traces=traces)
    if paths and not results.damaged:
        files = {path.name: digest_file(path) for path in paths}
        write_text(folder / DRAWN, json.dumps({"key": key, "files": files, "traces": traces}))
    return paths


def draw_all(
    results: Results, folder: Path, layouts: Sequence[Layout] = (DEFAULT,), *, traces: dict[str, Any] | None = None
) -> list[Path]:
    """Draw every figure that the runs have data for, and those of the layouts' kinds; returns the files.

    `traces` is filled with name → content of the figure as plain data, where that is possible. Curves of the best of N
    come first; they stay pictures. The first layout chooses what the curves over a swept setting show.
    """
    by_kind = {layout.analysis: layout for layout in reversed(layouts)}
    chosen: list[tuple[Draw, Layout]] = [(curves.best_of_n, by_kind["fair"])] if "fair" in by_kind else []
    if layouts[0].analysis != "findings":  # of many experiments, whose own reports have the figures
        chosen += [(draw, layouts[0]) for draw in FIGURES]
    chosen += [(draw, by_kind[kind]) for kind in FIGURES_OF_KIND if kind in by_kind for draw in FIGURES_OF_KIND[kind]]
    styles = SystemStyles(results.values)
    paths: list[Path] = []
    with apply_style():
        for draw, layout in chosen:
            try:
                figures = draw(results, styles, layout)
            except SpecError as err:  # runs of several experiments in one report: the tables say the rest
                log.warning("no figure %s: %s", draw.__name__, err)
                continue
            for name, figure in figures.items():
                paths += save(figure, folder, name)
                if traces is not None and draw != curves.best_of_n and (trace := trace_figure(figure)) is not None:
                    traces[name] = trace
    return paths
