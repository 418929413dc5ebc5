"""Tables of `--layout frontier`: Gen-PPL at the entropy of human text, and differences of systems at equal entropy."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from functools import partial

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
from openended.harness.report.tables.run_summary import summarize_sources
from openended.harness.report.tables.selection import check_signatures, name_files, split_axes, split_items
from openended.harness.report.tables.table import Cell, Column, Table, TableRow
from openended.harness.results import Layout, Results, SystemValue, find_human_value, find_interval, select_values

KL = ("kl_to_scorer", "kl_per_token")
_REMARKS = (
    "Log Gen-PPL as a function of entropy: isotonic regression on the operating points, then a monotone cubic.",
    "No value outside the measured entropies.",
    "Gap: log Gen-PPL at the human entropy less that of the first system; below 0: more predictable at equal entropy.",
    "Area: the same difference over all entropies that both reach, in nats squared.",
    "Intervals: bootstrap over prompts, the same draws at all operating points of all systems.",
)


def build_frontier_tables(results: Results, layout: Layout, name: str) -> list[Table]:
    """Build the table of frontiers for every value of the axes in `split`."""
    items = results.values
    layout = dataclasses.replace(layout, split=split_axes(items, layout))
    parts = split_items(items, layout.split)
    out = []
    for part, stem in zip(parts.values(), name_files(name, list(parts)), strict=True):
        check_signatures("gen_ppl", select_values(part, *GEN_PPL), stem, layout.allow)
        if frontiers := find_frontiers(results, part):
            table = _build(results, part, frontiers, layout, stem)
            out.append(dataclasses.replace(table, about=summarize_sources(part, results.runs)))
    if not out:
        raise DataError(
            "layout frontier: no decoder has gen_ppl at two or more settings; sweep one: decoder.temperature=0.7,1.0"
        )
    return out


def _build(
    results: Results, items: Sequence[SystemValue], frontiers: Sequence[SystemFrontier], layout: Layout, stem: str
) -> Table:
    first, like = frontiers[0], frontiers[0].points[0]
    human, human_ppl = load_human_entropy(results, items, like[0]), find_human_value(items, like[1])
    has_kl = any(system.value(*KL) for f in frontiers for system in f.sweep.systems)
    columns = [
        Column("", "points", "points", "none", 0),
        Column("", "from", "entropy from", "none", 3),
        Column("", "to", "to", "none", 3),
        Column("gen_ppl", "frontier", "Gen. PPL at human entropy", "match_human", 2, like[1].signature),
        Column("gen_ppl", "frontier_gap_at_human_entropy", f"gap to {first.sweep.name}", "none", 3),
        Column("gen_ppl", "frontier_area", f"area to {first.sweep.name}", "none", 3),
        *([Column(*KL, "lowest KL a token", "lower", 3)] if has_kl else []),
    ]
    rows = []
    for entry in frontiers:
        low, high = entry.frontier.reach
        cells = [
            Cell(len(entry.points), decimals=0), Cell(low), Cell(high),
            _format_estimate(partial(estimate_at_human, entry, human), np.exp),
            *_compare(entry, first, human),
            *([_find_lowest_kl(results, entry)] if has_kl else []),
        ]  # fmt: skip
        rows.append(TableRow(entry.sweep.name, "model", tuple(cells)))
    if human is not None and layout.human:
        ppl = human_ppl.mean if human_ppl is not None else math.nan
        cells = [Cell(blank=True), Cell(float(human[0])), Cell(float(human[0])), Cell(ppl)]
        cells += [Cell(blank=True)] * (len(columns) - len(cells))
        rows.append(TableRow("human", "human", tuple(cells), rule=True))
    return Table(
        stem, layout.title, tuple(columns), tuple(rows), _REMARKS, head="System", show_seeds=False
    )  # fmt: skip


def _compare(entry: SystemFrontier, first: SystemFrontier, human: F64 | None) -> list[Cell]:
    """Return the gap and the area to the first system; empty for the first system itself."""
    if entry is first:
        return [Cell(blank=True), Cell(blank=True)]

    def gap() -> Estimate:
        if human is None:
            raise UndefinedMetric("the entropy of human text was not measured")
        return estimate_gap(entry.frontier, first.frontier, human)

    return [_format_estimate(gap), _format_estimate(lambda: estimate_area(entry.frontier, first.frontier))]


def _format_estimate(make: Callable[[], Estimate], of: Callable[[float], float] = float) -> Cell:
    """Return the cell of an estimate, or of the reason why there is none."""
    try:
        estimate = make()
    except UndefinedMetric as err:
        return Cell(note=str(err))
    interval = estimate.interval()
    return Cell(float(of(estimate.value)), interval=(float(of(interval.low)), float(of(interval.high))))


def _find_lowest_kl(results: Results, entry: SystemFrontier) -> Cell:
    values = [v for s in entry.sweep.systems if (v := s.value(*KL)) is not None and math.isfinite(v.mean)]
    if not values:
        return Cell(note="the texts have no log Q, or it was not measured (metric=kl_to_scorer)")
    lowest = min(values, key=lambda v: v.mean)
    interval = find_interval(results, lowest)
    return Cell(lowest.mean, interval=(interval.low, interval.high) if interval else None)
