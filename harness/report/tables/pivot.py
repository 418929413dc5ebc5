"""Build the table of a frame as a layout says: which axes are rows and columns, in which order, names and form."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from openended.harness.core import SpecError, suggest
from openended.harness.report.tables.frame import Cell, Frame, arrow, format_cell, is_out_of_domain, mark_best
from openended.harness.report.tables.selection import find_name, list_options
from openended.harness.report.tables.table import Column, Table, TableRow
from openended.harness.results import UNITS, Layout, describe_differences, group_by

Key = tuple[str, ...]
SPREADS = {"sd": ("sd",), "error": ("error",), "interval": ("low", "high")}  # uncertainty → its fields
UNCERTAINTIES = {"all": tuple(SPREADS), "interval": tuple(SPREADS), "std": ("sd",), "error": ("error",), "none": ()}
SCALED = ("value", "sd", "error", "low", "high", "aim")  # fields in the unit of the value


def build_tables(frames: Iterable[Frame], layout: Layout | None = None) -> list[Table]:
    """Build the tables of frames; one about another frame has its own rows and columns."""
    layout = layout or Layout()
    plain = Layout(latex_width=layout.latex_width, notes=layout.notes)
    return [build_table(frame, plain if frame.appendix else layout) for frame in frames]


def build_table(frame: Frame, layout: Layout) -> Table:
    """Build the table of a frame; an axis that the frame lacks, or two numbers in one cell, are refused."""
    printed_roles = {"summary": layout.summaries, "human": layout.human != "none"}
    cells = [_convert(cell, layout) for cell in frame.cells if printed_roles.get(cell.role, True)]
    rows, columns = (_Side(axes, cells, frame, layout) for axes in choose_axes(frame, layout))
    mark_as_asked(cells, rows, columns, layout)
    by_place: dict[tuple[Key, Key], Cell] = {}
    for cell in cells:
        where = rows.get_axis_values(cell), columns.get_axis_values(cell)
        if by_place.setdefault(where, cell) is not cell:
            typed = [{k: v for k, v in c.typed.items() if k != "metric"} for c in (by_place[where], cell)]
            differ = describe_differences({**typed[0], "": ""}, {**typed[1], "": ""})
            why = f"the rows ({', '.join(rows.axes)}) put two systems into one cell"
            raise SpecError(
                f"table {frame.name}: {why}; they differ in {differ or 'nothing that has an axis'}; name more axes in "
                "`rows`"
            )
    depth = max((len([t for t in columns.label(of[0]) if t]) for of in columns.groups.values()), default=1)
    heads = [columns.build_column(members, depth) for members in columns.groups.values()]
    titles = [layout.heads.get(axis, frame.heads.get(axis, axis.capitalize())) for axis in rows.axes]
    titles = [level for title in titles for level in title.split(" | ")]
    printed = {key: rows.label(members[0]) for key, members in rows.groups.items()}
    width = max([len(titles), *(sum(map(bool, labels)) for labels in printed.values())])
    titles += [""] * (width - len(titles))
    lines: list[TableRow] = []
    before: object = None
    for key, members in rows.groups.items():
        first, labels = members[0], printed[key]
        role = "metric" if first.role == "human" and frame.measure in rows.axes else first.role  # people are a column
        labels = (*(labels if len(labels) <= width else filter(None, labels)), *("",) * width)[:width]
        label = (" " if first.role == "text" else ", ").join(filter(None, labels))
        content = tuple(print_cell(by_place.get((key, at))) for at in columns.groups)
        section = (role, *rows.find_section(key, labels)) if first.section is None else first.section
        seeds, rule = max(cell.seeds for cell in members), bool(lines) and section != before
        lines.append(TableRow(label, role, content, seeds, rule, labels if len(labels) > 1 else ()))
        before = section
    show_seeds = frame.show_seeds and layout.seeds and frame.measure in columns.axes
    table = Table(
        frame.name, frame.title, tuple(heads), tuple(lines), frame.notes, tuple(titles), show_seeds, frame.over
    )
    table = replace(table, tex_width=layout.latex_width, caption=layout.caption, show_notes=layout.notes)
    return table.add_to_title(name_distances(cells, rows if frame.measure in rows.axes else columns, layout))


def name_distances(cells: Iterable[Cell], side: "_Side", layout: Layout) -> list[str]:
    """Say which values are distances to the human value, of those whose names in a layout do not."""
    named = [name for cell in cells if cell.gap and (name := side.name(cell, side.measure, "")) is not None]
    listed = dict.fromkeys(name.partition(" (")[0] for name in named if "Δ" not in name)
    logarithms = " of logarithms (base 2)" if layout.gaps == "log" else ""
    return [f"distances{logarithms} to the human value in {', '.join(listed)}"] if listed else []


def print_cell(cell: Cell | None) -> Cell:
    """Return a number as it is printed; empty where there is none."""
    if cell is None:
        return Cell(blank=True)
    number, spread = format_cell(cell)
    return replace(cell, number=number, spread=spread)


def mark_as_asked(cells: Sequence[Cell], rows: "_Side", columns: "_Side", layout: Layout) -> None:
    """Mark the cells that a layout wants in bold; those that tests do not separate are marked in their frame."""
    if layout.bold == "best":  # the best printed values among systems or metrics, without a test
        for members in group_by(cells, lambda cell: (rows.find_contest(cell), columns.find_contest(cell))).values():
            rivals = [replace(c, role=c.role if c.role in ("human", "summary") else "model") for c in members]
            for cell, marked in zip(members, mark_best(rivals, tested=False), strict=True):
                cell.best, cell.rule, cell.p = marked.best, marked.rule, marked.p
    elif layout.bold != "tests":
        systems = columns if columns.measure in rows.axes else rows
        names = [key for key, of in systems.groups.items() if layout.bold == "first" and of[0].role != "human"]
        for cell in cells:
            cell.best, cell.p = systems.get_axis_values(cell) in names[:1], math.nan
            cell.rule = "reference" if names else ""
    if not layout.arrows:
        for cell in cells:
            cell.direction = "none"


def choose_axes(frame: Frame, layout: Layout) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the axes of rows and columns; what the layout leaves out is that of the frame.

    The measured values are columns if the layout names them on neither side.
    """
    rows, columns = layout.rows, layout.columns
    if frame.measure not in (*rows, *columns):
        columns = (frame.measure, *columns) if columns else frame.columns
    rows = rows or tuple(axis for axis in frame.rows if axis not in columns)
    columns = columns or tuple(axis for axis in frame.rows if axis not in rows)
    return rows, columns


