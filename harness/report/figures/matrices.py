"""Heat maps: similarity of systems, agreement of metrics, and the perturbation of text that each metric detects."""

import itertools
import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from openended.harness.core import F64, escape_mathtext
from openended.harness.report.figures.curves import read_arrays
from openended.harness.report.figures.plot import Panel, Part, Plot, Series, keep_first
from openended.harness.report.tables.pictures import COLUMN, PAGE
from openended.harness.report.tables.selection import select_pairs
from openended.harness.results import group_by_options, group_systems

if TYPE_CHECKING:
    from openended.harness.report.tables.detected_perturbations import PerturbationCurve

SIMILARITY = "system_similarity"
LABEL_CHARACTERS = 30  # of a system in the map of similarities
NEVER = 2.3  # log10 of the strength at which a perturbation that is never detected is drawn: over 100 %
RECALL = ("knn_precision_recall", "recall")  # not a primary value, but the counterpart of one
# Systems of a cell of the map of agreement: the smallest two-sided p-value is 2/4! = 0.083 for four, 2/5! = 0.017 for
# five.
LEAST_SYSTEMS = 5
LONG = 28  # letters of a metric's name in a line
WHY = (
    "How alike two metrics order the systems (Spearman's ρ of their values as measured, the human text left out): "
    "1 the same order, 0 unrelated, −1 the opposite order, which is agreement where one metric is better when high and "
    "the other when low. –: fewer than {least} systems have both values, or one of the two is constant."
)


def show_cells(
    matrix: F64, texts: Sequence[Sequence[str]], is_dark: NDArray[np.bool_], rows: Sequence[str],
    columns: Sequence[str], *, size: tuple[float, float], look: Mapping[str, Any], turn: float = 90, note: str = "",
) -> Plot:  # fmt: skip
    """Show a matrix with a text in each cell; `size` is that of the figure, `look` the options of the image and bar."""
    cells = Series(mark="cells", z=matrix, cells=(texts, is_dark), look=look)
    changes = {"width": size[0], "height": size[1] - 0.1, "panel": {"grid": "", "turn": turn}}
    return Plot([Panel([cells], options={"xticklabels": columns, "yticklabels": rows})], note, changes)


def show_similarity(part: Part) -> Plot | None:
    """Show the mean cosine of two systems' texts for the same prompt; the diagonal is between seeds of one system."""
    systems = group_systems(part.values)
    text_sets = [
        (number, int(position[0]), between)
        for number, system in enumerate(systems)
        for position, between in read_arrays(part.results, system.value(SIMILARITY, SIMILARITY), "own", "between")
    ]
    visible, note = keep_first(sorted({number for number, _, _ in text_sets}))
    if len(visible) < 2:
        return None
    matrix = average_by_system(text_sets, visible)
    size = min(PAGE, 1.6 + 0.33 * len(visible))
    finite = matrix[np.isfinite(matrix)]
    middle = float(finite.min() + finite.max()) / 2 if len(finite) else 0.0
    texts = [[f"{cosine:.2f}" if math.isfinite(cosine) else "" for cosine in row] for row in matrix]
    labels = [textwrap.fill(systems[number].name, LABEL_CHARACTERS) for number in visible]
    look: dict[str, Any] = {"cmap": "viridis", "bar": {"shrink": 0.8, "label": "mean cosine on the same prompt"}}
    return show_cells(
        matrix, texts, ~(matrix > middle), labels, labels, size=(min(PAGE, size + 0.6), size), look=look, note=note
    )


def average_by_system(text_sets: Sequence[tuple[int, int, F64]], systems: Sequence[int]) -> F64:
    """Average the similarities of sets of texts by system, shape (systems, systems); NaN where none were compared.

    A set is (its system, its index in the grid or −1 if unknown, its similarity to each set or NaN).
    """
    owner = {index: system for system, index, _ in text_sets if index >= 0}
    rows = [
        (system, owner[other], cosine)
        for system, index, between in text_sets
        for other, cosine in enumerate(between)
        if other in owner and other != index
    ]
    table = pd.DataFrame(rows, columns=["one", "other", "cosine"]).groupby(["one", "other"])["cosine"].mean().unstack()
    return table.reindex(index=list(systems), columns=list(systems)).to_numpy(dtype=np.float64)


def show_perturbation(part: Part) -> Plot:
    """Show metrics (by embedder) against perturbations; bright: seen when weak, dark: not seen."""
    from openended.harness.report.tables.detected_perturbations import find_perturbation_curves

    pairs = select_pairs(part.values)
    curves = [c for c in find_perturbation_curves(part.results, part.values) if (c.metric, c.key) in pairs]
    rows = sorted(dict.fromkeys((curve.embedder, curve.title) for curve in curves), key=lambda row: row[0])
    perturbations = list(dict.fromkeys(curve.perturbation for curve in curves))
    by_cell = {((curve.embedder, curve.title), curve.perturbation): curve for curve in curves}
    cells = [[_shade(by_cell.get((row, perturbation))) for perturbation in perturbations] for row in rows]
    shades = np.array([[shade for shade, _ in row] for row in cells])
    texts = [[text for _, text in row] for row in cells]
    labels = [f"{title} ({embedder})" if embedder else title for embedder, title in rows]
    ticks = {"ticks": [1.0, 1.5, 2.0, NEVER], "ticklabels": ["10", "30", "100", "no"]}
    bar = {"shrink": 0.6, "label": "smallest strength detected (%)", **ticks}
    look: dict[str, Any] = {"cmap": "viridis_r", "vmin": 0.9, "vmax": NEVER, "aspect": "auto", "bar": bar}
    names = [perturbation.replace("_", " ") for perturbation in perturbations]
    return show_cells(shades, texts, shades > 1.5, labels, names, size=(PAGE, 1.4 + 0.17 * len(rows)), look=look)


