"""Tables of `--layout stress`: the smallest strength of each damage that each metric detects, and `stress.csv`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from openended.harness.core import escape_csv_cell, parse_signature, write_text
from openended.harness.report.analysis.damage_detection import DamageCurve, Z, find_damage_curves
from openended.harness.report.tables.selection import select_pairs, split_results
from openended.harness.report.tables.table import Cell, Column, Table
from openended.harness.results import Layout, Results

CSV = "stress.csv"
FEW_TEXTS = 200
_COLUMNS = "metric,embedder,damage,strength,value,low,high,detected"
_REMARKS = (
    "Percent of the words (or of the texts) that are damaged; no: not detected at any strength measured.",
    (
        "Detected: the value differs from that of the undamaged texts at 5 % (Holm's correction over the strengths), "
        "with the standard errors of both, as if they were of different texts."
    ),
    "~: not monotone: some step goes against the whole change by more than its error.",
)


def build_stress_tables(results: Results, layout: Layout, name: str) -> list[Table]:
    """Build a table of damages by metrics for every value of the axes in `split`."""
    tables = []
    for part in split_results(results, layout, name):
        pairs = select_pairs(part.items, layout)
        curves = [c for c in find_damage_curves(results, part.items) if (c.metric, c.key) in pairs]
        by_name = {(c.metric, c.key, c.damage): c for c in curves}
        titles = {(c.metric, c.key): c.title for c in curves}
        damages = list(dict.fromkeys(c.damage for c in curves))
        sizes = [parse_signature(item.signature).get("n", "").rpartition("/")[2] for item in part.items]
        texts = max((int(size) for size in sizes if size.isdecimal()), default=FEW_TEXTS)
        no = "no?" if texts < FEW_TEXTS else "no"
        columns = [
            (Column(*pair, titles[pair], "none", 0), [_format_cell(by_name.get((*pair, d)), no) for d in damages])
            for pair in pairs
            if pair in titles
        ]
        warnings = [_warn_of_few_texts(texts, curves)] if texts < FEW_TEXTS else []
        title = ", ".join([layout.title, *part.where.values()])
        labels = [damage.replace("_", " ") for damage in damages]
        tables.append(Table.from_columns(part.stem, title, labels, columns, _REMARKS, head="Damage", about=part.about,
                                         warnings=tuple(warnings)))  # fmt: skip
    return tables


def _warn_of_few_texts(count: int, curves: Sequence[DamageCurve]) -> str:
    """Say which changes so few texts can show at all."""
    errors = {c.title: c.undamaged.std_error for c in curves if math.isfinite(c.undamaged.std_error)}
    least = ", ".join(f"{title} {Z * math.sqrt(2) * error:.2g}" for title, error in errors.items())
    visible = f"they show only changes of at least {least}" if least else "they show no change"
    return f"no?: {count} texts on a side say little, {visible}; more num_examples show smaller ones"


def _format_cell(curve: DamageCurve | None, no: str) -> Cell:
    if curve is None or not curve.is_known:
        return Cell(note="no value, or no interval")
    mark = "" if curve.is_monotone else "~"
    if curve.smallest is None:
        return Cell(words=f"{no}{mark}")
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
