"""Panels of metrics: every metric by system, metrics against a swept setting, and metrics against model sizes."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from openended.harness import results as measured
from openended.harness.core import escape_mathtext, parse_signature
from openended.harness.report.figures import drawing
from openended.harness.report.figures.drawing import DEFAULT, HUMAN_COLOR, MOST, PAGE, Part, SystemStyles
from openended.harness.report.tables.frame import arrow
from openended.harness.report.tables.selection import make_slug, select_pairs
from openended.harness.results import FACTS, STEP, TRAINING, Layout, Results, SystemValue, find_human_value, is_readable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PER_ROW = 4
_WIDE, _SMALL = 22, 6.5  # letters beyond which a title touches the next one, and the size that it has then
TITLES = {
    "max_new_tokens": "maximum length (tokens)", "max_length": "maximum length (tokens of the embedder)",
    "num_examples": "N (examples)", "p": "nucleus p", "k": "top-k k", "option.k": "neighbors k", STEP: "training step",
    "option.num_buckets": "number of clusters k", "option.scaling_factor": "scaling constant c",
    "model": "size of the model",
}  # fmt: skip
FIELDS = {"num_examples": "n", "max_new_tokens": "length", "embedder.max_length": "embedder"}  # of the signature
CROWDED = 30  # points: with more, markers hide the line
LEAST = 3  # points that make a curve
SWEEPS_PER_ROW = 3


@drawing.draw_each_part("metrics", legend=0)
def metric_panels(part: Part) -> Figure | None:
    """Draw all primary values: each system's mean with its interval, and the human value as a line."""
    from matplotlib.ticker import MaxNLocator

    panels = []  # values of the systems, all values with these options, and the options
    for metric, key in select_pairs(part.values, Layout()):
        for options, items in measured.group_by_options(part.values, metric).items():
            values = [i for i in items if i.system == "model" and i.key == key and math.isfinite(i.mean)]
            panels += [(values, items, options)] if values else []
    systems = [s for s in measured.group_systems(part.values) if any(math.isfinite(i.mean) for i in s.items)]
    if not panels or not systems:
        return None
    firsts = [system.items[0] for system in systems[:MOST]]
    ranks = {tuple(item.axes.items()): rank for rank, item in enumerate(firsts)}
    names = [escape_mathtext(system.name) for system in systems[:MOST]]
    styles = [
        {**style, "linestyle": "", "label": name}
        for name, style in zip(names, part.styles.choose(firsts), strict=True)
    ]  # fmt: skip
    figure, axes = drawing.create_panels(
        len(panels), 0.52 + 0.17 * len(names), per_row=PER_ROW, width=PAGE, sharey=True
    )  # fmt: skip
    for panel, (values, items, options) in zip(axes, panels, strict=True):
        visible = {rank: value for value in values if (rank := ranks.get(tuple(value.axes.items()))) is not None}
        for rank, value in sorted(visible.items()):
            error = [[length] for length in value.reach] if any(value.reach) else None
            panel.errorbar([value.mean], [rank], xerr=error, **styles[rank])
        humans = [find_human_value(items, value) for value in visible.values()]
        for mean in dict.fromkeys(human.mean for human in humans if human and math.isfinite(human.mean)):
            panel.axvline(mean, color=HUMAN_COLOR, linestyle="--", linewidth=0.9)
            figure.supxlabel("dashed line: the human text", fontsize=7)
        first = visible[min(visible)] if visible else None
        title = f"{first.title} {arrow(first.direction, first.target)}".rstrip() if first is not None else ""
        lines = list(filter(None, (title, *escape_mathtext(options).split(", "))))
        heading = panel.set_title("\n".join(lines))
        if max(map(len, lines), default=0) > _WIDE:
            heading.set_fontsize(_SMALL)
        panel.grid(visible=True, axis="both")
        panel.tick_params(axis="y", length=0)
        panel.margins(x=0.12)
        panel.xaxis.set_major_locator(MaxNLocator(nbins=4))
    for panel in axes[::PER_ROW]:
        panel.set_yticks(range(len(names)), names)
    axes[0].set_ylim(len(names) - 0.5, -0.5)
    if len(systems) > MOST:
        figure.suptitle(f"the first {MOST} of {len(systems)} systems", fontsize=7)
    return figure


