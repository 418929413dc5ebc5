"""Figures of printed values: by system, along a setting, two against each other, and the best of N settings."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from openended.harness import results as measured
from openended.harness.core import F64
from openended.harness.report.analysis.lines import LEAST, Line, group_into_lines, has_enough_numbers, is_set
from openended.harness.report.figures.plot import FAR, Panel, Part, Plot, Series, drop_embedders, keep_first, list_axes
from openended.harness.report.tables.frame import arrow
from openended.harness.report.tables.pictures import COLORS, HUMAN_COLOR, HUMAN_STAR
from openended.harness.report.tables.selection import make_slug, select_pairs
from openended.harness.results import CREATED, STAGE, STEP, System, SystemValue, find_human_value, is_readable

TITLES = {
    "max_new_tokens": "maximum length (tokens)", "max_length": "maximum length (tokens of the embedder)",
    "num_examples": "N (examples)", "p": "nucleus p", "k": "top-k k", "option.k": "neighbors k", STEP: "training step",
    "option.num_buckets": "number of clusters k", "option.scaling_factor": "scaling constant c",
    "model": "size of the model", STAGE: "stage of training", CREATED: "day",
}  # fmt: skip


def format_title(item: SystemValue) -> str:
    """Return a value's title with the direction in which it is better."""
    return f"{item.title} {arrow(item.direction, item.target)}".rstrip()


def show_metrics(part: Part) -> Plot | None:
    """Show all primary values: each system's mean with its interval, and the human value as a line.

    Metrics of embeddings have a panel per embedder.
    """
    every = part.convert_values(part.values)
    chosen = []  # values of the systems, all values with these options, and the options
    for metric, key in dict.fromkeys((*select_pairs(part.values), *part.targets)):
        for options, items in _group_by_options(every, metric):
            values = [i for i in items if i.system == "model" and i.key == key and math.isfinite(i.mean)]
            chosen += [(values, items, options)] if values else []
    alike = drop_embedders([item for values, *_ in chosen for item in values], all_metrics=True)
    systems, note = keep_first(measured.group_systems(alike))
    if not systems or (len(systems) == 1 and systems[0].items[0].is_judged_alone):  # a table shows all players
        return None
    names = [system.name for system in systems]
    ranks = {_identify(system.items[0]): rank for rank, system in enumerate(systems)}
    panels = []
    for values, items, options in chosen:
        visible = {rank: value for value in values if (rank := ranks.get(_identify(value))) is not None}
        sides = (find_human_value(items, value) for value in visible.values())
        humans = list(dict.fromkeys(human.mean for human in sides if human and math.isfinite(human.mean)))
        series = []
        for rank, value in sorted(visible.items()):
            (left, right), like = value.reach, systems[rank].items[0]
            bar: dict[str, Any] = {"x": [value.mean], "y": [rank], "left": [left], "right": [right]}
            series.append(Series(mark="dots", style=names[rank], like=like, axes=value.axes, **bar))
        look: dict[str, Any] = {"color": HUMAN_COLOR, "linestyle": "--", "linewidth": 0.9}
        series += [Series(mark="cross", x=humans, look=look)] if humans else []
        head = format_title(visible[min(visible)]) if visible else ""
        title = "\n".join(filter(None, (head, *options.split(", "))))
        panels.append(Panel(series, f"{values[0].metric}.{values[0].key}", {"title": title}))
    line = "dashed line: the human text" if any(s.mark == "cross" for p in panels for s in p.series) else ""
    common: dict[str, Any] = {"yticklabels": names, "ylim": (len(names) - 0.5, -0.5)}
    changes = {"height": 0.52 + 0.17 * len(names), "panel": common}
    return Plot(panels, "; ".join(filter(None, (line, note))), changes)


def _identify(item: SystemValue) -> tuple[tuple[str, str], ...]:
    """Return what tells systems apart in panels of one embedder each."""
    return tuple((a, v) for a, v in item.axes.items() if "embedder" not in (a, measured.get_parent_axis(a)))


