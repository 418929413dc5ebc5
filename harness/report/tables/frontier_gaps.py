"""Tables of `--layout frontier`: Gen-PPL at the entropy of human text, and differences of systems at equal entropy."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from openended.harness.core import F64, DataError, UndefinedMetric
from openended.harness.report.analysis.frontier import (
    GEN_PPL,
    Estimate,
    SystemFrontier,
    estimate_area,
    estimate_at_human,
    estimate_gap,
    find_frontiers,
    load_human_entropy,
)
from openended.harness.report.tables.selection import TablePart, check_signatures, split_results
from openended.harness.report.tables.systems import build_value_tables
from openended.harness.report.tables.table import BLANK, Cell, Column, Table, TableRow
from openended.harness.results import Layout, Results, find_human_value, find_interval, select_values

KL = ("kl_to_scorer", "kl_per_token")
_REMARKS = (
    "Log Gen-PPL as a function of entropy: isotonic regression on the operating points, then a monotone cubic.",
    "No value outside the measured entropies.",
    "Gap: log Gen-PPL at the human entropy less that of the first system; below 0: more predictable at equal entropy.",
    "Area: the same difference over all entropies that both reach, in nats squared.",
    "Intervals: bootstrap over prompts, the same draws at all operating points of all systems.",
)


def build_frontier_tables(results: Results, layout: Layout, name: str) -> list[Table]:
    """Build the tables of all values, and a table of frontiers for every value of the axes in `split`."""
    everything = replace(layout, kind="values", title="All systems", differing="columns")
    values = build_value_tables(results, everything, f"{name}-values")
    tables = []
    for part in split_results(results, layout, name):
        check_signatures("gen_ppl", select_values(part.items, *GEN_PPL), part.stem, layout.allow)
        if frontiers := find_frontiers(results, part.items):
            tables.append(_build_table(results, part, frontiers, layout))
    if not tables:
        raise DataError(
            "layout frontier: no decoder has gen_ppl at two or more settings; sweep one: decoder.temperature=0.7,1.0"
        )
    return [*values, *tables]


def _build_table(results: Results, part: TablePart, frontiers: list[SystemFrontier], layout: Layout) -> Table:
    first, (entropy, gen_ppl) = frontiers[0], frontiers[0].points[0]
    human, human_ppl = load_human_entropy(results, part.items, entropy), find_human_value(part.items, gen_ppl)
    has_kl = any(system.value(*KL) for f in frontiers for system in f.sweep.systems)
    columns = [
        Column("", "points", "points", "none", 0),
        Column("", "from", "entropy from"),
        Column("", "to", "to"),
        Column("gen_ppl", "frontier", "Gen. PPL at human entropy", "match_human", 2, gen_ppl.signature),
        Column("gen_ppl", "frontier_gap_at_human_entropy", f"gap to {first.sweep.name}"),
        Column("gen_ppl", "frontier_area", f"area to {first.sweep.name}"),
        *([Column(*KL, "lowest KL a token", "lower", 3)] if has_kl else []),
    ]
    rows = []
    for entry in frontiers:
        low, high = entry.frontier.reach
        cells = [
            Cell(len(entry.points), decimals=0), Cell(low), Cell(high),
            _format_estimate(lambda e=entry: estimate_at_human(e, human), np.exp),  # type: ignore[misc]
            *_compare(entry, first, human), *([_find_lowest_kl(results, entry)] if has_kl else []),
        ]  # fmt: skip
        rows.append(TableRow(entry.sweep.name, "model", tuple(cells)))
    if human is not None and layout.human:
        ppl = human_ppl.mean if human_ppl is not None else math.nan
        cells = [BLANK, Cell(float(human[0])), Cell(float(human[0])), Cell(ppl)]
        rows.append(TableRow("human", "human", (*cells, *[BLANK] * (len(columns) - len(cells))), rule=True))
    return Table(part.stem, layout.title, tuple(columns), tuple(rows), _REMARKS, show_seeds=False, about=part.about)


def _compare(entry: SystemFrontier, first: SystemFrontier, human: F64 | None) -> list[Cell]:
    """Return the gap and the area to the first system; empty for the first system itself."""
    if entry is first:
        return [BLANK, BLANK]

    def estimate_gap_at_human() -> Estimate:
        if human is None:
            raise UndefinedMetric("the entropy of human text was not measured")
        return estimate_gap(entry.frontier, first.frontier, human)

    area = _format_estimate(lambda: estimate_area(entry.frontier, first.frontier))
    return [_format_estimate(estimate_gap_at_human), area]


def _format_estimate(estimate: Callable[[], Estimate], convert: Callable[[float], float] = float) -> Cell:
    """Return the cell of an estimate, or of the reason why there is none."""
    try:
        value = estimate()
    except UndefinedMetric as err:
        return Cell(note=str(err))
    interval = value.interval()
    return Cell(float(convert(value.value)), interval=(float(convert(interval.low)), float(convert(interval.high))))


def _find_lowest_kl(results: Results, entry: SystemFrontier) -> Cell:
    values = [v for s in entry.sweep.systems if (v := s.value(*KL)) is not None and math.isfinite(v.mean)]
    if not values:
        return Cell(note="the texts have no log Q, or it was not measured (metric=kl_to_scorer)")
    lowest = min(values, key=lambda v: v.mean)
    interval = find_interval(results, lowest)
    return Cell(lowest.mean, interval=(interval.low, interval.high) if interval else None)
