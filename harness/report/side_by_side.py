"""Compare two reports side by side: settings, numbers and texts."""

import logging
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from openended.harness import results as measured
from openended.harness.core import SpecError, compare_signatures
from openended.harness.report.build import Report, write_report
from openended.harness.report.tables.frame import Cell, Filled, Frame, build_frame, make_cell, make_quantity
from openended.harness.report.tables.pivot import build_tables
from openended.harness.report.tables.selection import format_axis_values, select_pairs
from openended.harness.results import Results, SystemValue, order_axes

_log = logging.getLogger(__name__)
JOIN = " · "  # separates the names of report and system
MISSING = "Not in this report."


def build_side_by_side(
    paths: Sequence[Sequence[Path | str]], names: Sequence[str], out_dir: Path | str, *,
    where: Mapping[str, str] | None = None, page: bool = True,
) -> Report:  # fmt: skip
    """Write tables of the differences between two reports, and a page with the texts of both."""
    if len(paths) != 2:
        raise SpecError(f"--side-by-side: expected two names or folders of runs, got {len(paths)}")
    if names[0] == names[1]:
        names = [f"A {names[0]}", f"B {names[1]}"]
    first, second = (measured.read_results(folders, where) for folders in paths)
    joined = measured.join_results(first, second)
    batches = {note for run in joined.runs for note in run.notes if note.kind == "batches"}
    if len(batches) > 1:
        _log.warning("texts may differ by their batches alone: %s", "; ".join(sorted(map(str, batches))))
    frames = [_build_settings_frame(names, first, second), _build_number_frame(names, first.values, second.values)]
    tables = build_tables(frames)

    def write_page_of_both(folder: Path) -> list[Path]:
        from openended.harness.report.page.page import write_page

        by_report = {f"{name}{JOIN}": results for name, results in zip(names, (first, second), strict=True)}
        return write_page(joined, tables, [], folder / "report.html", compared_results=by_report) if page else []

    return write_report(joined, tables, Path(out_dir), write_page_of_both)


def _build_settings_frame(names: Sequence[str], first: Results, second: Results) -> Frame:
    """Build the table of options whose values differ between the two reports."""
    axes = order_axes(name for results in (first, second) for run in results.runs for name in run.axes)
    settings = [(axis, format_axis_values(first.runs, axis), format_axis_values(second.runs, axis)) for axis in axes]
    differ = [(axis, values) for axis, *values in settings if values[0] != values[1]]
    words = [[values[at] or "–" for _, values in differ] for at in (0, 1)]
    columns = [(make_quantity("settings", name, name), of) for name, of in zip(names, words, strict=True)]
    remarks = () if differ else ("Both have the same settings.",)
    labels = [axis for axis, _ in differ]
    return build_frame("settings", "What differs in the settings", labels, columns, remarks, head="Setting")


def _build_number_frame(names: Sequence[str], first: Sequence[SystemValue], second: Sequence[SystemValue]) -> Frame:
    """Build a table with three columns per value: first report, second report, difference (second minus first)."""
    sides = [_index_by_label(items) for items in (first, second)]
    pairs = dict.fromkeys((*select_pairs(first), *select_pairs(second)))
    labels = list(dict.fromkeys(label for side in sides for label, _, _ in side))
    columns: list[Filled] = []
    for pair in pairs:
        values = [[side.get((label, *pair)) for label in labels] for side in sides]
        present = [item for both in zip(*values, strict=True) for item in both if item is not None]
        if not present:
            continue
        like = present[0]
        for name, items in zip(names, values, strict=True):
            cells = [_make_cell(item) for item in items]
            signature = next((i.signature for i in items if i is not None), "")
            title = f"{like.title} ({name})"
            columns.append((make_quantity(*pair, title, like.direction, None, signature, aim=like.target), cells))
        gaps = [_make_difference_cell(*both) for both in zip(*values, strict=True)]
        columns.append((make_quantity(*pair, f"Δ {like.title}"), gaps))
    about = f"Δ: {names[1]} minus {names[0]}. If two signatures differ, so do the definitions; a note lists the fields."
    kinds = ["human" if label == "human" else "model" for label in labels]
    title = "What differs in the numbers"
    return build_frame("side-by-side", title, labels, columns, [about], roles=kinds)


def _index_by_label(items: Sequence[SystemValue]) -> Mapping[tuple[str, str, str], SystemValue]:
    """Return (system, metric, key) → value; the first human value of each key has the system name `human`."""
    humans, values = dict[tuple[str, str, str], SystemValue](), dict[tuple[str, str, str], SystemValue]()
    for system in measured.group_systems(items):
        for item in system.items:
            values.setdefault((system.name, *item.pair), item)
            if (human := measured.find_human_value(items, item)) is not None:
                humans.setdefault(("human", *item.pair), human)
    # A system may be called human; the human row wins.
    return humans | {label: value for label, value in values.items() if label not in humans}


def _make_cell(item: SystemValue | None) -> Cell:
    if item is None:
        return make_cell(note=MISSING)
    if not math.isfinite(item.mean):
        return make_cell(note=f"{item.metric}: {item.reason}", source=item)
    return make_cell(item.mean, item.sd, item.seeds, source=item)


def _make_difference_cell(first: SystemValue | None, second: SystemValue | None) -> Cell | None:
    if first is None or second is None or not math.isfinite(first.mean + second.mean):
        return None
    differ = compare_signatures(first.signature, second.signature)
    note = f"{first.metric}: the signatures differ in {', '.join(differ)}" if differ else ""
    return make_cell(second.mean - first.mean, note=note, signed=True)
