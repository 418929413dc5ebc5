"""Figures of human judgments: the discriminator of HUSE, the two parts of HUSE, and its stability."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from openended.harness import results as measured
from openended.harness.core import F64
from openended.harness.report.figures.plot import MOST, Panel, Part, Plot, Series
from openended.harness.report.tables.pictures import COLORS
from openended.harness.report.tables.selection import name_files
from openended.harness.results import Results, System, SystemValue
from openended.metrics.huse import HusePoints, PairRatings, Rule, Ties, VoteTie, draw_curve

GRID = 160  # points per side of the picture of the regions
MANY = 2000  # examples: above, the stability curves take too long for a report
SIDES = ((False, "reference", "#2166ac", "s"), (True, "model", "#b2182b", "o"))
TEMPERATURE = re.compile(r"(?:^|[ _,(])(?:t|temperature)=?\s*(\d+(?:\.\d+)?)")


def read_ratings(results: Results, system: System) -> tuple[PairRatings, Rule] | None:
    """Return the rated texts of a system and how the discriminator decides; None if they were not stored."""
    value = system.value("huse", "huse")
    arrays = next(iter(results.list_arrays(value)), {})
    if value is None or not {"ratings", "log_probs", "lengths"} <= arrays.keys():
        return None
    fields = value.fields
    floor = fields.get("log_prob_floor", "none")
    rule = Rule(
        k=int(fields["k"]), ties=cast("Ties", fields["ties"]), vote_tie=cast("VoteTie", fields["vote_tie"]),
        log_prob_floor=None if floor == "none" else float(floor),
    )  # fmt: skip
    return PairRatings.from_arrays(arrays), rule


def _read_all(part: Part) -> dict[str, tuple[System, PairRatings, Rule]]:
    """Return label → each system with its rated texts."""
    systems = measured.group_systems([i for i in part.values if i.metric == "huse"])[:MOST]
    order = list(part.declaration.names.get("label", ()))
    systems.sort(key=lambda system: order.index(system.name) if system.name in order else len(order))
    return {part.name("label", s.name): (s, *rated) for s in systems if (rated := read_ratings(part.results, s))}


def show_regions(part: Part) -> Plot | None:
    """Show human judgment against log-probability, one panel per system (HUSE Fig. 4)."""
    rated = {name: (pairs, rule) for name, (_, pairs, rule) in _read_all(part).items()}
    return Plot(build_regions(rated)) if rated else None


def build_regions(rated: Mapping[str, tuple[PairRatings, Rule]]) -> list[Panel]:
    """Build the panels of systems: the shading is the share of votes of the k nearest texts, the line is a tie."""
    systems = [(name, HusePoints.build(**pairs.columns(), rule=rule), rule) for name, (pairs, rule) in rated.items()]
    shared = np.concatenate([points.raw[:, 0] for _, points, _ in systems])
    panels = list[Panel]()
    for name, points, rule in systems:
        low, high = np.array([[shared.min(), shared.max()], [points.raw[:, 1].min(), points.raw[:, 1].max()]]).T
        pad = 0.05 * np.maximum(high - low, points.spread)
        ratings, log_probs = (np.linspace(low[i] - pad[i], high[i] + pad[i], GRID) for i in (0, 1))
        plane = np.column_stack([axis.ravel() for axis in np.meshgrid(ratings, log_probs, indexing="ij")])
        margins = points.margins_at(plane, rule).reshape(GRID, GRID)
        share = np.clip(-margins / rule.k, -1.0, 1.0)  # of votes for the reference less those for the model
        series = [Series(mark="plane", x=log_probs, y=ratings, z=share)]
        for is_model, label, color, marker in SIDES:
            x, y = points.raw[points.is_model == is_model].T[::-1]
            look: dict[str, Any] = {
                "color": color,
                "marker": marker,
                "markersize": 2.6,
                "alpha": 0.9,
                "markeredgewidth": 0,
            }
            series.append(Series(mark="dots", x=x, y=y, label=label, look=look))
        panels.append(Panel(series, name, {"title": name}))
    return panels


def show_parts(part: Part) -> Plot | None:
    """Show the parts of HUSE with lines of equal HUSE = HUSE-Q + HUSE-D − 1 (HUSE Fig. 3).

    Of several tasks, each has a color and a region of dominated systems, and points are labeled by their temperature.
    """
    items = [item for item in part.values if item.metric == "huse"]
    first, second = (name.partition(".")[2] for name in part.declaration.metrics)
    both = measured.select_systems_with_both(items, ("huse", first), ("huse", second))[:MOST]
    points = [(part.name("label", s.name), x.mean, y.mean, x) for s, x, y in both]
    return build_parts(points, find_task) if points else None


def find_task(value: SystemValue) -> str:
    """Return the task of rated texts: that of the run, or of texts rated alone the beginning of their file's name."""
    if not value.is_judged_alone:
        return value.axes.get("task", "")
    stem = (
        re.sub(r"\.\w+$", "", value.axes.get("judgments", "") or value.titles[0]).rpartition("/")[2].rpartition(":")[2]
    )
    return TEMPERATURE.sub("", stem).strip(" _-")


def find_temperature(value: SystemValue) -> str:
    """Return the temperature of a system: its option, or what its name says."""
    if option := value.axes.get("decoder.temperature"):
        return option
    names = " ".join((*value.titles, value.fields.get("system", ""), value.axes.get("judgments", "")))
    text = match[1] if (match := TEMPERATURE.search(names)) else ""
    return f"{text[0]}.{text[1:]}" if text.isdecimal() and len(text) > 1 else text  # `t07` is 0.7


