"""Draw the figures of a report or a search: the one module of this folder that others import."""

import importlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openended.harness import core, results as measured
from openended.harness.report.analysis.lines import LEAST
from openended.harness.report.figures.plot import (
    Analysis,
    Declaration,
    Part,
    Plot,
    drop_embedders,
    limit_systems,
    list_axes,
    matches,
)
from openended.harness.report.tables.pictures import Picture, SystemStyles
from openended.harness.report.tables.selection import find_name, name_files
from openended.harness.results import Layout, Results, SystemValue
from openended.harness.storage import warn_of_failure

if TYPE_CHECKING:
    from openended.harness.results import SearchResult

log = logging.getLogger(__name__)
FigureEntry = tuple[Any, str, Plot, Declaration]
"""A figure of Matplotlib, the stem of its files, and what it shows."""


@cache
def read_declarations() -> dict[str, Declaration]:
    """Return name → declared figure, in the order of a report."""
    text = (resources.files("openended.harness.report.figures") / "figures.yaml").read_text(encoding="utf-8")
    return {
        name: Declaration(analysis="").change(node, f"figure {name}") for name, node in core.parse_yaml(text).items()
    }


def choose_figures(results: Results, layouts: Sequence[Layout]) -> dict[str, tuple[Declaration, Layout]]:
    """Return the figures for which there may be data, each with the layout that names it, or with the first.

    A layout changes a figure (`figures: {sweep: {metrics: [mauve]}}`), adds one (a new name, and `like: sweep`), or
    leaves one out (`null`).
    """
    metrics = {value.metric for value in results.values}
    chosen: dict[str, tuple[Declaration, Layout]] = {}
    declared = read_declarations()
    if layouts[0].figures is not None:
        chosen = {name: (figure, layouts[0]) for name, figure in declared.items() if not figure.optional}
    for layout in layouts:
        for name, changes in (layout.figures or {}).items():
            options = dict(changes or {})
            base = declared.get(str(options.pop("like", name)))
            if base is None:
                raise core.SpecError(
                    f"report.figures: no figure {name!r}; there are {', '.join(declared)}; like: NAME adds one"
                )
            chosen.pop(name, None)
            if changes is not None:
                chosen[name] = base.change(options, f"report.figures.{name}"), layout
    order = [*(name for name in chosen if name not in declared), *declared]
    in_order = {name: chosen[name] for name in order if name in chosen}
    return {name: both for name, both in in_order.items() if not both[0].needs or metrics & set(both[0].needs)}


def load_analysis(declaration: Declaration) -> Analysis:
    """Import what a declaration names, and nothing else."""
    module, _, function = declaration.analysis.partition(":")
    analysis: Analysis = getattr(importlib.import_module(f"openended.harness.report.figures.{module}"), function)
    return analysis


def split_values(results: Results, declaration: Declaration) -> Mapping[Any, Sequence[SystemValue]]:
    """Return what distinguishes the figures of a declaration → the values of each."""
    where = declaration.where
    values = drop_embedders(
        [i for i in results.values if not where or i.system != "model" or matches(list_axes(i), where)]
    )
    if declaration.parts == "all":
        return {(): values}
    if declaration.parts == "task":
        return {(task,): part for task, part in measured.group_by_data(values).items()}
    members = [i for i in values if i.metric == declaration.parts]
    if members and all(i.is_judged_alone for i in members):  # each file of ratings would be a task
        return {("", options): part for options, part in measured.group_by_options(members, declaration.parts).items()}
    return measured.group_by_task_and_options(values, declaration.parts)


def rank_as_in_table(values: Sequence[SystemValue], layout: Layout) -> Sequence[SystemValue]:
    """Return values whose systems are sorted as a layout names the values of an axis, and others after these."""
    names = {axis: layout.list_values(axis) for axis in (*layout.order, *layout.names)}

    def rank(item: SystemValue, axis: str) -> dict[str, float]:
        if axis not in item.axes:
            return {}
        name = find_name(names[axis], axis, item.axes)
        after = len(names[axis]) + measured.find_typed_rank(item, axis)
        return {item.axes[axis]: names[axis].index(name) if name is not None else after}

    return [replace(item, ranks={**item.ranks, **{axis: rank(item, axis) for axis in names}}) for item in values]


