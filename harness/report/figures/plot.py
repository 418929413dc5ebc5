"""What a figure shows, as plain numbers: series of points in panels; and how the figure is declared."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeVar

from openended.harness import results as measured
from openended.harness.core import SpecError, suggest
from openended.harness.report.tables.pictures import COLORS, SystemStyles, choose_style
from openended.harness.report.tables.selection import find_name, list_options, select_pairs
from openended.harness.results import Layout, Pair, Results, System, SystemValue

T = TypeVar("T")
MOST = 20  # systems that one figure can show distinctly
MARKERS_PER_CURVE = 6
CROWDED = 30  # points: with more, markers hide the line
FAR = 20  # times the smallest value: an axis is logarithmic from there on
Mark = Literal[
    "line", "curve", "path", "dots", "step", "bars", "columns", "cross", "span", "ellipse", "region", "cells", "plane"
]
"""How a series is drawn. `line`, `curve` (few markers): with a band; `path`, `dots`: with error bars; `step`; `bars`:
across; `columns`; `cross`: lines through a point, across the panel; `span`: a line across, with a band; `ellipse`: two
standard deviations; `region`: a filled area; `cells`: of a heat map; `plane`: shaded, with the line of 0."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Series:
    """Points that are drawn alike, with one entry in the legend."""

    mark: Mark = "line"
    x: Any = ()
    y: Any = ()
    label: str = ""  # in the legend; empty: none
    below: Any = None  # lengths of the band or of error bars
    above: Any = None
    left: Any = None
    right: Any = None
    texts: Sequence[tuple[int, str]] = ()  # index of a point and its label
    axes: Mapping[str, str] = field(default_factory=dict)  # what it is: the axes of its system, `metric`, …
    like: SystemValue | None = None  # the system that it has the color of
    style: str = ""  # the label that it shares color, marker and dash with; empty: its own
    look: Mapping[str, Any] = field(default_factory=dict)  # of matplotlib
    z: Any = None  # the matrix of cells and planes
    cells: Any = None  # the texts of cells, and whether each is dark

    @property
    def identity(self) -> str:
        """What it shares with the series of its system."""
        return self.style or self.label


class Panel(NamedTuple):
    """The series of one panel, its name in declarations, and its options."""

    series: Sequence[Series]
    name: str = ""
    options: Mapping[str, Any] = {}