class Line(NamedTuple):
    """One curve: points of a system that differ only in the swept value."""

    label: str
    points: tuple[tuple[float, SystemValue], ...]


def sweeps(results: Results, styles: SystemStyles, layout: Layout = DEFAULT) -> Mapping[str, Figure]:
    """Draw every axis or option that takes three or more numbers while all else stays the same.

    The layout chooses the metrics, and whether distances to the human value are drawn.
    """
    items = results.values
    models = [i for i in items if i.system == "model" and math.isfinite(i.mean)]
    requests = {
        f"sweep-{make_slug(axis)}": (items, axis)
        for axis in (models[0].axes if models else ())
        if is_readable(axis) and _has_enough_numbers([i.axes.get(axis, "") for i in models])
    }
    for metric in dict.fromkeys(i.metric for i in models):
        # Facts of the data (`n`) are axes already.
        fields = [parse_signature(s) for s in dict.fromkeys(i.signature for i in models if i.metric == metric)]
        options = [name for name in fields[0] if name not in ("v", "n")]
        for option in options:
            if _has_enough_numbers([f.get(option, "") for f in fields]):
                values = [i for i in items if i.metric == metric]
                requests[f"sweep-{metric}-{make_slug(option)}"] = values, f"option.{option}"
    figures = {name: sweep(values, axis, styles, layout) for name, (values, axis) in requests.items()}
    return {name: figure for name, figure in figures.items() if figure is not None}


def _has_enough_numbers(texts: Sequence[str]) -> bool:
    return len({_parse_number(text) for text in texts} - {None}) >= LEAST


def sweep(
    items: Sequence[SystemValue], axis: str, styles: SystemStyles, layout: Layout = DEFAULT, *,
    names: Mapping[str, str] = MappingProxyType({}),
) -> Figure | None:  # fmt: skip
    """Draw metrics against one axis (`max_new_tokens`, `decoder.p`, …) or one option (`option.scaling_factor`).

    One line per system, bands of one standard deviation over seeds (of one seed: its 95 % interval over examples), the
    human value dashed. A line has the color of the system at its first point. Nothing is drawn where no
    system has three values of the axis. `names`: of an axis without numbers, its values in order, with their titles.
    """
    panels: list[list[Line]] = []
    for pair in select_pairs(items, Layout(metrics=layout.metrics)):
        finite = [i for i in measured.select_values(items, *pair) if math.isfinite(i.mean)]
        lines = group_into_lines(finite, axis, list(names))
        panels += [lines] if lines else []
    if not panels:
        return None
    labels = sorted({line.label for lines in panels for line in lines}, key=measured.make_natural_sort_key)[:MOST]
    first = {line.label: line.points[0][1] for lines in reversed(panels) for line in lines}
    chosen = dict(zip(labels, styles.choose([first[label] for label in labels]), strict=True))
    per_row = 2 if len(panels) == 4 and layout.metrics else SWEEPS_PER_ROW
    figure, axes = drawing.create_panels(len(panels), 1.75, per_row=per_row)
    sides = [i for i in items if i.system == "human" or (i.system == "ceiling" and axis == STEP)]
    for panel, lines in zip(axes, panels, strict=True):
        like = lines[0].points[0][1]
        is_gap = layout.gaps and like.direction == "match_human"
        humans: dict[float, float] = {}
        ceilings: dict[float, float] = {}
        for label, points in (line for line in lines if line.label in labels):
            x, y = [value for value, _ in points], np.array([i.mean for _, i in points])
            targets = [human.mean if (human := find_human_value(sides, i)) else math.nan for _, i in points]
            if is_gap:
                y = np.abs(y - targets)
            else:
                humans |= {value: target for value, target in zip(x, targets, strict=True) if math.isfinite(target)}
                ceilings |= {value: i.mean for i in sides for value, point in points if _is_ceiling(i, point)}
            style = {**chosen[label], **({"marker": ""} if len(x) > CROWDED else {})}
            panel.plot(x, y, label=label, **style)
            below, above = np.transpose([i.reach for _, i in points])
            if below.any() or above.any():
                panel.fill_between(x, y - below, y + above, color=style["color"], alpha=0.18, linewidth=0)
        for name, values, dash in (("human", humans, "--"), ("human ceiling", ceilings, ":")):
            if values:
                panel.plot(*zip(*sorted(values.items()), strict=True), color=HUMAN_COLOR, linestyle=dash, label=name)
        swept = [value for line in lines for value, _ in line.points]
        if names:
            panel.set_xticks(range(len(names)), list(names.values()))
        elif min(swept) > 0 and max(swept) / min(swept) >= 20:
            panel.set_xscale("log")
        title = f"|Δ {like.title}| {arrow('lower')}" if is_gap else f"{like.title} {arrow(like.direction, like.target)}"
        short = axis.rpartition(".")[2]
        xlabel = escape_mathtext(TITLES.get(axis) or TITLES.get(short, short.replace("_", " ")))
        panel.set(title=title.rstrip(), xlabel=xlabel)
    drawing.add_legend(figure, 2 if len(panels) == 1 else 4)
    return figure