def build_parts(points: Sequence[tuple[str, float, float, SystemValue]], find: Any) -> Plot:  # noqa: ANN401
    """Build the panel of systems (name, one part, the other part, value); `find` returns the task of a value."""
    every = np.array([(q, d) for _, q, d, _ in points])
    bottom, top = min(-0.02, float(every.min()) - 0.05), max(1.05, float(every.max()) + 0.05)
    series = []
    for value in np.arange(0.2, 1.01, 0.2):
        # On this line HUSE-D = value + 1 − HUSE-Q; it is named outside the axes at its end, where nothing overlaps.
        line: dict[str, Any] = {"color": "#999999", "linestyle": ":", "linewidth": 0.7, "marker": ""}
        ends = [bottom, top], [value + 1 - bottom, value + 1 - top]
        series.append(Series(x=ends[0], y=ends[1], look=line | {"end": f"HUSE {value:.1f}"}))
    tasks = list(dict.fromkeys(find(value) for *_, value in points))
    for index, task in enumerate(tasks):
        members = [point for point in points if find(point[3]) == task]
        if len(tasks) > 1:
            color = {"color": COLORS[index % len(COLORS)]}
            hull = find_dominated([(q, d) for _, q, d, _ in members])
            series.append(Series(mark="region", x=hull[:, 0], y=hull[:, 1], look=color))
            neural = [point for point in members if find_temperature(point[3])]
            others = [point for point in members if point not in neural]
            for marker, systems in (("o", neural), ("s", others)):
                texts = [(at, f"t={t}") for at, (*_, value) in enumerate(systems) if (t := find_temperature(value))]
                x, y = [q for _, q, _, _ in systems], [d for _, _, d, _ in systems]
                label = task if systems in (neural or others,) else ""
                look = color | {"marker": marker}
                series += [Series(mark="dots", x=x, y=y, label=label, texts=texts, look=look)] if systems else []
        else:
            series += [Series(mark="dots", x=[q], y=[d], label=name, like=value) for name, q, d, value in members]
    return Plot([Panel(series, options={"xlim": (bottom, top), "ylim": (bottom, top)})])


def find_dominated(points: Sequence[tuple[float, float]]) -> F64:
    """Return the corners of the region of worse HUSE in the same proportion of HUSE-D to HUSE-Q as the points.

    On a ray from the origin HUSE falls toward it, so the region is between the origin and the outermost points.
    """
    corners = np.array([(0.0, 0.0), *points])
    order = np.argsort(np.arctan2(corners[1:, 1], corners[1:, 0]), kind="stable")
    hull: list[Any] = [corners[0]]
    for corner in corners[1:][order]:
        while len(hull) > 2 and _turn(hull[-2], hull[-1], corner) <= 0:
            hull.pop()
        hull.append(corner)
    return np.array(hull)


def _turn(a: F64, b: F64, c: F64) -> float:
    """Return a positive number where the path turns left at b."""
    return float((b[0] - a[0]) * (c[1] - b[1]) - (b[1] - a[1]) * (c[0] - b[0]))


def show_stability(part: Part) -> Mapping[str, Plot]:
    """Show HUSE against the number of texts and of ratings per text, with 90 % intervals (HUSE Fig. 5).

    With the option `together`, all systems are in one figure; else each has its own, with HUSE-Q.
    """
    systems = {name: entry for name, entry in _read_all(part).items() if entry[1].n <= MANY}
    rated = {name: (pairs, rule) for name, (_, pairs, rule) in systems.items()}
    draws = int(part.declaration.options.get("draws", 20))
    if part.declaration.options.get("together"):
        values = [system.value("huse", "huse") for system, *_ in systems.values()]
        labels = [f"{find_task(v)}, t={t}" for v in values if v is not None and (t := find_temperature(v))]
        if len(set(labels)) == len(rated):  # temperatures tell the systems of each task apart
            rated = dict(zip(labels, rated.values(), strict=True))
        return {"": Plot(build_stability(rated, draws=draws))} if rated else {}
    ends = name_files("", [[name] for name in rated])
    plots = (Plot(build_stability({name: both}, draws=draws)) for name, both in rated.items())
    return dict(zip(ends, plots, strict=True))


def build_stability(rated: Mapping[str, tuple[PairRatings, Rule]], *, draws: int = 20, seed: int = 0) -> list[Panel]:
    """Build the panels of both numbers: one line per system, or HUSE and HUSE-Q of the only one."""
    examples, ratings = list[Series](), list[Series]()
    for index, (name, (pairs, rule)) in enumerate(rated.items()):
        most = int((~np.isnan(pairs.ratings)).sum(axis=1).max())
        counts = sorted({c for c in (1, 2, 5, 10, 15, 20, 30, most) if c <= most})
        sizes = sorted({round(pairs.n * share) for share in (0.1, 0.2, 0.4, 0.6, 0.8, 1.0)} - {0})
        common: dict[str, Any] = {"color": COLORS[index % len(COLORS)], "marker": "o", "linestyle": "-"}
        for series, curve in (
            (ratings, draw_curve(pairs, rule, of_raters=True, sizes=counts, draws=draws, seed=seed)),
            (examples, draw_curve(pairs, rule, of_raters=False, sizes=sizes, draws=draws, seed=seed)),
        ):
            good = ~np.isnan(curve.huse)
            at, mean = curve.sizes[good], curve.huse[good]
            band: dict[str, Any] = {"below": mean - curve.low[good], "above": curve.high[good] - mean}
            series.append(Series(x=at, y=mean, label=name if len(rated) > 1 else "HUSE", look=common, **band))
            if len(rated) == 1:
                look: dict[str, Any] = {"color": COLORS[1], "marker": "s", "linestyle": "--"}
                series.append(Series(x=at, y=curve.huse_q[good], label="HUSE-Q", look=look))
    return [Panel(examples, "examples"), Panel(ratings, "ratings")]
