"""What a search found, as tables: the best settings, what moved them, and every trial."""

from __future__ import annotations

import math
from collections.abc import Sequence

from openended.harness.report.analysis.seeds import half_width, spread
from openended.harness.report.tables.table import Cell, Column, Table, TableRow, column_decimals
from openended.harness.results import Searched, Sought, Tried

SHOWN = 5  # settings of the table of the best, for one objective
_BIASED = (
    "The value of the best of many settings is too good: it was chosen for it. Seeds that chose nothing are run by "
    "confirm_seeds=[…]."
)


def search_tables(searched: Searched) -> list[Table]:
    """Build the tables of a search: the best settings (for several objectives the front), importance, all trials."""
    several = len(searched.objectives) > 1
    best = searched.front() if several else searched.ranked()[:SHOWN]
    title = "Settings that no other beats" if several else "Best settings"
    tables = [_settings("search-best", f"{title} of {searched.name}", searched, best, _remarks(searched))]
    if any(searched.importance):
        tables.append(_importance(searched))
    every = tuple(f"{state}: {count}" for state, count in _counts(searched).items())
    return [*tables, _settings("search-trials", f"Trials of {searched.name}", searched, searched.trials, every)]


def _counts(searched: Searched) -> dict[str, int]:
    states = [t.state for t in searched.trials]
    return {state: states.count(state) for state in ("complete", "pruned", "failed") if state in states}


def _remarks(searched: Searched) -> tuple[str, ...]:
    counts = ", ".join(f"{count} {state}" for state, count in _counts(searched).items()) or "none"
    lines = [f"Trials: {counts}; sampler {searched.sampler}."]
    if searched.rungs:
        sizes = ", ".join(map(str, searched.rungs))
        lines.append(f"Successive halving: settings ran with num_examples {sizes} first; pruned ones ended there.")
    if any(t.fresh for t in searched.trials):
        lines.append("Fresh seeds chose nothing: their mean has no selection bias.")
    elif searched.complete:
        lines.append(_BIASED)
    failed = next((t for t in searched.trials if t.state == "failed"), None)
    if failed is not None:
        lines.append(f"Failed first: {failed.label}: {failed.error}.")
    return tuple(lines)


def _settings(name: str, title: str, searched: Searched, trials: Sequence[Tried], remarks: tuple[str, ...]) -> Table:
    """A row a trial; for every objective its mean, Student's interval over seeds, and the same of fresh seeds."""
    columns = [Column("", "trial", "trial", "none", 0)]
    blocks = [[Cell(t.number, decimals=0) for t in trials]]
    if any(t.state != "complete" for t in trials):
        columns.append(Column("", "state", "state", "none"))
        blocks.append([Cell(words=t.state if t.size is None else f"{t.state} at {t.size}") for t in trials])
    for place, one in enumerate(searched.objectives):
        seeds = [[v[place] for v in t.seeds.values()] for t in trials]
        found = [
            _mean(t.values[place] if t.values else math.nan, s, t.error) for t, s in zip(trials, seeds, strict=True)
        ]
        _add(columns, blocks, one, one.title, found, seeds)
        fresh = [[v[place] for v in t.fresh.values()] for t in trials]
        if any(fresh):
            cells = [_mean(math.fsum(f) / len(f) if f else math.nan, f, "") for f in fresh]
            _add(columns, blocks, one, f"{one.title}, fresh seeds", cells, fresh)
    rows = [TableRow(t.label, "model", tuple(b[i] for b in blocks)) for i, t in enumerate(trials)]
    return Table(name, title, tuple(columns), tuple(rows), remarks, head="Setting", show_seeds=False)


def _add(
    columns: list[Column], blocks: list[list[Cell]], one: Sought, title: str, cells: list[Cell],
    seeds: Sequence[Sequence[float]],
) -> None:  # fmt: skip
    direction = "higher" if one.direction == "maximize" else "lower"
    places = column_decimals(cells)
    columns.append(Column("", title, title, direction, places))
    blocks.append(cells)
    if any(len(s) > 1 for s in seeds):
        halves = [half_width(s) for s in seeds]
        ends = [
            Cell(words=f"{c.value - h:.{places}f} to {c.value + h:.{places}f}")
            if math.isfinite(h)
            else Cell(blank=True)
            for c, h in zip(cells, halves, strict=True)
        ]
        columns.append(
            Column("", f"{title}: interval", "95 % over seeds" if title == one.title else "95 %, fresh seeds", "none")
        )
        blocks.append(ends)


def _mean(value: float, seeds: Sequence[float], error: str) -> Cell:
    if not math.isfinite(value):
        return Cell(note=error) if error else Cell(blank=True)
    return Cell(value, spread(seeds), len(seeds))


def _importance(searched: Searched) -> Table:
    totals: dict[str, float] = {}
    for shares in searched.importance:
        for name, share in shares.items():
            totals[name] = totals.get(name, 0.0) + share
    names = sorted(totals, key=lambda name: (-totals[name], name))
    columns = tuple(Column("", one.title, one.title, "none", 2) for one in searched.objectives)
    rows = tuple(
        TableRow(
            name,
            "model",
            tuple(Cell(shares.get(name, math.nan), blank=name not in shares) for shares in searched.importance),
        )
        for name in names
    )
    remark = (
        "Shares of what moves the objective into its best tenth, by PED-ANOVA (Watanabe et al. 2023), for parameters "
        "of single choices its conditional form; of few trials they are rough."
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
