"""Two reports beside each other: what changed in the settings and in the numbers, and the texts of both."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from openended.harness.core import SpecError, signature_difference
from openended.harness.report.atomic_folder import swapped_in
from openended.harness.report.build import FILES, Report, write_table
from openended.harness.report.tables.about import listed
from openended.harness.report.tables.selection import wanted
from openended.harness.report.tables.table import Cell, Column, Table, TableRow, column_decimals
from openended.harness.results import (
    INTERNAL,
    Folded,
    Layout,
    Results,
    fold_seeds,
    human_value,
    in_order,
    read_results,
    systems_of,
)

JOIN = " · "  # between a report's name and a system's
MISSING = "Not in this report."

Values = Mapping[tuple[str, str, str], Folded]


def build_side_by_side(
    paths: Sequence[Sequence[Path | str]],
    names: Sequence[str],
    out_dir: Path | str,
    *,
    where: Mapping[str, str] | None = None,
    page: bool = True,
) -> Report:
    """Write tables of what differs between two reports, and a page with the texts of both.

    Args:
        paths: The run folders of each of the two.
        names: What each is called.
        out_dir: Where the files go.
        where: Axis → accepted value, as for one report.
        page: Whether to write the page.

    Raises:
        SpecError: If there are not two.
        DataError: If one holds no finished run.
    """
    if len(paths) != 2:
        raise SpecError(f"--side-by-side: expected two names or folders of runs, got {len(paths)}")
    if names[0] == names[1]:
        names = [f"A {names[0]}", f"B {names[1]}"]
    first, second = (read_results(own, where) for own in paths)
    joined, items = _joined(first, second)
    tables = [_settings(names, first, second), *_numbers(names, *items)]
    target = Path(out_dir)
    with swapped_in(target, FILES) as folder:
        written = [p for table in tables for p in write_table(table, folder / "tables")]
        if page:
            from openended.harness.report.page.page import write_page

            beside = {f"{name}{JOIN}": results for name, results in zip(names, (first, second), strict=True)}
            written += write_page(joined, tables, [], folder / "report.html", beside=beside)
    final = tuple(target / path.relative_to(folder) for path in written)
    counts = len(joined.runs), joined.unfinished, joined.superseded, len(joined.left_out)
    return Report(target, tuple(tables), final, *counts)


def _joined(first: Results, second: Results) -> tuple[Results, tuple[list[Folded], list[Folded]]]:
    """Return all runs of both, and the values of each, which name their runs by the place among all."""
    import pandas as pd

    shift = len(first.runs)
    moved = second.frame.assign(**{INTERNAL: second.frame[INTERNAL] + shift})
    whole = replace(
        first,
        frame=pd.concat([first.frame, moved], ignore_index=True),
        runs=(*first.runs, *second.runs),
        axes=in_order([*first.axes, *second.axes]),
        unfinished=first.unfinished + second.unfinished,
        superseded=first.superseded + second.superseded,
        damaged=first.damaged | second.damaged,
        left_out={**first.left_out, **second.left_out},
        _arrays={},
        _memo={},
    )
    later = [replace(i, sources=tuple((at + shift, name) for at, name in i.sources)) for i in fold_seeds(second)]
    return whole, (fold_seeds(first), later)


def _settings(names: Sequence[str], first: Results, second: Results) -> Table:
    """List the options that differ: every value that the runs of each have."""
    axes = in_order(name for results in (first, second) for run in results.runs for name in run.axes)
    told = [(axis, listed(first.runs, axis), listed(second.runs, axis)) for axis in axes]
    rows = [
        TableRow(axis, "model", tuple(Cell(words=value or "–") for value in values))
        for axis, *values in told
        if values[0] != values[1]
    ]
    remarks = () if rows else ("Both were made with the same settings.",)
    columns = tuple(Column("settings", name, name, "none") for name in names)
    return Table("settings", "What differs in the settings", columns, tuple(rows), remarks, "Setting", show_seeds=False)


def _numbers(names: Sequence[str], first: Sequence[Folded], second: Sequence[Folded]) -> list[Table]:
    """One table: for every value of every metric a column a report, and one of the difference, second less first."""
    sides = [_by_label(items) for items in (first, second)]
    pairs = list(dict.fromkeys((*wanted(first, Layout()), *wanted(second, Layout()))))
    labels = list(dict.fromkeys(label for side in sides for label, _, _ in side))
    columns: list[Column] = []
    cells: dict[str, list[Cell]] = {label: [] for label in labels}
    for pair in pairs:
        found = {label: [side.get((label, *pair)) for side in sides] for label in labels}
        known = [item for row in found.values() for item in row if item is not None]
        if not known:
            continue
        like = known[0]
        for place, name in enumerate(names):
            own = [_cell(row[place]) for row in found.values()]
            signature = next((i.signature for row in found.values() if (i := row[place]) is not None), "")
            title = f"{like.title} ({name})"
            columns.append(Column(*pair, title, like.direction, column_decimals(own), signature, target=like.target))
        gaps = [_gap(*row) for row in found.values()]
        columns.append(Column(*pair, f"Δ {like.title}", "none", column_decimals(gaps)))
        for label, row, gap in zip(labels, found.values(), gaps, strict=True):
            cells[label] += [*(_cell(item) for item in row), gap]
    rows = tuple(TableRow(label, "human" if label == "human" else "model", tuple(cells[label])) for label in labels)
    about = f"Δ: {names[1]} less {names[0]}. Where two signatures differ, so do the definitions: the note says in what."
    return [Table("side-by-side", "What differs in the numbers", tuple(columns), rows, (about,), show_seeds=False)]


def _by_label(items: Sequence[Folded]) -> Values:
    """Return (system, metric, value) → value; human values under the name `human`, the first of each."""
    made: dict[tuple[str, str, str], Folded] = {}
    systems = systems_of(items)
    for item in (i for system in systems for i in system.items):
        human = human_value(items, item)
        if human is not None:
            made.setdefault(("human", item.metric, item.key), human)
    for system in systems:
        for item in system.items:
            made.setdefault((system.name, item.metric, item.key), item)
    return made


def _cell(item: Folded | None) -> Cell:
    if item is None:
        return Cell(note=MISSING)
    if not math.isfinite(item.mean):
        return Cell(note=f"{item.metric}: {item.reason}", source=item)
    return Cell(item.mean, item.sd, item.seeds, source=item)


def _gap(first: Folded | None, second: Folded | None) -> Cell:
    if first is None or second is None or not math.isfinite(first.mean + second.mean):
        return Cell(blank=True)
    differ = signature_difference(first.signature, second.signature)
    note = f"{first.metric}: the signatures differ in {', '.join(differ)}" if differ else ""
    return Cell(second.mean - first.mean, note=note, signed=True)