def _is_ceiling(side: SystemValue, item: SystemValue) -> bool:
    """Return whether a value is the human ceiling of a system's value with as many texts."""
    same = (side.system, side.pair, side.signature) == ("ceiling", item.pair, item.signature)
    return same and measured.has_same_data(side, item) and item.direction != "match_human"


def group_into_lines(items: Sequence[SystemValue], axis: str, order: Sequence[str] = ()) -> list[Line]:
    """Group points that share all but the swept value: a number, or the index in `order`."""
    # The axes show who truncated the texts and how; all of these fields change with the length or the task's options.
    skipped = {axis.removeprefix("option."), FIELDS.get(axis, ""), "texts"}
    skipped |= {"task"} if measured.get_parent_axis(axis) == "task" else set()
    varying = measured.CHECKPOINT_AXES if axis in (STEP, "model") else (axis,)
    groups: dict[tuple[tuple[str, str], ...], dict[float, SystemValue]] = {}
    for item in items:
        fields = parse_signature(item.signature)
        swept = item.axes if not axis.startswith("option.") else {axis: fields.get(axis.removeprefix("option."), "")}
        text = swept.get(axis, "")
        value = _parse_number(text) if not order else order.index(text) if text in order else None
        if value is not None:
            fixed = {k: v for k, v in item.axes.items() if k not in (*varying, "task.texts")}
            fixed |= {f"option.{k}": v for k, v in fields.items() if k not in skipped}
            groups.setdefault(tuple(sorted(fixed.items())), {})[value] = item
    least = min(LEAST, len(order) or LEAST)
    series = [(dict(fixed), sorted(points.items())) for fixed, points in sorted(groups.items()) if len(points) >= least]
    # A line is named like a system that lacks the swept value. A decoder's title includes its options, so along one of
    # them it is its name, and the other options are named if they differ.
    like_systems = []
    for fixed, ((_, item), *_) in series:
        model = fixed[TRAINING] if axis == STEP else "" if axis == "model" else item.titles[0]
        decoder = fixed.get("decoder", "") if axis.startswith("decoder.") else item.titles[1]
        named = {TRAINING, *(f"option.{fact}" for fact in FACTS)}  # elsewhere: in the title of the model, in the table
        axes = {name: value for name, value in fixed.items() if name not in named}
        like_systems.append(dataclasses.replace(item, axes=axes, titles=(model, decoder)))
    labels = map(escape_mathtext, measured.label_systems(like_systems))
    return [Line(label, tuple(points)) for label, (_, points) in zip(labels, series, strict=True)]


def _parse_number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def size_curves(results: Results, styles: SystemStyles, layout: Layout = DEFAULT) -> Mapping[str, Figure]:
    """Draw metrics against the models that a layout names, one line per decoder and embedder (MAUVE Fig. 5, left)."""
    names = layout.names.get("model", {}) if layout.analysis == "embedders" else {}
    figure = sweep(results.values, "model", styles, layout, names=names) if names else None
    return {"sizes": figure} if figure is not None else {}