class _Side:
    """The axes of the rows or of the columns, and the cells of each of their values in printed order.

    Human text and summaries lack the axes of systems. The first axis that a cell lacks holds its label.
    """

    def __init__(self, axes: Sequence[str], cells: Sequence[Cell], frame: Frame, layout: Layout) -> None:
        self.axes, self.layout, self.measure = axes, layout, frame.measure
        present = dict.fromkeys(axis for cell in cells for axis in cell.axes)
        if unknown := [axis for axis in axes if present and axis not in present]:
            raise SpecError(
                f"table {frame.name}: no axis {unknown[0]!r} in these values{suggest(unknown[0], present)}; they have "
                f"{', '.join(present)}"
            )
        self.order: dict[str, dict[str, int]] = {axis: {} for axis in axes}  # axis → value → rank in the frame
        for cell in cells:
            for axis, value in zip(axes, self.get_axis_values(cell), strict=True):
                self.order[axis].setdefault(value, len(self.order[axis]))
        self.groups = group_by(sorted(cells, key=self._rank), self.get_axis_values)

    def get_axis_values(self, cell: Cell) -> Key:
        """Return the values of a cell on the axes."""
        values: Mapping[str, str] = cell.axes
        lacking = [axis for axis in self.axes if axis not in values]
        label = values.get("system", "")
        return tuple(values.get(axis, label if axis in lacking[:1] else "") for axis in self.axes)

    def _rank(self, cell: Cell) -> list[tuple[int, int]]:
        """Rank a cell by the order of the layout's names, then of the frame; human text at an end."""
        ranks = []
        for axis, value in zip(self.axes, self.get_axis_values(cell), strict=True):
            names = self.layout.list_values(axis)
            name = find_name(names, axis, cell.axes, cell.typed)
            rank = names.index(name) if name is not None else len(names)
            if cell.role == "human" and (axis == "system" or axis not in cell.axes):
                first = -1 if names else 0  # without names the frame says where it stands
                rank = first if self.layout.human == "first" else len(names) + 1
            ranks.append((rank, self.order[axis][value]))
        return ranks

    def label(self, cell: Cell) -> tuple[str, ...]:
        """Return the printed names of the values of a cell; a name with `|` is one of several levels."""
        labels: list[str] = []
        for axis, value in zip(self.axes, self.get_axis_values(cell), strict=True):
            text = self.name(cell, axis, value)
            if axis == self.measure:
                text = cell.title if text is None else text
                text = head_column(cell, text).heading if self.layout.arrows else text
            labels += [cell.labels.get(axis, value)] if text is None else text.split(" | ")
        return tuple(labels)

    def name(self, cell: Cell, axis: str, value: str) -> str | None:
        """Return the name that the layout gives a value, with the options that it mentions; None without one."""
        if axis not in cell.axes:  # a borrowed label, or nothing
            return self.layout.names.get("system" if value else axis, {}).get(value)
        names = self.layout.names.get(axis, {})
        name = find_name(names, axis, cell.axes, cell.typed)
        return None if name is None else names[name].format_map(list_options(axis, cell.typed))

    def build_column(self, cells: Sequence[Cell], depth: int) -> Column:
        """Build the column of some cells; it says what they are if the measured values are the columns."""
        first = cells[0]
        labels = tuple(label for label in self.label(first) if label)
        levels = ("",) * (depth - len(labels)) + labels if depth > 1 else ()
        kinds = {(cell.name, cell.key, cell.title, cell.direction, cell.gap) for cell in cells}
        if self.measure not in self.axes or len(kinds) > 1:
            text = ", ".join(labels)
            return Column(text, text, levels=levels, role=first.role)
        at = self.axes.index(self.measure)
        title = self.name(first, self.measure, "")
        title = first.title if title is None else title
        located = zip(self.axes, self.get_axis_values(first), strict=True)
        names = [
            self.name(first, axis, value) or first.labels.get(axis, value)
            for axis, value in located
            if axis != self.measure
        ]
        others = list(filter(None, names))
        if " | " in title:
            title, *inner = title.split(" | ")
            others += inner
        if others and title:
            title = f"{', '.join(others)}: {title}" if at else f"{title} ({', '.join(others)})"
        title = title or ", ".join(others)
        for cell in cells:
            cell.title = title
        return head_column(first, title)._replace(interval=any(cell.shows_interval for cell in cells), levels=levels)

    def find_contest(self, cell: Cell) -> Key:
        """Return what the cells that a cell competes with share: the measured value, and the outermost task."""
        if self.measure in self.axes:
            return tuple(cell.axes.get(axis, "") for axis in self.axes)
        return self.label(cell)[:1] if self.axes[0] == "task" else ()

    def find_section(self, key: Key, labels: Sequence[str]) -> tuple[str, ...]:
        """Return what draws a line where it changes: values of the layout's axes, else the outermost of the labels."""
        if not self.layout.lines:
            return tuple(labels[:1]) if len(labels) > 1 else ()
        return tuple(value for axis, value in zip(self.axes, key, strict=True) if axis in self.layout.lines)


