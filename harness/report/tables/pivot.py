"""Build the table of a frame as a layout says: which axes are rows and columns, in which order, names and form."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from typing import Any

from openended.harness.core import SpecError, suggest
from openended.harness.report.tables.frame import BLANK, BoldRule, Cell, Frame, FrameEntry, Quantity, mark_best
from openended.harness.report.tables.table import Column, Table, TableRow
from openended.harness.results import UNITS, Layout, describe_differences, group_by

Key = tuple[str, ...]
_HIDDEN: dict[str, Any] = {"sd": math.nan, "metric_error": math.nan, "interval": None}  # of a cell without uncertainty
_ALL = tuple(_HIDDEN)
UNCERTAINTIES = {"all": _ALL, "interval": _ALL, "std": ("sd",), "error": ("metric_error",), "none": ()}


def build_tables(frames: Iterable[Frame], layout: Layout | None = None) -> list[Table]:
    """Build the tables of frames; one about another frame has its own rows and columns."""
    layout = layout or Layout()
    plain = Layout(latex_width=layout.latex_width, notes=layout.notes)
    return [build_table(frame, plain if frame.appendix else layout) for frame in frames]


def build_table(frame: Frame, layout: Layout) -> Table:
    """Build the table of a frame; an axis that the frame lacks, or two numbers in one cell, are refused."""
    printed_roles = {"summary": layout.summaries, "human": layout.human != "none"}
    entries = [_convert(e, layout) for e in frame.entries if printed_roles.get(e.role, True)]
    rows, columns = (_Side(axes, entries, frame, layout) for axes in choose_axes(frame, layout))
    if layout.bold == "best":
        contests = group_by(entries, lambda entry: (rows.find_contest(entry), columns.find_contest(entry)))
        entries = [entry for members in contests.values() for entry in _mark_contest(members)]
        rows, columns = (_Side(side.axes, entries, frame, layout) for side in (rows, columns))  # with the rule of bold
    if layout.bold == "first":
        others = rows if frame.measure in columns.axes else columns
        first_system = next(iter(others.groups), None)
        entries = [_mark(entry, "reference", best=others.locate(entry) == first_system) for entry in entries]
        rows, columns = (_Side(side.axes, entries, frame, layout) for side in (rows, columns))
    cells: dict[tuple[Key, Key], FrameEntry] = {}
    for entry in entries:
        where = rows.locate(entry), columns.locate(entry)
        if cells.setdefault(where, entry) is not entry:
            settings = [{k: v for k, v in e.settings.items() if k != "metric"} for e in (cells[where], entry)]
            differ = describe_differences({**settings[0], "": ""}, {**settings[1], "": ""})
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
        labels = (*(labels if len(labels) <= width else filter(None, labels)), *("",) * width)[:width]
        label = (" " if first.role == "text" else ", ").join(filter(None, labels))
        content = tuple(_build_cell(cells.get((key, at)), head) for at, head in zip(columns.groups, heads, strict=True))
        section = (first.role, *rows.find_section(key, labels)) if first.section is None else first.section
        lines.append(
            TableRow(
                label, first.role, content, max(entry.seeds for entry in members),
                rule=bool(lines) and section != before, levels=labels if len(labels) > 1 else (),
            )
        )  # fmt: skip
        before = section
    return Table(
        frame.name, frame.title, tuple(heads), tuple(lines), frame.remarks, tuple(titles),
        frame.show_seeds and layout.seeds and frame.measure in columns.axes,
        warnings=frame.warnings, rules=frame.rules, tex_width=layout.latex_width,
        caption=layout.caption, show_notes=layout.notes, over=frame.over,
    )  # fmt: skip


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
    """The axes of the rows or of the columns, and the entries of each of their values in printed order.

    Human text and summaries lack the axes of systems. The first axis that an entry lacks holds its label.
    """

    def __init__(self, axes: Sequence[str], entries: Sequence[FrameEntry], frame: Frame, layout: Layout) -> None:
        self.axes, self.layout, self.measure = axes, layout, frame.measure
        present = dict.fromkeys(axis for entry in entries for axis in entry.axes)
        if unknown := [axis for axis in axes if present and axis not in present]:
            raise SpecError(
                f"table {frame.name}: no axis {unknown[0]!r} in these values{suggest(unknown[0], present)}; they have "
                f"{', '.join(present)}"
            )
        self.order: dict[str, dict[str, int]] = {axis: {} for axis in axes}  # axis → value → rank in the frame
        for entry in entries:
            for axis, value in zip(axes, self.locate(entry), strict=True):
                self.order[axis].setdefault(value, len(self.order[axis]))
        self.groups = group_by(sorted(entries, key=self._rank), self.locate)

    def locate(self, entry: FrameEntry) -> Key:
        """Return the values of an entry on the axes."""
        lacking = [axis for axis in self.axes if axis not in entry.axes]
        label = entry.axes.get("system", "")
        return tuple(entry.axes.get(axis, label if axis in lacking[:1] else "") for axis in self.axes)

    def _rank(self, entry: FrameEntry) -> list[tuple[int, int]]:
        """Rank an entry by the order of the layout's names, then of the frame; human text at an end."""
        ranks = []
        for axis, value in zip(self.axes, self.locate(entry), strict=True):
            names = list(dict.fromkeys((*self.layout.order.get(axis, ()), *self.layout.names.get(axis, ()))))
            name = _find_name(names, entry, axis)
            rank = names.index(name) if name is not None else len(names)
            if entry.role == "human" and (axis == "system" or axis not in entry.axes):
                first = -1 if names else 0  # without names the frame says where it stands
                rank = first if self.layout.human == "first" else len(names) + 1
            ranks.append((rank, self.order[axis][value]))
        return ranks

    def label(self, entry: FrameEntry) -> tuple[str, ...]:
        """Return the printed names of the values of an entry; a name with `|` is one of several levels."""
        labels: list[str] = []
        for axis, value in zip(self.axes, self.locate(entry), strict=True):
            text = self.name(entry, axis, value)
            if axis == self.measure:
                quantity = entry.quantity if text is None else replace(entry.quantity, title=text)
                text = quantity.heading if self.layout.arrows else quantity.title
            labels += [entry.titles.get(axis, value)] if text is None else text.split(" | ")
        return tuple(labels)

    def name(self, entry: FrameEntry, axis: str, value: str) -> str | None:
        """Return the name that the layout gives a value, with the options that it mentions; None without one."""
        if axis not in entry.axes:  # a borrowed label, or nothing
            return self.layout.names.get("system" if value else axis, {}).get(value)
        names = self.layout.names.get(axis, {})
        name = _find_name(names, entry, axis)
        return None if name is None else names[name].format_map(_list_options(entry, axis))

    def build_column(self, entries: Sequence[FrameEntry], depth: int) -> Column:
        """Build the column of some entries; it says what its cells are if the measured values are the columns."""
        first = entries[0]
        labels = tuple(label for label in self.label(first) if label)
        levels = (labels + ("",) * depth)[:depth] if depth > 1 else ()
        kinds = {(q.metric, q.key, q.title, q.direction, q.gap, q.target) for q in (e.quantity for e in entries)}
        if self.measure not in self.axes or len(kinds) > 1:
            text = ", ".join(labels)
            return Column("", text, text, levels=levels, names_system=True)
        at = self.axes.index(self.measure)
        title = self.name(first, self.measure, "")
        title = first.quantity.title if title is None else title
        others = [label for axis, value in zip(self.axes, self.locate(first), strict=True) if axis != self.measure
                  for label in [self.name(first, axis, value) or first.titles.get(axis, value)] if label]  # fmt: skip
        if " | " in title:
            title, *inner = title.split(" | ")
            others += inner
        if others and title:
            title = f"{', '.join(others)}: {title}" if at else f"{title} ({', '.join(others)})"
        values = {f.name: getattr(first.quantity, f.name) for f in fields(Quantity)}
        values["interval"] = any(entry.quantity.interval for entry in entries)
        if not self.layout.arrows:
            values |= {"direction": "none", "target": None}
        return Column(**values | {"title": title or ", ".join(others)}, levels=levels)

    def find_contest(self, entry: FrameEntry) -> Key:
        """Return what the entries that an entry competes with share: the measured value, and the outermost task."""
        if self.measure in self.axes:
            return tuple(entry.axes.get(axis, "") for axis in self.axes)
        return self.label(entry)[:1] if self.axes[0] == "task" else ()

    def find_section(self, key: Key, labels: Sequence[str]) -> tuple[str, ...]:
        """Return what draws a line where it changes: values of the layout's axes, else the outermost of the labels."""
        if not self.layout.lines:
            return tuple(labels[:1]) if len(labels) > 1 else ()
        return tuple(value for axis, value in zip(self.axes, key, strict=True) if axis in self.layout.lines)


