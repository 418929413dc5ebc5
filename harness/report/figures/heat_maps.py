"""Heat maps: similarity of systems, agreement of metrics, and the damage to text that each metric detects."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from openended.harness.core import F64, escape_mathtext
from openended.harness.report.figures import drawing
from openended.harness.report.figures.drawing import COLUMN, MOST, PAGE, SystemStyles, draw_each_part
from openended.harness.report.tables.detected_damage import DamageCurve, find_damage_curves
from openended.harness.report.tables.selection import select_pairs
from openended.harness.results import Layout, Results, SystemValue, group_by_options, group_systems

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIMILARITY = "system_similarity"
LABEL_CHARACTERS = 30  # of a system in the map of similarities
NEVER = 2.3  # log10 of the strength at which a damage that is never detected is drawn: over 100 %
RECALL = ("knn_precision_recall", "recall")  # not a primary value, but the counterpart of one
# Systems of a cell of the map of agreement: the smallest two-sided p-value is 2/4! = 0.083 for four, 2/5! = 0.017 for
# five.
LEAST_SYSTEMS = 5
_LONG = 28  # letters of a metric's name in a line
_WHY = (
    "How alike two metrics order the systems (Spearman's ρ of their values as measured, the human text left out): "
    "1 the same order, 0 unrelated, −1 the opposite order, which is agreement where one metric is better when high and "
    "the other when low. –: fewer than five systems have both values, too few to tell."
)


class TextSetSimilarity(NamedTuple):
    """The similarities of one set of texts to all others."""

    system: int  # index of its system
    text_set: int  # its index in the grid; -1 if unknown
    between: F64  # its similarity to each set of texts, NaN if they share no prompt, shape (sets,)


@draw_each_part("similarity", SIMILARITY)
def system_similarity(results: Results, _: SystemStyles, part: Sequence[SystemValue]) -> Figure | None:
    """Draw the mean cosine of two systems' texts for the same prompt; the diagonal is between seeds of one system."""
    systems, text_sets = group_systems(part), []
    for number, system in enumerate(systems):
        value = system.value(SIMILARITY, SIMILARITY)
        for source in value.sources if value is not None else ():
            arrays = results.arrays(*source)
            if "arrays/between" in arrays and "arrays/own" in arrays:
                between = np.asarray(arrays["arrays/between"], dtype=np.float64)
                text_sets.append(TextSetSimilarity(number, int(arrays["arrays/own"][0]), between))
    visible = sorted({text_set.system for text_set in text_sets})[:MOST]
    if len(visible) < 2:
        return None
    matrix = average_by_system(text_sets, visible)
    size = min(PAGE, 1.6 + 0.33 * len(visible))
    figure, (panel,) = drawing.create_figure(min(PAGE, size + 0.6), size)
    finite = matrix[np.isfinite(matrix)]
    middle = float(finite.min() + finite.max()) / 2 if len(finite) else 0.0
    texts = [[f"{cosine:.2f}" if math.isfinite(cosine) else "" for cosine in row] for row in matrix]
    labels = drawing.shorten_labels([escape_mathtext(systems[number].name) for number in visible], LABEL_CHARACTERS)
    panel.set_xticks(range(len(labels)), labels, rotation=90)
    panel.set_yticks(range(len(labels)), labels)
    bar = {"shrink": 0.8, "label": "mean cosine on the same prompt"}
    drawing.draw_matrix(figure, panel, matrix, texts, ~(matrix > middle), bar=bar, cmap="viridis")
    return figure


def average_by_system(text_sets: Sequence[TextSetSimilarity], systems: Sequence[int]) -> F64:
    """Average over the sets of texts of two systems, shape (systems, systems); NaN where none were compared."""
    import pandas as pd

    owner = {text_set.text_set: text_set.system for text_set in text_sets if text_set.text_set >= 0}
    rows = [
        (text_set.system, owner[index], cosine)
        for text_set in text_sets
        for index, cosine in enumerate(text_set.between)
        if index in owner and index != text_set.text_set
    ]
    table = pd.DataFrame(rows, columns=["one", "other", "cosine"]).groupby(["one", "other"])["cosine"].mean().unstack()
    return table.reindex(index=list(systems), columns=list(systems)).to_numpy(dtype=np.float64)


