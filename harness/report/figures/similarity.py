"""Heat map of the similarity of systems on the same prompts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from openended.harness.core import F64, escape_mathtext
from openended.harness.report.figures.drawing import MOST, PAGE, create_figure, shorten_labels
from openended.harness.report.figures.naming import name_figures
from openended.harness.results import Results, SystemValue, group_by_task_and_options, group_systems

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METRIC = "system_similarity"
CHARACTERS = 30  # of a label


@dataclass(frozen=True, slots=True, eq=False)
class TextSetSimilarity:
    """The similarities of one set of texts to all others."""

    system: int
    """Index of its system."""
    text_set: int
    """Its index in the grid; -1 if unknown."""
    between: F64
    """Its similarity to each set of texts, NaN if they share no prompt, shape (sets,)."""


def system_similarity(results: Results, items: Sequence[SystemValue]) -> Mapping[str, Figure]:
    """Draw the mean cosine of two systems' texts for the same prompt; the diagonal is between seeds of one system."""
    parts = group_by_task_and_options(items, METRIC)
    return name_figures("similarity", {key: _draw_similarity(results, part) for key, part in parts.items()})


def _draw_similarity(results: Results, items: Sequence[SystemValue]) -> Figure | None:
    systems, runs = group_systems(items), []
    for number, system in enumerate(systems):
        value = system.value(METRIC, METRIC)
        for source in value.sources if value is not None else ():
            arrays = results.arrays(*source)
            if "arrays/between" in arrays and "arrays/own" in arrays:
                between = np.asarray(arrays["arrays/between"], dtype=np.float64)
                runs.append(TextSetSimilarity(number, int(arrays["arrays/own"][0]), between))
    visible = sorted({run.system for run in runs})[:MOST]
    return (
        _draw_matrix(average_by_system(runs, visible), [escape_mathtext(systems[n].name) for n in visible])
        if len(visible) > 1
        else None
    )


def _draw_matrix(matrix: F64, labels: Sequence[str]) -> Figure:
    size = min(PAGE, 1.6 + 0.33 * len(labels))
    figure, (panel,) = create_figure(min(PAGE, size + 0.6), size)
    image = panel.imshow(matrix, cmap="viridis")
    short = shorten_labels(labels, CHARACTERS)
    panel.set_xticks(range(len(short)), short, rotation=90)
    panel.set_yticks(range(len(short)), short)
    panel.grid(visible=False)
    finite = matrix[np.isfinite(matrix)]
    middle = float(finite.min() + finite.max()) / 2 if len(finite) else 0.0
    for (row, column), cosine in np.ndenumerate(matrix):
        if math.isfinite(cosine):
            color = "black" if cosine > middle else "white"
            panel.text(column, row, f"{cosine:.2f}", ha="center", va="center", fontsize=5.5, color=color)
    figure.colorbar(image, ax=panel, shrink=0.8, label="mean cosine on the same prompt")
    return figure


def average_by_system(runs: Sequence[TextSetSimilarity], systems: Sequence[int]) -> F64:
    """Average over the sets of texts of two systems, shape (systems, systems); NaN where none were compared."""
    sums, counts = np.zeros((len(systems), len(systems))), np.zeros((len(systems), len(systems)))
    row = {system: index for index, system in enumerate(systems)}
    owner = {run.text_set: run.system for run in runs if run.text_set >= 0}
    for run in runs:
        for index, cosine in enumerate(run.between):
            other = owner.get(index)
            if run.system in row and other in row and index != run.text_set and math.isfinite(cosine):
                sums[row[run.system], row[other]] += cosine
                counts[row[run.system], row[other]] += 1
    return np.divide(sums, counts, out=np.full_like(sums, np.nan), where=counts > 0)