def _list_keys(entry: FrameEntry, axis: str) -> list[str]:
    """Return the words under which a layout may name an entry's value of an axis."""
    return [values[axis] for values in (entry.axes, entry.settings) if axis in values]


def _list_options(entry: FrameEntry, axis: str) -> dict[str, str]:
    return {k.removeprefix(f"{axis}."): v for k, v in entry.settings.items() if k.startswith(f"{axis}.")}


def _find_name(names: Iterable[str], entry: FrameEntry, axis: str) -> str | None:
    """Return the first key of some names that fits: the value, or the value and options of it (`beam num_beams=4`)."""
    keys, options = _list_keys(entry, axis), _list_options(entry, axis)
    for name in names:
        word, *words = name.split(" ")
        typed = dict(each.split("=", 1) for each in words if "=" in each)
        if name in keys or (word in keys and len(typed) == len(words) > 0 and typed.items() <= options.items()):
            return name
    return None


def _convert(entry: FrameEntry, layout: Layout) -> FrameEntry:
    """Return an entry with the unit, decimals, uncertainty and bold face that a layout asks for."""
    cell, quantity = entry.cell, entry.quantity
    names = [f"{quantity.metric}.{quantity.key}", *_list_keys(entry, "metric"), "*"]
    unit = next((layout.units[name] for name in names if name in layout.units), "fraction")
    if (factor := UNITS[unit]) != 1:
        interval = cell.interval and (factor * cell.interval[0], factor * cell.interval[1])
        human = cell.human and replace(cell.human, mean=factor * cell.human.mean)
        cell = replace(
            cell, value=factor * cell.value, sd=factor * cell.sd, metric_error=factor * cell.metric_error,
            interval=interval, human=human,
        )  # fmt: skip
        title = f"{quantity.title} (%)" if unit == "percent" else quantity.title
        target = quantity.target and factor * quantity.target
        quantity = replace(quantity, title=title, decimals=max(0, (quantity.decimals or 0) - 2), target=target)
    decimals, significant = (
        next((numbers[name] for name in names if name in numbers), None)
        for numbers in (layout.decimals, layout.significant)
    )
    if decimals is not None:
        cell, quantity = replace(cell, decimals=None), replace(quantity, decimals=decimals)
    elif significant is not None and math.isfinite(cell.value):
        size = math.floor(math.log10(abs(cell.value))) if cell.value else 0
        cell = replace(cell, decimals=max(0, significant - 1 - size))
    missing = next((layout.missing[name] for name in names if name in layout.missing), None)
    if missing is not None and not (math.isfinite(cell.value) or cell.words):
        cell = replace(cell, words=missing, blank=not missing)
    printed = UNCERTAINTIES[layout.uncertainty]
    cell = replace(cell, **{name: hidden for name, hidden in _HIDDEN.items() if name not in printed})
    quantity = replace(quantity, interval=quantity.interval and "interval" in printed)
    if layout.bold != "tests":
        cell, quantity = replace(cell, best=False), replace(quantity, bold="")
    return replace(entry, cell=cell, quantity=quantity)


def _build_cell(entry: FrameEntry | None, column: Column) -> Cell:
    """Return the cell of an entry, which says what it is where its column does not."""
    if entry is None:
        return BLANK
    quantity = entry.quantity
    is_same = (column.key, column.signature, column.bold) == (quantity.key, quantity.signature, quantity.bold)
    return entry.cell if is_same else replace(entry.cell, quantity=quantity)


def _mark_contest(entries: Sequence[FrameEntry]) -> list[FrameEntry]:
    """Mark the best printed values among systems or metrics, without a test."""
    kinds = ["model" if entry.role not in ("human", "summary") else entry.role for entry in entries]
    quantity, cells = mark_best(entries[0].quantity, [entry.cell for entry in entries], kinds, tested=False)
    return [_mark(e, quantity.bold, best=cell.best) for e, cell in zip(entries, cells, strict=True)]


def _mark(entry: FrameEntry, rule: BoldRule, *, best: bool) -> FrameEntry:
    return replace(entry, cell=replace(entry.cell, best=best), quantity=replace(entry.quantity, bold=rule))
