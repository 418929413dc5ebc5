"""Heat maps: similarity of systems, agreement of metrics, and the damage to text that each metric detects."""

from __future__ import annotations

import itertools
import math
import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from openended.harness.core import F64, escape_mathtext
from openended.harness.report.figures import drawing
from openended.harness.report.figures.drawing import COLUMN, MOST, PAGE, Part, draw_each_part
from openended.harness.report.tables.detected_damage import DamageCurve, find_damage_curves
from openended.harness.report.tables.selection import select_pairs
from openended.harness.results import Layout, Results, group_by_options, group_systems

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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


def draw_heat_map(
    matrix: F64, texts: Sequence[Sequence[str]], is_dark: NDArray[np.bool_], rows: Sequence[str],
    columns: Sequence[str], *, width: float, height: float, bar: Mapping[str, Any], turn: Mapping[str, Any],
    fontsize: float = 5.5, **colors: Any,  # noqa: ANN401 - options of `imshow`
) -> tuple[Figure, Any]:  # fmt: skip
    """Draw a matrix with a text in each cell, white on dark cells; NaN cells have no color.

    `turn` says how the names of the columns are written, `bar` describes the color bar, which is returned too.
    """
    figure, (panel,) = drawing.create_panels(1, height - 0.1, width=width)
    image = panel.imshow(np.ma.masked_invalid(matrix), **colors)
    panel.grid(visible=False)
    for (row, column), dark in np.ndenumerate(is_dark):
        if text := texts[row][column]:
            color = "white" if dark else "black"
            panel.text(column, row, text, ha="center", va="center", fontsize=fontsize, color=color)
    panel.set_xticks(range(len(columns)), columns, **turn)
    panel.set_yticks(range(len(rows)), rows)
    return figure, figure.colorbar(image, ax=panel, **bar)


@draw_each_part("similarity", SIMILARITY)
def system_similarity(part: Part) -> Figure | None:
    """Draw the mean cosine of two systems' texts for the same prompt; the diagonal is between seeds of one system."""
    systems, text_sets = group_systems(part.values), []
    for number, system in enumerate(systems):
        value = system.value(SIMILARITY, SIMILARITY)
        for source in value.sources if value is not None else ():
            arrays = part.results.arrays(*source)
            if "arrays/between" in arrays and "arrays/own" in arrays:
                between = np.asarray(arrays["arrays/between"], dtype=np.float64)
                text_sets.append((number, int(arrays["arrays/own"][0]), between))
    visible = sorted({number for number, _, _ in text_sets})[:MOST]
    if len(visible) < 2:
        return None
    matrix = average_by_system(text_sets, visible)
    size = min(PAGE, 1.6 + 0.33 * len(visible))
    finite = matrix[np.isfinite(matrix)]
    middle = float(finite.min() + finite.max()) / 2 if len(finite) else 0.0
    texts = [[f"{cosine:.2f}" if math.isfinite(cosine) else "" for cosine in row] for row in matrix]
    labels = drawing.shorten_labels([escape_mathtext(systems[number].name) for number in visible], LABEL_CHARACTERS)
    bar = {"shrink": 0.8, "label": "mean cosine on the same prompt"}
    return draw_heat_map(
        matrix, texts, ~(matrix > middle), labels, labels, width=min(PAGE, size + 0.6), height=size, bar=bar,
        turn={"rotation": 90}, cmap="viridis",
    )[0]  # fmt: skip