def build_plots(name: str, results: Results, layout: Layout, declaration: Declaration) -> dict[str, Plot]:
    """Return stem of a file → its plot; figures of several parts are named by what distinguishes these."""
    analysis = load_analysis(declaration)
    plots: list[tuple[tuple[str, ...], Mapping[str, Plot]]] = []
    for key, values in split_values(results, declaration).items():
        shows = analysis(Part(results, layout, rank_as_in_table(values, layout), declaration))
        named = shows if isinstance(shows, Mapping) else {"": shows} if shows is not None else {}
        plots += [(key, {end: limit_systems(plot) for end, plot in named.items()})] if named else []
    differ = [at for at, words in enumerate(zip(*(key for key, _ in plots), strict=True)) if len(set(words)) > 1]
    stems = name_files(name, [[key[at] for at in differ] for key, _ in plots])
    return {f"{stem}{end}": plot for stem, (_, ends) in zip(stems, plots, strict=True) for end, plot in ends.items()}


def draw_all(
    results: Results, folder: Path, layouts: Sequence[Layout] = (Layout(),), failures: list[str] | None = None
) -> list[Picture]:
    """Draw every figure that the runs have data for, as the layouts say; those that fail are added to `failures`."""
    failures = [] if failures is None else failures
    styles = SystemStyles(results.values)
    pictures: list[Picture] = []
    for name, (declaration, layout) in choose_figures(results, layouts).items():
        with warn_of_failure(f"no figure {name}", failures):
            try:
                plots = build_plots(name, results, layout, declaration)
            except core.SpecError as err:  # runs of several experiments in one report: the tables say the rest
                log.warning("no figure %s: %s", name, err)
                continue
            if declaration.x and not plots:
                log.warning("no figure %s: no line of %s values of %s", name, LEAST, " or ".join(declaration.x))
            pictures += _draw_figures(plots, folder, dict.fromkeys(plots, declaration), styles, name)
    return pictures


def draw_search(searched: "SearchResult", folder: Path) -> list[Picture]:
    """Draw the figures of a search."""
    from openended.harness.report.figures.search import show_search

    plots = show_search(searched)
    declared = Declaration(analysis="", height=2.2)
    shared = declared.change({"height": 1.8, "sharey": True})
    by_name = {name: shared if name.startswith("search-parameters") else declared for name in plots}
    return _draw_figures(plots, folder, by_name, SystemStyles([]))


def draw_plots(plots: Mapping[str, Plot], folder: Path, title: str, caption: str) -> list[Picture]:
    """Draw plots that are not of a report, by the stem of their files."""
    declared = dict.fromkeys(plots, Declaration(analysis="", title=title, caption=caption))
    return _draw_figures(plots, folder, declared, SystemStyles([]))


def _draw_figures(
    plots: Mapping[str, Plot], folder: Path, declared: Mapping[str, Declaration], styles: SystemStyles, name: str = ""
) -> list[Picture]:
    """Draw plots by the stem of their files."""
    from openended.harness.report.figures import drawing  # with Matplotlib, which takes long

    with drawing.apply_style():
        figures = [(drawing.draw_plot(plot, declared[stem], styles), stem) for stem, plot in plots.items()]
        entries = [(figure, stem, plots[stem], declared[stem]) for figure, stem in figures if figure is not None]
        return save_pictures(entries, folder, styles, name)


def save_pictures(figures: Sequence[FigureEntry], folder: Path, styles: SystemStyles, name: str) -> list[Picture]:
    """Write drawn figures with their content for the page; their titles say what follows the name in their stems."""
    from openended.harness.report.figures import drawing, interactive

    pictures = []
    for figure, stem, plot, declaration in figures:
        rest = "" if len(declaration.x) == 1 else stem.removeprefix(name).strip("-").replace("_", " ")
        title = ": ".join(filter(None, (declaration.title, rest)))
        content = interactive.describe_plot(plot, declaration, styles)
        pictures.append(Picture(drawing.save(figure, folder, stem), title, declaration.caption, content))
    return pictures
