"""How alike the systems of a grid are on the same prompts: a matrix as a heat map."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from openended.harness.core import F64
from openended.harness.report.figures.drawing import MOST, PAGE, new_figure, shortened
from openended.harness.report.figures.naming import named
from openended.harness.results import Results, SystemValue, group_by_task_and_options, group_systems

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METRIC = "system_similarity"
CHARACTERS = 30  # of a label


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """One set of texts."""

    system: int
    """Who made it."""
    own: int
    """Its place in the grid; -1 where it is not known."""
    between: F64
    """Its similarity to the texts at each place, NaN where they share no prompt, shape (places,)."""


def system_similarity(results: Results, items: Sequence[SystemValue]) -> Mapping[str, Figure]:
    """Draw the mean cosine of two systems' texts for the same prompt; the diagonal is between seeds of one system."""
    parts = group_by_task_and_options(items, METRIC)
    return named("similarity", {told: _similarity(results, part) for told, part in parts.items()})


def _similarity(results: Results, items: Sequence[SystemValue]) -> Figure | None:
    systems, runs = group_systems(items), []
    for number, system in enumerate(systems):
        value = system.value(METRIC, METRIC)
        for source in value.sources if value is not None else ():
            arrays = results.arrays(*source)
            if "arrays/between" in arrays and "arrays/own" in arrays:
                between = np.asarray(arrays["arrays/between"], dtype=np.float64)
                runs.append(Compared(number, int(arrays["arrays/own"][0]), between))
    shown = sorted({run.system for run in runs})[:MOST]
    return _drawn(matrix_of(runs, shown), [systems[n].label for n in shown]) if len(shown) > 1 else None


def _drawn(matrix: F64, labels: Sequence[str]) -> Figure:
    size = min(PAGE, 1.6 + 0.33 * len(labels))
    figure, (panel,) = new_figure(min(PAGE, size + 0.6), size)
    image = panel.imshow(matrix, cmap="viridis")
    short = shortened(labels, CHARACTERS)
    panel.set_xticks(range(len(short)), short, rotation=90)
    panel.set_yticks(range(len(short)), short)
    panel.grid(visible=False)
    known = matrix[np.isfinite(matrix)]
    middle = float(known.min() + known.max()) / 2 if len(known) else 0.0
    for (row, column), cosine in np.ndenumerate(matrix):
        if math.isfinite(cosine):
            colour = "black" if cosine > middle else "white"
            panel.text(column, row, f"{cosine:.2f}", ha="center", va="center", fontsize=5.5, color=colour)
    figure.colorbar(image, ax=panel, shrink=0.8, label="mean cosine on the same prompt")
    return figure


def matrix_of(runs: Sequence[Compared], shown: Sequence[int]) -> F64:
    """Average over the sets of texts of two systems, shape (systems, systems); NaN where none were compared.

    Args:
        runs: The sets of texts of a grid.
        shown: Systems in the order of the rows.
    """
    sums, counts = np.zeros((len(shown), len(shown))), np.zeros((len(shown), len(shown)))
    row = {system: place for place, system in enumerate(shown)}
    owner = {run.own: run.system for run in runs if run.own >= 0}
    for run in runs:
        for place, cosine in enumerate(run.between):
            other = owner.get(place)
            if run.system in row and other in row and place != run.own and math.isfinite(cosine):
                sums[row[run.system], row[other]] += cosine
                counts[row[run.system], row[other]] += 1
    return np.divide(sums, counts, out=np.full_like(sums, np.nan), where=counts > 0)
