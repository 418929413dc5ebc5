"""Figures about people's judgments: the HUSE discriminator, its two parts, its stability; metrics against metrics."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from openended.harness.core import escape_mathtext, parse_signature
from openended.harness.report.figures.drawing import (
    COLORS,
    COLUMN,
    HUMAN_COLOR,
    MOST,
    PAGE,
    create_figure,
    draw_legend_below,
)
from openended.harness.report.figures.naming import name_figures
from openended.harness.report.figures.styles import read_styles
from openended.harness.results import (
    Results,
    System,
    SystemValue,
    group_by_data,
    group_by_options,
    group_by_task_and_options,
    group_systems,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from openended.metrics.huse import HusePoints, PairRatings, Rule, Ties, VoteTie

MODEL_COLOR = COLORS[0]
RECALL = ("knn_precision_recall", "recall")  # not a primary value, but the counterpart of one
GRID = 160  # points a side of the picture of the regions
LEAST_SYSTEMS = 5  # of a cell of the agreement map; see `agreement_map`
_WHY = (
    "How alike two metrics order the systems (Spearman's ρ of their values as measured, the human text left out): "
    "1 the same order, 0 unrelated, −1 the opposite order, which is agreement where one metric is better when high and "
    "the other when low. –: fewer than five systems have both values, too few to tell."
)
_LONG = 28  # letters of a metric's name in a line
_DRAWS = 20
_MANY = 2000  # examples: above, the stability curves take too long for a report


def people_figures(results: Results, items: Sequence[SystemValue]) -> Mapping[str, Figure]:
    """Draw what there is data for: `huse-<system>`, `huse-stability-<system>`, `huse-parts`, `metric-agreement`."""
    regions: dict[tuple[str, ...], Figure | None] = {}
    stability: dict[tuple[str, ...], Figure | None] = {}
    halves: dict[tuple[str, ...], Figure | None] = {}
    for key, part in group_by_task_and_options(items, "huse").items():
        systems = group_systems(part)
        for system in systems:
            regions[*key, system.name], stability[*key, system.name] = _draw_huse(results, system)
        both = {s.name: (_read_mean(s, "huse_q"), _read_mean(s, "huse_d")) for s in systems}
        both = {name: pair for name, pair in both.items() if all(map(math.isfinite, pair))}
        styles = read_styles(results).choose([s.items[0] for s in systems if s.name in both])
        halves[key] = huse_parts(both, styles) if both else None
    agreement: dict[tuple[str, ...], Figure | None] = {}
    for task, part in group_by_data(items).items():
        values = _collect_primary_values(part)
        enough = len(values) > 1 and _have_enough_shared(values)
        agreement[(task,)] = agreement_map(values) if enough else None
    return {
        **name_figures("huse", regions, always=True),
        **name_figures("huse-stability", stability, always=True),
        **name_figures("huse-parts", halves),
        **name_figures("metric-agreement", agreement),
    }


def _read_mean(system: System, key: str) -> float:
    value = system.value("huse", key)
    return math.nan if value is None else value.mean


def _draw_huse(results: Results, system: System) -> tuple[Figure | None, Figure | None]:
    from openended.metrics.huse import PairRatings, Rule

    value = system.value("huse", "huse")
    stored = results.arrays(*value.sources[0]) if value is not None else {}
    arrays = {k.removeprefix("arrays/"): v for k, v in stored.items() if k.startswith("arrays/")}
    if value is None or not {"ratings", "log_probs", "lengths"} <= set(arrays):
        return None, None
    rated = PairRatings.from_arrays(arrays)
    fields = parse_signature(value.signature)
    floor = fields.get("log_prob_floor", "none")
    rule = Rule(
        k=int(fields["k"]),
        ties=cast("Ties", fields["ties"]),
        vote_tie=cast("VoteTie", fields["vote_tie"]),
        log_prob_floor=None if floor == "none" else float(floor),
    )
    return huse_regions(rated, rule), huse_stability(rated, rule) if rated.n <= _MANY else None


def _collect_primary_values(items: Sequence[SystemValue]) -> dict[str, list[float]]:
    """Return metric → its primary value (and recall) for every system, if five systems or more have it."""
    models = [i for i in items if i.system == "model"]
    systems = list(dict.fromkeys(tuple(i.axes.items()) for i in models))
    primary = [i for i in models if i.primary or (i.metric, i.key) == RECALL]
    table: dict[str, list[float]] = {}
    for (metric, key), title in {(i.metric, i.key): i.title for i in primary}.items():
        for options, part in group_by_options(models, metric).items():
            values = {tuple(i.axes.items()): i.mean for i in part if i.key == key}
            name = f"{title} ({options})" if options else title
            column = [values.get(s, math.nan) for s in systems]
            if sum(map(math.isfinite, column)) >= LEAST_SYSTEMS:
                table[name if name not in table else f"{name} [{metric}.{key}]"] = column
    return table


def huse_regions(rated: PairRatings, rule: Rule) -> Figure:
    """Draw both texts of all examples, the regions of the k-NN discriminator and both margins (HUSE Fig. 4)."""
    from matplotlib.figure import Figure

    from openended.metrics.huse import HusePoints

    texts = HusePoints.build(**rated.columns(), rule=rule)
    points, labels = texts.raw, texts.is_model
    figure = Figure(figsize=(COLUMN, 3.5), layout="constrained")
    panels = figure.subplot_mosaic(
        [["top", "."], ["main", "right"]], height_ratios=[1, 4], width_ratios=[4, 1], empty_sentinel="."
    )
    main: Axes = panels["main"]
    _shade(main, texts, rule)
    for is_model, name, color, marker in ((False, "human", HUMAN_COLOR, "o"), (True, "model", MODEL_COLOR, "^")):
        side_points = points[labels == is_model]
        main.plot(*side_points.T, marker, color=color, label=name, markersize=2.6, alpha=0.8, markeredgewidth=0)
        edges = [np.histogram_bin_edges(points[:, axis], 20).tolist() for axis in (0, 1)]
        panels["top"].hist(side_points[:, 0], edges[0], color=color, alpha=0.5)
        panels["right"].hist(side_points[:, 1], edges[1], color=color, alpha=0.5, orientation="horizontal")
    for panel, side in ((panels["top"], "x"), (panels["right"], "y")):
        panel.grid(visible=False)
        getattr(panel, f"share{side}")(main)
        panel.tick_params(labelbottom=False, labelleft=False)
    main.set_xlabel("mean rating (typicality)")
    main.set_ylabel("log-probability a word, nats")
    draw_legend_below(figure, main)
    return figure


def _shade(panel: Axes, texts: HusePoints, rule: Rule) -> None:
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
            f"HUSE {value:.1f}",
            (top, value + 1 - top),
            xytext=(3, 0),
            textcoords="offset points",
            va="center",
            annotation_clip=False,
            fontsize=5.5,
            color="#777777",
        )
    for (name, (quality, diversity)), style in zip(visible.items(), styles, strict=False):
        panel.plot(quality, diversity, label=escape_mathtext(name), **{**style, "linestyle": "none"})
    panel.set(xlim=(bottom, top), ylim=(bottom, top), aspect="equal")
    panel.set_xlabel("HUSE-Q (quality) →")
    panel.set_ylabel("HUSE-D (diversity) →")
    draw_legend_below(figure, panel, columns=2)
    return figure


def huse_stability(rated: PairRatings, rule: Rule, *, draws: int = _DRAWS, seed: int = 0) -> Figure:
    """Draw HUSE against the number of ratings a text and of examples, with intervals of 90 percent (HUSE Fig. 5)."""
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


def agreement_map(values: Mapping[str, Sequence[float]]) -> Figure:
    """Draw Spearman's ρ of every metric with every other over systems (Le Bronnec et al. 2024, Fig. 7)."""
    from openended.metrics.correlation import correlation_matrix

    shared = _count_shared(values)
    matrix = np.where(shared >= LEAST_SYSTEMS, correlation_matrix(values), np.nan)
    # Long names would leave no room for the cells: the columns then have the numbers of the rows.
    numbered = max(map(len, values)) > _LONG
    names = ["\n".join(textwrap.wrap(escape_mathtext(name), _LONG)) for name in values]
    height = min(PAGE, max(COLUMN, 1.6 + 0.34 * len(values)))
    width = min(PAGE, height + 0.055 * _LONG) if numbered else height
    figure, (panel,) = create_figure(width, height)
    image = panel.imshow(np.ma.masked_invalid(matrix), cmap="RdBu", vmin=-1, vmax=1)
    panel.grid(visible=False)
    if numbered:
        panel.set_xticks(range(len(names)), [str(i + 1) for i in range(len(names))])
        panel.set_yticks(range(len(names)), [f"{name}  {i + 1}" for i, name in enumerate(names)])
    else:
        panel.set_xticks(range(len(names)), names, rotation=45, ha="right", rotation_mode="anchor")
        panel.set_yticks(range(len(names)), names)
    for (i, j), value in np.ndenumerate(matrix):
        text = "–" if math.isnan(value) else f"{value:.2f}"
        ink = "white" if abs(value) > 0.6 else "black"
        panel.text(j, i, text, ha="center", va="center", fontsize=5 if len(values) > 8 else 6.5, color=ink)
    counts = sorted({int(n) for n in shared[np.isfinite(matrix)]})
    over = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else "".join(map(str, counts))
    figure.colorbar(image, ax=panel, shrink=0.7, label=f"Spearman's ρ over {over} systems")
    figure.supxlabel("\n".join(textwrap.wrap(_WHY, round(width * 20))), fontsize=5.5)
    return figure


def _count_shared(values: Mapping[str, Sequence[float]]) -> NDArray[np.int64]:
    """Return how many systems have both values, shape (metrics, metrics)."""
    present = np.isfinite(np.array([list(v) for v in values.values()], dtype=np.float64)).astype(np.int64)
    both: NDArray[np.int64] = present @ present.T
    return both


def _have_enough_shared(values: Mapping[str, Sequence[float]]) -> bool:
    """Return whether enough systems have both values of some two metrics."""
    shared = _count_shared(values)
    return bool((shared[~np.eye(len(shared), dtype=bool)] >= LEAST_SYSTEMS).any())
