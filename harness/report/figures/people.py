"""Figures about human judgments: the discriminator of HUSE, the two parts of HUSE, and its stability."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from openended.harness.core import escape_mathtext, parse_signature
from openended.harness.report.figures.drawing import (
    COLORS,
    COLUMN,
    HUMAN_COLOR,
    MOST,
    PAGE,
    FigureKey,
    SystemStyles,
    create_figure,
    draw_legend_below,
    name_figures,
)
from openended.harness.results import Results, System, group_by_task_and_options, group_systems

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from openended.metrics.huse import HusePoints, PairRatings, Rule, Ties, VoteTie

MODEL_COLOR = COLORS[0]
GRID = 160  # points per side of the picture of the regions
_DRAWS = 20
_MANY = 2000  # examples: above, the stability curves take too long for a report


def huse_figures(results: Results, styles: SystemStyles) -> Mapping[str, Figure]:
    """Draw what there is data for: `huse-<system>`, `huse-stability-<system>`, `huse-parts`."""
    regions: dict[FigureKey, Figure | None] = {}
    stability: dict[FigureKey, Figure | None] = {}
    parts: dict[FigureKey, Figure | None] = {}
    for key, part in group_by_task_and_options(results.values, "huse").items():
        systems = group_systems(part)
        for system in systems:
            rated = _read_ratings(results, system)
            if rated is not None:
                regions[*key, system.name] = huse_regions(*rated)
                stability[*key, system.name] = huse_stability(*rated) if rated[0].n <= _MANY else None
        pairs = {s.name: tuple(_read_mean(s, name) for name in ("huse_q", "huse_d")) for s in systems}
        both = {label: (q, d) for label, (q, d) in pairs.items() if math.isfinite(q) and math.isfinite(d)}
        chosen = styles.choose([s.items[0] for s in systems if s.name in both])
        parts[key] = huse_parts(both, chosen) if both else None
    return {
        **name_figures("huse", regions, always=True),
        **name_figures("huse-stability", stability, always=True),
        **name_figures("huse-parts", parts),
    }


def _read_mean(system: System, key: str) -> float:
    value = system.value("huse", key)
    return math.nan if value is None else value.mean


def _read_ratings(results: Results, system: System) -> tuple[PairRatings, Rule] | None:
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
        k=int(fields["k"]),
        ties=cast("Ties", fields["ties"]),
        vote_tie=cast("VoteTie", fields["vote_tie"]),
        log_prob_floor=None if floor == "none" else float(floor),
    )
    return PairRatings.from_arrays(arrays), rule


def huse_regions(rated: PairRatings, rule: Rule) -> Figure:
    """Draw both texts of all examples, the regions of the k-NN discriminator and both margins (HUSE Fig. 4)."""
    from matplotlib.figure import Figure

    from openended.metrics.huse import HusePoints

    texts = HusePoints.build(**rated.columns(), rule=rule)
    figure = Figure(figsize=(COLUMN, 3.5), layout="constrained")
    panels = figure.subplot_mosaic(
        [["top", "."], ["main", "right"]], height_ratios=[1, 4], width_ratios=[4, 1], empty_sentinel="."
    )
    main: Axes = panels["main"]
    _shade_regions(main, texts, rule)
    edges = [np.histogram_bin_edges(texts.raw[:, axis], 20).tolist() for axis in (0, 1)]
    for is_model, name, color, marker in ((False, "human", HUMAN_COLOR, "o"), (True, "model", MODEL_COLOR, "^")):
        points = texts.raw[texts.is_model == is_model]
        main.plot(*points.T, marker, color=color, label=name, markersize=2.6, alpha=0.8, markeredgewidth=0)
        panels["top"].hist(points[:, 0], edges[0], color=color, alpha=0.5)
        panels["right"].hist(points[:, 1], edges[1], color=color, alpha=0.5, orientation="horizontal")
    for panel, side in ((panels["top"], "x"), (panels["right"], "y")):
        panel.grid(visible=False)
        getattr(panel, f"share{side}")(main)
        panel.tick_params(labelbottom=False, labelleft=False)
    main.set_xlabel("mean rating (typicality)")
    main.set_ylabel("log-probability a word, nats")
    draw_legend_below(figure, main)
    return figure


def _shade_regions(panel: Axes, texts: HusePoints, rule: Rule) -> None:
    """Color the plane by the discriminator's decision."""
    low, high = texts.raw.min(axis=0), texts.raw.max(axis=0)
    pad = 0.05 * np.maximum(high - low, texts.spread)
    axes = [np.linspace(low[i] - pad[i], high[i] + pad[i], GRID) for i in (0, 1)]
    grid = np.column_stack([g.ravel() for g in np.meshgrid(*axes)])
    margins = texts.margins_at(grid, rule)
    tie = 1 if rule.vote_tie == "model" else 0
    regions = np.where(margins == 0, tie, margins > 0).reshape(GRID, GRID).astype(float)
    colors = ["#ececec", "#d3e6f3"]  # tints of the human and the model color
    panel.contourf(axes[0], axes[1], regions, levels=[-0.5, 0.5, 1.5], colors=colors)
    panel.grid(visible=False)


