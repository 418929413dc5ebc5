"""Curves of a metric against a swept setting: length, N, a decoder's parameter, a metric's option."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from openended.harness.core import escape_mathtext, parse_signature
from openended.harness.report.figures.drawing import (
    COLUMN,
    HUMAN_COLOR,
    MOST,
    PAGE,
    compute_legend_height,
    create_figure,
    draw_legend_below,
    hide_unused_axes,
)
from openended.harness.report.figures.styles import SystemStyles, read_styles
from openended.harness.report.tables.selection import make_slug, select_pairs
from openended.harness.report.tables.table import arrow
from openended.harness.results import (
    FACTS,
    Layout,
    Results,
    SystemValue,
    find_distinguishing_axes,
    find_human_value,
    format_option,
    get_parent_axis,
    is_readable,
    make_natural_sort_key,
    select_fewest_axes,
    select_values,
    sort_by_readability,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLES = {
    "max_new_tokens": "maximum length (tokens)", "max_length": "maximum length (tokens of the embedder)",
    "num_examples": "N (examples)", "p": "nucleus p", "k": "top-k k", "option.k": "neighbors k",
    "option.num_buckets": "number of clusters k", "option.scaling_factor": "scaling constant c",
}  # fmt: skip
FIELDS = {"num_examples": "n", "max_new_tokens": "length", "embedder.max_length": "embedder"}  # of the signature
CROWDED = 30  # points: with more, markers hide the line
LEAST = 3  # points that make a curve
PER_ROW = 3


@dataclass(frozen=True, slots=True)
class Line:
    """One curve: points of a system that differ only in the swept value."""

    label: str
    points: tuple[tuple[float, SystemValue], ...]


def sweeps(results: Results, items: Sequence[SystemValue]) -> Mapping[str, Figure]:
    """Draw every axis or option that takes three or more numbers while all else stays the same."""
    figures: dict[str, Figure] = {}
    system_styles = read_styles(results)
    models = [i for i in items if i.system == "model" and math.isfinite(i.mean)]
    for axis in _find_numeric_axes(models):
        figure = sweep(items, axis, system_styles=system_styles)
        if figure is not None:
            figures[f"sweep-{make_slug(axis)}"] = figure
    for metric in dict.fromkeys(i.metric for i in models):
        metric_items = [i for i in models if i.metric == metric]
        for option in _find_numeric_options(metric_items):
            metric_values = [i for i in items if i.metric == metric]
            figure = sweep(metric_values, f"option.{option}", system_styles=system_styles)
            if figure is not None:
                figures[f"sweep-{metric}-{make_slug(option)}"] = figure
    return figures


def sweep(
    items: Sequence[SystemValue], axis: str, metrics: Sequence[str] = (), *, system_styles: SystemStyles | None = None
) -> Figure | None:
    """Draw metrics against one axis (`max_new_tokens`, `decoder.p`, …) or one option (`option.scaling_factor`).

    One line a system, bands of one standard deviation over seeds (of one seed: its 95 % interval over examples), the
    human value dashed. A line has the color of the system at its first point. Nothing is drawn where no
    system has three values of the axis.
    """
    panels: list[tuple[tuple[str, str], list[Line]]] = []
    for pair in select_pairs(items, Layout(metrics=tuple(metrics))):
        lines = list(group_into_lines([i for i in select_values(items, *pair) if math.isfinite(i.mean)], axis))
        if lines:
            panels.append((pair, lines))
    if not panels:
        return None
    labels = sorted({line.label for _, lines in panels for line in lines}, key=make_natural_sort_key)[:MOST]
    first = {line.label: line.points[0][1] for _, lines in reversed(panels) for line in lines}
    choices = (system_styles or SystemStyles(items)).choose([first[label] for label in labels])
    styles = dict(zip(labels, choices, strict=True))
    columns = min(PER_ROW, len(panels))
    rows = math.ceil(len(panels) / columns)
    width = COLUMN if columns == 1 else PAGE
    legend = 2 if columns == 1 else 4
    figure, axes = create_figure(
        width, rows * 1.75 + 0.1 + compute_legend_height([*labels, "human"], width, legend), rows, columns
    )
    humans = [i for i in items if i.system == "human"]
    for panel, (_, lines) in zip(axes, panels, strict=False):
        _draw_panel(panel, axis, [line for line in lines if line.label in labels], styles, humans)
    hide_unused_axes(axes, len(panels))
    most = max(axes[: len(panels)], key=lambda a: len(a.get_legend_handles_labels()[1]))
    draw_legend_below(figure, most, columns=legend)
    return figure


def _draw_panel(
    panel: Axes, axis: str, lines: Sequence[Line], styles: Mapping[str, Mapping[str, Any]], sides: Sequence[SystemValue]
) -> None:
    """Draw the lines of one value; `styles` are those of the labels, `sides` the human values."""
    humans: dict[float, float] = {}
    for line in lines:
        x, y = [p for p, _ in line.points], [i.mean for _, i in line.points]
        reach = [i.reach for _, i in line.points]
        style = {**styles[line.label], **({"marker": ""} if len(x) > CROWDED else {})}
        panel.plot(x, y, label=line.label, **style)
        if any(map(any, reach)):
            low = [a - below for a, (below, _) in zip(y, reach, strict=True)]
            high = [a + above for a, (_, above) in zip(y, reach, strict=True)]
            panel.fill_between(x, low, high, color=style["color"], alpha=0.18, linewidth=0)
        for x_value, item in line.points:
            human = find_human_value(sides, item)
            if human is not None and math.isfinite(human.mean):
                humans[x_value] = human.mean
    first = lines[0].points[0][1]
    x_values = sorted({p for line in lines for p, _ in line.points})
    if humans:
        panel.plot(
            sorted(humans), [humans[p] for p in sorted(humans)], color=HUMAN_COLOR, linestyle="--", label="human"
        )
    if x_values[0] > 0 and x_values[-1] / x_values[0] >= 20:
        panel.set_xscale("log")
    panel.set_title(f"{first.title} {arrow(first.direction, first.target)}".rstrip())
    short = axis.rpartition(".")[2]
    panel.set_xlabel(escape_mathtext(TITLES.get(axis) or TITLES.get(short, short.replace("_", " "))))


def group_into_lines(items: Sequence[SystemValue], axis: str) -> Iterator[Line]:
    """Group points that share all but the swept value."""
    groups: dict[tuple[tuple[str, str], ...], dict[float, SystemValue]] = {}
    for item in items:
        value = _parse_number(_read_swept_value(item, axis))
        if value is not None:
            groups.setdefault(_read_fixed_values(item, axis), {})[value] = item
    long = {rest: points for rest, points in groups.items() if len(points) >= LEAST}
    series = sorted(long.items())
    labels = _label_lines(
        [dict(rest) for rest, _ in series], [next(iter(points.values())) for _, points in series], axis
    )
    for label, (_, points) in zip(labels, series, strict=True):
        yield Line(escape_mathtext(label), tuple(sorted(points.items())))


def _read_swept_value(item: SystemValue, axis: str) -> str:
    if axis.startswith("option."):
        return parse_signature(item.signature).get(axis.removeprefix("option."), "")
    return item.axes.get(axis, "")


def _read_fixed_values(item: SystemValue, axis: str) -> tuple[tuple[str, str], ...]:
    """Return the values that are fixed along a line, without signature fields that follow the axis."""
    # The axes show who truncated the texts and how; all of these fields change with the length or the task's options.
    skip = {
        axis.removeprefix("option."),
        FIELDS.get(axis, ""),
        "texts",
        "task" if get_parent_axis(axis) == "task" else "",
    }
    options = {f"option.{k}": v for k, v in parse_signature(item.signature).items() if k not in skip}
    axes = {k: v for k, v in item.axes.items() if k not in (axis, "task.texts")}
    return tuple(sorted((axes | options).items()))


def _label_lines(rests: Sequence[Mapping[str, str]], items: Sequence[SystemValue], axis: str) -> list[str]:
    """Label lines by model, decoder and other distinguishing options."""
    several = len({i.titles[0] for i in items}) > 1
    by_decoder = axis.startswith("decoder.")
    # A decoder's title includes its options; along one of them, use its name and label the other options separately.
    titled_names = {"model", "decoder", *(f"option.{fact}" for fact in FACTS)}
    names = [n for n in dict.fromkeys(n for rest in rests for n in rest) if n not in titled_names]
    titled = [{**r, "title": " ".join(i.titles)} for r, i in zip(rests, items, strict=True)]
    distinguishing = find_distinguishing_axes(
        rests, [n for n in names if is_readable(n) and (by_decoder or get_parent_axis(n) != "decoder")]
    )
    rest_of = select_fewest_axes(
        titled, sort_by_readability(n for n in names if n not in distinguishing), ["title", *distinguishing]
    )
    distinguishing += [n for n in rest_of if n not in {"title", *distinguishing}]
    labels = []
    for rest, item in zip(rests, items, strict=True):
        model, decoder = item.titles
        name = rest.get("decoder", "") if by_decoder else decoder
        parts = [p for p in ((model if several or not name else ""), name) if p]
        labels.append(" ".join([*parts, *(format_option(n, rest[n]) for n in distinguishing if rest.get(n))]))
    return labels


def _find_numeric_axes(models: Sequence[SystemValue]) -> list[str]:
    names = list(models[0].axes) if models else []
    return [n for n in names if is_readable(n) and len(_parse_numbers(i.axes.get(n, "") for i in models)) >= LEAST]


def _find_numeric_options(models: Sequence[SystemValue]) -> list[str]:
    """Return the metric's own options that were swept; facts of the data (`n`, `task`) are axes already."""
    fields = [parse_signature(s) for s in dict.fromkeys(i.signature for i in models)]
    names = [n for n in fields[0] if n not in ("v", "n")] if fields else []
    return [n for n in names if len(_parse_numbers(f.get(n, "") for f in fields)) >= LEAST]


def _parse_numbers(values: Iterable[str]) -> set[float]:
    return {n for n in map(_parse_number, values) if n is not None}


def _parse_number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