class Plot(NamedTuple):
    """The panels of a figure, a note under them, and what its declaration cannot know."""

    panels: Sequence[Panel]
    note: str = ""
    changes: Mapping[str, Any] = {}  # of the declaration


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """Options of a figure: in `figures.yaml`, and in `figures` of a layout."""

    analysis: str
    """`module:function` of this folder: what it shows."""
    title: str = ""
    caption: str = ""
    needs: tuple[str, ...] = ()
    """Metrics of which the runs must have one."""
    optional: bool = False
    """Whether it is drawn only for layouts that name it."""
    parts: str = "task"
    """One figure per `task`, per task and options of this metric, or one of `all`."""
    metrics: tuple[str, ...] = ()
    """`metric`, `metric.key` or `metric.*`, in order; empty: those of the layout."""
    x: tuple[str, ...] = ()
    """The axis of a sweep, or several; empty: every axis with three numbers or more."""
    lines: tuple[str, ...] = ()
    """Axes that name the lines; `metric`: all metrics in one panel. Empty: the axes in which the systems differ."""
    names: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Axis → value → its name, in the order of the legend; the axis `label`: of whole entries."""
    where: Mapping[str, Any] = field(default_factory=dict)
    """Axis → accepted value, or several joined by `|`."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of the analysis."""
    panels: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Name of a panel → its options, in this order. A panel with `where` shows the series with these axes."""
    panel: Mapping[str, Any] = field(default_factory=dict)
    """Options of every panel, as of `matplotlib.axes.Axes.set`, and those of `draw.py`."""
    height: float = 2.5
    width: float | None = None
    """Inches, the height of one row of panels. Without: a column of a paper for one panel, else a page."""
    per_row: int = 3
    sharey: bool = False
    legend: int = 3
    """Most columns of the legend; 0: none."""

    def change(self, changes: Mapping[str, Any], where: str = "figure") -> "Declaration":
        """Return the declaration with other options; mappings are merged."""
        mine = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        for name in changes:
            if name not in mine:
                raise SpecError(f"{where}: no option {name!r}{suggest(name, mine)}")
        for name, node in changes.items():
            mine[name] = tuple(node or ()) if isinstance(mine[name], tuple) else merge(mine[name], node)
        return Declaration(**mine)


def merge(first: Any, second: Any) -> Any:  # noqa: ANN401 - nodes of YAML
    """Return the second node; mappings are merged, what the second has comes first."""
    if not (isinstance(first, Mapping) and isinstance(second, Mapping)):
        return {} if second is None and isinstance(first, Mapping) else second
    return {name: merge(first.get(name), node) for name, node in {**second, **first, **second}.items()}


class Part(NamedTuple):
    """What an analysis reads: values that one figure may show together, and what all figures of a report share."""

    results: Results
    layout: Layout
    values: Sequence[SystemValue]
    declaration: Declaration

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that the figure shows; empty: all."""
        metrics = self.layout.metrics and (*self.layout.metrics, *map(".".join, self.targets))
        return self.declaration.metrics or metrics

    @property
    def targets(self) -> list[Pair]:
        """The values that a table of correlations compares metrics with; empty for other tables."""
        is_compared = self.layout.analysis == "correlation" and self.layout.targets
        return select_pairs(self.values, self.layout.targets, companions=False) if is_compared else []

    def convert_values(self, items: Sequence[SystemValue]) -> Sequence[SystemValue]:
        """Return values as the layout compares them: as they are, or as distances to the human value."""
        items = measured.take_logarithms(items) if self.layout.gaps == "log" else items
        return measured.take_distances(items) if self.layout.gaps else items

    def select_systems(self, pair: Pair) -> tuple[list[System], str]:
        """Return the systems with a value that a figure can show, in declared order, and a note if there are more."""
        systems, note = keep_first([s for s in measured.group_systems(self.values) if s.value(*pair) is not None])
        order = list(self.declaration.names.get("label", ()))
        return sorted(systems, key=lambda s: order.index(s.name) if s.name in order else len(order)), note

    def name(self, axis: str, value: str) -> str:
        """Return the declared name of a value of an axis."""
        return self.declaration.names.get(axis, {}).get(value, value)

    def name_group(self, item: SystemValue) -> list[str]:
        """Return what the figure or its layout calls a system on the axes in the option `groups`, level by level."""
        words = []
        for axis in self.declaration.options.get("groups", ()):
            names = self.declaration.names.get(axis) or self.layout.names.get(axis, {})
            titles = dict(zip(("model", "decoder"), item.titles, strict=True))
            name = find_name(names, axis, item.axes)
            text = titles.get(axis, item.axes.get(axis, "")) if name is None else names[name]
            words += text.format_map(list_options(axis, item.axes)).split(" | ")
        return list(filter(None, words))


Analysis = Callable[[Part], "Plot | Mapping[str, Plot] | None"]


def keep_first(systems: Sequence[T]) -> tuple[Sequence[T], str]:
    """Return the systems that one figure can show, and a note for it where that is not all."""
    return systems[:MOST], f"the first {MOST} of {len(systems)} systems" if len(systems) > MOST else ""


def limit_systems(plot: Plot) -> Plot:
    """Keep the series of the systems that one figure can show."""
    every = dict.fromkeys(s.identity for panel in plot.panels for s in panel.series if s.like is not None)
    first, note = keep_first([*every])
    panels = [
        panel._replace(series=[s for s in panel.series if s.identity in first or s.identity not in every])
        for panel in plot.panels
    ]
    return plot._replace(panels=panels, note="; ".join(filter(None, (plot.note, note))))


def matches(axes: Mapping[str, str], where: Mapping[str, Any]) -> bool:
    """Return whether axes have the accepted values."""
    return all(axes.get(axis, "") in str(values).split("|") for axis, values in where.items())


def drop_embedders(items: Sequence[SystemValue], *, all_metrics: bool = False) -> Sequence[SystemValue]:
    """Return the values of a grid over embedders, those of metrics that read none (or of all) without this axis.

    Of values that are equal then, the first is kept.
    """
    if len({item.axes.get("embedder") for item in items}) < 2:
        return items
    values: dict[Any, SystemValue] = {}
    for item in items:
        is_read = "embedder" in item.fields and not all_metrics
        axes = {a: v for a, v in item.axes.items() if is_read or "embedder" not in (a, measured.get_parent_axis(a))}
        key = item.system, item.pair, item.signature, tuple(axes.items())
        values.setdefault(key, dataclasses.replace(item, axes=axes))
    return list(values.values())