def _group_by_options(items: Sequence[SystemValue], metric: str) -> Iterator[tuple[str, Sequence[SystemValue]]]:
    """Yield the options of a metric and its embedder, where they differ, and the values without that axis."""
    for options, members in measured.group_by_options(items, metric).items():
        firsts = {i.axes.get("embedder", ""): i for i in members}
        labels = dict(zip(firsts, measured.label_axis(list(firsts.values()), "embedder"), strict=True))
        for embedder, of in measured.group_by(members, lambda i: i.axes.get("embedder", "")).items():
            name = f"embedder={labels[embedder]}" if len(firsts) > 1 else ""
            yield ", ".join(filter(None, (options, name))), of


def show_columns(part: Part) -> Plot | None:
    """Show each value as one bar per system, with its standard error over seeds (Le Bronnec et al. 2024, Fig. B.2).

    The option `over` names axes that count like seeds, such as the one of the human texts.
    """
    over = {*part.declaration.options.get("over", ()), "task.texts"}
    panels, notes = [], dict[str, None]()
    for pair in select_pairs(part.values, part.metrics):
        items = [i for s in measured.group_systems(part.values) if (i := s.value(*pair)) and math.isfinite(i.mean)]
        groups = measured.group_by(items, lambda i: tuple(v for a, v in i.axes.items() if a not in over))
        firsts, note = keep_first([group[0] for group in groups.values()])
        names = [part.name("label", name) for name in measured.label_systems(firsts, skip=over)]
        series = []
        for rank, (name, first, group) in enumerate(zip(names, firsts, groups.values(), strict=False)):
            values = np.array([v for item in group for v in item.values.values() if math.isfinite(v)])
            error = [float(values.std(ddof=1)) / math.sqrt(len(values))] if len(values) > 1 else None
            at: dict[str, Any] = {"x": [rank], "y": [float(values.mean())], "below": error, "above": error}
            series.append(Series(mark="columns", like=first, style=name, axes=list_axes(first), **at))
        ticks: dict[str, Any] = {"xticklabels": names}
        panels += [Panel(series, ".".join(pair), ticks | {"title": format_title(firsts[0])})] if series else []
        notes[note] = None
    return Plot(panels, "".join(notes)) if panels else None


def show_sweeps(part: Part) -> Mapping[str, Plot]:
    """Show metrics along every axis or option that takes three or more numbers while all else stays the same.

    The declaration or the layout chooses the metrics; the layout, whether distances to the human value are shown.
    """
    items = part.values
    models = [i for i in items if i.system == "model" and math.isfinite(i.mean)]
    axes = [axis for axis in (models[0].axes if models else ()) if is_readable(axis)]
    swept = [axis for axis in axes if has_enough_numbers([i.axes.get(axis, "") for i in models])]
    requests = {f"-{make_slug(axis)}": (items, axis) for axis in swept}
    for metric in dict.fromkeys(i.metric for i in models):
        # Facts of the data (`n`) are axes already.
        fields = [i.fields for i in {i.signature: i for i in models if i.metric == metric}.values()]
        options = [name for name in fields[0] if name not in ("v", "n")]
        for option in options:
            if has_enough_numbers([f.get(option, "") for f in fields]):
                values = [i for i in items if i.metric == metric]
                requests[f"-{metric}-{make_slug(option)}"] = values, f"option.{option}"
    days = sorted({i.axes.get(CREATED, "") for i in models} - {""})
    if len(days) >= LEAST:
        requests[f"-{CREATED}"] = items, CREATED
    requested = {n: r for n, r in requests.items() if r[1] in part.declaration.x or not part.declaration.x}
    plots = {
        name: show_sweep(part, values, axis, dict(zip(days, days, strict=True)) if axis == CREATED else None)
        for name, (values, axis) in requested.items()
    }
    return {name: plot for name, plot in plots.items() if plot is not None}


def show_sizes(part: Part) -> Plot | None:
    """Show metrics by the model, or a declared axis, in the order in which a layout names them (MAUVE Fig. 5, left)."""
    axis = next(iter(part.declaration.x), "model")
    names = part.declaration.names.get(axis) or part.layout.names.get(axis, {})
    values = {i.axes.get(axis, "") for i in part.values if i.system == "model"}
    names = {value: title for value, title in names.items() if value in values}
    return show_sweep(part, part.values, axis, names) if len(names) > 1 else None


