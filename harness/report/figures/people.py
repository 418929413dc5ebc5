"""Figures about human judgments: the discriminator of HUSE, the two parts of HUSE, and its stability."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from openended.harness import results as measured
from openended.harness.core import escape_mathtext, parse_signature
from openended.harness.report.figures.drawing import COLORS, DEFAULT, MOST, SystemStyles, create_panels, facet
from openended.harness.results import Layout, Results, System

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure

    from openended.metrics.huse import PairRatings, Rule, Ties, VoteTie

RATED = "rated"  # in place of the decoder where a file of ratings was scored by itself
GRID = 160  # points per side of the picture of the regions
_MANY = 2000  # examples: above, the stability curves take too long for a report


def huse_figures(results: Results, styles: SystemStyles, _: Layout = DEFAULT) -> Mapping[str, Figure]:
    """Draw what there is data for: `huse`, `huse-stability-<system>`, `huse-parts`."""
    regions: dict[Any, Figure | None] = {}
    stability: dict[Any, Figure | None] = {}
    parts: dict[Any, Figure | None] = {}
    items = [item for item in results.values if item.metric == "huse"]
    groups = measured.group_by_task_and_options(items, "huse")
    if all(item.axes.get("decoder") == RATED for item in items):  # each file of ratings would be a task
        groups = {("ratings", options): part for options, part in measured.group_by_options(items, "huse").items()}
    for key, part in groups.items():
        systems = measured.group_systems(part)
        rated = {s.name: ratings for s in systems if (ratings := read_ratings(results, s))}
        regions[key] = huse_regions(dict(list(rated.items())[:MOST])) if rated else None
        for label, (rated_pairs, rule) in rated.items():
            stability[*key, label] = huse_stability(rated_pairs, rule) if rated_pairs.n <= _MANY else None
        both = measured.select_systems_with_both(part, ("huse", "huse_q"), ("huse", "huse_d"))[:MOST]
        chosen = styles.choose([quality for _, quality, _ in both])
        values = {system.name: (quality.mean, diversity.mean) for system, quality, diversity in both}
        parts[key] = huse_parts(values, chosen) if both else None
    return {
        **facet("huse", regions), **facet("huse-stability", stability, always=True),
        **facet("huse-parts", parts, legend=2),
    }  # fmt: skip


def read_ratings(results: Results, system: System) -> tuple[PairRatings, Rule] | None:
    """Return the rated texts of a system and how the discriminator decides; None if they were not stored."""
    from openended.metrics.huse import PairRatings, Rule

    value = system.value("huse", "huse")
    stored = results.arrays(*value.sources[0]) if value is not None else {}
    arrays = {k.removeprefix("arrays/"): v for k, v in stored.items() if k.startswith("arrays/")}
    if value is None or not {"ratings", "log_probs", "lengths"} <= set(arrays):
        return None
    fields = parse_signature(value.signature)
    floor = fields.get("log_prob_floor", "none")
    rule = Rule(
        k=int(fields["k"]), ties=cast("Ties", fields["ties"]), vote_tie=cast("VoteTie", fields["vote_tie"]),
        log_prob_floor=None if floor == "none" else float(floor),
    )  # fmt: skip
    return PairRatings.from_arrays(arrays), rule


def huse_regions(rated: Mapping[str, tuple[PairRatings, Rule]]) -> Figure:
    """Draw human judgment against log-probability, one panel per system (HUSE Fig. 4).

    The shading is the share of votes of the k nearest texts: blue for reference, red for model; the line is a tie.
    """
    from openended.metrics.huse import HusePoints

    figure, panels = create_panels(len(rated), 2.6, sharey=True)
    systems = [(name, HusePoints.build(**pairs.columns(), rule=rule), rule) for name, (pairs, rule) in rated.items()]
    shared = np.concatenate([points.raw[:, 0] for _, points, _ in systems])
    for panel, (name, points, rule) in zip(panels, systems, strict=True):
        low, high = np.array([[shared.min(), shared.max()], [points.raw[:, 1].min(), points.raw[:, 1].max()]]).T
        pad = 0.05 * np.maximum(high - low, points.spread)
        ratings, log_probs = (np.linspace(low[i] - pad[i], high[i] + pad[i], GRID) for i in (0, 1))
        plane = np.column_stack([axis.ravel() for axis in np.meshgrid(ratings, log_probs, indexing="ij")])
        margins = points.margins_at(plane, rule).reshape(GRID, GRID)
        share = np.clip(-margins / rule.k, -1.0, 1.0)  # of votes for the reference less those for the model
        extent = (log_probs[0], log_probs[-1], ratings[0], ratings[-1])
        panel.imshow(share, extent=extent, origin="lower", aspect="auto", cmap="RdBu", vmin=-1, vmax=1, alpha=0.45)
        panel.contour(log_probs, ratings, share, levels=[0.0], colors="#777777", linewidths=0.6)
        for is_model, label, color, marker in ((False, "reference", "#2166ac", "s"), (True, "model", "#b2182b", "o")):
            x, y = points.raw[points.is_model == is_model].T[::-1]
            panel.plot(x, y, marker, color=color, label=label, markersize=2.6, alpha=0.9, markeredgewidth=0)
        panel.grid(visible=False)
        panel.set(title=escape_mathtext(name), xlabel="model log-probability per word, nats")
    panels[0].set_ylabel("human judgment (mean rating)")
    return figure


def huse_parts(parts: Mapping[str, tuple[float, float]], styles: Sequence[Mapping[str, Any]]) -> Figure:
    """Draw HUSE-D against HUSE-Q with lines of equal HUSE = HUSE-Q + HUSE-D − 1 (HUSE Fig. 3)."""
    figure, (panel,) = create_panels(1, 3.0)
    every = np.array(list(parts.values()))
    bottom, top = min(-0.02, float(every.min()) - 0.05), max(1.05, float(every.max()) + 0.05)
    for value in np.arange(0.2, 1.01, 0.2):
        # On this line HUSE-D = value + 1 − HUSE-Q.
        panel.plot([bottom, top], [value + 1 - bottom, value + 1 - top], ":", color="#999999", linewidth=0.7)
        # Outside the axes at the end of the line, where nothing overlaps.
        panel.annotate(
            f"HUSE {value:.1f}", (top, value + 1 - top), xytext=(3, 0), textcoords="offset points", va="center",
            annotation_clip=False, fontsize=5.5, color="#777777",
        )  # fmt: skip
    for (name, (quality, diversity)), style in zip(parts.items(), styles, strict=True):
        panel.plot(quality, diversity, label=escape_mathtext(name), **{**style, "linestyle": "none"})
    panel.set(xlim=(bottom, top), ylim=(bottom, top), aspect="equal")
    panel.set(xlabel="HUSE-Q (quality) →", ylabel="HUSE-D (diversity) →")
    return figure


def huse_stability(rated: PairRatings, rule: Rule, *, draws: int = 20, seed: int = 0) -> Figure:
    """Draw HUSE against the number of ratings per text and of examples, with 90 % intervals (HUSE Fig. 5)."""
    from matplotlib.ticker import MaxNLocator

    from openended.metrics.huse import example_curve, rater_curve

    most = int((~np.isnan(rated.ratings)).sum(axis=1).max())
    counts = sorted({c for c in (1, 2, 5, 10, 15, 20, 30, most) if c <= most})
    sizes = sorted({round(rated.n * share) for share in (0.1, 0.2, 0.4, 0.6, 0.8, 1.0)} - {0})
    curves = {
        "ratings a text": rater_curve(rated, rule, counts=counts, draws=draws, seed=seed),
        "examples": example_curve(rated, rule, sizes=sizes, draws=draws, seed=seed),
    }
    figure, panels = create_panels(2, 2.2, sharey=True)
    for panel, (unit, curve) in zip(panels, curves.items(), strict=True):
        good = ~np.isnan(curve.huse)
        at = curve.sizes[good]
        panel.fill_between(at, curve.low[good], curve.high[good], color=COLORS[0], alpha=0.18, linewidth=0)
        panel.plot(at, curve.huse[good], "o-", color=COLORS[0], label="HUSE")
        panel.plot(at, curve.huse_q[good], "s--", color=COLORS[1], label="HUSE-Q")
        panel.set_xlabel(unit)
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    panels[0].set_ylabel("HUSE, HUSE-Q")
    return figure
