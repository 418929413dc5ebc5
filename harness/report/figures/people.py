"""Figures of human judgments: the discriminator of HUSE, and its stability."""

from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from openended.harness.report.figures.plot import Panel, Part, Plot, Series
from openended.harness.report.tables.pictures import COLORS
from openended.harness.report.tables.selection import name_files
from openended.harness.results import Results, System
from openended.metrics.huse import Huse, HusePoints, PairRatings, Ties, VoteTie, draw_curve

GRID = 160  # points per side of the picture of the regions
MANY = 2000  # examples: above, the stability curves take too long for a report
SIDES = ((False, "reference", "#2166ac", "s"), (True, "model", "#b2182b", "o"))


def read_ratings(results: Results, system: System) -> tuple[PairRatings, Huse] | None:
    """Return the rated texts of a system and how the discriminator decides; None if they were not stored."""
    value = system.value("huse", "huse")
    arrays = next(iter(results.list_arrays(value)), {})
    if value is None or not {"ratings", "log_probs", "lengths"} <= arrays.keys():
        return None
    fields = value.fields
    floor = fields.get("log_prob_floor", "none")
    ties, vote_tie = cast("Ties", fields["ties"]), cast("VoteTie", fields["vote_tie"])
    lowest = None if floor == "none" else float(floor)
    return PairRatings.from_arrays(arrays), Huse(
        k=int(fields["k"]), ties=ties, vote_tie=vote_tie, log_prob_floor=lowest
    )


def _read_all(part: Part) -> tuple[dict[str, tuple[System, PairRatings, Huse]], str]:
    """Return label → each system with its rated texts, and a note where there are more."""
    systems, note = part.select_systems(("huse", "huse"))
    rated = ((system, read_ratings(part.results, system)) for system in systems)
    return {part.name("label", system.name): (system, *both) for system, both in rated if both is not None}, note


def show_regions(part: Part) -> Plot | None:
    """Show human judgment against log-probability, one panel per system (HUSE Fig. 4)."""
    systems, note = _read_all(part)
    rated = {name: (pairs, rule) for name, (_, pairs, rule) in systems.items()}
    return Plot(build_regions(rated), note) if rated else None


def build_regions(rated: Mapping[str, tuple[PairRatings, Huse]]) -> list[Panel]:
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
            size: dict[str, Any] = {"markersize": 2.6, "alpha": 0.9, "markeredgewidth": 0}
            look = size | {"color": color, "marker": marker}
            series.append(Series(mark="dots", x=x, y=y, label=label, look=look))
        panels.append(Panel(series, name, {"title": name}))
    return panels


def show_stability(part: Part) -> Mapping[str, Plot]:
    """Show HUSE against the number of texts and of ratings per text, with 90 % intervals (HUSE Fig. 5).

    With the option `together`, all systems are in one figure; else each has its own, with HUSE-Q.
    """
    rated_systems, note = _read_all(part)
    systems = {name: entry for name, entry in rated_systems.items() if entry[1].n <= MANY}
    rated = {name: (pairs, rule) for name, (_, pairs, rule) in systems.items()}
    draws = int(part.declaration.options.get("draws", 20))
    if part.declaration.options.get("together"):
        labels = [", ".join(part.name_group(system.items[0])) for system, *_ in systems.values()]
        if len(set(labels)) == len(rated):  # the declared axes tell the systems apart
            rated = dict(zip(labels, rated.values(), strict=True))
        return {"": Plot(build_stability(rated, draws=draws), note)} if rated else {}
    ends = name_files("", [[name] for name in rated])
    plots = (Plot(build_stability({name: both}, draws=draws), note) for name, both in rated.items())
    return dict(zip(ends, plots, strict=True))


def build_stability(rated: Mapping[str, tuple[PairRatings, Huse]], *, draws: int = 20) -> list[Panel]:
    """Build the panels of both numbers: one line per system, or HUSE and HUSE-Q of the only one."""
    examples, ratings = list[Series](), list[Series]()
    for index, (name, (pairs, rule)) in enumerate(rated.items()):
        most = int((~np.isnan(pairs.ratings)).sum(axis=1).max())
        counts = sorted({c for c in (1, 2, 5, 10, 15, 20, 30, most) if c <= most})
        sizes = sorted({round(pairs.n * share) for share in (0.1, 0.2, 0.4, 0.6, 0.8, 1.0)} - {0})
        common: dict[str, Any] = {"color": COLORS[index % len(COLORS)], "marker": "o", "linestyle": "-"}
        for series, curve in (
            (ratings, draw_curve(pairs, rule, of_raters=True, sizes=counts, draws=draws)),
            (examples, draw_curve(pairs, rule, of_raters=False, sizes=sizes, draws=draws)),
        ):
            good = ~np.isnan(curve.huse)
            at, mean = curve.sizes[good], curve.huse[good]
            band: dict[str, Any] = {"below": mean - curve.low[good], "above": curve.high[good] - mean}
            series.append(Series(x=at, y=mean, label=name if len(rated) > 1 else "HUSE", look=common, **band))
            if len(rated) == 1:
                look: dict[str, Any] = {"color": COLORS[1], "marker": "s", "linestyle": "--"}
                series.append(Series(x=at, y=curve.huse_q[good], label="HUSE-Q", look=look))
    return [Panel(examples, "examples"), Panel(ratings, "ratings")]