def show_sweep(
    part: Part, items: Sequence[SystemValue], axis: str, names: Mapping[str, str] | None = None
) -> Plot | None:
    """Show metrics against one axis (`max_new_tokens`, `decoder.p`, …) or one option (`option.scaling_factor`).

    One line per system, bands of one standard deviation over seeds (of one seed: its 95 % interval over examples), the
    human value dashed. A line has the color of the system at its first point. Nothing is shown where no system has
    three values of the axis. `names`: of an axis without numbers, its values in order, with their titles.
    """
    names, items = names or {}, part.convert_values(items)
    declared = part.declaration.lines
    by_metric: list[tuple[str, list[Line]]] = []
    for pair in select_pairs(items, part.metrics):
        finite = [i for i in measured.select_values(items, *pair) if math.isfinite(i.mean)]
        lines = _name_lines(part, group_into_lines(finite, axis, list(names)))
        by_metric += [(".".join(pair), lines)] if lines else []
    if not by_metric:
        return None
    several = len({line.label for _, lines in by_metric for line in lines}) > 1
    sides = [i for i in items if i.system == "human" or (i.system == "ceiling" and axis == STEP)]
    swept = [value for _, lines in by_metric for line in lines for value, _ in line.points]
    far = not names and min(swept) > 0 and max(swept) / min(swept) >= FAR
    panels = []
    for name, lines in by_metric:
        like = lines[0].points[0][1]
        series = []
        reference = "human–human reference"
        others: dict[str, dict[float, float]] = {"human": {}, reference: {}}
        for line in lines:
            x, y = [value for value, _ in line.points], [i.mean for _, i in line.points]
            humans = ((at, find_human_value(sides, i)) for at, i in line.points)
            others["human"] |= {at: human.mean for at, human in humans if human and math.isfinite(human.mean)}
            others[reference] |= {at: i.mean for i in sides for at, p in line.points if _is_ceiling(i, p)}
            below, above = np.transpose([i.reach for _, i in line.points])
            first = line.points[0][1]
            title = part.declaration.names.get("metric", {}).get(name, like.title) if "metric" in declared else ""
            label = ", ".join(filter(None, (title, line.label if several or not title else "")))
            series.append(Series(x=x, y=y, below=below, above=above, label=label, axes=list_axes(first), like=first))
        for (side, values), dash in zip(others.items(), ("--", ":"), strict=True):
            at, look = sorted(values), {"color": HUMAN_COLOR, "linestyle": dash, "marker": ""}
            series += [Series(x=at, y=[values[x] for x in at], label=side, look=look)] if values else []
        panels.append(Panel(series, name, {"title": format_title(like)}))
    if "metric" in declared:
        panels = [Panel([s for panel in panels for s in panel.series], "", {})]
    short = axis.rpartition(".")[2]
    options: dict[str, Any] = {"xlabel": TITLES.get(axis) or TITLES.get(short, short.replace("_", " "))}
    options |= {"xticklabels": list(names.values())} if names else {}
    options |= {"xscale": "log", "plain": ["x"]} if far else {}
    changes = {"per_row": 2} if len(panels) == 4 and part.metrics else {"legend": 2} if len(panels) == 1 else {}
    return Plot([Panel(p.series, p.name, options | dict(p.options)) for p in panels], changes=changes)


def _name_lines(part: Part, lines: Sequence[Line]) -> list[Line]:
    """Name and order lines by the declared axes, if these tell them apart."""
    axes, names = [axis for axis in part.declaration.lines if axis != "metric"], part.declaration.names
    described = [list_axes(line.points[0][1]) for line in lines]
    labels = [" ".join(part.name(axis, line.get(axis, "")) for axis in axes if line.get(axis)) for line in described]
    if not axes or len(set(labels)) < len(labels):
        return sorted(lines, key=lambda line: measured.make_natural_sort_key(line.label))

    def rank(at: int) -> list[tuple[int, Any]]:
        values = [(described[at].get(axis, ""), [*names.get(axis, ()), described[at].get(axis, "")]) for axis in axes]
        return [(order.index(value), measured.make_natural_sort_key(value)) for value, order in values]

    return [Line(labels[at], lines[at].points) for at in sorted(range(len(lines)), key=rank)]