def _shade(curve: "PerturbationCurve | None") -> tuple[float, str]:
    if curve is None or not curve.is_known:
        return math.nan, "–"
    return (float(np.log10(curve.smallest)), str(curve.smallest)) if curve.smallest else (NEVER, "no")


def show_agreement(part: Part) -> Plot | None:
    """Show how alike the metrics order the systems; each cell is of five systems or more (option `least`).

    The declaration chooses the metrics; the option `rows` those in the rows, if the map is no square of all.
    """
    least = int(part.declaration.options.get("least", LEAST_SYSTEMS))
    chosen = part.declaration.options.get("rows") or part.declaration.metrics
    rows, columns = (_collect_columns(part, metrics, least) for metrics in (chosen, part.declaration.metrics))
    return show_correlations(rows, columns, least=least)


def _collect_columns(part: Part, metrics: Sequence[str], least: int) -> dict[str, list[float]]:
    """Return title of a metric → its value of every system, if enough systems have one; by default the primary ones."""
    models = [i for i in part.values if i.system == "model"]
    systems = list(dict.fromkeys(tuple(i.axes.items()) for i in models))
    primary = [i.pair for i in models if i.primary or i.pair in (RECALL, *part.targets)]
    titles = {i.pair: i.title for i in models}
    names = part.declaration.names.get("metric", {})
    pairs = select_pairs(part.values, metrics) if metrics else list(dict.fromkeys(primary))
    columns: dict[str, list[float]] = {}
    for metric, key in pairs:
        title = names.get(f"{metric}.{key}", titles[metric, key])
        for options, members in group_by_options(models, metric).items():
            values = {tuple(i.axes.items()): i.mean for i in members if i.key == key}
            name = f"{title} ({options})" if options else title
            columns[name if name not in columns else f"{name} [{metric}.{key}]"] = [
                values.get(system, math.nan) for system in systems
            ]
    return {name: column for name, column in columns.items() if _count_shared(column) >= least}


def _count_shared(*columns: Sequence[float]) -> int:
    """Return how many systems have a value in every column."""
    return int(np.isfinite(columns).all(axis=0).sum())


def show_correlations(
    rows: Mapping[str, Sequence[float]], columns: Mapping[str, Sequence[float]], *, least: int = LEAST_SYSTEMS
) -> Plot | None:
    """Show Spearman's ρ of every row's metric with every column's over systems (Le Bronnec et al. 2024, Fig. 7).

    None if no two metrics share enough systems.
    """
    both = {**columns, **rows}
    if not any(_count_shared(*pair) >= least for pair in itertools.combinations(both.values(), 2)):
        return None
    from openended.metrics.correlation import rank_correlation

    shared = np.array([[_count_shared(a, b) for b in columns.values()] for a in rows.values()])
    every = np.array([[rank_correlation(a, b) for b in columns.values()] for a in rows.values()])
    matrix = np.where(shared >= least, every, np.nan)
    left, top = (["\n".join(textwrap.wrap(escape_mathtext(name), LONG)) for name in side] for side in (rows, columns))
    width = min(PAGE, max(COLUMN, 1.6 + 0.34 * len(columns)))
    height = width if rows.keys() == columns.keys() else min(PAGE, 1.7 + 0.34 * len(rows))
    turn = 45.0
    if max(map(len, columns)) > LONG and rows.keys() == columns.keys():  # no room for cells: numbers of the rows
        width = min(PAGE, height + 0.055 * LONG)
        left, top = [f"{name}  {i + 1}" for i, name in enumerate(left)], [str(i + 1) for i in range(len(left))]
        turn = 0.0
    texts = [["–" if math.isnan(value) else f"{value:.2f}" for value in row] for row in matrix]
    counts = sorted({int(n) for n in shared[np.isfinite(matrix)]})
    over = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else "".join(map(str, counts))
    bar = {"shrink": 0.7, "label": f"Spearman's ρ over {over} systems"}
    look = {"cmap": "RdBu", "vmin": -1, "vmax": 1, "fontsize": 5 if len(columns) > 8 else 6.5, "bar": bar}
    why = WHY.format(least={4: "four", 5: "five"}.get(least, least))
    note = "\n".join(textwrap.wrap(why, round(width * 20)))
    return show_cells(
        matrix, texts, np.abs(matrix) > 0.6, left, top, size=(width, height), look=look, turn=turn, note=note
    )
