"""Heat map of what each metric sees: the smallest strength of each damage that it detects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from openended.harness.core import escape_mathtext
from openended.harness.report.analysis.damage_detection import DamageCurve, find_damage_curves
from openended.harness.report.figures.drawing import PAGE, create_figure
from openended.harness.report.tables.selection import select_pairs
from openended.harness.results import Layout, Results, SystemValue

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NEVER = 2.3  # log10 of the strength at which a damage that is never detected is drawn: over 100 %


def damage_heat_map(results: Results, items: Sequence[SystemValue]) -> Mapping[str, Figure]:
    """Draw metrics (by embedder) against damages; bright: seen when weak, dark: not seen."""
    pairs = select_pairs(items, Layout())
    curves = [curve for curve in find_damage_curves(results, items) if (curve.metric, curve.key) in pairs]
    rows = sorted(dict.fromkeys((curve.embedder, curve.title) for curve in curves), key=lambda row: row[0])
    damages = list(dict.fromkeys(curve.damage for curve in curves))
    table = {((curve.embedder, curve.title), curve.damage): curve for curve in curves}
    figure, (panel,) = create_figure(PAGE, 1.4 + 0.17 * len(rows))
    shades = np.array([[_shade(table.get((row, damage))) for damage in damages] for row in rows])
    image = panel.imshow(np.ma.masked_invalid(shades), cmap="viridis_r", vmin=0.9, vmax=NEVER, aspect="auto")
    labels = [escape_mathtext(f"{title} ({embedder})" if embedder else title) for embedder, title in rows]
    panel.set_yticks(range(len(rows)), labels)
    panel.set_xticks(range(len(damages)), [damage.replace("_", " ") for damage in damages], rotation=90)
    panel.grid(visible=False)
    for (at, column), shade in np.ndenumerate(shades):
        curve = table.get((rows[at], damages[column]))
        text = "–" if curve is None or not curve.is_known else str(curve.smallest or "no")
        color = "white" if shade > 1.5 else "black"
        panel.text(column, at, text, ha="center", va="center", fontsize=5.5, color=color)
    bar = figure.colorbar(image, ax=panel, shrink=0.6, label="smallest strength detected (%)")
    bar.set_ticks([1.0, 1.5, 2.0, NEVER], labels=["10", "30", "100", "no"])
    return {"stress": figure}


def _shade(curve: DamageCurve | None) -> float:
    if curve is None or not curve.is_known:
        return float("nan")
    return float(np.log10(curve.smallest)) if curve.smallest else NEVER