def huse_parts(parts: Mapping[str, tuple[float, float]], styles: Sequence[Mapping[str, Any]]) -> Figure:
    """Draw HUSE-D against HUSE-Q with lines of equal HUSE = HUSE-Q + HUSE-D − 1 (HUSE Fig. 3)."""
    visible = dict(list(parts.items())[:MOST])
    figure, (panel,) = create_figure(COLUMN, 3.1 + 0.14 * math.ceil(len(visible) / 2))
    every = np.array(list(visible.values()))
    top = max(1.05, float(every.max()) + 0.05)
    bottom = min(-0.02, float(every.min()) - 0.05)
    for value in np.arange(0.2, 1.01, 0.2):
        # On this line HUSE-D = value + 1 − HUSE-Q.
        panel.plot([bottom, top], [value + 1 - bottom, value + 1 - top], ":", color="#999999", linewidth=0.7)
        # Outside the axes at the end of the line, where nothing overlaps.
        panel.annotate(
            f"HUSE {value:.1f}", (top, value + 1 - top), xytext=(3, 0), textcoords="offset points", va="center",
            annotation_clip=False, fontsize=5.5, color="#777777",
        )  # fmt: skip
    for (name, (quality, diversity)), style in zip(visible.items(), styles, strict=False):
        panel.plot(quality, diversity, label=escape_mathtext(name), **{**style, "linestyle": "none"})
    panel.set(xlim=(bottom, top), ylim=(bottom, top), aspect="equal")
    panel.set_xlabel("HUSE-Q (quality) →")
    panel.set_ylabel("HUSE-D (diversity) →")
    draw_legend_below(figure, panel, 2)
    return figure


def huse_stability(rated: PairRatings, rule: Rule, *, draws: int = _DRAWS, seed: int = 0) -> Figure:
    """Draw HUSE against the number of ratings per text and of examples, with 90 % intervals (HUSE Fig. 5)."""
    from matplotlib.ticker import MaxNLocator

    from openended.metrics.huse import example_curve, rater_curve

    most = int((~np.isnan(rated.ratings)).sum(axis=1).max())
    counts = sorted({c for c in (1, 2, 5, 10, 15, 20, 30, most) if c <= most})
    sizes = sorted({round(rated.n * share) for share in (0.1, 0.2, 0.4, 0.6, 0.8, 1.0)} - {0})
    figure, panels = create_figure(PAGE, 2.3, 1, 2, sharey=True)
    curves = (
        (rater_curve(rated, rule, counts=counts, draws=draws, seed=seed), "ratings a text"),
        (example_curve(rated, rule, sizes=sizes, draws=draws, seed=seed), "examples"),
    )
    for panel, (curve, what) in zip(panels, curves, strict=True):
        good = ~np.isnan(curve.huse)
        at = curve.sizes[good]
        panel.fill_between(at, curve.low[good], curve.high[good], color=MODEL_COLOR, alpha=0.18, linewidth=0)
        panel.plot(at, curve.huse[good], "o-", color=MODEL_COLOR, label="HUSE")
        panel.plot(at, curve.huse_q[good], "s--", color=COLORS[1], label="HUSE-Q")
        panel.set_xlabel(what)
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    panels[0].set_ylabel("HUSE, HUSE-Q")
    draw_legend_below(figure, panels[0])
    return figure