def head_column(cell: Cell, title: str) -> Column:
    """Return the heading of a cell's quantity."""
    sign = arrow(cell.direction, cell.aim if cell.direction == "target" else None)
    doubtful = is_out_of_domain(cell.signature)
    return Column(title, cell.key, sign, doubtful, cell.shows_interval, cell.gap, cell.signature)


def _convert(cell: Cell, layout: Layout) -> Cell:
    """Return a cell with the unit, decimals and uncertainty that a layout asks for."""
    typed = [values["metric"] for values in (cell.axes, cell.typed) if "metric" in values]
    names = [f"{cell.name}.{cell.key}", *typed, "*"]

    def find(options: Mapping[str, Any]) -> Any:  # noqa: ANN401 - an option of the layout
        return next((options[name] for name in names if name in options), None)

    cell, unit = replace(cell), find(layout.units) or "fraction"
    if (factor := UNITS[unit]) != 1:
        for name in SCALED:
            setattr(cell, name, factor * getattr(cell, name))
        cell.scale, cell.decimals = factor, max(0, cell.decimals - 2)
        cell.title += " (%)" if unit == "percent" else ""
    decimals, significant, missing = map(find, (layout.decimals, layout.significant, layout.missing))
    if decimals is not None:
        cell.own_decimals, cell.decimals = math.nan, decimals
    elif significant is not None and math.isfinite(cell.value):
        size = math.floor(math.log10(abs(cell.value))) if cell.value else 0
        cell.own_decimals = max(0, significant - 1 - size)
    if missing is not None and not (math.isfinite(cell.value) or cell.words):
        cell.words, cell.blank = missing, not missing
    hidden = SPREADS.keys() - set(UNCERTAINTIES[layout.uncertainty])
    for name in (name for kind in hidden for name in SPREADS[kind]):
        setattr(cell, name, math.nan)
    cell.shows_interval &= "interval" not in hidden
    return cell