def damage_heat_map(results: Results, *_: object) -> Mapping[str, Figure]:
    """Draw metrics (by embedder) against damages; bright: seen when weak, dark: not seen."""
    pairs = select_pairs(results.values, Layout())
    curves = [curve for curve in find_damage_curves(results, results.values) if (curve.metric, curve.key) in pairs]
    rows = sorted(dict.fromkeys((curve.embedder, curve.title) for curve in curves), key=lambda row: row[0])
    damages = list(dict.fromkeys(curve.damage for curve in curves))
    by_cell = {((curve.embedder, curve.title), curve.damage): curve for curve in curves}
    cells = [[_shade(by_cell.get((row, damage))) for damage in damages] for row in rows]
    shades = np.array([[shade for shade, _ in row] for row in cells])
    texts = [[text for _, text in row] for row in cells]
    figure, (panel,) = drawing.create_figure(PAGE, 1.4 + 0.17 * len(rows))
    labels = [escape_mathtext(f"{title} ({embedder})" if embedder else title) for embedder, title in rows]
    panel.set_yticks(range(len(rows)), labels)
    panel.set_xticks(range(len(damages)), [damage.replace("_", " ") for damage in damages], rotation=90)
    bar = {"shrink": 0.6, "label": "smallest strength detected (%)"}
    color_bar = drawing.draw_matrix(
        figure, panel, shades, texts, shades > 1.5, bar=bar, cmap="viridis_r", vmin=0.9, vmax=NEVER, aspect="auto"
    )
    color_bar.set_ticks([1.0, 1.5, 2.0, NEVER], labels=["10", "30", "100", "no"])
    return {"stress": figure}


def _shade(curve: DamageCurve | None) -> tuple[float, str]:
    if curve is None or not curve.is_known:
        return math.nan, "–"
    return (float(np.log10(curve.smallest)), str(curve.smallest)) if curve.smallest else (NEVER, "no")


@draw_each_part("metric-agreement")
def metric_agreement(_: Results, _styles: SystemStyles, part: Sequence[SystemValue]) -> Figure | None:
    """Draw how alike the metrics order the systems, where two metrics have values of five systems or more."""
    values = _collect_primary_values(part)
    shared = _count_shared(values)
    enough = (shared[~np.eye(len(shared), dtype=bool)] >= LEAST_SYSTEMS).any() if len(values) > 1 else False
    return agreement_map(values) if enough else None


def _collect_primary_values(items: Sequence[SystemValue]) -> dict[str, list[float]]:
    """Return metric → its primary value (and recall) for every system, if five systems or more have it."""
    models = [i for i in items if i.system == "model"]
    systems = list(dict.fromkeys(tuple(i.axes.items()) for i in models))
    primary = [i for i in models if i.primary or (i.metric, i.key) == RECALL]
    table: dict[str, list[float]] = {}
    for (metric, key), title in {(i.metric, i.key): i.title for i in primary}.items():
        for options, part in group_by_options(models, metric).items():
            values = {tuple(i.axes.items()): i.mean for i in part if i.key == key}
            name = f"{title} ({options})" if options else title
            column = [values.get(s, math.nan) for s in systems]
            if sum(map(math.isfinite, column)) >= LEAST_SYSTEMS:
                table[name if name not in table else f"{name} [{metric}.{key}]"] = column
    return table


def _count_shared(values: Mapping[str, Sequence[float]]) -> NDArray[np.int64]:
    """Return how many systems have both values, shape (metrics, metrics)."""
    present = np.isfinite(np.array([list(v) for v in values.values()], dtype=np.float64)).astype(np.int64)
    return present @ present.T


def agreement_map(values: Mapping[str, Sequence[float]]) -> Figure:
    """Draw Spearman's ρ of every metric with every other over systems (Le Bronnec et al. 2024, Fig. 7)."""
    from openended.metrics.correlation import correlation_matrix

    shared = _count_shared(values)
    matrix = np.where(shared >= LEAST_SYSTEMS, correlation_matrix(values), np.nan)
    names = ["\n".join(textwrap.wrap(escape_mathtext(name), _LONG)) for name in values]
    height = min(PAGE, max(COLUMN, 1.6 + 0.34 * len(names)))
    # Long names would leave no room for the cells: the columns then have the numbers of the rows.
    numbered = max(map(len, values)) > _LONG
    width = min(PAGE, height + 0.055 * _LONG) if numbered else height
    figure, (panel,) = drawing.create_figure(width, height)
    if numbered:
        panel.set_xticks(range(len(names)), [str(i + 1) for i in range(len(names))])
        panel.set_yticks(range(len(names)), [f"{name}  {i + 1}" for i, name in enumerate(names)])
    else:
        panel.set_xticks(range(len(names)), names, rotation=45, ha="right", rotation_mode="anchor")
        panel.set_yticks(range(len(names)), names)
    texts = [["–" if math.isnan(value) else f"{value:.2f}" for value in row] for row in matrix]
    counts = sorted({int(n) for n in shared[np.isfinite(matrix)]})
    over = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else "".join(map(str, counts))
    bar = {"shrink": 0.7, "label": f"Spearman's ρ over {over} systems"}
    size = 5 if len(names) > 8 else 6.5
    dark = np.abs(matrix) > 0.6
    drawing.draw_matrix(figure, panel, matrix, texts, dark, fontsize=size, bar=bar, cmap="RdBu", vmin=-1, vmax=1)
    figure.supxlabel("\n".join(textwrap.wrap(_WHY, round(width * 20))), fontsize=5.5)
    return figure
