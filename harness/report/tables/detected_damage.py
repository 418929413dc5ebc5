"""Tables of `--layout stress`: the smallest strength of each damage that each metric detects, and `stress.csv`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from openended.harness.core import escape_csv_cell, write_text
from openended.harness.report.analysis.damage_detection import DamageCurve, find_damage_curves
from openended.harness.report.tables.run_summary import summarize_sources
from openended.harness.report.tables.selection import name_files, select_pairs, split_axes, split_items
from openended.harness.report.tables.table import Cell, Column, Table, TableRow
from openended.harness.results import Layout, Results

CSV = "stress.csv"
_COLUMNS = "metric,embedder,damage,strength,value,low,high,detected"
_REMARKS = (
    "Percent of the words (or of the texts) that are damaged; no: not detected at any strength measured.",
    (
        "Detected: the value differs from that of the undamaged texts at 5 %, with the standard errors of both, as if "
        "they were of different texts."
    ),
    "~: not monotone: some step goes against the whole change by more than its error.",
)


def build_stress_tables(results: Results, layout: Layout, name: str) -> list[Table]:
    """Build a table of damages by metrics for every value of the axes in `split`."""
    items = results.values
    layout = dataclasses.replace(layout, split=split_axes(items, layout))
    parts = split_items(items, layout.split)
    out = []
    for values, stem in zip(parts, name_files(name, list(parts)), strict=True):
        part = parts[values]
        pairs = select_pairs(part, layout)
        curves = [curve for curve in find_damage_curves(results, part) if (curve.metric, curve.key) in pairs]
        title = ", ".join([layout.title, *values])
        out.append(_build(curves, pairs, title, stem, summarize_sources(part, results.runs)))
    return out


def _build(
    curves: Sequence[DamageCurve], pairs: Sequence[tuple[str, str]], title: str, stem: str, about: tuple[str, ...]
) -> Table:
    by_name = {(curve.metric, curve.key, curve.damage): curve for curve in curves}
    titles = {(curve.metric, curve.key): curve.title for curve in curves}
    pairs = [pair for pair in pairs if pair in titles]
    columns = tuple(Column(*pair, titles[pair], "none", 0) for pair in pairs)
    rows = tuple(
        TableRow(damage.replace("_", " "), "model", tuple(_format_cell(by_name.get((*pair, damage))) for pair in pairs))
        for damage in dict.fromkeys(curve.damage for curve in curves)
    )
    return Table(stem, title, columns, rows, _REMARKS, head="Damage", show_seeds=False, about=about)


def _format_cell(curve: DamageCurve | None) -> Cell:
    if curve is None or not curve.is_known:
        return Cell(note="no value, or no interval")
    mark = "" if curve.is_monotone else "~"
    if curve.smallest is None:
        return Cell(words=f"no{mark}")
    return Cell(float(curve.smallest), decimals=0, suffix=mark)


def write_stress_csv(results: Results, folder: Path) -> Path:
    """Write every value of every damage; the undamaged texts have the damage `none` and strength 0."""
    lines: dict[str, None] = {}
    for curve in find_damage_curves(results, results.values):
        metric = curve.metric if curve.key == curve.metric else f"{curve.metric}.{curve.key}"
        for damage, point in (("none", curve.undamaged), *((curve.damage, point) for point in curve.points)):
            low, high = point.interval or ("", "")
            detected = "" if point.detected is None else str(point.detected).lower()
            cells = (metric, curve.embedder, damage, point.percent, point.value, low, high, detected)
            lines[",".join(f"{c:.6g}" if isinstance(c, float) else escape_csv_cell(str(c)) for c in cells)] = None
    path = folder / CSV
    write_text(path, "\n".join([_COLUMNS, *lines]) + "\n")
    return path
