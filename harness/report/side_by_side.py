"""Compare two reports side by side: settings, numbers and texts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from openended.harness.core import SpecError, compare_signatures
from openended.harness.report.atomic_folder import replace_folder
from openended.harness.report.build import FILES, Report, write_table
from openended.harness.report.tables.run_summary import format_axis_values
from openended.harness.report.tables.selection import select_pairs
from openended.harness.report.tables.table import Cell, Column, Table, TableRow, choose_column_decimals
from openended.harness.results import (
    INTERNAL,
    Layout,
    Results,
    SystemValue,
    find_human_value,
    group_systems,
    order_axes,
    read_results,
)

JOIN = " · "  # separates the names of report and system
MISSING = "Not in this report."

Values = Mapping[tuple[str, str, str], SystemValue]


def build_side_by_side(
    paths: Sequence[Sequence[Path | str]],
    names: Sequence[str],
    out_dir: Path | str,
    *,
    where: Mapping[str, str] | None = None,
    page: bool = True,
) -> Report:
    """Write tables of the differences between two reports, and a page with the texts of both."""
    if len(paths) != 2:
        raise SpecError(f"--side-by-side: expected two names or folders of runs, got {len(paths)}")
    if names[0] == names[1]:
        names = [f"A {names[0]}", f"B {names[1]}"]
    first, second = (read_results(folders, where) for folders in paths)
    joined, items = _join_results(first, second)
    tables = [_build_settings_table(names, first, second), *_build_number_tables(names, *items)]
    target = Path(out_dir)
    with replace_folder(target, FILES) as folder:
        written = [p for table in tables for p in write_table(table, folder / "tables")]
        if page:
            from openended.harness.report.page.page import write_page

            by_report = {f"{name}{JOIN}": results for name, results in zip(names, (first, second), strict=True)}
            written += write_page(joined, tables, [], folder / "report.html", compared_results=by_report)
    final = tuple(target / path.relative_to(folder) for path in written)
    counts = len(joined.runs), joined.unfinished, joined.superseded, len(joined.left_out)
    return Report(target, tuple(tables), final, *counts)


def _join_results(first: Results, second: Results) -> tuple[Results, tuple[list[SystemValue], list[SystemValue]]]:
    """Return the results with the runs of both, and the values of each with run indices into the joint list."""
    import pandas as pd

    shift = len(first.runs)
    moved = second.frame.assign(**{INTERNAL: second.frame[INTERNAL] + shift})
    whole = replace(
        first,
        frame=pd.concat([first.frame, moved], ignore_index=True),
        runs=(*first.runs, *second.runs),
        axes=order_axes([*first.axes, *second.axes]),
        unfinished=first.unfinished + second.unfinished,
        superseded=first.superseded + second.superseded,
        damaged=first.damaged | second.damaged,
        left_out={**first.left_out, **second.left_out},
        _arrays={},
    )
    later = [replace(i, sources=tuple((at + shift, name) for at, name in i.sources)) for i in second.values]
    return whole, (first.values, later)


def _build_settings_table(names: Sequence[str], first: Results, second: Results) -> Table:
    """Build the table of options whose values differ between the two reports."""
    axes = order_axes(name for results in (first, second) for run in results.runs for name in run.axes)
    settings = [(axis, format_axis_values(first.runs, axis), format_axis_values(second.runs, axis)) for axis in axes]
    rows = [
        TableRow(axis, "model", tuple(Cell(words=value or "–") for value in values))
        for axis, *values in settings
        if values[0] != values[1]
    ]
    remarks = () if rows else ("Both have the same settings.",)
    columns = tuple(Column("settings", name, name, "none") for name in names)
    return Table("settings", "What differs in the settings", columns, tuple(rows), remarks, "Setting", show_seeds=False)


def _build_number_tables(
    names: Sequence[str], first: Sequence[SystemValue], second: Sequence[SystemValue]
) -> list[Table]:
    """Build a table with three columns per value: first report, second report, difference (second minus first)."""
    sides = [_index_by_label(items) for items in (first, second)]
    pairs = list(dict.fromkeys((*select_pairs(first, Layout()), *select_pairs(second, Layout()))))
    labels = list(dict.fromkeys(label for side in sides for label, _, _ in side))
    columns: list[Column] = []
    cells: dict[str, list[Cell]] = {label: [] for label in labels}
    for pair in pairs:
        rows_by_label = {label: [side.get((label, *pair)) for side in sides] for label in labels}
        present = [item for row in rows_by_label.values() for item in row if item is not None]
        if not present:
            continue
        like = present[0]
        for index, name in enumerate(names):
            column_cells = [_make_cell(row[index]) for row in rows_by_label.values()]
            signature = next((i.signature for row in rows_by_label.values() if (i := row[index]) is not None), "")
            title = f"{like.title} ({name})"
            columns.append(
                Column(
                    *pair, title, like.direction, choose_column_decimals(column_cells), signature, target=like.target
                )
            )
        gaps = [_make_difference_cell(*row) for row in rows_by_label.values()]
        columns.append(Column(*pair, f"Δ {like.title}", "none", choose_column_decimals(gaps)))
        for label, row, gap in zip(labels, rows_by_label.values(), gaps, strict=True):
            cells[label] += [*(_make_cell(item) for item in row), gap]
    rows = tuple(TableRow(label, "human" if label == "human" else "model", tuple(cells[label])) for label in labels)
    about = f"Δ: {names[1]} minus {names[0]}. If two signatures differ, so do the definitions; a note lists the fields."
    return [Table("side-by-side", "What differs in the numbers", tuple(columns), rows, (about,), show_seeds=False)]


def _index_by_label(items: Sequence[SystemValue]) -> Values:
    """Return (system, metric, key) → value; the first human value of each key has the system name `human`."""
    values: dict[tuple[str, str, str], SystemValue] = {}
    systems = group_systems(items)
    for item in (i for system in systems for i in system.items):
        human = find_human_value(items, item)
        if human is not None:
            values.setdefault(("human", item.metric, item.key), human)
    for system in systems:
        for item in system.items:
            values.setdefault((system.name, item.metric, item.key), item)
    return values


def _make_cell(item: SystemValue | None) -> Cell:
    if item is None:
        return Cell(note=MISSING)
    if not math.isfinite(item.mean):
        return Cell(note=f"{item.metric}: {item.reason}", source=item)
    return Cell(item.mean, item.sd, item.seeds, source=item)


def _make_difference_cell(first: SystemValue | None, second: SystemValue | None) -> Cell:
    if first is None or second is None or not math.isfinite(first.mean + second.mean):
        return Cell(blank=True)
    differ = compare_signatures(first.signature, second.signature)
    note = f"{first.metric}: the signatures differ in {', '.join(differ)}" if differ else ""
    return Cell(second.mean - first.mean, note=note, signed=True)