def list_axes(item: SystemValue) -> dict[str, str]:
    """Return the axes of a value, its metric, and the metric's options as `option.name`."""
    options = {f"option.{name}": text for name, text in item.fields.items()}
    return {**options, "metric": ".".join(item.pair), **item.axes}


def arrange_panels(plot: Plot, declaration: Declaration) -> list[Panel]:
    """Choose and order the panels and their series as the declaration says; panels without series are left out."""
    chosen: list[Panel] = []
    for name, node in declaration.panels.items():
        options = {key: value for key, value in node.items() if key != "where"}
        for panel in plot.panels:
            if panel.name == name or "where" in node:
                series = [s for s in panel.series if not s.axes or matches(s.axes, node.get("where", {}))]
                if "where" not in node or any(s.axes for s in series):
                    chosen.append(Panel(series, name, {**panel.options, **declaration.panel, **options}))
    names = declaration.names.get("label", {})
    declared = list(names.values())

    def rank(series: Series) -> int:
        return declared.index(series.label) if series.label in declared else len(declared)

    panels = []
    for panel in chosen or plot.panels:
        named = [dataclasses.replace(s, label=names.get(s.label, s.label)) for s in panel.series]
        visible = panel.options if chosen else {**panel.options, **declaration.panel}
        panels.append(Panel(sorted(named, key=rank), panel.name, visible))
    return panels


def style_panels(plot: Plot, declaration: Declaration, styles: SystemStyles) -> list[Panel]:
    """Return the panels that a declaration chooses as they are drawn: with their labels and the look of each series."""
    panels = arrange_panels(plot, declaration)
    looks = choose_looks(panels, styles, declaration.lines)
    styled = []
    for index, panel in enumerate(panels):
        series = [dataclasses.replace(s, look=find_look(s, looks, panel)) for s in panel.series]
        is_first = index % declaration.per_row == 0 and "outer" in panel.options
        label = {"ylabel": panel.options["outer"]} if is_first else {}
        styled.append(Panel(series, panel.name, {**panel.options, **label}))
    return styled


def choose_looks(panels: Sequence[Panel], styles: SystemStyles, axes: Sequence[str] = ()) -> dict[str, dict[str, Any]]:
    """Return what series share, such as a label → color, marker and dash: equal in all panels of a figure.

    Of several axes the first chooses the color, the others marker and dash.
    """
    firsts: dict[str, Series] = {}
    for series in (s for panel in panels for s in panel.series if "color" not in s.look):
        firsts.setdefault(series.identity, series)
    likes = {name: s.like for name, s in firsts.items() if s.like is not None}
    chosen = dict(zip(likes, styles.choose(list(likes.values())), strict=True))
    looks = {name: chosen.get(name) or choose_style(index) for index, name in enumerate(firsts)}
    if len(axes) > 1:
        values = {name: [s.axes.get(axis, "") for axis in axes] for name, s in firsts.items()}
        colors, others = list(dict.fromkeys(v[0] for v in values.values())), list[list[str]]()
        for name, (first, *rest) in values.items():
            others += [rest] if rest not in others else []
            looks[name] = choose_style(others.index(rest)) | {"color": COLORS[colors.index(first) % len(COLORS)]}
    return looks


def find_look(series: Series, looks: Mapping[str, Any], panel: Panel) -> dict[str, Any]:
    """Return color, marker, dash and other options of a series; of a heat map those of its image."""
    if series.mark == "cells":
        return dict(series.look)
    look = {**looks.get(series.identity, choose_style(0)), **series.look}
    if series.mark == "line" and len(series.x) > CROWDED:
        look["marker"] = ""
    if series.mark == "curve":
        curves = list(dict.fromkeys(s.label for s in panel.series if s.mark == "curve"))
        count, step = len(series.x), max(1, len(series.x) // MARKERS_PER_CURVE)
        first = step * curves.index(series.label) // len(curves)  # staggered, so that coinciding curves show
        look = {"markevery": (min(count - 1, first), step)} | look
    return look