def _is_ceiling(side: SystemValue, item: SystemValue) -> bool:
    """Return whether a value is the human–human reference of a system's value with as many texts."""
    same = (side.system, side.pair, side.signature) == ("ceiling", item.pair, item.signature)
    return same and measured.has_same_data(side, item) and item.direction != "match_human"


def show_pairs(part: Part) -> Plot | None:
    """Show one value against another by system (P&R Fig. 1), with ellipses of two standard deviations over seeds.

    The option `join` draws a line along the parameter of each decoder; `levels` draws the lines on which the sum of
    both values, less 1, is constant, under this name. If the first of the axes in `groups` has several values, as
    tasks, each has a color and a region of what its systems dominate, and points are named by the rest (HUSE Fig. 3),
    with the `markers` of some of these words.
    """
    (metric, key), (other, other_key) = (name.split(".") for name in part.declaration.metrics)
    systems = measured.select_systems_with_both(part.values, (metric, key), (other, other_key))
    options = part.declaration.options
    words = [part.name_group(x) for _, x, _ in systems]
    is_grouped = len({of[0] for of in words if of}) > 1
    if len(systems) < options.get("least", 1):
        return None

    def find_group(at: int) -> tuple[str, ...]:
        system, x, _ = systems[at]
        if options.get("join"):  # systems that differ in the decoder's parameters alone
            return tuple(v for a, v in x.axes.items() if not a.startswith("decoder."))
        return tuple(words[at][:1]) if is_grouped else (system.name,)

    groups = measured.group_by(range(len(systems)), find_group)
    series = _draw_levels(systems, options["levels"]) if "levels" in options else []
    for number, (group, members) in enumerate(groups.items()):
        system, value, _ = systems[members[0]]
        x, y = zip(*((systems[at][1].mean, systems[at][2].mean) for at in members), strict=True)
        common: dict[str, Any] = {"x": x, "y": y, "like": value, "axes": value.axes}
        if options.get("join"):
            kind = value.axes.get("decoder", "")
            name = system.name.replace(value.titles[1], kind) if len(members) > 1 else system.name
            # The ends of a line are named, without the option's name if that is the decoder's.
            ends = (0, len(members) - 1) if len(members) > 2 else ()
            titles = [systems[members[at]][1].titles[1].rpartition(" ")[2].removeprefix(f"{kind}=") for at in ends]
            texts = list(zip(ends, titles, strict=True))
            series.append(Series(label=name, texts=texts, look={"linewidth": 0.9}, **common))
        elif is_grouped:
            look: dict[str, Any] = {"color": COLORS[number % len(COLORS)]}
            hull = find_dominated([*zip(x, y, strict=True)])
            series.append(Series(mark="region", x=hull[:, 0], y=hull[:, 1], look=look))
            for at, member in enumerate(members):
                marker = next((options["markers"][w] for w in words[member] if w in options.get("markers", {})), "o")
                point: dict[str, Any] = {"x": [x[at]], "y": [y[at]], "texts": [(0, ", ".join(words[member][1:]))]}
                label = "" if at else group[0]
                series.append(Series(mark="dots", label=label, like=value, look=look | {"marker": marker}, **point))
        else:
            series += _draw_system(part.name("label", system.name), *systems[members[0]][1:])
    sides = [[find_human_value(part.values, value) for value in both] for _, *both in systems]
    humans = dict.fromkeys((a.mean, b.mean) for a, b in sides if a and b and math.isfinite(a.mean + b.mean))
    if humans:  # systems of several lengths have several human sides
        xs, ys = zip(*humans, strict=True)
        series.append(Series(mark="dots", x=xs, y=ys, label="human", look=HUMAN_STAR))
        series.append(Series(mark="cross", x=xs, y=ys, look={"color": HUMAN_COLOR, "linewidth": 0.5, "linestyle": ":"}))
    return Plot([Panel(series, options=_choose_limits(systems) if "levels" in options else {})]) if systems else None


