"""Tables of a hyperparameter search: best settings, parameter importance, and all trials."""

from __future__ import annotations

import math
from collections.abc import Sequence

from openended.harness.report.analysis.intervals import compute_half_width, sample_std
from openended.harness.report.tables.table import Cell, Column, Table, TableRow, choose_column_decimals
from openended.harness.results import SearchObjective, SearchResult, SearchTrial

SHOWN = 5  # rows of the table of best settings with one objective
_BIASED = (
    "The value of the best of many settings is biased upward by the selection. Use confirm_seeds=[…] to run fresh "
    "seeds."
)


def build_search_tables(searched: SearchResult) -> list[Table]:
    """Build the tables of a search: best settings (Pareto front for several objectives), importance, all trials."""
    several = len(searched.objectives) > 1
    best = searched.front() if several else searched.rank_trials()[:SHOWN]
    title = "Pareto front" if several else "Best settings"
    tables = [
        _build_settings_table("search-best", f"{title} of {searched.name}", searched, best, _list_remarks(searched))
    ]
    if any(searched.importance):
        tables.append(_build_importance_table(searched))
    every = tuple(f"{state}: {count}" for state, count in _count_states(searched).items())
    return [
        *tables,
        _build_settings_table("search-trials", f"Trials of {searched.name}", searched, searched.trials, every),
    ]


def _count_states(searched: SearchResult) -> dict[str, int]:
    states = [t.state for t in searched.trials]
    return {state: states.count(state) for state in ("complete", "pruned", "failed") if state in states}


def _list_remarks(searched: SearchResult) -> tuple[str, ...]:
    counts = ", ".join(f"{count} {state}" for state, count in _count_states(searched).items()) or "none"
    lines = [f"Trials: {counts}; sampler {searched.sampler}."]
    if searched.rungs:
        sizes = ", ".join(map(str, searched.rungs))
        lines.append(f"Successive halving: settings ran with num_examples {sizes} first; pruned ones stopped there.")
    if any(t.fresh for t in searched.trials):
        lines.append("Fresh seeds were not used for selection, so their mean has no selection bias.")
    elif searched.complete:
        lines.append(_BIASED)
    failed = next((t for t in searched.trials if t.state == "failed"), None)
    if failed is not None:
        lines.append(f"First failure: {failed.label}: {failed.error}.")
    return tuple(lines)


def _build_settings_table(
    name: str, title: str, searched: SearchResult, trials: Sequence[SearchTrial], remarks: tuple[str, ...]
) -> Table:
    """Build a table with one row per trial: mean and Student's interval per objective, also for fresh seeds."""
    columns = [Column("", "trial", "trial", "none", 0)]
    blocks = [[Cell(t.number, decimals=0) for t in trials]]
    if any(t.state != "complete" for t in trials):
        columns.append(Column("", "state", "state", "none"))
        blocks.append([Cell(words=t.state if t.size is None else f"{t.state} at {t.size}") for t in trials])
    for index, objective in enumerate(searched.objectives):
        seeds = [[v[index] for v in t.seeds.values()] for t in trials]
        means = [
            _make_mean_cell(t.values[index] if t.values else math.nan, s, t.error)
            for t, s in zip(trials, seeds, strict=True)
        ]
        _add(columns, blocks, objective, objective.title, means, seeds)
        fresh = [[v[index] for v in t.fresh.values()] for t in trials]
        if any(fresh):
            cells = [_make_mean_cell(math.fsum(f) / len(f) if f else math.nan, f, "") for f in fresh]
            _add(columns, blocks, objective, f"{objective.title}, fresh seeds", cells, fresh)
    rows = [TableRow(t.label, "model", tuple(b[i] for b in blocks)) for i, t in enumerate(trials)]
    return Table(name, title, tuple(columns), tuple(rows), remarks, head="Setting", show_seeds=False)


def _add(
    columns: list[Column], blocks: list[list[Cell]], objective: SearchObjective, title: str, cells: list[Cell],
    seeds: Sequence[Sequence[float]],
) -> None:  # fmt: skip
    direction = "higher" if objective.direction == "maximize" else "lower"
    digits = choose_column_decimals(cells)
    columns.append(Column("", title, title, direction, digits))
    blocks.append(cells)
    if any(len(s) > 1 for s in seeds):
        halves = [compute_half_width(s) for s in seeds]
        ends = [
            Cell(words=f"{c.value - h:.{digits}f} to {c.value + h:.{digits}f}")
            if math.isfinite(h)
            else Cell(blank=True)
            for c, h in zip(cells, halves, strict=True)
        ]
        columns.append(
            Column(
                "", f"{title}: interval", "95 % over seeds" if title == objective.title else "95 %, fresh seeds", "none"
            )
        )
        blocks.append(ends)


def _make_mean_cell(value: float, seeds: Sequence[float], error: str) -> Cell:
    if not math.isfinite(value):
        return Cell(note=error) if error else Cell(blank=True)
    return Cell(value, sample_std(seeds), len(seeds))


def _build_importance_table(searched: SearchResult) -> Table:
    totals: dict[str, float] = {}
    for shares in searched.importance:
        for name, share in shares.items():
            totals[name] = totals.get(name, 0.0) + share
    names = sorted(totals, key=lambda name: (-totals[name], name))
    columns = tuple(Column("", objective.title, objective.title, "none", 2) for objective in searched.objectives)
    rows = tuple(
        TableRow(
            name,
            "model",
            tuple(Cell(shares.get(name, math.nan), blank=name not in shares) for shares in searched.importance),
        )
        for name in names
    )
    remark = (
        "Share of each parameter in reaching the best tenth of the objective, by PED-ANOVA (Watanabe et al. 2023); "
        "conditional for parameters of one choice. Rough with few trials."
    )
    return Table(
        "search-importance",
        "Importance of the parameters",
        columns,
        rows,
        (remark,),
        head="Parameter",
        show_seeds=False,
    )