def average_by_system(text_sets: Sequence[tuple[int, int, F64]], systems: Sequence[int]) -> F64:
    """Average the similarities of sets of texts by system, shape (systems, systems); NaN where none were compared.

    A set is (its system, its index in the grid or −1 if unknown, its similarity to each set or NaN).
    """
    import pandas as pd

    owner = {index: system for system, index, _ in text_sets if index >= 0}
    rows = [
        (system, owner[other], cosine)
        for system, index, between in text_sets
        for other, cosine in enumerate(between)
        if other in owner and other != index
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
    labels = [escape_mathtext(f"{title} ({embedder})" if embedder else title) for embedder, title in rows]
    figure, color_bar = draw_heat_map(
        shades, texts, shades > 1.5, labels, [damage.replace("_", " ") for damage in damages], width=PAGE,
        height=1.4 + 0.17 * len(rows), bar={"shrink": 0.6, "label": "smallest strength detected (%)"},
        turn={"rotation": 90}, cmap="viridis_r", vmin=0.9, vmax=NEVER, aspect="auto",
    )  # fmt: skip
    color_bar.set_ticks([1.0, 1.5, 2.0, NEVER], labels=["10", "30", "100", "no"])
    return {"stress": figure}


def _shade(curve: DamageCurve | None) -> tuple[float, str]:
    if curve is None or not curve.is_known:
        return math.nan, "–"
    return (float(np.log10(curve.smallest)), str(curve.smallest)) if curve.smallest else (NEVER, "no")


@draw_each_part("metric-agreement")
def metric_agreement(part: Part) -> Figure | None:
    """Draw how alike the metrics order the systems, where two metrics have values of five systems or more."""
    models = [i for i in part.values if i.system == "model"]
    systems = list(dict.fromkeys(tuple(i.axes.items()) for i in models))
    primary = [i for i in models if i.primary or i.pair == RECALL]
    columns: dict[str, list[float]] = {}
    for (metric, key), title in {i.pair: i.title for i in primary}.items():
        for options, items in group_by_options(models, metric).items():
            values = {tuple(i.axes.items()): i.mean for i in items if i.key == key}
            name = f"{title} ({options})" if options else title
            columns[name if name not in columns else f"{name} [{metric}.{key}]"] = [
                values.get(system, math.nan) for system in systems
            ]
    return agreement_map({name: column for name, column in columns.items() if _count_shared(column) >= LEAST_SYSTEMS})


def _count_shared(*columns: Sequence[float]) -> int:
    """Return how many systems have a value in every column."""
    return int(np.isfinite(columns).all(axis=0).sum())


def agreement_map(values: Mapping[str, Sequence[float]]) -> Figure | None:
    """Draw Spearman's ρ of every metric with every other over systems (Le Bronnec et al. 2024, Fig. 7).

    None if no two metrics share enough systems.
    """
    from openended.metrics.correlation import correlation_matrix

    if not any(_count_shared(*pair) >= LEAST_SYSTEMS for pair in itertools.combinations(values.values(), 2)):
        return None
    shared = np.array([[_count_shared(a, b) for b in values.values()] for a in values.values()])
    matrix = np.where(shared >= LEAST_SYSTEMS, correlation_matrix(values), np.nan)
    rows = columns = ["\n".join(textwrap.wrap(escape_mathtext(name), _LONG)) for name in values]
    width = height = min(PAGE, max(COLUMN, 1.6 + 0.34 * len(values)))
    turn: dict[str, Any] = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
    if max(map(len, values)) > _LONG:  # long names would leave no room for the cells: numbers of the rows
        width = min(PAGE, height + 0.055 * _LONG)
        rows, columns = [f"{name}  {i + 1}" for i, name in enumerate(rows)], [str(i + 1) for i in range(len(rows))]
        turn = {}
    texts = [["–" if math.isnan(value) else f"{value:.2f}" for value in row] for row in matrix]
    counts = sorted({int(n) for n in shared[np.isfinite(matrix)]})
    over = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else "".join(map(str, counts))
    figure, _ = draw_heat_map(
        matrix, texts, np.abs(matrix) > 0.6, rows, columns, width=width, height=height, turn=turn,
        bar={"shrink": 0.7, "label": f"Spearman's ρ over {over} systems"}, fontsize=5 if len(values) > 8 else 6.5,
        cmap="RdBu", vmin=-1, vmax=1,
    )  # fmt: skip
    figure.supxlabel("\n".join(textwrap.wrap(_WHY, round(width * 20))), fontsize=5.5)
    return figure