def _draw_system(label: str, x: SystemValue, y: SystemValue) -> list[Series]:
    """Draw the point of a system, hollow for a chat model, and the ellipse of its seeds."""
    common: dict[str, Any] = {"like": x, "style": label, "axes": x.axes}
    look: dict[str, Any] = {"markerfacecolor": "none"} if is_set(x.axes.get("model.chat_template", "")) else {}
    series = [Series(mark="dots", x=[x.mean], y=[y.mean], label=label, look=look, **common)]
    points = np.array([[x.values[s], y.values[s]] for s in x.values if s in y.values])
    if len(points) >= 3:  # of two, the ellipse is a line
        series.append(Series(mark="ellipse", x=points[:, 0], y=points[:, 1], **common))
        dots: dict[str, Any] = {"marker": ".", "markersize": 1.5}
        series.append(Series(mark="dots", x=points[:, 0], y=points[:, 1], look=dots, **common))
    return series


def _choose_limits(systems: Sequence[tuple[System, SystemValue, SystemValue]]) -> dict[str, Any]:
    """Return equal limits of both axes that show all points of values between 0 and 1."""
    every = [value.mean for _, *both in systems for value in both]
    limits = min(-0.02, min(every) - 0.05), max(1.05, max(every) + 0.05)
    return {"xlim": limits, "ylim": limits}


def _draw_levels(systems: Sequence[tuple[System, SystemValue, SystemValue]], name: str) -> list[Series]:
    """Draw the lines y = value + 1 − x; each is named outside the axes at its end, where nothing overlaps."""
    bottom, top = _choose_limits(systems)["xlim"]
    look: dict[str, Any] = {"color": "#999999", "linestyle": ":", "linewidth": 0.7, "marker": ""}
    return [
        Series(x=[bottom, top], y=[v + 1 - bottom, v + 1 - top], look=look | {"end": f"{name} {v:.1f}"})
        for v in (0.2, 0.4, 0.6, 0.8, 1.0)
    ]


def find_dominated(points: Sequence[tuple[float, float]]) -> F64:
    """Return the corners of the region of worse sums in the same proportion as the points.

    On a ray from the origin the sum falls toward it, so the region is between the origin and the outermost points.
    """
    from scipy.spatial import ConvexHull

    corners = np.array([(0.0, 0.0), *points])
    return corners[ConvexHull(corners).vertices] if np.linalg.matrix_rank(corners) > 1 else corners


def show_best_of_n(part: Part) -> Plot | None:
    """Show the expected best of N settings of every decoder; dotted: chosen and scored on the same seeds."""
    from openended.harness.report.tables.fair_comparison import compute_curves, describe_printed_value, group_sweeps

    pairs = select_pairs(part.values, part.metrics)
    by_pair = {pair: curves for pair in pairs if (curves := compute_curves(part.values, pair)[0])}
    first = {sweep.name: sweep.systems[0].items[0] for sweep in group_sweeps(part.values)}
    panels = []
    for pair, curves in by_pair.items():
        series = []
        most = min(c.settings for c in curves)
        x = range(1, most + 1)
        for curve in curves:
            fresh, half, seen = (np.array(values[:most]) for values in (curve.fresh, curve.half, curve.seen))
            common: dict[str, Any] = {"x": x, "like": first[curve.name], "style": curve.name}
            if math.isfinite(fresh[0]):
                series.append(Series(y=seen, look={"linestyle": ":", "linewidth": 0.7, "marker": ""}, **common))
                series.append(Series(y=fresh, below=half, above=half, label=curve.name, look={"alpha": 0.12}, **common))
            else:
                series.append(Series(y=seen, label=curve.name, **common))
        title, direction = describe_printed_value(measured.select_values(part.values, *pair)[0])
        panels.append(Panel(series, ".".join(pair), {"title": f"{title} {arrow(direction)}"}))
    return Plot(panels) if panels else None
